"""Reductions and scans as rows of the op table: which fold, in which dtype, along which axes.

The folds compute in the work dtype, so f16 and bf16 sum in f32 and round once. `reductions` decides, `reduction` builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Assign, Const, Expr, Function, Name, Node, OpCall, Return, TupleExpr
from tilecheck.ir.types import ScalarType, TileType
from tilecheck_runtime.backends.numba_cuda import elementwise, reduction
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, Lines
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import I32, SIZE, Value, constant, work_dtype
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held, retile

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

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


def lower_reduce(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`sum`, `prod`, `max`, `min`, `any`, `all` along one axis, several or all."""
    kind = low.tile_type(node)
    x = low.recipes.current(low, low.tile(node.args[0], None))
    shape = x.layout.shape
    axes = _axes(low, node, len(shape))
    fold = _fold_of(node.op, x.dtype)
    (work,) = fold.dtypes
    held = cast_held(low, x, work)
    # From the last axis to the first, in the work dtype; neighbouring whole axes fold as one.
    if axes == tuple(range(len(shape))) and len(shape) > 1 and not isinstance(held.layout, Fragments):
        held = retile(low, held, (prod(shape),))
        axes = (0,)
    rows = _rows_of(held.layout, axes)
    if rows is not None:
        return retile(
            low, cast_held(low, _reduce_rows(low, node.op, fold, held, rows), kind.dtype.name), tile_shape(kind)
        )
    for axis in reversed(axes):
        held = _reduce_one(low, node.op, fold, held, axis)
    return retile(low, cast_held(low, held, kind.dtype.name), tile_shape(kind))


def _rows_of(layout: Layout, axes: tuple[int, ...]) -> Lines | None:
    """A value for each row, where `axes` fold the columns of an accumulator."""
    if not isinstance(layout, Fragments) or axes != (len(layout.shape) - 1,):
        return None
    return Lines((*layout.shape[:-1], 1), layout.threads, layout.warps)


def _reduce_rows(low: Lowering, op: str, fold: reduction.Fold, held: Held, target: Lines) -> Held:
    source, site = held.layout, low.site(op)
    assert isinstance(source, Fragments)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return reduction.reduce_rows(builder, fold, source, target, args[0], site)

    name = low.out.intrinsic(op, (held.dtype, source, site), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def _reduce_one(low: Lowering, op: str, fold: reduction.Fold, held: Held, axis: int) -> Held:
    source = held.layout
    shape = source.shape
    target = low.plan.layout((*shape[:axis], *shape[axis + 1 :]))
    low.out.shares(reduction.shared_bytes(fold.dtypes, source, axis))
    site = low.site(op)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return reduction.reduce_axis(builder, fold, source, axis, target, args, site)[0]

    name = low.out.intrinsic(op, (held.dtype, source, axis, site), 1, (held.dtype, target.registers), build)
    low.recipes.note_reduction()
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def all_of(low: Lowering, held: Held) -> str:
    """Whether every element of a bool tile holds, as text."""
    flat = retile(low, held, (held.layout.size,))
    return f"{_reduce_one(low, 'all', _fold_of('all', 'bool_'), flat, 0).name}[0]"


def lower_arg_extremum(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`argmax` and `argmin`: the fold carries value and position."""
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    axes = _axes(low, node, len(x.layout.shape))
    if len(axes) > 1:
        x = retile(low, x, (x.layout.size,))
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
    return retile(low, cast_held(low, found, kind.dtype.name), tile_shape(kind))


def lower_scan(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`cumsum` and `cumprod`."""
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    given = dict(node.kwargs)
    axis_expr = node.args[1] if len(node.args) > 1 else given.get("axis")
    axis = low.constant_int(axis_expr) % len(x.layout.shape) if axis_expr is not None else 0
    fold = _fold_of(node.op, x.dtype)
    held = _scan_one(low, node, fold, cast_held(low, x, fold.dtypes[0]), axis)
    return cast_held(low, held, kind.dtype.name)


def _scan_one(low: Lowering, node: OpCall, fold: reduction.Fold, held: Held, axis: int) -> Held:
    backwards = dict(node.kwargs).get("reverse")
    if backwards is None and node.args and isinstance(node.args[-1], Const) and isinstance(node.args[-1].value, bool):
        backwards = node.args[-1]
    reverse = isinstance(backwards, Const) and bool(backwards.value)
    source = held.layout
    low.out.shares(source.size * SIZE[held.dtype] + 16)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return reduction.scan_axis(builder, fold, source, axis, reverse, args[0])

    key = (held.dtype, source, axis, reverse, None if node.op.startswith("cum") else low.out.fresh("function"))
    name = low.out.intrinsic(node.op, key, 1, (held.dtype, source.registers), build)
    return low.bind("t", f"{name}({held.name})", source, held.dtype)


# ---- with a device function


def _function_fold(low: Lowering, function: Expr, dtype: str) -> reduction.Fold:
    """The fold of a device function of two rank-0 tiles, built element by element."""
    if not isinstance(function, Function):
        raise AssertionError("`reduce` and `scan` take a device function")

    def combine(builder: ir.IRBuilder, x: list[Value], y: list[Value]) -> list[Value]:
        first, second = function.params
        return [element_of(low, builder, function.body, {first: x[0], second: y[0]}, function.result)]

    return reduction.Fold((dtype,), (), combine)


def element_of(
    low: Lowering, builder: ir.IRBuilder, body: Sequence[Node], known: dict[str, Value], result: str
) -> Value:
    """The value of straight-line elementwise statements on single elements."""
    for statement in body:
        match statement:
            case Assign(target=target, value=value):
                known[target] = _element(low, builder, value, known)
            case Return(value=value) if value is not None:
                return _element(low, builder, value, known)
            case _:
                raise low.refuse("control flow in the function of `reduce` or `scan`", statement)
    return known[result]


def _element(low: Lowering, builder: ir.IRBuilder, expr: Expr, known: dict[str, Value]) -> Value:
    if isinstance(expr, Name):
        return known[expr.id]
    op, operands = low.elementwise_parts(expr)
    if op == "where":
        condition, x, y = (_operand(low, builder, o, known, None) for o in operands)
        return builder.select(condition, x, y)
    dtype = next(t.dtype.name for o in operands if isinstance(t := low.types[o], TileType))
    lanes = [[_operand(low, builder, o, known, dtype)] for o in operands]
    to_bool = low.tile_type(expr).dtype.name == "bool_"
    return elementwise.apply(builder, op, dtype, to_bool, lanes, elementwise.asked_of(low, expr))[0]


def _operand(low: Lowering, builder: ir.IRBuilder, expr: Expr, known: dict[str, Value], dtype: str | None) -> Value:
    kind = low.types[expr]
    if isinstance(kind, ScalarType):
        if kind.value is None or dtype is None:
            raise low.refuse("a run-time scalar in the function of `reduce` or `scan`", expr)
        return constant(dtype, kind.value)
    return _element(low, builder, expr, known)


def lower_function_reduce(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`reduce(x, f, axis)`."""
    kind = low.tile_type(node)
    x = low.tile(node.args[0], None)
    fold = _function_fold(low, node.args[1], x.dtype)
    axis = _one_axis(low, node, len(x.layout.shape))
    return retile(low, _reduce_one(low, "reduce", fold, x, axis), tile_shape(kind))


def lower_function_scan(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`scan(x, f, axis, reverse)`."""
    x = low.tile(node.args[0], None)
    fold = _function_fold(low, node.args[1], x.dtype)
    return _scan_one(low, node, fold, x, _one_axis(low, node, len(x.layout.shape)))


def _one_axis(low: Lowering, node: OpCall, rank: int) -> int:
    given = dict(node.kwargs)
    axis = node.args[2] if len(node.args) > 2 else given.get("axis")
    return low.constant_int(axis) % rank if axis is not None else 0
