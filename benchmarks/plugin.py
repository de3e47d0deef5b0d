"""What the mypy plugin costs: mypy with it and without it, on 200 files of 60,000 lines.

Pairs alternate, medians of user time are printed with their ratio. Cold starts from an empty cache, warm has nothing to
do. A file that uses tilecheck has two kernels and three functions of host code among its 300 lines.

    python -m benchmarks plugin
    PAIRS=10 python -m benchmarks plugin        # more pairs
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FILES, LINES = 200, 300
PAIRS = int(os.environ.get("PAIRS", "3"))

ORDINARY = '''
@dataclass(frozen=True)
class Record{n}:
    """One record of the kind {n}."""

    name: str
    values: tuple[float, ...] = ()
    parent: "Record{n} | None" = None

    def total(self) -> float:
        return sum(self.values) + (self.parent.total() if self.parent is not None else 0.0)

    def renamed(self, name: str) -> "Record{n}":
        return Record{n}(name, self.values, self.parent)


def load{n}(lines: list[str], separator: str = ",") -> dict[str, Record{n}]:
    found: dict[str, Record{n}] = {{}}
    for number, line in enumerate(lines):
        name, *rest = line.split(separator)
        if not name.strip():
            continue
        values = [float(item) for item in rest if item]
        parent = found.get(f"{{name}}-{{number - 1}}")
        found[f"{{name}}-{{number}}"] = Record{n}(name, tuple(values), parent)
    return found


def best{n}(records: dict[str, Record{n}]) -> list[tuple[str, float]]:
    ranked = sorted(((r.total(), key) for key, r in records.items()), reverse=True)
    return [(key, total) for total, key in ranked if total > {n}][:10]
'''

KERNELS = """
class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def saxpy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], a: float) -> None:
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def scale(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    tile = tc.load_like(x, z)
    z.store(tile / tile.sum(axis=1, keepdims=True))


def fill(n: int) -> Tensor[Owned, f32, Dyn]:
    x, y, z = tc.zeros(n), tc.ones(n), tc.empty(n)
    for _ in range(3):
        saxpy(z.partition(128), x, y, 2.0).sync()
    return z


def rows(x: Tensor[Shared, f32, Dyn, Dyn]) -> Tensor[Owned, f32, Dyn, Dyn]:
    z = tc.zeros(256, 256)
    op = scale(z.partition(16, 256), x)
    op.sync()
    return z


def both(n: int) -> float:
    z = fill(n)
    if n > 4:
        z = fill(n + 1)
    running = saxpy(z.partition(64), fill(n), fill(n), 1.0).run()
    running.wait()
    return float(z.numpy().sum())
"""


def write(folder: Path, users: int) -> None:
    """The project: the first `users` files use tilecheck."""
    for number in range(FILES):
        head = ["from __future__ import annotations", "from dataclasses import dataclass"]
        if number < users:
            head += [
                "import tilecheck as tc",
                "from tilecheck import Dim, Dyn, Mut, Owned, Shared, Tensor, f32",
                KERNELS,
            ]
        text = "\n".join(head)
        part = 0
        while text.count("\n") < LINES - ORDINARY.count("\n"):
            text += "\n" + ORDINARY.format(n=part)
            part += 1
        (folder / f"m{number}.py").write_text(text, "utf-8")


def seconds(folder: Path, config: str) -> float:
    """User time of one mypy process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", f"cache_{config}", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"mypy ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def compare(folder: Path, what: str, cold: bool) -> None:
    """Alternate the two and print medians and ratio."""
    times: dict[str, list[float]] = {"with.ini": [], "without.ini": []}
    for _ in range(PAIRS):
        for config, spent in times.items():
            if cold:
                shutil.rmtree(folder / f"cache_{config}", ignore_errors=True)
            spent.append(seconds(folder, config))
    ours, plain = statistics.median(times["with.ini"]), statistics.median(times["without.ini"])
    print(
        f"{what:36} {ours:6.2f} s  without {plain:6.2f} s  {ours / plain - 1:+.1%}  ({ours - plain:+.3f} s)", flush=True
    )


def main() -> None:
    for users in (0, 5, FILES):
        with TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, users)
            (folder / "with.ini").write_text("[mypy]\nstrict = true\nplugins = tilecheck\n")
            (folder / "without.ini").write_text("[mypy]\nstrict = true\n")
            compare(folder, f"cold, {users} of {FILES} files use tilecheck", cold=True)
            compare(folder, f"warm, {users} of {FILES} files use tilecheck", cold=False)


if __name__ == "__main__":
    main()
