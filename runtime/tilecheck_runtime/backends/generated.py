"""Where generated source lives: in memory, or, on request, in a folder that tools can read.

`TILECHECK_SOURCES=DIR` writes the source of every kernel that is generated, and the PTX of those that numba-cuda compiles,
into DIR, and compiles with line tables that point there. Compute-sanitizer, a debugger and a profiler then name generated
lines. The kernel cache is left alone meanwhile: line tables name a folder that may be gone tomorrow.
"""

from __future__ import annotations

import hashlib
import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilecheck_runtime.errors import UsageError


class Indented:
    """The body of a generated function: lines at an indent."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; an empty one gets a `pass`."""
        self.line(head)
        self._indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1


def folder() -> Path | None:
    """The folder of `TILECHECK_SOURCES`, made if it is not there. Raises UsageError if it cannot be."""
    wanted = os.environ.get("TILECHECK_SOURCES", "")
    if not wanted:
        return None
    path = Path(wanted)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"TILECHECK_SOURCES is {wanted!r}, which is no folder: {error.strerror}") from None
    return path


def place(compiler: str, name: str, source: str) -> str:
    """The file name under which `source`, kernel `name` as `compiler` gets it, is known to tracebacks and line tables."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    kept = folder()
    if kept is not None:
        return keep(kept / f"{name}-{digest}.{compiler}.py", source)
    file = f"<tilecheck {compiler} {name} {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return file


def keep(path: Path, text: str) -> str:
    """Write one file of the folder. Raises UsageError if it cannot be written."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "set TILECHECK_SOURCES to another folder"
        ) from None
    return str(path)
