"""The same findings in every mode of mypy: each exactly once, none lost, none invented.

The programs in `tests/plugin/project/` say on their lines what is to be found: `# E: rule`. A mode runs mypy in its way
and gives what it printed, counted by (file, line, rule).

    python -m tests.matrix                  # all modes of the installed mypy, a line each
"""

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tilecheck_mypy.report import CODES, INTERNAL

PROJECT = Path(__file__).parent / "plugin" / "project"
OURS = {*CODES, INTERNAL.code}
Found = Counter[tuple[str, int, str]]
PLAIN = ("--no-error-summary", "--show-error-codes", "--ignore-missing-imports")


def expected(folder: Path) -> Found:
    """What the marks ask for."""
    found: Found = Counter()
    for path in sorted(folder.glob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for mark in re.findall(r"# E: ([\w, -]+)", line):
                found.update((path.name, number, rule.strip()) for rule in mark.split(","))
    return found


def found_in(output: str) -> Found:
    """Our errors among the lines that mypy printed."""
    lines = re.findall(r"^([^\n:]+):(\d+): error: [^\n]*\[([\w-]+)\]$", output, re.MULTILINE)
    return Counter((Path(path).name, int(line), code) for path, line, code in lines if code in OURS)


@dataclass(frozen=True)
class Run:
    """A copy of the project in `folder`, and how to call the mypy of `python` in it."""

    folder: Path
    python: str = sys.executable

    def mypy(self, *flags: str, files: tuple[str, ...] = (".",)) -> Found:
        """One run of mypy."""
        return found_in(self.call("-m", "mypy", *PLAIN, *flags, *files))

    def daemon(self, *args: str) -> Found:
        """One command of the daemon."""
        return found_in(self.call("-m", "mypy.dmypy", "--status-file", "dmypy.json", *args))

    def call(self, *args: str) -> str:
        done = subprocess.run([self.python, *args], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise AssertionError(f"exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        """Rewrite a file, with a time stamp of its own."""
        path = self.folder / name
        path.write_text(change(path.read_text("utf-8")), "utf-8")
        time.sleep(0.01)


Mode = Callable[[Run], list[Found]]


def cold(*flags: str) -> Mode:
    return lambda run: [run.mypy(*flags)]


def warm(*flags: str) -> Mode:
    return lambda run: [run.mypy(*flags), run.mypy(*flags)]


def touched(run: Run) -> list[Found]:
    """A file edited between two runs with a cache."""
    first = run.mypy()
    run.edit("host.py", lambda text: text + "\n\ndone = True\n")
    return [first, run.mypy()]


def dependency(run: Run) -> list[Found]:
    """The signature of an imported kernel edited and put back."""
    first = run.mypy()
    run.edit("kernels.py", lambda text: text.replace("Tensor[Shared, f32, Dyn]", "Tensor[Shared, f32]"))
    run.mypy()
    run.edit("kernels.py", lambda text: text.replace("Tensor[Shared, f32]", "Tensor[Shared, f32, Dyn]"))
    return [first, run.mypy()]


def daemon(*edits: Callable[[Run], None]) -> Mode:
    """The daemon: first run, an unchanged one, and one after each edit."""

    def mode(run: Run) -> list[Found]:
        check = ("run", "--", *PLAIN, ".")
        try:
            answers = [run.daemon(*check), run.daemon(*check)]
            for edit in edits:
                edit(run)
                answers.append(run.daemon(*check))
        finally:
            run.call("-m", "mypy.dmypy", "--status-file", "dmypy.json", "stop")
        return answers

    return mode


def host_edited(run: Run) -> None:
    run.edit("host.py", lambda text: text + "\n\ndone = True\n")


def kernel_changed(run: Run) -> None:
    """A new parameter name: every launch is looked at again."""
    run.edit(
        "kernels.py", lambda text: text.replace("def copy(z:", "def copy(out:").replace("like(x, z)", "like(x, out)")
    )
    run.edit("kernels.py", lambda text: text.replace("z.store", "out.store", 1))


def command(run: Run) -> list[Found]:
    """The program on the command line."""
    text = (run.folder / "host.py").read_text("utf-8")
    answer = run.mypy(files=("-c", text))
    return [Counter({("host.py", line, rule): n for (_, line, rule), n in answer.items()})]


def shadow(run: Run) -> list[Found]:
    """A file read from another place."""
    shutil.move(run.folder / "host.py", run.folder / "other.txt")
    (run.folder / "host.py").write_text("x = 1\n", "utf-8")
    return [run.mypy("--shadow-file", "host.py", "other.txt")]


MODES: dict[str, Mode] = {
    "cold": cold("--no-incremental"),
    "warm": warm(),
    "files instead of sqlite": warm("--no-sqlite-cache"),
    "fine-grained cache": warm("--cache-fine-grained"),
    "workers": cold("--num-workers", "2"),
    "old parser": cold("--no-native-parser"),
    "untyped bodies checked": cold("--check-untyped-defs"),
    "strict": cold("--strict"),
    "file edited": touched,
    "dependency edited": dependency,
    "daemon": daemon(host_edited),
    "daemon, dependency edited": daemon(kernel_changed),
    "shadow file": shadow,
}
# Only the file given on the command line is looked at.
SINGLE: dict[str, Mode] = {"command line": command}


def project_in(folder: Path) -> Run:
    """A copy of the programs, with mypy's configuration."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    (folder / "mypy.ini").write_text("[mypy]\nplugins = tilecheck\n", "utf-8")
    # Results are stored next to it.
    (folder / "pyproject.toml").write_text("[tool.tilecheck]\n", "utf-8")
    return Run(folder)


def difference(wanted: Found, got: Found) -> str:
    """Lost and invented findings in words, empty if there are none."""
    lost, invented = wanted - got, got - wanted
    return "; ".join(
        f"{word} {sorted(some.elements())}" for word, some in (("lost", lost), ("invented", invented)) if some
    )


def main() -> None:
    failed = False
    for name, mode in (MODES | SINGLE).items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        with TemporaryDirectory() as folder:
            run = project_in(Path(folder))
            wanted = expected(run.folder)
            if name in SINGLE:
                wanted = Counter({key: n for key, n in wanted.items() if key[0] == "host.py"})
            problems = [difference(wanted, got) for got in mode(run)]
        failed |= any(problems)
        print(f"{name:28} {'; then '.join(problem or 'same' for problem in problems)}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
