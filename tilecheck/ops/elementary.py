"""Elementary functions of floats, elementwise. Int tiles are refused, scalars compute in f64.

f16 and bf16 compute in f32 and round once. Last digits may differ between backends, as vendors' libraries do; the
domain ends as in NumPy: nan outside, inf at poles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilecheck.ops import exact
from tilecheck.ops.elementwise import floating, flushing, rounded
from tilecheck.ops.numbers import Value, is_tile, lift
from tilecheck.ops.row import Lanes, op
from tilecheck.ops.signatures import FLUSHED, ROUNDED, binary, unary


def _floats(f: Callable[..., Any], *values: Value) -> Value:
    """`f` under the number rules, int scalars as floats."""
    return lift(f, *(v if is_tile(v) else float(v) for v in values))


@op("math", result=floating("exp"), lanes=Lanes.CARRY, stub=unary("exp"))
def exp(x: Value, /) -> Value:
    """Elementwise `e ** x`."""
    return _floats(np.exp, x)


def _flushing(f: Callable[..., Any], flush: bool) -> Callable[..., Any]:
    """`f` with subnormal operands and results as zeros if `flush`."""
    return (lambda x: exact.flushed(f(exact.flushed(x)))) if flush else f


@op("math", result=flushing("exp2", floating("exp2")), lanes=Lanes.CARRY, stub=unary("exp2", options=FLUSHED))
def exp2(x: Value, /, *, flush_to_zero: bool = False) -> Value:
    """Elementwise `2 ** x`, the fast exponential of a GPU: one instruction if subnormal numbers count as zeros."""
    return _floats(_flushing(np.exp2, flush_to_zero), x)


@op("math", result=floating("expm1"), lanes=Lanes.CARRY, stub=unary("expm1"))
def expm1(x: Value, /) -> Value:
    """Elementwise `e ** x - 1`, exact near 0."""
    return _floats(np.expm1, x)


@op("math", result=floating("log"), lanes=Lanes.CARRY, stub=unary("log"))
def log(x: Value, /) -> Value:
    """Elementwise natural logarithm: -inf at 0, nan below."""
    return _floats(np.log, x)


@op("math", result=floating("log2"), lanes=Lanes.CARRY, stub=unary("log2"))
def log2(x: Value, /) -> Value:
    """Elementwise logarithm to base 2."""
    return _floats(np.log2, x)


@op("math", result=floating("log10"), lanes=Lanes.CARRY, stub=unary("log10"))
def log10(x: Value, /) -> Value:
    """Elementwise logarithm to base 10."""
    return _floats(np.log10, x)


@op("math", result=floating("log1p"), lanes=Lanes.CARRY, stub=unary("log1p"))
def log1p(x: Value, /) -> Value:
    """Elementwise `log(1 + x)`, exact near 0."""
    return _floats(np.log1p, x)


@op("math", result=rounded("sqrt", floating("sqrt")), lanes=Lanes.CARRY, stub=unary("sqrt", options=ROUNDED))
def sqrt(x: Value, /, *, rounding: exact.Rounding | None = None, flush_to_zero: bool = False) -> Value:
    """Elementwise square root; nan below 0."""
    if rounding is None and not flush_to_zero:
        return _floats(np.sqrt, x)
    return _floats(partial(exact.rounded, "sqrt", rounding or "nearest", flush_to_zero), x)


@op("math", result=flushing("rsqrt", floating("rsqrt")), lanes=Lanes.CARRY, stub=unary("rsqrt", options=FLUSHED))
def rsqrt(x: Value, /, *, flush_to_zero: bool = False) -> Value:
    """Elementwise `1 / sqrt(x)`: inf at 0, nan below."""
    return _floats(_flushing(lambda a: (1 / np.sqrt(a)).astype(a.dtype), flush_to_zero), x)


@op("math", result=floating("sin"), lanes=Lanes.CARRY, stub=unary("sin"))
def sin(x: Value, /) -> Value:
    """Elementwise sine of an angle in radians."""
    return _floats(np.sin, x)


@op("math", result=floating("cos"), lanes=Lanes.CARRY, stub=unary("cos"))
def cos(x: Value, /) -> Value:
    """Elementwise cosine of an angle in radians."""
    return _floats(np.cos, x)


@op("math", result=floating("tan"), lanes=Lanes.CARRY, stub=unary("tan"))
def tan(x: Value, /) -> Value:
    """Elementwise tangent of an angle in radians."""
    return _floats(np.tan, x)


@op("math", result=floating("asin"), lanes=Lanes.CARRY, stub=unary("asin"))
def asin(x: Value, /) -> Value:
    """Elementwise inverse sine in radians; nan outside -1 to 1."""
    return _floats(np.arcsin, x)


@op("math", result=floating("acos"), lanes=Lanes.CARRY, stub=unary("acos"))
def acos(x: Value, /) -> Value:
    """Elementwise inverse cosine in radians; nan outside -1 to 1."""
    return _floats(np.arccos, x)


@op("math", result=floating("atan"), lanes=Lanes.CARRY, stub=unary("atan"))
def atan(x: Value, /) -> Value:
    """Elementwise inverse tangent in radians."""
    return _floats(np.arctan, x)


@op("math", result=floating("sinh"), lanes=Lanes.CARRY, stub=unary("sinh"))
def sinh(x: Value, /) -> Value:
    """Elementwise hyperbolic sine."""
    return _floats(np.sinh, x)


@op("math", result=floating("cosh"), lanes=Lanes.CARRY, stub=unary("cosh"))
def cosh(x: Value, /) -> Value:
    """Elementwise hyperbolic cosine."""
    return _floats(np.cosh, x)


@op("math", result=floating("tanh"), lanes=Lanes.CARRY, stub=unary("tanh"))
def tanh(x: Value, /) -> Value:
    """Elementwise hyperbolic tangent."""
    return _floats(np.tanh, x)


@op("math", result=floating("atan2"), lanes=Lanes.CARRY, stub=binary("atan2"))
def atan2(y: Value, x: Value, /) -> Value:
    """Elementwise angle of the point `(x, y)` in radians, from -pi to pi."""
    return _floats(np.arctan2, y, x)


@op("math", result=floating("hypot"), lanes=Lanes.CARRY, stub=binary("hypot"))
def hypot(x: Value, y: Value, /) -> Value:
    """Elementwise `sqrt(x * x + y * y)` without overflow on the way."""
    return _floats(np.hypot, x, y)


@op("math", result=floating("floor"), lanes=Lanes.CARRY, stub=unary("floor"))
def floor(x: Value, /) -> Value:
    """Elementwise largest whole number not above `x`, as a float."""
    return _floats(np.floor, x)


@op("math", result=floating("ceil"), lanes=Lanes.CARRY, stub=unary("ceil"))
def ceil(x: Value, /) -> Value:
    """Elementwise smallest whole number not below `x`, as a float."""
    return _floats(np.ceil, x)


@op("math", result=floating("trunc"), lanes=Lanes.CARRY, stub=unary("trunc"))
def trunc(x: Value, /) -> Value:
    """Elementwise whole number nearest to `x` towards 0, as a float."""
    return _floats(np.trunc, x)


@op("math", result=floating("round"), lanes=Lanes.CARRY, stub=unary("round"))
def round_(x: Value, /) -> Value:
    """Elementwise nearest whole number, as a float; halves go to the even one."""
    return _floats(np.rint, x)
