"""Numbers that host code shows: constants, extents, and the arithmetic on them.

`number` is exact or silent: an expression that it cannot compute has no number. `whole` asks for an int.

Worked example: with `n = 300` and `tpb = 64`, `(n + tpb - 1) // tpb` is 5, `n / tpb` is 4.6875.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from tilecheck.borrow.values import Array, Items, Number, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

Scalar = int | float | bool | str | None
ValueOf = Callable[[ir.Expr], Value]

_LARGEST = 1 << 70

_BINARY: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def number(node: ir.Expr, value_of: ValueOf) -> int | float | None:
    """The number that `node` is, None if it cannot be computed; `value_of` knows the variables."""
    match node:
        case ir.Const(value=bool()):
            return None
        case ir.Const(value=int() | float() as constant):
            return constant
        case ir.Operation(op=op, operands=operands):
            return applied(op, [number(operand, value_of) for operand in operands])
        case ir.Call():
            return _call(node, value_of)
        case ir.Sub(base=ir.Attr(base=base, name="shape"), index=index):
            array, axis = value_of(base), number(index, value_of)
            if isinstance(array, Array) and array.shape is not None and isinstance(axis, int):
                return array.shape[axis] if -len(array.shape) <= axis < len(array.shape) else None
            return None
        case ir.Attr(base=base, name="size"):
            array = value_of(base)
            if isinstance(array, Array) and array.shape is not None and None not in array.shape:
                return math.prod(extent for extent in array.shape if extent is not None)
            return None
        case ir.Name() | ir.Attr() | ir.Sub():
            return plain(value_of(node))
        case _:
            return None


def whole(node: ir.Expr, value_of: ValueOf) -> int | None:
    """The int that `node` is, None if it is none or cannot be computed."""
    found = number(node, value_of)
    return found if isinstance(found, int) else None


def wholes(node: ir.Expr, value_of: ValueOf) -> tuple[int | None, ...] | None:
    """The ints of a tuple, or of the one number that stands for a tuple of one; None if its length is unknown."""
    if isinstance(node, ir.Display) and node.kind in ("tuple", "list"):
        if any(isinstance(item, ir.Starred) for item in node.items):
            return None
        return tuple(whole(item, value_of) for item in node.items)
    value = value_of(node)
    if isinstance(value, Items):
        parts = [plain(item) for item in value.values]
        return tuple(part if isinstance(part, int) else None for part in parts)
    found = whole(node, value_of)
    return (found,) if found is not None else None


def plain(value: Value) -> int | float | None:
    """The number that `value` is, None if it is none."""
    if isinstance(value, Number) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return value.value
    return None


def applied(op: str, operands: Sequence[int | float | None]) -> int | float | None:
    """`op` of numbers, None if one of them is unknown or there is no such number."""
    parts = [part for part in operands if part is not None]
    if len(parts) != len(operands):
        return None
    try:
        match op, parts:
            case "-", [only]:
                return -only
            case "+", [only]:
                return only
            case (("**" | "<<" | ">>"), [int() as base, int() as by]) if 0 <= by < 70 and abs(base) < 1 << 40:
                result: int | float = base**by if op == "**" else base << by if op == "<<" else base >> by
            case _, [left, right] if op in _BINARY:
                result = _BINARY[op](left, right)
            case _:
                return None
    except (ZeroDivisionError, OverflowError):
        return None
    return result if abs(result) < _LARGEST else None


def _call(node: ir.Call, value_of: ValueOf) -> int | float | None:
    if any(arg.star or arg.name for arg in node.args):
        return None
    found = [number(arg.value, value_of) for arg in node.args]
    parts = [part for part in found if part is not None]
    if len(parts) != len(found) or not parts:
        return None
    match canonical(node.func), parts:
        case "math.ceil", [only] if math.isfinite(only):
            return math.ceil(only)
        case "math.floor", [only] if math.isfinite(only):
            return math.floor(only)
        case "builtins.round", [only] if math.isfinite(only):
            return round(only)
        case (("builtins.int" | "math.trunc"), [only]) if math.isfinite(only):
            return int(only)
        case "builtins.abs", [only]:
            return abs(only)
        case "builtins.min", _:
            return min(parts)
        case "builtins.max", _:
            return max(parts)
        case "cuda.tile.cdiv", [int() as extent, int() as tile] if tile > 0:
            return -(-extent // tile)
        case "numpy.ceil", [only] if math.isfinite(only):
            return float(math.ceil(only))
        case "numpy.floor", [only] if math.isfinite(only):
            return float(math.floor(only))
        case "builtins.float", [only]:
            return float(only)
        case _:
            return None
