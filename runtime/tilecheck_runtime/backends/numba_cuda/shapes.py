"""Shape changes: reshape, permutation, broadcast, concatenation, extraction. All but the first go through shared memory, or
through nothing at all where the registers already fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tilecheck.ir.kernel import OpCall, TupleExpr
from tilecheck_runtime.backends.numba_cuda import exchange
from tilecheck_runtime.backends.numba_cuda.layout import Layout, join_index
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import I32, Value
from tilecheck_runtime.backends.numba_cuda.tiles import Held, convert, fill, retile

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering


def lower_reshape(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`reshape`, `expand_dims`, `squeeze`: the type says the shape."""
    return retile(low, low.tile(node.args[0], None), tile_shape(low.tile_type(node)))


def _moved(low: Lowering, stem: str, x: Held, shape: tuple[int, ...], key: object, index: exchange.IndexMap) -> Held:
    target = low.plan.layout(shape)
    low.out.shares(exchange.shared_bytes(x.dtype, x.layout))
    source = x.layout

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.remap(builder, x.dtype, source, target, args[0], index)

    name = low.out.intrinsic(stem, (x.dtype, source, target, key), 1, (x.dtype, target.registers), build)
    return low.bind("t", f"{name}({x.name})", target, x.dtype)


def lower_permute(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`permute_dims`, and `transpose` of rank 2."""
    x = low.tile(node.args[0], None)
    source = x.layout.shape
    rank = len(source)
    if node.op == "transpose":
        axes: tuple[int, ...] = (1, 0)
    else:
        order = node.args[1] if len(node.args) > 1 else dict(node.kwargs)["axes"]
        assert isinstance(order, TupleExpr)
        axes = tuple(low.constant_int(item) % rank for item in order.items)
    inverse = [axes.index(a) for a in range(rank)]

    def index(builder: ir.IRBuilder, at: Sequence[Value]) -> Value:
        return join_index(builder, source, [at[i] for i in inverse])

    return _moved(low, "permute", x, tuple(source[a] for a in axes), axes, index)


def lower_broadcast_to(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`broadcast_to`: trailing axes align, extent 1 repeats."""
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    scalar = low.scalar_kind(node.args[0])
    if scalar is not None:
        return fill(low, low.scalar(node.args[0]), scalar, target, kind.dtype.name)
    return convert(low, low.tile(node.args[0], None), target)


def lower_extract(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`extract`: the part at a constant index."""
    x = low.tile(node.args[0], None)
    source = x.layout.shape
    shape = tile_shape(low.tile_type(node))
    items = node.args[1].items if isinstance(node.args[1], TupleExpr) else (node.args[1],)
    starts = [low.constant_int(item) * extent for item, extent in zip(items, shape, strict=True)]

    def index(builder: ir.IRBuilder, at: Sequence[Value]) -> Value:
        return join_index(builder, source, [builder.add(c, I32(s)) for c, s in zip(at, starts, strict=True)])

    return _moved(low, "extract", x, shape, tuple(starts), index)


def lower_concat(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`concat`: every part is stretched over the whole tile, its own places are picked out."""
    shape = tile_shape(low.tile_type(node))
    parts_expr = node.args[0]
    assert isinstance(parts_expr, TupleExpr)
    given = dict(node.kwargs)
    axis_expr = node.args[1] if len(node.args) > 1 else given.get("axis")
    axis = low.constant_int(axis_expr) % len(shape) if axis_expr is not None else 0
    target = low.plan.layout(shape)
    start = 0
    whole: Held | None = None
    for item in parts_expr.items:
        part = low.tile(item, None)
        extent = part.layout.shape[axis]
        moved = _moved(low, "part", part, shape, (axis, start), _shifted(part.layout.shape, axis, start))
        whole = moved if whole is None else _pick(low, whole, moved, target, axis, start)
        start += extent
    assert whole is not None
    return whole


def _shifted(source: Sequence[int], axis: int, start: int) -> exchange.IndexMap:
    def index(builder: ir.IRBuilder, at: Sequence[Value]) -> Value:
        places = list(at)
        moved = builder.sub(places[axis], I32(start))
        inside = builder.icmp_unsigned("<", moved, I32(source[axis]))
        places[axis] = builder.select(inside, moved, I32(0))
        return join_index(builder, source, places)

    return index


def _pick(low: Lowering, before: Held, part: Held, target: Layout, axis: int, start: int) -> Held:
    """`part` from `start` on along `axis`, `before` ahead of it."""

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        values: list[Value] = []
        for slot in range(target.registers):
            coordinates, _ = target.coordinates(builder, slot)
            later = builder.icmp_unsigned(">=", coordinates[axis], I32(start))
            values.append(builder.select(later, args[1][slot], args[0][slot]))
        return values

    key = (part.dtype, target, axis, start)
    name = low.out.intrinsic("join", key, 2, (part.dtype, target.registers), build)
    return low.bind("t", f"{name}({before.name}, {part.name})", target, part.dtype)
