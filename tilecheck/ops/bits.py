"""Bitwise ops on ints and bools, elementwise under the number rules. A shift by a negative count, or by the width of
the dtype or more, shifts every bit out: 0, or -1 for a negative value shifted right.
"""

from __future__ import annotations

import numpy as np

from tilecheck.ops.elementwise import arithmetic, bitwise
from tilecheck.ops.numbers import INTS, Array, Value, lift
from tilecheck.ops.row import Lanes, op
from tilecheck.ops.signatures import binary, unary


@op(
    "bitwise",
    result=bitwise("&"),
    lanes=Lanes.CARRY,
    operator="&",
    stub=binary("bitwise_and", "__and__", scalar="int"),
)
def bitwise_and(x: Value, y: Value, /) -> Value:
    """Elementwise `x & y` of ints or bools."""
    return lift(np.bitwise_and, x, y)


@op("bitwise", result=bitwise("|"), lanes=Lanes.CARRY, operator="|", stub=binary("bitwise_or", "__or__", scalar="int"))
def bitwise_or(x: Value, y: Value, /) -> Value:
    """Elementwise `x | y` of ints or bools."""
    return lift(np.bitwise_or, x, y)


@op(
    "bitwise",
    result=bitwise("^"),
    lanes=Lanes.CARRY,
    operator="^",
    stub=binary("bitwise_xor", "__xor__", scalar="int"),
)
def bitwise_xor(x: Value, y: Value, /) -> Value:
    """Elementwise `x ^ y` of ints or bools."""
    return lift(np.bitwise_xor, x, y)


@op(
    "bitwise",
    result=bitwise("~"),
    lanes=Lanes.CARRY,
    operator="unary ~",
    stub=(*unary("bitwise_invert", scalar=None), "Tile: def __invert__(self) -> Tile[T, *S]"),
)
def bitwise_invert(x: Value, /) -> Value:
    """Elementwise `~x` of ints or bools; of a bool its negation."""
    return lift(np.bitwise_not, x)


def _left(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.where((y >= 0) & (y < bits), np.left_shift(x, y), 0).astype(x.dtype)


def _right(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.where((y >= 0) & (y < bits), np.right_shift(x, y), np.where(x < 0, -1, 0).astype(x.dtype)).astype(x.dtype)


@op(
    "bitwise",
    result=arithmetic("<<", INTS),
    lanes=Lanes.CARRY,
    operator="<<",
    stub=binary("bitwise_left_shift", "__lshift__", scalar="int"),
)
def bitwise_left_shift(x: Value, y: Value, /) -> Value:
    """Elementwise `x << y` of ints; bits that leave the dtype are lost."""
    return lift(_left, x, y)


@op(
    "bitwise",
    result=arithmetic(">>", INTS),
    lanes=Lanes.CARRY,
    operator=">>",
    stub=binary("bitwise_right_shift", "__rshift__", scalar="int"),
)
def bitwise_right_shift(x: Value, y: Value, /) -> Value:
    """Elementwise `x >> y` of ints; the sign bit of a signed int fills in."""
    return lift(_right, x, y)
