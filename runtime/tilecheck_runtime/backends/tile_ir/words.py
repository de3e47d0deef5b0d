"""What cuTile calls things: dtypes, operators, functions, paddings; and the refusal of what it has not."""

from __future__ import annotations

import math
import struct
from typing import Final

from tilecheck.ir.kernel import Kernel, Node

CT_DTYPE: Final = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "bool_": "bool_",
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
}
NARROW: Final = ("f16", "bf16")

# Rows whose cuTile spelling is an operator between their operands.
INFIX: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "pow": "**",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "logical_and": "&",
    "logical_or": "|",
    "logical_xor": "^",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
}
# Rows that are one cuTile call on their operands; `{0}` and so on are the operands.
CALLS: Final = {
    "negative": "(-{0})",
    "positive": "{0}",
    "abs": "ct.abs({0})",
    "square": "({0} * {0})",
    "minimum": "ct.minimum({0}, {1}, propagate_nan=True)",
    "maximum": "ct.maximum({0}, {1}, propagate_nan=True)",
    "clip": "ct.minimum(ct.maximum({0}, {1}, propagate_nan=True), {2}, propagate_nan=True)",
    "fma": "({0} * {1} + {2})",
    "logical_not": "ct.bitwise_not({0})",
    "bitwise_invert": "ct.bitwise_not({0})",
    "hypot": "ct.sqrt({0} * {0} + {1} * {1})",
    "isnan": "ct.isnan({0})",
    "isinf": "(ct.abs({0}) == math.inf)",
    "isfinite": "(ct.abs({0}) < math.inf)",
}
# Functions that cuTile computes in f32 and f64; narrower floats go through f32.
MATH: Final = {
    name: f"ct.{name}({{0}})"
    for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
} | {
    "floor": "ct.floor({0})",
    "ceil": "ct.ceil({0})",
    "trunc": "ct.where({0} < 0, ct.ceil({0}), ct.floor({0}))",
    "atan2": "ct.atan2({0}, {1})",
    "atan": "ct.atan2({0}, {0} * 0 + 1)",
    "asin": "ct.atan2({0}, ct.sqrt(1 - {0} * {0}))",
    "acos": "ct.atan2(ct.sqrt(1 - {0} * {0}), {0})",
}
# Ops that compare at run time.
ASSERTING: Final = frozenset({"device_assert", "gather", "scatter", "at"}) | {
    f"atomic_{op}" for op in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")
}
PADDING: Final = {
    "zero": "ZERO",
    "neg_zero": "NEG_ZERO",
    "nan": "NAN",
    "inf": "POS_INF",
    "-inf": "NEG_INF",
}
REDUCTIONS: Final = {"sum": "", "prod": "", "max": ", propagate_nan=True", "min": ", propagate_nan=True"}


# Rows that round as asked, and how cuTile calls the ways.
# Ops that may take subnormal numbers for zeros.
FLUSHING: Final = ("exp2", "rsqrt")
ROUNDED: Final = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "sqrt": "sqrt"}
ROUNDINGS: Final = {"nearest": "RN", "zero": "RZ", "up": "RP", "down": "RM"}


# The row behind each operator token.
ROWS: Final = {token: row for row, token in reversed(INFIX.items()) if not row.startswith("logical")}


class NoLowering(Exception):
    """An op or form that cuTile does not take; `what` names it in the user's words."""

    def __init__(self, what: str, node: Node | Kernel) -> None:
        super().__init__(f"the tile-ir backend does not compile {what}")
        self.what = what
        self.span = node.span


def literal(value: object) -> str:
    """A constant as text; non-finite floats come from `math`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "(-math.inf)"
    return repr(value)


def wide(value: float) -> str | None:
    """A call of `_f64` that is `value` to the last bit, None where the plain constant is.

    cuTile 1.7 hands every float constant on as an f32, also to f64 tiles; three of those hold the 53 digits of an f64.
    """
    if not math.isfinite(value) or _narrow(value) == value:
        return None
    rest, exponent = math.frexp(value)
    pieces: list[float] = []
    for _ in range(3):
        pieces.append(_narrow(rest))
        rest -= pieces[-1]
    text = f"_f64({', '.join(map(repr, pieces))})"
    while exponent:
        step = max(-120, min(120, exponent))
        text, exponent = f"({text} * {2.0**step!r})", exponent - step
    return text


def _narrow(value: float) -> float:
    """The nearest f32; infinity beyond its range."""
    try:
        (near,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(near)
