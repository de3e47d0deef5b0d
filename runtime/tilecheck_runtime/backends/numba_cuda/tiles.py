"""Tile ops to intrinsics: one lowering per row of the op table.

A lowering gets the call, its lowered tile arguments come through the `Lowering` (see `lower.py`), and it answers with a
`Held` value: the name of the tuple in the generated text, its layout and dtype. `TILE_OPS` is keyed by the row's name;
elementwise rows share one lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Const, Expr, OpCall, TupleExpr
from tilecheck.ir.types import TileType
from tilecheck_runtime.backends.numba_cuda import elementwise, exchange, matrix, reduction
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, join_index
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import (
    I1,
    I32,
    I64,
    SIZE,
    Value,
    cast,
    cast_all,
    is_float,
    libdevice,
    llvm_type,
    widen,
    work_dtype,
)

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lower import Lowering


@dataclass(frozen=True, slots=True)
class Held:
    """A tile in registers: `name` is the tuple in the generated text."""

    name: str
    layout: Layout
    dtype: str


def splat(builder: ir.IRBuilder, scalar: Value, dtype: str, kind: str) -> Value:
    """A kernel scalar (i64, double or i1) as an element of `dtype`."""
    source = {"int": "i64", "float": "f64", "bool": "bool_"}[kind]
    if kind == "bool" and scalar.type != I1:
        scalar = builder.trunc(scalar, I1)
    return cast(builder, source, dtype, scalar)


def broadcast_map(source: Sequence[int], target: Sequence[int]) -> exchange.IndexMap:
    """Trailing axes align; an axis of extent 1, or one that is missing, repeats."""

    def index(builder: ir.IRBuilder, at: Sequence[Value]) -> Value:
        kept = at[len(target) - len(source) :]
        own = [I32(0) if extent == 1 else c for extent, c in zip(source, kept, strict=True)]
        return join_index(builder, source, own)

    return index


def _identity(builder: ir.IRBuilder, at: Sequence[Value], shape: Sequence[int]) -> Value:
    return join_index(builder, shape, at)


def convert(low: Lowering, held: Held, target: Layout) -> Held:
    """`held` in another layout of the same shape, or broadcast to the target's shape."""
    if held.layout == target:
        return held
    shape, goal = held.layout.shape, target.shape
    source = held.layout
    low.out.shares(exchange.shared_bytes(held.dtype, source))

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.remap(builder, held.dtype, source, target, args[0], broadcast_map(shape, goal))

    name = low.out.intrinsic("move", (held.dtype, source, target), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def elementwise_op(low: Lowering, op: str, node: Expr, operands: Sequence[Expr], want: Layout | None) -> Held:
    """Rows of `elementwise.ELEMENTWISE` on tiles and scalars of one dtype."""
    kind = low.tile_type(node)
    shape = tile_shape(kind)
    dtype = next(t.dtype.name for o in operands if isinstance(t := low.types[o], TileType))
    target = low.choose(node, shape, want)
    names: list[str] = []
    scalars: list[str | None] = []
    for operand in operands:
        scalar = low.scalar_kind(operand)
        if scalar is not None:
            names.append(low.scalar(operand))
            scalars.append(scalar)
        else:
            names.append(convert(low, low.tile(operand, target), target).name)
            scalars.append(None)
    result = kind.dtype.name
    to_bool = result == "bool_"

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        lanes = [
            [splat(builder, a[0], dtype, s)] * target.registers if s is not None else list(a)
            for a, s in zip(args, scalars, strict=True)
        ]
        return elementwise.apply(builder, op, dtype, to_bool, lanes)

    key = (dtype, target.registers, tuple(scalars))
    name = low.out.intrinsic(op, key, len(names), (result, target.registers), build)
    return low.bind("t", f"{name}({', '.join(names)})", target, result)


def _where(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    dtype = kind.dtype.name
    target = low.choose(node, tile_shape(kind), want)
    names: list[str] = []
    forms: list[str | None] = []
    for operand in node.args:
        scalar = low.scalar_kind(operand)
        forms.append(scalar)
        names.append(
            low.scalar(operand) if scalar is not None else convert(low, low.tile(operand, target), target).name
        )

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        lanes: list[list[Value]] = []
        for position, (a, form) in enumerate(zip(args, forms, strict=True)):
            to = "bool_" if position == 0 else dtype
            lanes.append([splat(builder, a[0], to, form)] * target.registers if form is not None else list(a))
        return [builder.select(c, x, y) for c, x, y in zip(*lanes, strict=True)]

    name = low.out.intrinsic("where", (dtype, target.registers, tuple(forms)), 3, (dtype, target.registers), build)
    return low.bind("t", f"{name}({', '.join(names)})", target, dtype)


def _classify(op: str) -> Callable[[Lowering, OpCall, Layout | None], Held]:
    def lower(low: Lowering, node: OpCall, want: Layout | None) -> Held:
        target = low.choose(node, tile_shape(low.tile_type(node)), want)
        x = convert(low, low.tile(node.args[0], target), target)

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            results: list[Value] = []
            for a in args[0]:
                if not is_float(x.dtype):
                    results.append(I1(int(op == "isfinite")))
                    continue
                wide = widen(builder, x.dtype, a)
                size = libdevice(builder, "fabs", wide)
                infinity = ir.Constant(wide.type, float("inf"))
                sign = "==" if op == "isinf" else "<"
                results.append(builder.fcmp_ordered(sign, size, infinity))
            return results

        name = low.out.intrinsic(op, (x.dtype, target.registers), 1, ("bool_", target.registers), build)
        return low.bind("t", f"{name}({x.name})", target, "bool_")

    return lower


def _astype(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    to = kind.dtype.name
    scalar = low.scalar_kind(node.args[0])
    if scalar is not None:
        return fill(low, low.scalar(node.args[0]), scalar, target, to)
    x = convert(low, low.tile(node.args[0], target), target)
    if x.dtype == to:
        return x

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return cast_all(builder, x.dtype, to, args[0])

    name = low.out.intrinsic(f"to_{to}", (x.dtype, target.registers), 1, (to, target.registers), build)
    return low.bind("t", f"{name}({x.name})", target, to)


def _bitcast(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    to = kind.dtype.name
    x = convert(low, low.tile(node.args[0], target), target)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return [a if a.type == llvm_type(to) else builder.bitcast(a, llvm_type(to)) for a in args[0]]

    name = low.out.intrinsic(f"as_{to}", (x.dtype, target.registers), 1, (to, target.registers), build)
    return low.bind("t", f"{name}({x.name})", target, to)


# ---- creation


def fill(low: Lowering, scalar: str, kind: str, target: Layout, dtype: str) -> Held:
    """A tile of one value."""

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return [splat(builder, args[0][0], dtype, kind)] * target.registers

    name = low.out.intrinsic("fill", (dtype, kind, target.registers), 1, (dtype, target.registers), build)
    return low.bind("t", f"{name}({scalar})", target, dtype)


def _constant_fill(value: int) -> Callable[[Lowering, OpCall, Layout | None], Held]:
    def lower(low: Lowering, node: OpCall, want: Layout | None) -> Held:
        kind = low.tile_type(node)
        return fill(low, str(value), "int", low.choose(node, tile_shape(kind), want), kind.dtype.name)

    return lower


def _full(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    scalar = low.scalar_kind(node.args[1])
    if scalar is not None:
        return fill(low, low.scalar(node.args[1]), scalar, target, kind.dtype.name)
    return convert(low, low.tile(node.args[1], None), target)


def _arange(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    dtype = kind.dtype.name
    target = low.choose(node, tile_shape(kind), want)
    given = dict(node.kwargs)
    start = low.constant_int(given["start"]) if "start" in given else 0
    step = low.constant_int(given["step"]) if "step" in given else 1

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        values: list[Value] = []
        for slot in range(target.registers):
            index, _ = target.row_major(builder, slot)
            number = builder.add(builder.mul(builder.zext(index, I64), I64(step)), I64(start))
            values.append(cast(builder, "i64", dtype, number))
        return values

    name = low.out.intrinsic("arange", (dtype, target, start, step), 0, (dtype, target.registers), build)
    return low.bind("t", f"{name}()", target, dtype)


# ---- shape


def _reshape(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    target = low.plan.layout(tile_shape(kind))
    source = x.layout
    if exchange.needs_exchange(source, target) or source.registers != target.registers:
        low.out.shares(exchange.shared_bytes(x.dtype, source))

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.reshape(builder, x.dtype, source, target, args[0])

    name = low.out.intrinsic("reshape", (x.dtype, source, target), 1, (x.dtype, target.registers), build)
    return low.bind("t", f"{name}({x.name})", target, x.dtype)


def _moved(low: Lowering, stem: str, x: Held, shape: tuple[int, ...], key: object, index: exchange.IndexMap) -> Held:
    target = low.plan.layout(shape)
    low.out.shares(exchange.shared_bytes(x.dtype, x.layout))
    source = x.layout

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.remap(builder, x.dtype, source, target, args[0], index)

    name = low.out.intrinsic(stem, (x.dtype, source, target, key), 1, (x.dtype, target.registers), build)
    return low.bind("t", f"{name}({x.name})", target, x.dtype)


def _permute(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    x = low.tile(node.args[0], None)
    source = x.layout.shape
    rank = len(source)
    if node.op == "transpose" or len(node.args) == 1:
        axes = tuple(reversed(range(rank))) if len(node.args) < 3 else ()
        if not axes:
            first, second = (low.constant_int(a) % rank for a in node.args[1:3])
            order = list(range(rank))
            order[first], order[second] = order[second], order[first]
            axes = tuple(order)
    else:
        given = node.args[1]
        items = given.items if isinstance(given, TupleExpr) else node.args[1:]
        axes = tuple(low.constant_int(item) % rank for item in items)
    inverse = [axes.index(a) for a in range(rank)]

    def index(builder: ir.IRBuilder, at: Sequence[Value]) -> Value:
        return join_index(builder, source, [at[i] for i in inverse])

    return _moved(low, "permute", x, tuple(source[a] for a in axes), axes, index)


def _broadcast_to(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    scalar = low.scalar_kind(node.args[0])
    if scalar is not None:
        return fill(low, low.scalar(node.args[0]), scalar, target, kind.dtype.name)
    return convert(low, low.tile(node.args[0], None), target)


# ---- reductions

_EXTREMA: Final = {"max": elementwise.maximum, "min": elementwise.minimum}


def _fold_of(op: str, dtype: str) -> reduction.Fold:
    """The fold of a reduction, in the work dtype of `dtype`."""
    work = work_dtype(dtype)
    if op in _EXTREMA:
        pick = _EXTREMA[op]
        return reduction.Fold((work,), (), lambda b, x, y: [pick(b, work, [x[0], y[0]])])
    if op in ("any", "all"):
        combine: reduction.Combine = (
            (lambda b, x, y: [b.or_(x[0], y[0])]) if op == "any" else (lambda b, x, y: [b.and_(x[0], y[0])])
        )
        return reduction.Fold(("bool_",), (), combine)
    names = {"sum": "add", "cumsum": "add", "prod": "multiply", "cumprod": "multiply"}
    element = elementwise.ELEMENTWISE[names[op]]
    return reduction.Fold((work,), (), lambda b, x, y: [element(b, work, [x[0], y[0]])])


def _axes(low: Lowering, node: OpCall, rank: int) -> tuple[int, ...]:
    given = dict(node.kwargs)
    axis = node.args[1] if len(node.args) > 1 else given.get("axis")
    if axis is None or (isinstance(axis, Const) and axis.value is None):
        return tuple(range(rank))
    if isinstance(axis, TupleExpr):
        return tuple(sorted(low.constant_int(item) % rank for item in axis.items))
    return (low.constant_int(axis) % rank,)


def _reduce(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    shape = x.layout.shape
    axes = _axes(low, node, len(shape))
    fold = _fold_of(node.op, x.dtype)
    (work,) = fold.dtypes
    held = cast_held(low, x, work)
    # From the last axis to the first, in the work dtype; neighbouring whole axes fold as one.
    if axes == tuple(range(len(shape))) and len(shape) > 1 and not isinstance(held.layout, Fragments):
        held = _retile(low, held, (prod(shape),))
        axes = (0,)
    for axis in reversed(axes):
        held = _reduce_one(low, node.op, fold, held, axis)
    return _retile(low, cast_held(low, held, kind.dtype.name), tile_shape(kind))


def _reduce_one(low: Lowering, op: str, fold: reduction.Fold, held: Held, axis: int) -> Held:
    source = held.layout
    shape = source.shape
    target = low.plan.layout((*shape[:axis], *shape[axis + 1 :]))
    low.out.shares(reduction.shared_bytes(fold.dtypes, source, axis))
    site = low.site(op)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return reduction.reduce_axis(builder, fold, source, axis, target, args, site)[0]

    name = low.out.intrinsic(op, (held.dtype, source, axis, site), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def cast_held(low: Lowering, held: Held, dtype: str) -> Held:
    """`held` with its elements cast to `dtype`."""
    if held.dtype == dtype:
        return held

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return cast_all(builder, held.dtype, dtype, args[0])

    count = held.layout.registers
    name = low.out.intrinsic(f"to_{dtype}", (held.dtype, count), 1, (dtype, count), build)
    return low.bind("t", f"{name}({held.name})", held.layout, dtype)


def _retile(low: Lowering, held: Held, shape: tuple[int, ...]) -> Held:
    if held.layout.shape == shape:
        return held
    source, target = held.layout, low.plan.layout(shape)
    if exchange.needs_exchange(source, target) or source.registers != target.registers:
        low.out.shares(exchange.shared_bytes(held.dtype, source))

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.reshape(builder, held.dtype, source, target, args[0])

    name = low.out.intrinsic("reshape", (held.dtype, source, target), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def _arg_extremum(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    axes = _axes(low, node, len(x.layout.shape))
    if len(axes) > 1:
        x = _retile(low, x, (x.layout.size,))
        axes = (0,)
    (axis,) = axes
    work = work_dtype(x.dtype)
    held = cast_held(low, x, work)
    source = held.layout
    shape = source.shape
    inner, length = prod(shape[axis + 1 :]), shape[axis]
    target = low.plan.layout((*shape[:axis], *shape[axis + 1 :]))
    largest = node.op == "argmax"

    def combine(b: ir.IRBuilder, p: list[Value], q: list[Value]) -> list[Value]:
        # The first position wins a tie; nan counts as the extremum, as in NumPy.
        x_nan, y_nan = elementwise.is_nan(b, work, p[0]), elementwise.is_nan(b, work, q[0])
        beats = elementwise.less(b, work, p[0], q[0]) if largest else elementwise.less(b, work, q[0], p[0])
        loses = elementwise.less(b, work, q[0], p[0]) if largest else elementwise.less(b, work, p[0], q[0])
        earlier = b.icmp_signed("<", q[1], p[1])
        level = b.not_(b.or_(beats, loses))
        neither = b.not_(b.or_(x_nan, y_nan))
        take = b.and_(neither, b.or_(beats, b.and_(level, earlier)))
        take = b.or_(take, b.and_(y_nan, b.or_(b.not_(x_nan), earlier)))
        return [b.select(take, q[0], p[0]), b.select(take, q[1], p[1])]

    fold = reduction.Fold((work, "i32"), (), combine)
    low.out.shares(reduction.shared_bytes(fold.dtypes, source, axis))

    site = low.site(node.op)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        places: list[Value] = []
        for slot in range(source.registers):
            index, _ = source.row_major(builder, slot)
            places.append(builder.urem(builder.udiv(index, I32(inner)), I32(length)))
        return reduction.reduce_axis(builder, fold, source, axis, target, [args[0], places], site)[1]

    name = low.out.intrinsic(node.op, (work, source, axis, site), 1, ("i32", target.registers), build)
    found = low.bind("t", f"{name}({held.name})", target, "i32")
    return _retile(low, cast_held(low, found, kind.dtype.name), tile_shape(kind))


def _scan(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    given = dict(node.kwargs)
    axis_expr = node.args[1] if len(node.args) > 1 else given.get("axis")
    axis = low.constant_int(axis_expr) % len(x.layout.shape) if axis_expr is not None else 0
    backwards = given.get("reverse")
    reverse = isinstance(backwards, Const) and bool(backwards.value)
    fold = _fold_of(node.op, x.dtype)
    (work,) = fold.dtypes
    held = cast_held(low, x, work)
    source = held.layout
    low.out.shares(source.size * SIZE[work] + 16)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return reduction.scan_axis(builder, fold, source, axis, reverse, args[0])

    name = low.out.intrinsic(node.op, (work, source, axis, reverse), 1, (work, source.registers), build)
    return cast_held(low, low.bind("t", f"{name}({held.name})", source, work), kind.dtype.name)


# ---- products


def product(low: Lowering, node: Expr, x: Expr, y: Expr, accumulator: Expr | None, want: Layout | None) -> Held:
    """`mma(x, y, acc)` and `x @ y`, on tensor cores where they take the dtype and the extents divide."""
    kind = low.tile_type(node)
    shape = tile_shape(kind)
    a, b = low.tile(x, None), low.tile(y, None)
    inner = a.layout.shape[-1]
    result = work_dtype(a.dtype) if accumulator is None else kind.dtype.name
    fragments = low.plan.accumulator(node) if isinstance(node, OpCall) and node.op == "mma" else None
    if fragments is None and len(shape) == 2 and a.dtype in matrix.TENSOR_DTYPES and inner % 16 == 0:
        from tilecheck_runtime.backends.numba_cuda.layout import fits_fragments

        warps = fits_fragments(shape, low.plan.threads)
        fragments = None if warps is None else Fragments(shape, low.plan.threads, warps)
    target: Layout = fragments or low.plan.layout(shape)
    if accumulator is None:
        start = fill(low, "0", "int", target, result)
    else:
        start = convert(low, low.tile(accumulator, target), target)
    a_layout, b_layout = a.layout, b.layout
    m, n = shape[-2:]
    if fragments is not None:
        accumulators = fragments
        low.out.shares(matrix.shared_bytes(a.dtype, m, n, inner))

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            return matrix.tensor_mma(
                builder, a.dtype, accumulators, inner, (a_layout, args[0]), (b_layout, args[1]), args[2]
            )
    else:
        low.out.shares(matrix.plain_shared_bytes(a.dtype, prod(shape[:-2]), m, n, inner))

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            return matrix.plain_mma(
                builder, a.dtype, result, target, inner, (a_layout, args[0]), (b_layout, args[1]), args[2]
            )

    key = (a.dtype, a_layout, b_layout, target)
    name = low.out.intrinsic("mma", key, 3, (result, target.registers), build)
    held = low.bind("t", f"{name}({a.name}, {b.name}, {start.name})", target, result)
    return cast_held(low, held, kind.dtype.name)


def _mma(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    return product(low, node, node.args[0], node.args[1], node.args[2], want)


def _matmul(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    return product(low, node, node.args[0], node.args[1], None, want)


TileOp = Callable[["Lowering", OpCall, Layout | None], Held]

TILE_OPS: Final[dict[str, TileOp]] = {
    "where": _where,
    "isinf": _classify("isinf"),
    "isfinite": _classify("isfinite"),
    "astype": _astype,
    "bitcast": _bitcast,
    "zeros": _constant_fill(0),
    "ones": _constant_fill(1),
    "full": _full,
    "arange": _arange,
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "permute_dims": _permute,
    "transpose": _permute,
    "broadcast_to": _broadcast_to,
    "sum": _reduce,
    "prod": _reduce,
    "max": _reduce,
    "min": _reduce,
    "any": _reduce,
    "all": _reduce,
    "argmax": _arg_extremum,
    "argmin": _arg_extremum,
    "cumsum": _scan,
    "cumprod": _scan,
    "mma": _mma,
    "matmul": _matmul,
}
