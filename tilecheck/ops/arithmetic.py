"""Arithmetic: `+ - * / // % **` and their named forms, `minimum`, `maximum`, `clip`, `fma` and integer division.

All are elementwise under the number rules of `ops/numbers.py`. On f32 and f64 tiles `add`, `subtract`, `multiply`, `divide`,
`fma` and `sqrt` take `rounding="zero"`, `"up"`, `"down"` or `"nearest"` (exact to the last bit, where the operator may be
faster), and on f32 `flush_to_zero=True`, which takes subnormal operands and results for zeros. Ints wrap in their dtype; `//` and `%` follow Python
(floor, sign of the divisor), with 0 for a zero divisor of ints, so that every backend has one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilecheck.ir.types import TileType, Type
from tilecheck.ops import exact
from tilecheck.ops.elementwise import arithmetic, floating, nan_aware, rounded
from tilecheck.ops.numbers import FLOATS, INTS, Array, Value, lift
from tilecheck.ops.row import Lanes, Refused, op
from tilecheck.ops.signatures import NAN, ROUNDED, binary, unary


def _as_asked(
    name: str, plain: Callable[..., Array], rounding: exact.Rounding | None, flush: bool
) -> Callable[..., Array]:
    if rounding is None and not flush:
        return plain
    return partial(exact.rounded, name, rounding or "nearest", flush)


@op(
    "arithmetic",
    result=rounded("add", arithmetic("+")),
    lanes=Lanes.CARRY,
    operator="+",
    stub=binary("add", "__add__", options=ROUNDED),
)
def add(x: Value, y: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False) -> Value:
    """Elementwise sum `x + y` of tiles of one dtype, or of a tile and a scalar. Ints wrap."""
    return lift(_as_asked("add", np.add, rounding, flush_to_zero), x, y)


@op(
    "arithmetic",
    result=rounded("subtract", arithmetic("-")),
    lanes=Lanes.CARRY,
    operator="-",
    stub=binary("subtract", "__sub__", options=ROUNDED),
)
def subtract(x: Value, y: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False) -> Value:
    """Elementwise difference `x - y`. Ints wrap."""
    return lift(_as_asked("subtract", np.subtract, rounding, flush_to_zero), x, y)


@op(
    "arithmetic",
    result=rounded("multiply", arithmetic("*")),
    lanes=Lanes.CARRY,
    operator="*",
    stub=binary("multiply", "__mul__", options=ROUNDED),
)
def multiply(x: Value, y: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False) -> Value:
    """Elementwise product `x * y`. Ints wrap."""
    return lift(_as_asked("multiply", np.multiply, rounding, flush_to_zero), x, y)


def _divide_type(x: Type, y: Type, /) -> Type:
    for at, type in enumerate((x, y)):
        if isinstance(type, TileType) and type.dtype.kind in INTS:
            raise Refused(
                "dtype-mismatch",
                f"`/` of a `{type.dtype.name}` tile",
                "use `//` for whole numbers, or convert with `.astype(tc.f32)` first",
                at,
            )
    return floating("/")(x, y)


@op(
    "arithmetic",
    result=rounded("divide", _divide_type),
    lanes=Lanes.CARRY,
    operator="/",
    stub=binary("divide", "__truediv__", options=ROUNDED),
)
def divide(x: Value, y: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False) -> Value:
    """Elementwise quotient `x / y` of float tiles; of scalars a float. Division by zero gives inf or nan."""
    if isinstance(x, int) and isinstance(y, int):
        x = float(x)
    return lift(_as_asked("divide", np.divide, rounding, flush_to_zero), x, y)


@op(
    "arithmetic",
    result=arithmetic("//"),
    lanes=Lanes.CARRY,
    operator="//",
    stub=binary("floor_divide", "__floordiv__"),
)
def floor_divide(x: Value, y: Value, /) -> Value:
    """Elementwise quotient rounded down, as Python's `//`. Ints divided by 0 give 0."""
    return lift(np.floor_divide, x, y)


@op("arithmetic", result=arithmetic("%"), lanes=Lanes.CARRY, operator="%", stub=binary("remainder", "__mod__"))
def remainder(x: Value, y: Value, /) -> Value:
    """Elementwise remainder with the sign of the divisor, as Python's `%`. Ints modulo 0 give 0."""
    return lift(np.remainder, x, y)


@op("arithmetic", result=arithmetic("fmod"), lanes=Lanes.CARRY, stub=binary("fmod"))
def fmod(x: Value, y: Value, /) -> Value:
    """Elementwise remainder with the sign of the dividend, as C's. Ints modulo 0 give 0."""
    return lift(np.fmod, x, y)


def _int_pow(x: Array, y: Array) -> Array:
    """Powers of ints, a negative exponent rounding towards zero: 1 and -1 stay, anything else gives 0."""
    if x.dtype.kind != "i":
        return np.asarray(np.power(x, y))
    power = np.power(x, np.maximum(y, 0))
    sign = np.where(y % 2 == 0, 1, x)
    return np.where(y >= 0, power, np.where(abs(x) == 1, sign, 0)).astype(x.dtype)


@op("arithmetic", result=arithmetic("**"), lanes=Lanes.CARRY, operator="**", stub=binary("pow", "__pow__"))
def pow_(x: Value, y: Value, /) -> Value:
    """Elementwise power `x ** y`. Ints wrap, a negative exponent of ints rounds towards zero."""
    return lift(lambda a, b: _int_pow(a, b) if a.dtype.kind in "iu" else np.power(a, b), x, y)


@op(
    "arithmetic",
    result=arithmetic("-"),
    lanes=Lanes.CARRY,
    operator="unary -",
    stub=(*unary("negative", scalar="same"), "Tile: def __neg__(self) -> Tile[T, *S]"),
)
def negative(x: Value, /) -> Value:
    """Elementwise `-x`. Ints wrap."""
    return lift(np.negative, x)


@op(
    "arithmetic",
    result=arithmetic("+"),
    lanes=Lanes.CARRY,
    operator="unary +",
    stub=(*unary("positive", scalar="same"), "Tile: def __pos__(self) -> Tile[T, *S]"),
)
def positive(x: Value, /) -> Value:
    """Elementwise `+x`: the same values."""
    return lift(np.positive, x)


@op(
    "arithmetic",
    result=arithmetic("abs"),
    lanes=Lanes.CARRY,
    stub=(*unary("abs", scalar="same"), "Tile: def __abs__(self) -> Tile[T, *S]"),
)
def abs_(x: Value, /) -> Value:
    """Elementwise absolute value. The smallest int stays itself."""
    return lift(np.absolute, x)


@op("arithmetic", result=arithmetic("sign"), lanes=Lanes.CARRY, stub=unary("sign", scalar="same"))
def sign(x: Value, /) -> Value:
    """Elementwise -1, 0 or 1; nan for nan."""
    return lift(np.sign, x)


@op("arithmetic", result=arithmetic("square"), lanes=Lanes.CARRY, stub=unary("square", scalar="same"))
def square(x: Value, /) -> Value:
    """Elementwise `x * x`. Ints wrap."""
    return lift(np.square, x)


@op(
    "arithmetic",
    result=nan_aware("minimum", arithmetic("minimum")),
    lanes=Lanes.CARRY,
    stub=binary("minimum", options=NAN),
)
def minimum(x: Value, y: Value, /, *, propagate_nan: bool = True) -> Value:
    """Elementwise smaller value; nan if either is nan, the other one with `propagate_nan=False`. Python's `min` of two
    values means this.
    """
    return lift(np.minimum if propagate_nan else np.fmin, x, y)


@op(
    "arithmetic",
    result=nan_aware("maximum", arithmetic("maximum")),
    lanes=Lanes.CARRY,
    stub=binary("maximum", options=NAN),
)
def maximum(x: Value, y: Value, /, *, propagate_nan: bool = True) -> Value:
    """Elementwise larger value; nan if either is nan, the other one with `propagate_nan=False`. Python's `max` of two
    values means this.
    """
    return lift(np.maximum if propagate_nan else np.fmax, x, y)


@op(
    "arithmetic",
    result=arithmetic("clip"),
    lanes=Lanes.CARRY,
    stub=(
        "def clip(x: Tile[T, *S], low: Tile[T, *S] | float, high: Tile[T, *S] | float, /) -> Tile[T, *S]",
        "def clip(x: int, low: int, high: int, /) -> int",
        "def clip(x: float, low: float, high: float, /) -> float",
    ),
)
def clip(x: Value, low: Value, high: Value, /) -> Value:
    """Elementwise `minimum(maximum(x, low), high)`."""
    return lift(lambda a, b, c: np.minimum(np.maximum(a, b), c), x, low, high)


@op(
    "arithmetic",
    result=rounded("fma", arithmetic("fma", FLOATS)),
    lanes=Lanes.CARRY,
    stub=(
        f"def fma(x: Tile[T, *S], y: Tile[T, *S] | float, z: Tile[T, *S] | float, /{ROUNDED}) -> Tile[T, *S]",
        f"def fma(x: float, y: Tile[T, *S], z: Tile[T, *S] | float, /{ROUNDED}) -> Tile[T, *S]",
        "def fma(x: float, y: float, z: float, /) -> float",
    ),
)
def fma(
    x: Value, y: Value, z: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False
) -> Value:
    """Elementwise `x * y + z` of floats, rounded once; f16 and bf16 compute in f32 and round again. `tile-ir` may round the
    product too.
    """
    if not isinstance(x, float) and not hasattr(x, "dtype"):
        x = float(x)
    return lift(_as_asked("fma", exact.fma, rounding, flush_to_zero), x, y, z)


@op("arithmetic", result=arithmetic("ceil_div", INTS), lanes=Lanes.CARRY, stub=binary("ceil_div", scalar="int"))
def ceil_div(x: Value, y: Value, /) -> Value:
    """Elementwise quotient of ints rounded up: `-(-x // y)` for signed, without the wrap for unsigned. By 0: 0."""
    return lift(lambda a, b: np.where(b == 0, 0, a // b + (np.remainder(a, b) != 0)).astype(a.dtype), x, y)


def _mul_hi(x: Array, y: Array) -> Array:
    """The high half of the double-width product. 64-bit values go through their 32-bit halves."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        return np.asarray((x.astype(wide) * y.astype(wide)) >> wide(bits)).astype(x.dtype)
    a, b = x.astype(np.uint64), y.astype(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    mid = a1 * b0 + (a0 * b0 >> half)
    mid2 = a0 * b1 + (mid & low)
    high = a1 * b1 + (mid >> half) + (mid2 >> half)
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return np.asarray(high.astype(x.dtype))


@op("arithmetic", result=arithmetic("mul_hi", INTS), lanes=Lanes.CARRY, stub=binary("mul_hi", scalar="int"))
def mul_hi(x: Value, y: Value, /) -> Value:
    """Elementwise high half of the double-width product of ints."""
    return lift(_mul_hi, x, y)
