"""Mapped partitions: the loop over the tiles that a block visits.

Block p of n visits the streamed numbers p, p + n, ... and each number is one tile (`tile_walk`). An `OWNED` axis has 0 in
the index until `z.at` sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.interp.arguments import OWNED
from tilecheck.ir.kernel import ForIndices, Name, OpCall, TupleExpr
from tilecheck.ir.types import TensorType
from tilecheck_runtime.backends.numba_cuda.blocks import tiles_along
from tilecheck_runtime.backends.numba_cuda.registers import I32, I64, SIZE, Value
from tilecheck_runtime.backends.tile_walk import walk_lines

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_KIB: Final = 1024


def for_indices(low: Lowering, node: ForIndices) -> None:
    """`for at in z.indices(within=...)` and `z.indices_with(other)`."""
    source = low.types[node.source.args[0]]
    assert isinstance(source, TensorType)
    array = source.name
    groups, own = low.maps[array], low.own[array]
    target = low.variable(node.target)
    box = _box(low, node.source, array, own, target)
    streamed = [axis for axis, group in enumerate(groups) if group != OWNED]
    counts = [box[axis][1] for axis in streamed]
    number = f"{target}_q"
    names = [f"{target}_n{axis}" for axis in streamed]
    lines, places = walk_lines(target, number, names, [groups[axis] for axis in streamed], _quotient(low, array, own))
    for axis, count in zip(streamed, counts, strict=True):
        low.out.line(f"{target}_n{axis} = int64({count})")
    total = " * ".join(f"{target}_n{axis}" for axis in streamed)
    # A `range` with a step known at run time counts its rounds by a 64-bit division.
    low.out.line(f"{target}_p = b0")
    with low.out.block(f"while {target}_p < {total}:"):
        low.out.line(f"{number} = {target}_p")
        low.out.line(f"{target}_p += g0")
        for line in lines:
            low.out.line(line)
        at = dict(zip(streamed, places, strict=True))
        items = [f"{box[axis][0]} + {at[axis]}" if axis in at else "int64(0)" for axis in range(len(groups))]
        low.out.line(f"{target} = ({''.join(f'{i}, ' for i in items)})")
        low.loop(node.body)


def _quotient(low: Lowering, array: str, own: tuple[int, ...]) -> Callable[[str, str], str]:
    """How to divide tile numbers. No memory holds 2**31 tiles of a KiB each, so there 32 bits do; the machine has no
    64-bit division, and the assembler runs the products of a kernel that calls one, one after another.
    """
    if prod(own) * SIZE[low.facts[array].dtype] < _KIB:
        return lambda number, divisor: f"{number} // ({divisor})"

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        number, divisor = args[0][0], args[1][0]
        # A group may be larger than the array: such a divisor exceeds every number.
        most = I64(0xFFFFFFFF)
        divisor = builder.select(builder.icmp_unsigned("<", divisor, most), divisor, most)
        return [builder.zext(builder.udiv(builder.trunc(number, I32), builder.trunc(divisor, I32)), I64)]

    name = low.out.intrinsic("quotient", None, 2, ("i64", 1), build)
    return lambda number, divisor: f"{name}({number}, int64({divisor}))[0]"


def _box(low: Lowering, source: OpCall, array: str, own: tuple[int, ...], target: str) -> list[tuple[str, str]]:
    """Start and count of the range per axis, checked if a sub-range was given."""
    tiles = [tiles_along(low, array, axis, tile) for axis, tile in enumerate(own)]
    within = dict(source.kwargs).get("within")
    if not isinstance(within, TupleExpr):
        return [("int64(0)", count) for count in tiles]
    pairs = within.items
    if not isinstance(pairs[0], TupleExpr):
        pairs = (within,)
    box: list[tuple[str, str]] = []
    for axis, pair in enumerate(pairs):
        assert isinstance(pair, TupleExpr)
        start, count = (low.scalar(item) for item in pair.items)
        low.out.line(f"{target}_s{axis} = int64({start})")
        low.out.line(f"{target}_c{axis} = int64({count})")
        low.out.line(
            f"{target}_c{axis} = {tiles[axis]} - {target}_s{axis} if {target}_c{axis} == -1 else {target}_c{axis}"
        )
        low.fault_unless(
            f"(0 <= {target}_s{axis} and 0 <= {target}_c{axis} and {target}_s{axis} + {target}_c{axis} <= {tiles[axis]})",
            source.span.line,
        )
        box.append((f"{target}_s{axis}", f"{target}_c{axis}"))
    return box


def at_text(low: Lowering, call: OpCall) -> str:
    """`z.at(index, j, ...)`: the index with its owned axes set, each checked against the array."""
    array = low.types[call.args[0]]
    assert isinstance(array, TensorType) and isinstance(call.args[0], Name)
    index = low.scalar(call.args[1])
    groups, own = low.maps[array.name], low.own[array.name]
    owned = iter(call.args[2:])
    items: list[str] = []
    for axis, group in enumerate(groups):
        if group != OWNED:
            items.append(f"{index}[{axis}]")
            continue
        place = f"int64({low.scalar(next(owned))})"
        tiles = tiles_along(low, array.name, axis, own[axis])
        low.fault_unless(f"(0 <= {place} and {place} < {tiles})", call.span.line)
        items.append(place)
    return "(" + "".join(f"{i}, " for i in items) + ")"
