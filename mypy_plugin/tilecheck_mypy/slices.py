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
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from tilecheck.ir import host as ir
from tilecheck_mypy.host import SIMT, TILE, Reading, callee

_WORD = re.compile(r"[^\W\d]\w*")


def sliced(text: str, reading: Reading, first: Iterable[int]) -> str:
    """`text` with what its tile kernels cannot depend on blanked; the whole text if there is a SIMT kernel.

    `first` are the lines where the file's top-level statements begin, decorators included.
    """
    if any(maker in SIMT for _, maker in reading.kernels) or "global " in text:
        return text
    lines = text.split("\n")
    starts = sorted(set(first))
    ends = [*starts[1:], len(lines) + 1]
    extent = {start: (start, end) for start, end in zip(starts, ends, strict=True)}
    blocks = {node: block for node in reading.module.body if (block := _block(node, starts, extent)) is not None}
    kept = [node for node in blocks if _stays(node)]
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


def _block(node: ir.Stmt, starts: list[int], extent: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    """The lines of the top-level statement that `node` is, from its decorators to the next statement."""
    at = bisect_right(starts, node.span.line)
    return extent[starts[at - 1]] if at else None


def _stays(node: ir.Stmt) -> bool:
    """Whether a top-level statement is kept for itself: a kernel or what holds one, an extent, anything but a def."""
    if isinstance(node, ir.Class):
        return any(callee(base.value) == "tilecheck.Dim" for base in node.bases) or any(map(_has_kernel, node.body))
    if isinstance(node, ir.Function):
        return _has_kernel(node)
    return not isinstance(node, ir.Do)


def _has_kernel(node: ir.Stmt) -> bool:
    if not isinstance(node, ir.Function):
        return False
    return any(callee(decorator) in TILE for decorator in node.decorators) or any(
        isinstance(inner, ir.Function) and _has_kernel(inner) for inner in ir.walk(*node.body)
    )


def _words(lines: list[str], block: tuple[int, int]) -> Iterator[str]:
    for line in lines[block[0] - 1 : block[1] - 1]:
        yield from _WORD.findall(line)
