"""Results of earlier runs, kept per file and found by content.

A key is a digest of everything a result was computed from: the file's path and bytes, all other files with kernels of
the same run (they may launch this file's kernels) and the options. The imports that the analysis followed are stored
with the result and compared again on every hit. A store belongs to one build of tilecheck: another version, or an
edited checkout, starts an empty one.

Invariant: a cache can only save time. What cannot be read, was cut short or has another form is a miss; what cannot be
written is dropped. Entries are JSON, because the folder may come with a repository and must not be able to run code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import tilecheck
from tilecheck.modules import Modules
from tilecheck.report.result import FileResult, pack, unpack

FOLDER = ".tilecheck_cache"


def cache_folder(root: Path | None) -> Path:
    """Where results are kept: next to the project's pyproject.toml, else in the user's cache folder."""
    if root is not None:
        return root / FOLDER
    from platformdirs import user_cache_path

    return user_cache_path("tilecheck", appauthor=False)


class ResultCache:
    """The store of one project for this build of tilecheck."""

    def __init__(self, folder: Path) -> None:
        self._top = folder
        self._store = folder / build()

    def get(self, key: str, modules: Modules) -> FileResult | None:
        """The result under `key` if it is there and its imports are unchanged."""
        try:
            entry = json.loads((self._store / f"{key}.json").read_bytes())
            if all(modules.still(name, importer, expected) for name, importer, expected in entry["imports"]):
                return unpack(entry["result"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return None

    def put(self, key: str, result: FileResult, asked: dict[tuple[str, str], str]) -> None:
        """Keep `result` and the imports it rests on."""
        imports = [[name, importer, expected] for (name, importer), expected in asked.items()]
        try:
            data = json.dumps({"imports": imports, "result": pack(result)})
        except (TypeError, ValueError):
            return
        with contextlib.suppress(OSError):
            if not self._store.is_dir():
                self._start()
            handle, temporary = tempfile.mkstemp(dir=self._store)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(data)
            os.replace(temporary, self._store / f"{key}.json")

    def _start(self) -> None:
        if self._top.is_dir():
            for old in self._top.iterdir():
                if old.is_dir():
                    shutil.rmtree(old, ignore_errors=True)
        self._store.mkdir(parents=True, exist_ok=True)
        (self._top / ".gitignore").write_text("*\n", encoding="utf-8")


def key_of(*parts: str | bytes) -> str:
    """One digest of all `parts`."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


@cache
def build() -> str:
    """A digest of the running checker: its sources' sizes and times, and the Python that runs it."""
    parts = [sys.version]
    for folder, _, names in sorted(os.walk(os.path.dirname(tilecheck.__file__))):
        for name in sorted(names):
            if name.endswith(".py"):
                state = os.stat(os.path.join(folder, name))
                parts.append(f"{folder}/{name} {state.st_size} {state.st_mtime_ns}")
    return key_of(*parts)[:16]
