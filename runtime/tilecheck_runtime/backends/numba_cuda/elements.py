"""Element by element: `gather`, `scatter` and the atomics.

Every index is compared with the extents; one outside stops the kernel before anything is touched, so the comparison is an
op of its own that the whole block takes part in: each thread tests its lanes, the block counts the failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Const, Expr, OpCall, TupleExpr
from tilecheck.ir.types import TensorType, TileType
from tilecheck.ops.extents import broadcast
from tilecheck_runtime.backends.numba_cuda.layout import Layout, Whole
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import (
    I1,
    I8,
    I32,
    I64,
    SIZE,
    Value,
    constant,
    is_float,
    is_signed,
    llvm_type,
)
from tilecheck_runtime.backends.numba_cuda.shared import GLOBAL_SPACE, barrier, get, put, scratch, thread_index
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held, convert, fill

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_RMW: Final = {
    "atomic_and": "and",
    "atomic_or": "or",
    "atomic_xor": "xor",
    "atomic_exchange": "xchg",
}


def _lanes(low: Lowering, expr: Expr, target: Layout, dtype: str) -> Held:
    """A tile or scalar argument as a tile of `dtype` in `target`."""
    kind = low.scalar_kind(expr)
    if kind is not None:
        return fill(low, low.scalar(expr), kind, target, dtype)
    return convert(low, cast_held(low, low.tile(expr, None), dtype), target)


def _argument(node: OpCall, position: int, name: str) -> Expr | None:
    found = node.args[position] if len(node.args) > position else dict(node.kwargs).get(name)
    return None if isinstance(found, Const) and found.value is None else found


def _places(
    low: Lowering, node: OpCall, array: str, target: Layout, mask: Expr | None
) -> tuple[list[Held], Held | None]:
    """The index tiles in i64 and the mask, after a check of every lane that the mask lets through."""
    given = node.args[1]
    items = given.items if isinstance(given, TupleExpr) else (given,)
    indices = [_lanes(low, item, target, "i64") for item in items]
    allowed = None if mask is None else _lanes(low, mask, target, "bool_")
    rank = len(indices)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        extents, *rest = args
        good: Value = I1(1)
        for slot in range(target.registers):
            tests = [builder.icmp_unsigned("<", rest[axis][slot], extents[axis]) for axis in range(rank)]
            inside = reduce(builder.and_, tests)
            if allowed is not None:
                inside = builder.or_(inside, builder.not_(rest[rank][slot]))
            _, valid = target.row_major(builder, slot)
            if valid is not None:
                inside = builder.or_(inside, builder.not_(valid))
            good = builder.and_(good, inside)
        # One word of the shared buffer tells all threads: they leave together or not at all.
        base = scratch(builder, "i32")
        barrier(builder)
        with builder.if_then(builder.icmp_unsigned("==", thread_index(builder), I32(0))):
            put(builder, base, I32(0), I32(1))
        barrier(builder)
        with builder.if_then(builder.not_(good)):
            put(builder, base, I32(0), I32(0))
        barrier(builder)
        verdict = builder.icmp_unsigned("!=", get(builder, "i32", base, I32(0)), I32(0))
        barrier(builder)
        return [verdict]

    low.out.shares(16)
    key = (target, rank, allowed is not None)
    arity = 1 + rank + (allowed is not None)
    name = low.out.intrinsic("inside", key, arity, ("bool_", 1), build)
    facts, variable = low.facts[array], low.variable(array)
    extents = "(" + "".join(f"{variable}_n{axis}, " for axis in range(facts.rank)) + ")"
    tiles = "".join(f", {held.name}" for held in (*indices, *([allowed] if allowed is not None else [])))
    low.fault_unless(f"{name}({extents}{tiles})[0]", node.span.line)
    return indices, allowed


def _address(
    builder: ir.IRBuilder, base: Value, strides: Sequence[Value], at: Sequence[Value], dtype: str, kind: ir.Type
) -> Value:
    terms = [builder.mul(a, s) for a, s in zip(at, strides, strict=True)]
    offset = builder.mul(reduce(builder.add, terms, I64(0)), I64(SIZE[dtype]))
    return builder.inttoptr(builder.add(base, offset), ir.PointerType(kind, GLOBAL_SPACE))


def _strides(low: Lowering, array: str) -> str:
    variable = low.variable(array)
    return "(" + "".join(f"{variable}_s{axis}, " for axis in range(low.facts[array].rank)) + ")"


def lower_gather(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`gather(x, index, mask, pad)`: lanes that the mask leaves out are not read."""
    source = low.types[node.args[0]]
    assert isinstance(source, TensorType)
    target = low.choose(node, tile_shape(low.tile_type(node)), want)
    mask = _argument(node, 2, "mask")
    pad = _argument(node, 3, "pad")
    dtype = low.facts[source.name].dtype
    indices, allowed = _places(low, node, source.name, target, mask)
    filler = fill(
        low,
        low.scalar(pad) if pad is not None else "0",
        (low.scalar_kind(pad) if pad is not None else None) or "int",
        target,
        dtype,
    )
    rank = len(indices)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, strides, fills, *rest = args
        kind = I8 if dtype == "bool_" else llvm_type(dtype)
        values: list[Value] = []
        for slot in range(target.registers):
            _, keep = target.row_major(builder, slot)
            if allowed is not None:
                keep = rest[rank][slot] if keep is None else builder.and_(keep, rest[rank][slot])
            at = [rest[axis][slot] for axis in range(rank)]
            if keep is not None:
                at = [builder.select(keep, a, I64(0)) for a in at]
            value = builder.load(_address(builder, base[0], strides, at, dtype, kind))
            if dtype == "bool_":
                value = builder.icmp_unsigned("!=", value, I8(0))
            values.append(value if keep is None else builder.select(keep, value, fills[slot]))
        return values

    key = (dtype, target, rank, allowed is not None)
    arity = 3 + rank + (allowed is not None)
    name = low.out.intrinsic("gather", key, arity, (dtype, target.registers), build)
    tiles = "".join(f", {held.name}" for held in (*indices, *([allowed] if allowed is not None else [])))
    text = f"{name}({low.variable(source.name)}, {_strides(low, source.name)}, {filler.name}{tiles})"
    return low.bind("t", text, target, dtype)


def lower_atomic(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`scatter` and the atomics: every lane that is in the tile and let through by the mask changes its element once."""
    source = low.types[node.args[0]]
    assert isinstance(source, TensorType)
    dtype = low.facts[source.name].dtype
    count = 2 if node.op == "atomic_cas" else 1
    mask = _argument(node, 2 + count, "mask")
    target = low.plan.apart(_shape(low, node, mask))
    indices, allowed = _places(low, node, source.name, target, mask)
    values = [_lanes(low, expr, target, dtype) for expr in node.args[2 : 2 + count]]
    rank, op = len(indices), node.op

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, strides, *rest = args
        old: list[Value] = []
        for slot in range(target.registers):
            _, keep = target.row_major(builder, slot)
            if allowed is not None:
                masked = rest[rank + count][slot]
                keep = masked if keep is None else builder.and_(keep, masked)
            if isinstance(target, Whole):
                first = builder.icmp_unsigned("==", thread_index(builder), I32(0))
                keep = first if keep is None else builder.and_(keep, first)
            at = [rest[axis][slot] for axis in range(rank)]
            operands = [rest[rank + k][slot] for k in range(count)]
            old.append(_guarded(builder, keep, op, dtype, base[0], strides, at, operands))
        return old if op == "scatter" else _share(builder, dtype, target, old)

    if isinstance(target, Whole):
        low.out.shares(target.size * 8)
    key = (dtype, target, rank, allowed is not None)
    arity = 2 + rank + count + (allowed is not None)
    name = low.out.intrinsic(op, key, arity, (dtype, target.registers), build)
    tiles = "".join(f", {h.name}" for h in (*indices, *values, *([allowed] if allowed is not None else [])))
    text = f"{name}({low.variable(source.name)}, {_strides(low, source.name)}{tiles})"
    return low.bind("t", text, target, dtype)


def _shape(low: Lowering, node: OpCall, mask: Expr | None) -> tuple[int, ...]:
    """The shape of the lanes: that of the indices and the mask together."""
    given = node.args[1]
    parts = [*(given.items if isinstance(given, TupleExpr) else (given,)), *([mask] if mask is not None else [])]
    tiles = [kind for part in parts if isinstance(kind := low.types[part], TileType)]
    shape, _ = broadcast(node.op, *tiles)
    return tuple(low.extent(extent) for extent in shape)


def _share(builder: ir.IRBuilder, dtype: str, target: Layout, old: list[Value]) -> list[Value]:
    """A tile that every thread holds was updated by one thread: hand its old values to the others."""
    if not isinstance(target, Whole):
        return old
    base = scratch(builder, dtype)
    barrier(builder)
    with builder.if_then(builder.icmp_unsigned("==", thread_index(builder), I32(0))):
        for slot, value in enumerate(old):
            put(builder, base, I32(slot), value)
    barrier(builder)
    shared = [get(builder, dtype, base, I32(slot)) for slot in range(len(old))]
    barrier(builder)
    return shared


def _guarded(
    builder: ir.IRBuilder,
    keep: Value | None,
    op: str,
    dtype: str,
    base: Value,
    strides: Sequence[Value],
    at: Sequence[Value],
    operands: Sequence[Value],
) -> Value:
    if keep is None:
        return _update(builder, op, dtype, base, strides, at, operands)
    nothing = constant(dtype, 0)
    before = builder.block
    with builder.if_then(keep):
        value = _update(builder, op, dtype, base, strides, at, operands)
        inside = builder.block
    phi = builder.phi(value.type)
    phi.add_incoming(nothing, before)
    phi.add_incoming(value, inside)
    return phi


def _update(
    builder: ir.IRBuilder,
    op: str,
    dtype: str,
    base: Value,
    strides: Sequence[Value],
    at: Sequence[Value],
    operands: Sequence[Value],
) -> Value:
    """One relaxed atomic read-modify-write; the old element."""
    if is_float(dtype) and op != "scatter":
        return _update_float(builder, op, dtype, base, strides, at, operands[0])
    if op == "scatter":
        return _put(builder, dtype, base, strides, at, operands[0])
    place = _address(builder, base, strides, at, dtype, llvm_type(dtype))
    if op == "atomic_cas":
        pair = builder.cmpxchg(place, operands[0], operands[1], "monotonic", "monotonic")
        return builder.extract_value(pair, 0)
    if op in ("atomic_max", "atomic_min"):
        rmw = op[-3:] if is_signed(dtype) else f"u{op[-3:]}"
    else:
        rmw = _RMW.get(op, "add")
    return builder.atomic_rmw(rmw, place, operands[0], "monotonic")


def _put(
    builder: ir.IRBuilder, dtype: str, base: Value, strides: Sequence[Value], at: Sequence[Value], value: Value
) -> Value:
    """One relaxed store, seen whole by the device; the value."""
    bits = 8 * SIZE[dtype]
    word = value if isinstance(value.type, ir.IntType) else builder.bitcast(value, ir.IntType(bits))
    if bits == 8:
        # PTX has no registers of 8 bits; a store takes the low ones.
        word = builder.zext(word, ir.IntType(16))
    place = builder.ptrtoint(_address(builder, base, strides, at, dtype, I8), I64)
    letter = {8: "h", 16: "h", 32: "r", 64: "l"}[bits]
    text = f"st.relaxed.gpu.global.b{bits} [$0], $1;"
    kind = ir.FunctionType(ir.VoidType(), [I64, word.type])
    builder.call(ir.InlineAsm(kind, text, f"l,{letter},~{{memory}}", side_effect=True), [place, word])
    return value


def _update_float(
    builder: ir.IRBuilder, op: str, dtype: str, base: Value, strides: Sequence[Value], at: Sequence[Value], value: Value
) -> Value:
    if op == "atomic_exchange":
        bits = ir.IntType(8 * SIZE[dtype])
        place = _address(builder, base, strides, at, dtype, bits)
        given = value if value.type == bits else builder.bitcast(value, bits)
        old = builder.atomic_rmw("xchg", place, given, "monotonic")
        return old if value.type == bits else builder.bitcast(old, value.type)
    place = _address(builder, base, strides, at, dtype, llvm_type(dtype))
    address = builder.ptrtoint(place, I64)
    suffix, letter = {"f32": ("f32", "f"), "f64": ("f64", "d"), "f16": ("noftz.f16", "h"), "bf16": ("noftz.bf16", "h")}[
        dtype
    ]
    text = f"atom.global.add.{suffix} $0, [$1], $2;"
    kind = ir.FunctionType(value.type, [I64, value.type])
    call = ir.InlineAsm(kind, text, f"={letter},l,{letter},~{{memory}}", side_effect=True)
    return builder.call(call, [address, value])


ATOMICS: Final = (
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_exchange",
    "atomic_cas",
)
