"""Mapped partitions in cuTile's language: the walk of a block over its tiles, sub-ranges, and owned axes.

Block p of n visits the streamed numbers p, p + n, ... and each number is one tile (`tile_walk`). An owned axis has 0 in the
index until `z.at(index, j)` sets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.interp.arguments import OWNED
from tilecheck.ir.kernel import ForIndices, OpCall, TupleExpr
from tilecheck.ir.types import TensorType
from tilecheck_runtime.backends.tile_walk import walk_lines

if TYPE_CHECKING:
    from tilecheck_runtime.backends.tile_ir.lower import Lowering


def for_indices(low: Lowering, node: ForIndices) -> None:
    """The tiles that a block of a mapped partition visits."""
    source = low.types[node.source.args[0]]
    assert isinstance(source, TensorType)
    groups, target = low.maps[source.name], low.variable(node.target)
    box = _box(low, node.source, source, target)
    streamed = [axis for axis, group in enumerate(groups) if group != OWNED]
    counts = [f"{target}_n{axis}" for axis in streamed]
    for axis, count in zip(streamed, counts, strict=True):
        low.line(f"{count} = {box[axis][1]}")
    lines, places = walk_lines(target, f"{target}_q", counts, [groups[axis] for axis in streamed])
    with low.block(f"for {target}_p in range(ct.bid(0), {' * '.join(counts)}, ct.num_blocks(0)):"):
        low.line(f"{target}_q = {target}_p")
        for text in lines:
            low.line(text)
        at = dict(zip(streamed, places, strict=True))
        items = [f"{box[axis][0]} + {at[axis]}" if axis in at else "0" for axis in range(len(groups))]
        low.line(f"{target} = ({''.join(f'{i}, ' for i in items)})")
        low.body(node.body)


def _box(low: Lowering, source: OpCall, kind: TensorType, target: str) -> list[tuple[str, str]]:
    """Start and count of the range per axis, checked if a sub-range was given."""
    own = low.own[kind.name]
    tiles = [low.tile_count(kind, axis, tile) for axis, tile in enumerate(own)]
    within = dict(source.kwargs).get("within")
    if not isinstance(within, TupleExpr):
        return [("0", count) for count in tiles]
    pairs = within.items if isinstance(within.items[0], TupleExpr) else (within,)
    box: list[tuple[str, str]] = []
    for axis, pair in enumerate(pairs):
        assert isinstance(pair, TupleExpr)
        start, count = f"{target}_s{axis}", f"{target}_c{axis}"
        first, length = (low.expr(item) for item in pair.items)
        low.line(f"{start} = {first}")
        low.line(f"{count} = {tiles[axis]} - {start} if {length} == -1 else {length}")
        inside = f"(0 <= {start}) & (0 <= {count}) & ({start} + {count} <= {tiles[axis]})"
        low.fault_unless(f"({inside})", source.span.line)
        box.append((start, count))
    return box


def at_text(low: Lowering, call: OpCall) -> str:
    """`z.at(index, j, ...)`: the index with its owned axes set, each checked against the array."""
    kind = low.types[call.args[0]]
    assert isinstance(kind, TensorType)
    index, own, owned = low.expr(call.args[1]), low.own[kind.name], iter(call.args[2:])
    items: list[str] = []
    for axis, group in enumerate(low.maps[kind.name]):
        if group != OWNED:
            items.append(f"{index}[{axis}]")
            continue
        place = low.expr(next(owned))
        tiles = low.tile_count(kind, axis, own[axis])
        low.fault_unless(f"((0 <= {place}) & ({place} < {tiles}))", call.span.line)
        items.append(f"ct.where(ok, {place}, 0)")
    return "(" + "".join(f"{i}, " for i in items) + ")"
