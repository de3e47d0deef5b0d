"""Arithmetic of f32 and f64 rounded as asked: a fused multiply-add that rounds once, and sums, products, quotients and
roots towards zero, up or down.

For `fma` f32 goes through f64: the product of two is exact there, and a sum that is rounded to odd there rounds to f32 as the exact
one does. f64 splits product and sums into a value and its error (Dekker, Knuth) and rounds the small part to odd before
the last sum, after Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding
to odd" (2008). That holds while nothing over- or underflows on the way; elements out of that range, few in practice, are
computed as ratios of whole numbers. A directed rounding starts from the nearest number and compares it with the ratio.

Worked example: with `x = 1 + 2**-27` and `y = 1 - 2**-27` the product is `1 - 2**-54`, which f64 rounds to 1; so
`fma(x, y, -1.0)` is `-2**-54`, and `x * y - 1.0` is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np

from tilecheck.ops.numbers import Array

Rounding = Literal["nearest", "zero", "up", "down"]
ROUNDINGS: Final = get_args(Rounding)

# Between these magnitudes neither a product nor an error term of two f64 leaves the normal numbers.
_SMALL, _LARGE = 2.0**-400, 2.0**400
# Splits 53 bits into two halves whose products are exact.
_SPLIT = float(2**27 + 1)


def fma(x: Array, y: Array, z: Array) -> Array:
    """`x * y + z`, rounded once to nearest, halves to even. All three are f32, or all are f64; shapes broadcast."""
    if x.dtype == np.float32:
        with np.errstate(all="ignore"):
            product = x.astype(np.float64) * y.astype(np.float64)
            return np.asarray(_odd_sum(product, z.astype(np.float64)).astype(np.float32))
    x, y, z = np.broadcast_arrays(x, y, z)
    with np.errstate(all="ignore"):
        result = _by_errors(x, y, z)
    smallest = np.minimum(abs(x), abs(y))
    largest = np.maximum(np.maximum(abs(x), abs(y)), abs(z))
    # A zero `z` has the product's sign to keep; a small one is beside the product without harm.
    hard = ~((smallest >= _SMALL) & (largest <= _LARGE) & (abs(z) >= _SMALL))
    if hard.any():
        result = np.array(result)
        result[hard] = [_by_ratios(*each) for each in zip(*(v[hard].tolist() for v in (x, y, z)), strict=True)]
    return np.asarray(result)


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd_sum(a: Array, b: Array) -> Array:
    """The sum rounded to odd: where it is inexact, the neighbour whose last bit is set."""
    total, error = _sum(a, b)
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    # One step along the bit pattern is one away from zero.
    away = (error > 0) == (total > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def _by_errors(x: Array, y: Array, z: Array) -> Array:
    a, b = x * _SPLIT, y * _SPLIT
    xh, yh = a - (a - x), b - (b - y)
    xl, yl = x - xh, y - yh
    product = x * y
    below = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    low, lower = _sum(z, below)
    high, rest = _sum(product, low)
    return high + _odd_sum(lower, rest)


def _by_ratios(x: float, y: float, z: float) -> float:
    if x == 0 or y == 0 or not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        # Only terms of opposite signs cancel, and their sum is a positive zero.
        return 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


# ---- directed rounding

_NEAREST: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "sqrt": np.sqrt,
    "fma": fma,
}


def rounded(op: str, rounding: Rounding, flush: bool, *values: Array) -> Array:
    """`op`, a name of `_NEAREST`, on tiles of one dtype, f32 or f64. With `flush` (f32 alone) subnormal operands and results
    count as zeros of their sign.
    """
    with np.errstate(all="ignore"):
        args = np.broadcast_arrays(*(flushed(v) if flush else v for v in values))
        result = np.array(_NEAREST[op](*args))
        if rounding != "nearest":
            sides = [
                _side(op, r, *each) for r, *each in zip(*(v.ravel().tolist() for v in (result, *args)), strict=True)
            ]
            result = _moved(result, np.array(sides).reshape(result.shape), rounding)
            if rounding == "down" and op in ("add", "subtract", "fma"):
                result = np.where(_cancels(op, args) & (result == 0), -np.zeros_like(result), result)
        return flushed(result) if flush else result


def flushed(x: Array) -> Array:
    """`x` with its subnormal numbers as zeros of their sign."""
    return np.where(abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(np.zeros_like(x), x), x)


def _moved(result: Array, side: Array, rounding: Rounding) -> Array:
    """The neighbour of `result` on the asked side of the exact value; `side` is where that lies: 1 above, -1 below."""
    ends = {"up": (np.inf, 1), "down": (-np.inf, -1)}
    if rounding == "zero":
        return np.where(side * np.sign(result) < 0, np.nextafter(result, np.zeros_like(result)), result)
    end, wanted = ends[rounding]
    return np.where(side == wanted, np.nextafter(result, result.dtype.type(end)), result)


def _side(op: str, result: float, *args: float) -> int:
    """Whether the exact value lies above (1) or below (-1) `result`; 0 where they are equal or one is no number."""
    if not all(map(math.isfinite, args)) or math.isnan(result) or (op == "divide" and args[1] == 0):
        return 0
    if math.isinf(result):
        return -1 if result > 0 else 1
    x, *rest = map(Fraction, args)
    r = Fraction(result)
    match op:
        case "add":
            exact = x + rest[0] - r
        case "subtract":
            exact = x - rest[0] - r
        case "multiply":
            exact = x * rest[0] - r
        case "divide":
            exact = x / rest[0] - r
        case "fma":
            exact = x * rest[0] + rest[1] - r
        case _:
            exact = x - r * r
    return (exact > 0) - (exact < 0)


def _cancels(op: str, args: list[Array] | tuple[Array, ...]) -> Array:
    """Where two terms have opposite signs; an exact sum of zero is then a negative one when rounding down."""
    first = args[0] * args[1] if op == "fma" else args[0]
    second = args[2] if op == "fma" else -args[1] if op == "subtract" else args[1]
    return np.asarray(np.signbit(first) != np.signbit(second))
