"""The part of a file that its tile kernels are read from, with everything else blanked.

The kernel frontend parses with libcst, which is slow, and host code is read from mypy's tree anyway. So host functions
and classes are blanked out, line by line: what is left has every kernel, every function that may be inlined into one,
the extents, the imports and the module's constants, at their own lines.

Invariant: a kernel means the same in the slice as in the file. Where that is not plain to see (SIMT kernels, whose
launches are facts about them, and `global` statements, which make constants variable) the whole file is kept.

    def main(): ...          is blank
    class BM(Dim): ...       stays
    @tc.kernel               stays, with its function
    def half(x): ...         stays if a kernel or a function that stays mentions `half`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilecheck.ir import host as ir

TILE = ("tilecheck.kernel",)
SIMT = ("tilecheck.simt", "tilecheck.adopt", "numba.cuda.jit", "cuda.tile.kernel")
_WORD = re.compile(r"[^\W\d]\w*")


def kernels_of(module: ir.HostModule) -> list[tuple[ir.Function, str]]:
    """The functions of a file that are kernels, nested ones included, each with its decorator's full name."""
    found: list[tuple[ir.Function, str]] = []
    for node in ir.walk(*module.body):
        if isinstance(node, ir.Function):
            found += [(node, name) for name in map(_full, node.decorators) if name in TILE or name in SIMT]
        elif isinstance(node, ir.Call) and (name := _full(node.func)) in SIMT:
            found += [(at, name) for at in (_function_at(node, module),) if at is not None]
    return found


def _full(node: ir.Expr) -> str:
    if isinstance(node, ir.Call):
        return _full(node.func)
    return node.full or "" if isinstance(node, ir.Name | ir.Attr) else ""


def _function_at(call: ir.Call, module: ir.HostModule) -> ir.Function | None:
    """The function that `cuda.jit(f)` or `tc.adopt(f)` makes a kernel of, if this file defines it."""
    names = {arg.value.id for arg in call.args if isinstance(arg.value, ir.Name)}
    found = (node for node in ir.walk(*module.body) if isinstance(node, ir.Function) and node.name in names)
    return next(found, None)


def sliced(text: str, module: ir.HostModule, first: Iterable[int]) -> str:
    """`text` with what its tile kernels cannot depend on blanked; the whole text if there is a SIMT kernel.

    `first` are the lines where the file's top-level statements begin, decorators included.
    """
    kernels = kernels_of(module)
    if any(name in SIMT for _, name in kernels) or "global " in text:
        return text
    lines = text.split("\n")
    starts = sorted(first)
    ends = [*starts[1:], len(lines) + 1]
    extent = {start: (start, end) for start, end in zip(starts, ends, strict=True)}
    blocks = {node: block for node in module.body if (block := _block(node, extent)) is not None}
    kept = [node for node in blocks if _stays(node, {id(kernel) for kernel, _ in kernels})]
    mentioned = [node for node in blocks if isinstance(node, ir.Function | ir.Class) and node not in kept]
    words = {word for node in kept for word in _words(lines, blocks[node])}
    while added := [node for node in mentioned if node.name in words]:
        mentioned = [node for node in mentioned if node not in added]
        kept += added
        words |= {word for node in added for word in _words(lines, blocks[node])}
    for node in mentioned:
        start, end = blocks[node]
        lines[start - 1 : end - 1] = [""] * (end - start)
    return "\n".join(lines)


def _block(node: ir.Stmt, extent: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    """The lines of the top-level statement that `node` is, from its decorators to the next statement."""
    starts = [start for start in extent if start <= node.span.line]
    return extent[max(starts)] if starts else None


def _stays(node: ir.Stmt, kernels: set[int]) -> bool:
    """Whether a top-level statement is kept for itself: a kernel or what holds one, an extent, anything but a def."""
    if isinstance(node, ir.Class) and any(_full(base.value) == "tilecheck.Dim" for base in node.bases):
        return True
    if isinstance(node, ir.Function | ir.Class):
        return any(id(inner) in kernels for inner in ir.walk(node))
    return not isinstance(node, ir.Do)


def _words(lines: list[str], block: tuple[int, int]) -> Iterator[str]:
    for line in lines[block[0] - 1 : block[1] - 1]:
        yield from _WORD.findall(line)
