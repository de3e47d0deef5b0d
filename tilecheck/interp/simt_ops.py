"""Scalar functions of SIMT kernels on Python numbers, with the GPU's answers where Python would raise.

Integers are 64-bit two's complement; a division by zero gives 0 for integers and inf or nan for floats (numba's error
model without debug), a function outside its domain gives nan.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_TOP = 1 << 63


def wrap(value: Any) -> Any:
    """An integer in 64-bit two's complement; other values as they are."""
    if isinstance(value, int):
        value &= _MASK
        return value - (1 << 64) if value & _TOP else value
    return value


def divide(a: Any, b: Any) -> Any:
    """`a / b`."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)


def floor_divide(a: Any, b: Any) -> Any:
    """`a // b`."""
    try:
        return a // b
    except ZeroDivisionError:
        if isinstance(a, int) and isinstance(b, int):
            return 0
        return divide(a, b)


def modulo(a: Any, b: Any) -> Any:
    """`a % b`."""
    try:
        return a % b
    except ZeroDivisionError:
        return 0 if isinstance(a, int) and isinstance(b, int) else math.nan


def power(a: Any, b: Any) -> Any:
    """`a ** b`."""
    try:
        if isinstance(a, int) and isinstance(b, int):
            if b < 0:
                return float(a) ** b
            return wrap(pow(a, b, 1 << 64))
        return a**b
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf


def shift_left(a: Any, b: Any) -> int:
    """`a << b` in 64 bits."""
    return int(wrap(int(a) << (int(b) & 63)))


def shift_right(a: Any, b: Any) -> int:
    """`a >> b`, arithmetic for a negative `a`."""
    return int(a) >> (int(b) & 63)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf

    return call


def _caster(name: str) -> Callable[..., Any]:
    dtype = np.dtype(name)
    bits = dtype.itemsize * 8
    if dtype.kind == "b":
        return bool
    if dtype.kind in "iu":

        def integer(value: Any) -> int:
            if isinstance(value, float) and not math.isfinite(value):
                return 0
            number = int(value) & ((1 << bits) - 1)
            return number - (1 << bits) if dtype.kind == "i" and number >> (bits - 1) else number

        return integer
    if dtype.kind == "c":
        return complex
    if bits == 64:
        return _guarded(float)

    def rounded(value: Any) -> float:
        with np.errstate(all="ignore"):
            return float(dtype.type(value))

    return rounded


def _width(value: int) -> int:
    return 32 if -(1 << 31) <= value < 1 << 32 else 64


def _clz(value: Any) -> int:
    width = _width(int(value))
    return width - (int(value) & ((1 << width) - 1)).bit_length()


def _brev(value: Any) -> int:
    width = _width(int(value))
    return int(f"{int(value) & ((1 << width) - 1):0{width}b}"[::-1], 2)


def _ffs(value: Any) -> int:
    bits = int(value) & _MASK
    return (bits & -bits).bit_length()


def _cbrt(value: Any) -> float:
    return math.copysign(abs(value) ** (1 / 3), value)


def _round(value: Any, digits: int = 0) -> Any:
    return round(value, digits) if digits else round(value)


_FROM_MATH = [
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "floor",
    "ceil",
    "trunc",
    "fabs",
    "fmod",
    "hypot",
    "copysign",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
    "isnan",
    "isinf",
    "isfinite",
    "ldexp",
    "frexp",
    "modf",
    "pow",
    "remainder",
    "gcd",
    "factorial",
    "nextafter",
]

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _guarded(getattr(math, name)) for name in _FROM_MATH},
    **{name: _caster(name) for name in ("bool", "float16", "float32", "float64", "complex64", "complex128")},
    **{f"{sign}int{bits}": _caster(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "int": _caster("int64"),
    "float": _guarded(float),
    "complex": complex,
    "abs": abs,
    "absolute": abs,
    "min": min,
    "max": max,
    "minimum": min,
    "maximum": max,
    "round": _round,
    "exp2": _guarded(lambda x: 2.0**x),
    "rsqrt": _guarded(lambda x: 1.0 / math.sqrt(x)),
    "cbrt": _cbrt,
    "fma": lambda a, b, c: a * b + c,
    "popc": lambda x: (int(x) & _MASK).bit_count(),
    "clz": _clz,
    "brev": _brev,
    "ffs": _ffs,
    "sign": lambda x: (x > 0) - (x < 0),
    "square": lambda x: x * x,
    "real": lambda x: complex(x).real,
    "imag": lambda x: complex(x).imag,
    "conjugate": lambda x: complex(x).conjugate(),
    "phase": cmath.phase,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_not": lambda a: not a,
    "arctan2": _guarded(math.atan2),
    "arcsin": _guarded(math.asin),
    "arccos": _guarded(math.acos),
    "arctan": _guarded(math.atan),
    "power": power,
}

ATOMICS: Mapping[str, Callable[..., Any]] = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exch": lambda old, v: v,
    "max": lambda old, v: old if v != v else max(old, v),
    "min": lambda old, v: old if v != v else min(old, v),
    "nanmax": lambda old, v: v if old != old else (old if v != v else max(old, v)),
    "nanmin": lambda old, v: v if old != old else (old if v != v else min(old, v)),
    "inc": lambda old, limit: 0 if old >= limit else old + 1,
    "dec": lambda old, limit: limit if old == 0 or old > limit else old - 1,
    "cas": lambda old, expected, new: new if old == expected else old,
}
