"""Tiles in registers: what a lowered value is, how it changes layout or dtype, and the elementwise and creating ops.

A lowering gets the call, its tile arguments come through the `Lowering` (see `lower.py`), and it answers with a `Held`
value: the name of the tuple in the generated text, its layout and dtype. `table.py` keys the lowerings by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tilecheck.ir.kernel import Expr, OpCall
from tilecheck.ir.types import TileType
from tilecheck_runtime.backends.numba_cuda import anew, elementwise, exchange
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, Lines, join_index
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import (
    I1,
    I32,
    I64,
    Value,
    cast,
    cast_all,
    is_float,
    libdevice,
    llvm_type,
    widen,
)

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering


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


def convert(low: Lowering, held: Held, target: Layout) -> Held:
    """`held` in another layout of the same shape, or broadcast to the target's shape."""
    if held.layout == target:
        return held
    shape, goal = held.layout.shape, target.shape
    source = held.layout
    if isinstance(source, Lines) and isinstance(target, Fragments) and source.beside(target):
        return _beside(low, held, source, target)
    registers = exchange.in_place(source, target)
    if registers is None:
        low.out.shares(exchange.shared_bytes(held.dtype, source))

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        if registers is not None:
            return [args[0][register] for register in registers]
        return exchange.remap(builder, held.dtype, source, target, args[0], broadcast_map(shape, goal))

    name = low.out.intrinsic("move", (held.dtype, source, target), 1, (held.dtype, target.registers), build)
    moved = low.bind("t", f"{name}({held.name})", target, held.dtype)
    if source.registers * 8 <= target.registers and registers is not None:
        low.recipes.note_light(moved)
    return moved


def _beside(low: Lowering, held: Held, source: Lines, target: Fragments) -> Held:
    """A row's or a column's value for each of its elements; every thread has them already."""
    slots = [source.slot_of(target, slot) for slot in range(target.registers)]

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return [args[0][slot] for slot in slots]

    name = low.out.intrinsic("spread", (held.dtype, source, target), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)


def elementwise_op(low: Lowering, op: str, node: Expr, operands: Sequence[Expr], want: Layout | None) -> Held:
    """Rows of `elementwise.ELEMENTWISE` on tiles and scalars of one dtype."""
    kind = low.tile_type(node)
    shape = tile_shape(kind)
    dtype = next(t.dtype.name for o in operands if isinstance(t := low.types[o], TileType))
    target = low.choose(node, shape, want)
    given: list[Held | str] = []
    scalars: list[str | None] = []
    for operand in operands:
        scalar = low.scalar_kind(operand)
        given.append(low.scalar(operand) if scalar is not None else convert(low, low.tile(operand, target), target))
        scalars.append(scalar)
    given = [one if isinstance(one, str) else low.recipes.current(low, one) for one in given]
    names = [one if isinstance(one, str) else one.name for one in given]
    result = kind.dtype.name
    to_bool = result == "bool_"
    asked = elementwise.asked_of(low, node)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        lanes = [
            [splat(builder, a[0], dtype, s)] * target.registers if s is not None else list(a)
            for a, s in zip(args, scalars, strict=True)
        ]
        return elementwise.apply(builder, op, dtype, to_bool, lanes, asked)

    key = (dtype, target.registers, tuple(scalars), asked)
    name = low.out.intrinsic(op, key, len(names), (result, target.registers), build)
    made = low.bind("t", f"{name}({', '.join(names)})", target, result)
    if op in anew.CHEAP and not any(scalars):
        low.recipes.note(name, given, made)
    return made


def lower_where(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`where(condition, x, y)`."""
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


def classify(op: str) -> Callable[[Lowering, OpCall, Layout | None], Held]:
    """`isinf` or `isfinite`."""

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


def lower_astype(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`astype`: of a tile or of a scalar."""
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    to = kind.dtype.name
    scalar = low.scalar_kind(node.args[0])
    if scalar is not None:
        return fill(low, low.scalar(node.args[0]), scalar, target, to)
    x = low.recipes.current(low, convert(low, low.tile(node.args[0], target), target))
    if x.dtype == to:
        return x

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return cast_all(builder, x.dtype, to, args[0])

    name = low.out.intrinsic(f"to_{to}", (x.dtype, target.registers), 1, (to, target.registers), build)
    made = low.bind("t", f"{name}({x.name})", target, to)
    low.recipes.note(name, (x,), made)
    return made


def lower_bitcast(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`bitcast`: the same bits as another dtype."""
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


def constant_fill(value: int) -> Callable[[Lowering, OpCall, Layout | None], Held]:
    """`zeros` or `ones`."""

    def lower(low: Lowering, node: OpCall, want: Layout | None) -> Held:
        kind = low.tile_type(node)
        return fill(low, str(value), "int", low.choose(node, tile_shape(kind), want), kind.dtype.name)

    return lower


def lower_full(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`full(shape, value)`."""
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    scalar = low.scalar_kind(node.args[1])
    if scalar is not None:
        return fill(low, low.scalar(node.args[1]), scalar, target, kind.dtype.name)
    return convert(low, low.tile(node.args[1], None), target)


def lower_arange(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`arange(extent, start=, step=)`."""
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


def cast_held(low: Lowering, held: Held, dtype: str) -> Held:
    """`held` with its elements cast to `dtype`."""
    if held.dtype == dtype:
        return held

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return cast_all(builder, held.dtype, dtype, args[0])

    count = held.layout.registers
    name = low.out.intrinsic(f"to_{dtype}", (held.dtype, count), 1, (dtype, count), build)
    return low.bind("t", f"{name}({held.name})", held.layout, dtype)


def retile(low: Lowering, held: Held, shape: tuple[int, ...]) -> Held:
    """The same elements in row-major order under another shape."""
    if held.layout.shape == shape:
        return held
    source, target = held.layout, low.plan.layout(shape)
    if isinstance(source, Fragments) and shape[-2:] == source.shape[-2:]:
        # Axes of extent 1 come or go: the registers stay.
        return Held(held.name, Fragments(shape, source.threads, source.warps), held.dtype)
    if exchange.needs_exchange(source, target) or source.registers != target.registers:
        low.out.shares(exchange.shared_bytes(held.dtype, source))

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return exchange.reshape(builder, held.dtype, source, target, args[0])

    name = low.out.intrinsic("reshape", (held.dtype, source, target), 1, (held.dtype, target.registers), build)
    return low.bind("t", f"{name}({held.name})", target, held.dtype)
