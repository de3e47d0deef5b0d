"""The linter on a code base without kernels: the standard library, at least 200,000 lines, against parsing it.

The target is 2 seconds on two cores for the whole process. The other side is what a linter without the text gate pays
first: `ast.parse` of the same files.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
import time
import warnings
from pathlib import Path

LINES = 200_000


def sources() -> tuple[list[Path], int]:
    """Files of the standard library without kernels, until there are enough lines."""
    chosen: list[Path] = []
    lines = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        data = path.read_bytes()
        if b"numba" in data or b"cuda" in data or b"tilecheck" in data:
            continue
        chosen.append(path)
        lines += data.count(b"\n")
        if lines >= LINES:
            break
    return chosen, lines


def main() -> None:
    folder = sysconfig.get_path("stdlib")
    files, lines = sources()
    started = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-m", "tilecheck", "check", "--no-cache", folder], capture_output=True, text=True
    )
    whole = time.perf_counter() - started
    print(f"tilecheck check {folder}: {whole:.2f} s, exit status {run.returncode}")
    print(f"  {run.stdout.strip().splitlines()[-1]}")
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in files:
            try:
                ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue
    parsed = time.perf_counter() - started
    print(
        f"ast.parse of {len(files)} of these files, {lines} lines: {parsed:.2f} s, {parsed / whole:.1f} times as long"
    )


if __name__ == "__main__":
    main()
