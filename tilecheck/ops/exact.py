"""Sums of a product rounded once: `x * y + z` of f32 and f64 as the hardware's fused multiply-add gives it.

f32 goes through f64: the product of two is exact there, and a sum that is rounded to odd there rounds to f32 as the exact
one does. f64 splits product and sums into a value and its error (Dekker, Knuth) and rounds the small part to odd before
the last sum, after Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding
to odd" (2008). That holds while nothing over- or underflows on the way; elements out of that range, few in practice, are
computed as ratios of whole numbers.

Worked example: with `x = 1 + 2**-27` and `y = 1 - 2**-27` the product is `1 - 2**-54`, which f64 rounds to 1; so
`fma(x, y, -1.0)` is `-2**-54`, and `x * y - 1.0` is 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tilecheck.ops.numbers import Array

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
