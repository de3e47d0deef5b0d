"""Names of `numba.cuda` that mypy does not find: a note at the first one says which setting cures it, once in a build.

With `no_implicit_reexport`, a part of `strict`, most names of kernels are not in the `numba.cuda` that mypy reads, and those
that only numba-cuda has never are. That is the matter of a setting that no hook of a plugin reaches.

Worked example: under `strict`, `i = cuda.grid(1)` is mypy's "Module has no attribute", and the note goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy.errorcodes import ATTR_DEFINED
from mypy.errors import ErrorInfo, Errors
from mypy.nodes import MypyFile

from tilecheck.ir import host as ir
from tilecheck_mypy.host import read_host

WAY_OUT = (
    "mypy reads a `numba.cuda` without types that is not what runs; so that it leaves that alone, set "
    '`follow_imports = "skip"` for `module = "numba.*"` in a `[[tool.mypy.overrides]]`'
)


def tell_way_out(file: MypyFile, errors: Errors) -> None:
    """A note at the first name of `numba.cuda` in `file` that mypy has missed; mypy prints it for one file of a build."""
    missed = next(_missed(file, errors), None)
    if missed is not None:
        line, column = missed.line, missed.column
        errors.report(line, column, WAY_OUT, severity="note", code=ATTR_DEFINED, only_once=True, parent_error=missed)


def _missed(file: MypyFile, errors: Errors) -> Iterator[ErrorInfo]:
    known = errors.error_info_map.get(errors.file, [])
    missed = [info for info in known if info.code is ATTR_DEFINED and info.message.startswith("Module ")]
    named = set(_places(file)) if missed else set()
    for info in missed:
        if info.message.startswith('Module "numba.cuda') or (info.line, info.column) in named:
            yield info


def _places(file: MypyFile) -> Iterator[tuple[int, int]]:
    """Where names of `numba.cuda` stand, in mypy's counting."""
    for node in ir.walk(*read_host(file, {}, lambda _: False).module.body):
        if isinstance(node, ir.Attr) and node.full is not None and node.full.startswith("numba.cuda."):
            yield node.span.line, node.span.column - 1
