"""Random edits of real programs: mypy with the plugin must end like mypy without it, or with 1.

    python -m tests.fuzz_plugin 2000 [seed]

An edit deletes, doubles, swaps or renames tokens or lines, or cuts the file off. What no longer parses stops mypy before
any plugin runs, so only a sample of that is run; what parses is checked in batches, many files in one run, since a crash
of one shows in all.
"""

import ast
import io
import random
import sys
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from mypy import api

ROOT = Path(__file__).parent.parent
SEEDS = sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("examples/rejected/*.py"), *ROOT.glob("tests/plugin/*.py")])


def tokens_of(text: str) -> list[tuple[int, int, str]]:
    """The tokens of `text` as (start, end, string) offsets."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip():
            found.append(
                (starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1], token.string)
            )
    return found


def edited(text: str, rng: random.Random) -> str:
    """`text` after one to three random edits."""
    for _ in range(rng.randint(1, 3)):
        try:
            tokens = tokens_of(text)
        except (tokenize.TokenError, SyntaxError, IndexError):
            return text
        if len(tokens) < 3:
            return text
        (a, b, one), (c, d, two) = sorted(rng.sample(tokens, 2))
        match rng.randrange(8):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:a] + two + text[b:c] + one + text[d:]
            case 2:
                text = text[:a]
            case 3:
                text = text[:a] + two + text[b:]
            case 4:
                text = text[:a] + one + " " + text[a:]
            case 5:
                lines = text.splitlines(keepends=True)
                del lines[rng.randrange(len(lines))]
                text = "".join(lines)
            case 6:
                lines = text.splitlines(keepends=True)
                i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                text = "".join(lines)
            case _:
                names = [t for t in tokens if t[2].isidentifier()]
                start, end, _name = rng.choice(names)
                text = text[:start] + rng.choice(names)[2] + text[end:]
    return text


def variants(count: int, seed: int) -> Iterator[str]:
    """`count` edited programs."""
    rng = random.Random(seed)
    texts = [path.read_text("utf-8") for path in SEEDS]
    for _ in range(count):
        yield edited(rng.choice(texts), rng)


def parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def outcome(files: list[str], config: str, cache: str) -> tuple[int, str]:
    """mypy's exit status and all that it printed."""
    out, problem, status = api.run([*files, "--config-file", config, "--cache-dir", cache, "--no-error-summary"])
    return status, out + problem


def run(count: int, seed: int, folder: Path, batch: int = 40) -> list[str]:
    """What went wrong, one line each."""
    configs = {}
    for name, plugins in (("with", "plugins = tilecheck\n"), ("without", "")):
        configs[name] = str(folder / f"{name}.ini")
        Path(configs[name]).write_text(f"[mypy]\ncheck_untyped_defs = true\nignore_missing_imports = true\n{plugins}")
    good: list[str] = []
    broken: list[str] = []
    for number, text in enumerate(variants(count, seed)):
        path = folder / f"m{number}.py"
        path.write_text(text, "utf-8")
        (good if parses(text) else broken).append(str(path))
    groups = [good[i : i + batch] for i in range(0, len(good), batch)] + [[path] for path in broken[: count // 50 + 1]]
    wrong: list[str] = []
    for group in groups:
        with_plugin, said = outcome(group, configs["with"], str(folder / "cache_with"))
        without, _ = outcome(group, configs["without"], str(folder / "cache_without"))
        if with_plugin not in (without, 1):
            wrong.append(f"exit {with_plugin} instead of {without}: {group[0]} ...: {said[-2000:]}")
        wrong += [line for line in said.splitlines() if "tilecheck-internal" in line or "INTERNAL ERROR" in line]
    return wrong


def main() -> None:
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with TemporaryDirectory() as folder:
        wrong = run(count, seed, Path(folder))
    print("\n".join(wrong) if wrong else f"{count} edits: mypy ends as without the plugin")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
