"""Random numbers from counters, bit for bit those of `tilecheck.ops.philox`.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) on 32-bit words: lane i of a tile uses counter `offset + i`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Expr, OpCall
from tilecheck_runtime.backends.numba_cuda.layout import Layout
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import DOUBLE, FLOAT, I32, I64, Value, cast, libdevice, narrow
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held, convert

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_M0: Final = 0xD2511F53
_M1: Final = 0xCD9E8D57
_W0: Final = 0x9E3779B9
_W1: Final = 0xBB67AE85


def words(builder: ir.IRBuilder, counter: Value, seed: Value) -> list[Value]:
    """The four words for a 64-bit counter and a 64-bit key."""
    c0, c1 = builder.trunc(counter, I32), builder.trunc(builder.lshr(counter, I64(32)), I32)
    c2: Value = I32(0)
    c3: Value = I32(0)
    k0, k1 = builder.trunc(seed, I32), builder.trunc(builder.lshr(seed, I64(32)), I32)
    for _ in range(10):
        p0 = builder.mul(builder.zext(c0, I64), I64(_M0))
        p1 = builder.mul(builder.zext(c2, I64), I64(_M1))
        high0, high1 = (builder.trunc(builder.lshr(p, I64(32)), I32) for p in (p0, p1))
        c0, c1, c2, c3 = (
            builder.xor(builder.xor(high1, c1), k0),
            builder.trunc(p1, I32),
            builder.xor(builder.xor(high0, c3), k1),
            builder.trunc(p0, I32),
        )
        k0, k1 = builder.add(k0, I32(_W0)), builder.add(k1, I32(_W1))
    return [c0, c1, c2, c3]


def _unit(builder: ir.IRBuilder, first: Value, second: Value, dtype: str) -> Value:
    """Two words as a float in [0, 1) with the digits of `dtype`, held as f64 for f64 and as f32 for the rest."""
    if dtype == "f64":
        high = builder.shl(builder.zext(first, I64), I64(21))
        bits = builder.or_(high, builder.zext(builder.lshr(second, I32(11)), I64))
        return builder.fmul(builder.uitofp(bits, DOUBLE), ir.Constant(DOUBLE, 2.0**-53))
    digits = {"f32": 24, "f16": 11}.get(dtype, 8)
    kept = builder.uitofp(builder.lshr(first, I32(32 - digits)), FLOAT)
    return builder.fmul(kept, ir.Constant(FLOAT, 2.0**-digits))


def _draw(builder: ir.IRBuilder, op: str, dtype: str, counter: Value, seed: Value) -> Value:
    a, b, c, d = words(builder, counter, seed)
    if op == "random_bits":
        return a
    if op == "rand":
        value = _unit(builder, a, b, dtype)
        return value if dtype == "f64" else narrow(builder, dtype, value)
    wide = "f64" if dtype == "f64" else "f32"
    kind = DOUBLE if dtype == "f64" else FLOAT
    rest = builder.fsub(ir.Constant(kind, 1.0), _unit(builder, a, b, wide))
    radius = libdevice(builder, "sqrt", builder.fmul(ir.Constant(kind, -2.0), libdevice(builder, "log", rest)))
    turn = builder.fmul(ir.Constant(kind, 2 * math.pi), _unit(builder, c, d, wide))
    return cast(builder, wide, dtype, builder.fmul(radius, libdevice(builder, "cos", turn)))


def lower_random(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`random_bits`, `rand`, `randn`: one draw per lane."""
    kind = low.tile_type(node)
    target = low.choose(node, tile_shape(kind), want)
    dtype, op = kind.dtype.name, node.op
    given: dict[str, Expr] = dict(node.kwargs)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        values: list[Value] = []
        for slot in range(target.registers):
            index, _ = target.row_major(builder, slot)
            counter = builder.add(args[1][0], builder.zext(index, I64))
            values.append(_draw(builder, op, dtype, counter, args[0][0]))
        return values

    name = low.out.intrinsic(op, (dtype, target), 2, (dtype, target.registers), build)
    seed, offset = (f"int64({low.scalar(given[n])})" for n in ("seed", "offset"))
    return low.bind("t", f"{name}({seed}, {offset})", target, dtype)


def lower_philox(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`philox(counter, seed)`: the first word for each lane's own counter."""
    target = low.choose(node, tile_shape(low.tile_type(node)), want)
    counter = convert(low, cast_held(low, low.tile(node.args[0], None), "i64"), target)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return [words(builder, c, args[1][0])[0] for c in args[0]]

    name = low.out.intrinsic("philox", target.registers, 2, ("u32", target.registers), build)
    return low.bind("t", f"{name}({counter.name}, int64({low.scalar(node.args[1])}))", target, "u32")
