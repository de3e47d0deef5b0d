"""Which files are checked.

`discover` walks folders for `*.py`, skipping hidden folders, caches and virtual environments, never following a link to
a folder (so a loop of links ends) and never opening anything that is not a regular file.

Invariant: a file is listed once, under the path it was first named by, and the list is sorted, so that output does
not depend on the order of a directory.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


class BadPath(Exception):
    """A path of the command line that does not exist, or is no Python."""


def discover(paths: Sequence[str], exclude: Sequence[str] = (), root: Path | None = None) -> list[str]:
    """The Python files named by `paths` or below the folders among them, sorted. Raises `BadPath`.

    A file that is named outright is taken whatever it is called; a folder that may not be listed stands for what it
    holds. `exclude` are glob patterns, matched against the path
    relative to `root` (default: the current folder), against each folder above it, and against the bare name.
    """
    base = os.path.abspath(root or os.curdir)
    found: dict[str, str] = {}
    for path in paths:
        if os.path.isdir(path):
            candidates: Iterator[str] = _walk(path, exclude, base)
        elif path.endswith(".ipynb"):
            raise BadPath(f"{path} is a notebook: save its code first, `jupyter nbconvert --to script {path}`")
        elif os.path.lexists(path):
            candidates = iter((path,) if not _excluded(path, exclude, base) else ())
        else:
            raise BadPath(f"no such file or folder: {path}")
        for file in candidates:
            file = os.path.normpath(file)
            found.setdefault(os.path.abspath(file), file)
    return sorted(found.values())


def _walk(folder: str, exclude: Sequence[str], base: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError:
            # Reading it says that nothing in it is checked.
            yield current
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if exclude and _excluded(entry.path, exclude, base):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                        pending.append(entry.path)
                elif entry.name.endswith(".py") and entry.is_file():
                    yield entry.path
            except OSError:
                continue


def _excluded(path: str, patterns: Sequence[str], base: str) -> bool:
    relative = os.path.relpath(os.path.abspath(path), base).replace(os.sep, "/")
    parts = relative.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    for raw in patterns:
        pattern = raw.removeprefix("./").rstrip("/")
        if any(fnmatch.fnmatchcase(prefix, pattern) for prefix in above) or fnmatch.fnmatchcase(parts[-1], pattern):
            return True
    return False
