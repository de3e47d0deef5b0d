"""Which tile a block computes, its id on each axis, and how many tiles there are along one.

Most kernels read every element once and count up axis 0 first, as the hardware does: ids are those of its own grid. Where
axis 1 or 2 is longer than the hardware allows (65,535 blocks), the same kernel is compiled for blocks in one row, in the
same order.

Blocks run roughly in the order of their numbers, so blocks with near numbers share the second-level cache. A matrix product
reads a row of tiles and a column of tiles for each tile: there the blocks that run together should form a square, so blocks
stand in one row and numbers go down bands of `_BAND` rows, column by column, and leading (batch) axes come last.

Where the length of a loop depends on the block's own row, as in causal attention, later rows usually have longer loops;
they come first, so that short ones fill the end of the launch.

Example: in a grid of 32 x 32 with bands of 16 rows, blocks 0 to 255 compute the tiles of 16 rows and 16 columns, from 32
rows and columns of operands instead of 40 (32 + 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Assign, For, Name, Node, OpCall, walk
from tilecheck_runtime.backends.numba_cuda.registers import I32, I64, Value

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_BAND: Final = 16


def counted(builder: ir.IRBuilder, block: Value, grid: Sequence[Value]) -> list[Value]:
    """The ids of a block in a row, axis 0 first. All values are i32: a grid has fewer than 2**31 blocks."""
    rest = builder.udiv(block, grid[0])
    return [builder.urem(block, grid[0]), builder.urem(rest, grid[1]), builder.udiv(rest, grid[1])]


def tiles_along(low: Lowering, array: str, axis: int, tile: int) -> str:
    """How many tiles of `tile` elements cover `array` along `axis`. No extent is negative, which the compiler cannot know:
    a division that rounds down would take a dozen instructions before the first load.
    """
    if (axis, tile) in low.facts[array].single:
        return "1"

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return [builder.udiv(builder.add(args[0][0], I64(tile - 1)), I64(tile))]

    name = low.out.intrinsic("tiles", tile, 1, ("i64", 1), build)
    return f"{name}({low.variable(array)}_n{axis})[0]"


def uneven(body: Sequence[Node]) -> bool:
    """Whether a loop's length depends on the block."""
    own: set[str] = set()

    def depends(expr: Node) -> bool:
        nodes = list(walk(expr))
        return any(
            (isinstance(node, OpCall) and node.op == "block_id") or (isinstance(node, Name) and node.id in own)
            for node in nodes
        )

    for node in walk(*body):
        if isinstance(node, Assign) and depends(node.value):
            own.add(node.target)
        elif isinstance(node, For) and (depends(node.start) or depends(node.stop)):
            return True
    return False


def banded(builder: ir.IRBuilder, block: Value, grid: Sequence[Value], rank: int, descending: bool) -> list[Value]:
    """The ids of a block where the last two of `rank` axes are rows and columns of a matrix; every id is taken once."""
    row_axis, column_axis = (0, 1) if rank == 2 else (1, 2)
    rows, columns = grid[row_axis], grid[column_axis]
    area = builder.mul(rows, columns)
    inner = builder.urem(block, area)
    span = builder.mul(columns, I32(_BAND))
    band = builder.udiv(inner, span)
    first = builder.mul(band, I32(_BAND))
    rest = builder.sub(inner, builder.mul(band, span))
    left = builder.sub(rows, first)
    height = builder.select(builder.icmp_unsigned("<", left, I32(_BAND)), left, I32(_BAND))
    row, column = builder.add(first, builder.urem(rest, height)), builder.udiv(rest, height)
    if descending:
        row = builder.sub(builder.sub(rows, I32(1)), row)
    batch = builder.udiv(block, area)
    return [row, column, batch] if rank == 2 else [batch, row, column]
