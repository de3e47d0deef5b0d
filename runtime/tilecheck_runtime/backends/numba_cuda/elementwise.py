"""Elementwise ops: one builder per row of the op table, on elements in registers.

A builder gets its elements in the work dtype (`registers.work_dtype`) and returns one; `apply` widens and rounds around
it. Comparisons return i1. The meaning is that of the row: ints wrap, `//` and `%` floor with 0 for a zero divisor,
`minimum` and `maximum` hand on nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from llvmlite import ir

from tilecheck.ir.kernel import Expr, OpCall
from tilecheck.ir.types import ScalarType, StrType
from tilecheck_runtime.backends.numba_cuda.registers import (
    FLOAT,
    I1,
    I16,
    I32,
    SIZE,
    Value,
    call_asm,
    is_bool,
    is_float,
    is_signed,
    libdevice,
    narrow_all,
    pack,
    target_has,
    unpack,
    widen,
    work_dtype,
)

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

Builder: TypeAlias = ir.IRBuilder
Element = Callable[[Builder, str, Sequence[Value]], Value]


def _const(value: Value, number: float | int) -> Value:
    return ir.Constant(
        value.type, float(number) if isinstance(value.type, ir.FloatType | ir.DoubleType) else int(number)
    )


def _arithmetic(on_float: str, on_int: str) -> Element:
    def build(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
        result: Value = getattr(b, on_float if is_float(dtype) else on_int)(*args)
        return result

    return build


def _guarded_division(b: Builder, dtype: str, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """Truncated quotient and remainder of ints with a divisor that is never 0 and never overflows, and `y == 0`."""
    zero = b.icmp_unsigned("==", y, _const(y, 0))
    if not is_signed(dtype):
        safe = b.select(zero, _const(y, 1), y)
        return b.udiv(x, safe), b.urem(x, safe), zero
    minus = b.icmp_signed("==", y, _const(y, -1))
    safe = b.select(b.or_(zero, minus), _const(y, 1), y)
    quotient = b.select(minus, b.sub(_const(x, 0), x), b.sdiv(x, safe))
    remainder = b.select(minus, _const(x, 0), b.srem(x, safe))
    return quotient, remainder, zero


def _floor_divide(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    x, y = args
    if is_float(dtype):
        # NumPy's: from the exact remainder, so that a quotient just below a whole number is not rounded up to it.
        rest = _remainder(b, dtype, args)
        quotient = b.fdiv(b.fsub(x, rest), y)
        rounded = libdevice(b, "floor", quotient)
        near = b.fcmp_ordered(">", b.fsub(quotient, rounded), _const(x, 0.5))
        whole = b.select(near, b.fadd(rounded, _const(x, 1.0)), rounded)
        by_zero = b.fcmp_ordered("==", y, _const(y, 0.0))
        return b.select(by_zero, b.fdiv(x, y), whole)
    quotient, remainder, zero = _guarded_division(b, dtype, x, y)
    if is_signed(dtype):
        inexact = b.icmp_signed("!=", remainder, _const(x, 0))
        opposite = b.icmp_signed("<", b.xor(x, y), _const(x, 0))
        down = b.and_(inexact, opposite)
        quotient = b.sub(quotient, b.zext(down, x.type) if x.type != I1 else down)
    return b.select(zero, _const(x, 0), quotient)


def _remainder(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    x, y = args
    if is_float(dtype):
        rest = libdevice(b, "fmod", x, y)
        nonzero = b.fcmp_ordered("!=", rest, _const(x, 0.0))
        opposite = b.xor(b.fcmp_ordered("<", rest, _const(x, 0.0)), b.fcmp_ordered("<", y, _const(x, 0.0)))
        signed_zero = libdevice(b, "copysign", _const(x, 0.0), y)
        moved = b.select(opposite, b.fadd(rest, y), rest)
        is_nan = b.fcmp_unordered("uno", rest, rest)
        return b.select(b.or_(nonzero, is_nan), moved, signed_zero)
    _, remainder, zero = _guarded_division(b, dtype, x, y)
    if is_signed(dtype):
        inexact = b.icmp_signed("!=", remainder, _const(x, 0))
        opposite = b.icmp_signed("<", b.xor(remainder, y), _const(x, 0))
        remainder = b.select(b.and_(inexact, opposite), b.add(remainder, y), remainder)
    return b.select(zero, _const(x, 0), remainder)


def _fmod(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    if is_float(dtype):
        return libdevice(b, "fmod", *args)
    _, remainder, zero = _guarded_division(b, dtype, *args)
    return b.select(zero, _const(args[0], 0), remainder)


def _ceil_div(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    x, y = args
    quotient = _floor_divide(b, dtype, args)
    rest = _remainder(b, dtype, args)
    up = b.icmp_unsigned("!=", rest, _const(x, 0))
    zero = b.icmp_unsigned("==", y, _const(y, 0))
    return b.select(zero, _const(x, 0), b.add(quotient, b.zext(up, x.type)))


def _pow(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    x, y = args
    if is_float(dtype):
        return libdevice(b, "pow", x, y)
    # Square and multiply over the bits of the exponent, unrolled: ints have at most 64.
    one, zero = _const(x, 1), _const(x, 0)
    result, base, left = one, x, y
    for _ in range(8 * SIZE[dtype]):
        odd = b.icmp_unsigned("!=", b.and_(left, one), zero)
        result = b.select(odd, b.mul(result, base), result)
        base, left = b.mul(base, base), b.lshr(left, one)
    if not is_signed(dtype):
        return result
    parity = b.icmp_unsigned("!=", b.and_(y, one), zero)
    unit = b.or_(b.icmp_signed("==", x, one), b.icmp_signed("==", x, _const(x, -1)))
    inverse = b.select(unit, b.select(parity, x, one), zero)
    return b.select(b.icmp_signed("<", y, zero), inverse, result)


def _negative(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    (x,) = args
    return b.fsub(ir.Constant(x.type, -0.0), x) if is_float(dtype) else b.sub(_const(x, 0), x)


def _abs(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    (x,) = args
    if is_float(dtype):
        return libdevice(b, "fabs", x)
    if not is_signed(dtype):
        return x
    return b.select(b.icmp_signed("<", x, _const(x, 0)), b.sub(_const(x, 0), x), x)


def _sign(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    (x,) = args
    zero, one = _const(x, 0), _const(x, 1)
    if is_float(dtype):
        positive, negative = b.fcmp_ordered(">", x, zero), b.fcmp_ordered("<", x, zero)
        kept = b.select(b.fcmp_unordered("uno", x, x), x, zero)
        return b.select(positive, one, b.select(negative, _const(x, -1), kept))
    if not is_signed(dtype):
        return b.select(b.icmp_unsigned(">", x, zero), one, zero)
    negative = b.select(b.icmp_signed("<", x, zero), _const(x, -1), zero)
    return b.select(b.icmp_signed(">", x, zero), one, negative)


def less(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    """`x < y` of work dtype values; false for nan."""
    if is_float(dtype):
        return b.fcmp_ordered("<", x, y)
    return b.icmp_signed("<", x, y) if is_signed(dtype) else b.icmp_unsigned("<", x, y)


def is_nan(b: Builder, dtype: str, x: Value) -> Value:
    """Whether `x` is nan; false for ints."""
    return b.fcmp_unordered("uno", x, x) if is_float(dtype) else I1(0)


def _extremum(largest: bool) -> Element:
    def build(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
        x, y = args
        if dtype == "f32" and target_has((8, 0)):
            return call_asm(b, f"{'max' if largest else 'min'}.NaN.f32 $0, $1, $2;", FLOAT, "=f,f,f", x, y)
        keep_x = less(b, dtype, y, x) if largest else less(b, dtype, x, y)
        if is_float(dtype):
            keep_x = b.or_(keep_x, is_nan(b, dtype, x))
        return b.select(keep_x, x, y)

    return build


minimum: Final = _extremum(largest=False)
maximum: Final = _extremum(largest=True)


def _compare(sign: str) -> Element:
    def build(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
        x, y = args
        if is_float(dtype):
            return b.fcmp_unordered(sign, x, y) if sign == "!=" else b.fcmp_ordered(sign, x, y)
        return b.icmp_signed(sign, x, y) if is_signed(dtype) else b.icmp_unsigned(sign, x, y)

    return build


def _math(name: str) -> Element:
    return lambda b, dtype, args: libdevice(b, name, *args)


def _shift(left: bool) -> Element:
    def build(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
        x, y = args
        # Shifts by the width or more: 0, or the sign for a signed right shift.
        width = 8 * SIZE[dtype]
        far = b.icmp_unsigned(">=", y, _const(y, width))
        safe = b.select(far, _const(y, width - 1), y)
        if not left and is_signed(dtype):
            return b.ashr(x, safe)
        shifted = b.shl(x, safe) if left else b.lshr(x, safe)
        return b.select(far, _const(x, 0), shifted)

    return build


def _fma(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    return libdevice(b, "fma", *args)


def _mul_hi(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    x, y = args
    width = 8 * SIZE[dtype]
    wide = ir.IntType(2 * width)
    extend = b.sext if is_signed(dtype) else b.zext
    product = b.mul(extend(x, wide), extend(y, wide))
    return b.trunc(b.lshr(product, wide(width)), x.type)


def _rsqrt(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    return b.fdiv(_const(args[0], 1.0), libdevice(b, "sqrt", args[0]))


def _not(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    return b.not_(args[0])


def _divide(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    # Within 2 units in the last place for f32 (PTX ISA, div.full), a third of the cost of the exact quotient.
    return call_asm(b, "div.full.f32 $0, $1, $2;", FLOAT, "=f,f,f", *args) if dtype == "f32" else b.fdiv(*args)


def _narrow_divide(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    # A reciprocal in f32 leaves 11 bits to spare; equal divisors share it.
    x, y = args
    return b.fmul(x, call_asm(b, "rcp.approx.ftz.f32 $0, $1;", FLOAT, "=f,f", y))


def _narrow_exp(b: Builder, dtype: str, args: Sequence[Value]) -> Value:
    scaled = b.fmul(args[0], ir.Constant(FLOAT, math.log2(math.e)))
    return call_asm(b, "ex2.approx.ftz.f32 $0, $1;", FLOAT, "=f,f", scaled)


# Cheaper forms for values that get rounded to 16 bits; the error in f32 is far below half a unit of the result.
_NARROW: Final[dict[str, Element]] = {"divide": _narrow_divide, "exp": _narrow_exp}

# The rows whose elements depend on the same lane only. Rows with other argument kinds (`where`, casts) have lowerings
# of their own.
ELEMENTWISE: Final[dict[str, Element]] = {
    "add": _arithmetic("fadd", "add"),
    "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul"),
    "divide": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "ceil_div": _ceil_div,
    "pow": _pow,
    "negative": _negative,
    "positive": lambda b, dtype, args: args[0],
    "abs": _abs,
    "sign": _sign,
    "square": lambda b, dtype, args: b.fmul(args[0], args[0]) if is_float(dtype) else b.mul(args[0], args[0]),
    "minimum": minimum,
    "maximum": maximum,
    "clip": lambda b, dtype, args: minimum(b, dtype, [maximum(b, dtype, args[:2]), args[2]]),
    "fma": _fma,
    "mul_hi": _mul_hi,
    "equal": _compare("=="),
    "not_equal": _compare("!="),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "logical_and": lambda b, dtype, args: b.and_(*args),
    "logical_or": lambda b, dtype, args: b.or_(*args),
    "logical_xor": lambda b, dtype, args: b.xor(*args),
    "logical_not": _not,
    "bitwise_and": lambda b, dtype, args: b.and_(*args),
    "bitwise_or": lambda b, dtype, args: b.or_(*args),
    "bitwise_xor": lambda b, dtype, args: b.xor(*args),
    "bitwise_invert": _not,
    "bitwise_left_shift": _shift(left=True),
    "bitwise_right_shift": _shift(left=False),
    "isnan": lambda b, dtype, args: is_nan(b, dtype, args[0]),
    "rsqrt": _rsqrt,
    # Halves go to the even neighbour, as in NumPy.
    "round": lambda b, dtype, args: libdevice(b, "rint", args[0]) if is_float(dtype) else args[0],
    **{
        name: _math(name)
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "atan2",
            "hypot",
            "floor",
            "ceil",
            "trunc",
        ]
    },
}


# Rows that the hardware does on two f16 at once, rounding each as the f32 detour would.
_PAIRS: Final = {"add": "add.rn", "subtract": "sub.rn", "multiply": "mul.rn"}


@dataclass(frozen=True, slots=True)
class Asked:
    """How the result rounds, None where nothing was asked for; whether subnormal numbers count as zeros; whether nan
    loses against numbers.
    """

    rounding: str | None = None
    flush: bool = False
    numbers_first: bool = False

    @property
    def rounds(self) -> bool:
        return self.rounding is not None or self.flush


def asked_of(low: Lowering, node: Expr) -> Asked:
    """The options of a call."""
    given = dict(node.kwargs) if isinstance(node, OpCall) else {}
    names = ("rounding", "flush_to_zero", "propagate_nan")
    rounding, flush, nan = (low.types.get(given[name]) if name in given else None for name in names)
    return Asked(
        rounding.value if isinstance(rounding, StrType) else None,
        isinstance(flush, ScalarType) and flush.value is True,
        isinstance(nan, ScalarType) and nan.value is False,
    )


# Instructions that round in one way only, a little worse than to the nearest.
_FAST: Final = {"exp2": "ex2.approx", "rsqrt": "rsqrt.approx"}
_PTX: Final = {"subtract": "sub", "multiply": "mul", "divide": "div"}
_MODES: Final = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}


def _rounded(builder: Builder, name: str, dtype: str, asked: Asked, args: Sequence[Value]) -> Value:
    mode, flush = _MODES[asked.rounding or "nearest"], ".ftz" if asked.flush else ""
    letter = "f" if dtype == "f32" else "d"
    operands = ", ".join(f"${n}" for n in range(len(args) + 1))
    constraints = ",".join([f"={letter}", *[letter] * len(args)])
    instruction = _FAST.get(name) or f"{_PTX.get(name, name)}.{mode}"
    text = f"{instruction}{flush}.{dtype} {operands};"
    return call_asm(builder, text, args[0].type, constraints, *args)


def apply(
    builder: Builder,
    name: str,
    dtype: str,
    result_is_bool: bool,
    lanes: Sequence[Sequence[Value]],
    asked: Asked = Asked(),
) -> list[Value]:
    """Row `name` on the registers of its arguments, all of `dtype`; comparisons and tests give i1, the rest `dtype`."""
    count = len(lanes[0])
    if asked.rounds:
        return [_rounded(builder, name, dtype, asked, [lane[i] for lane in lanes]) for i in range(count)]
    if dtype == "f16" and name in _PAIRS and count % 2 == 0:
        values: list[Value] = []
        for i in range(0, count, 2):
            pair = [pack(builder, lane[i : i + 2]) for lane in lanes]
            done = call_asm(builder, f"{_PAIRS[name]}.f16x2 $0, $1, $2;", I32, "=r,r,r", *pair)
            values += unpack(builder, done, I16, 2)
        return values
    element = _NARROW.get(name, ELEMENTWISE[name]) if dtype in ("f16", "bf16") else ELEMENTWISE[name]
    if asked.numbers_first and is_float(dtype):
        element = _math({"minimum": "fmin", "maximum": "fmax"}[name])
    results = [
        element(builder, work_dtype(dtype), [widen(builder, dtype, lane[i]) for lane in lanes]) for i in range(count)
    ]
    return results if result_is_bool or is_bool(dtype) else narrow_all(builder, dtype, results)
