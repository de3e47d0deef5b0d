"""Comparisons, logic and selection: everything that makes or takes bool tiles.

Tiles compare elementwise into `bool_` tiles; scalars compare into `bool`. `where` picks lane by lane, so a void lane
of any argument makes the lane of the result void.
"""

from __future__ import annotations

import numpy as np

from tilecheck.ir.types import ScalarType, TileType, Type
from tilecheck.ops.elementwise import comparison
from tilecheck.ops.extents import broadcast
from tilecheck.ops.numbers import ANY, FLOATS, NUMBERS, Value, agree, as_dtype, default_dtype, is_tile, lift, number
from tilecheck.ops.row import Lanes, Refused, op
from tilecheck.ops.signatures import binary, unary


@op(
    "comparison",
    result=comparison("=="),
    lanes=Lanes.CARRY,
    operator="==",
    stub=binary("equal", "__eq__", result="bool_"),
)
def equal(x: Value, y: Value, /) -> Value:
    """Elementwise `x == y`; nan equals nothing."""
    return lift(np.equal, x, y, keep=False)


@op(
    "comparison",
    result=comparison("!="),
    lanes=Lanes.CARRY,
    operator="!=",
    stub=binary("not_equal", "__ne__", result="bool_"),
)
def not_equal(x: Value, y: Value, /) -> Value:
    """Elementwise `x != y`."""
    return lift(np.not_equal, x, y, keep=False)


@op(
    "comparison",
    result=comparison("<", NUMBERS),
    lanes=Lanes.CARRY,
    operator="<",
    stub=binary("less", "__lt__", result="bool_"),
)
def less(x: Value, y: Value, /) -> Value:
    """Elementwise `x < y`."""
    return lift(np.less, x, y, keep=False)


@op(
    "comparison",
    result=comparison("<=", NUMBERS),
    lanes=Lanes.CARRY,
    operator="<=",
    stub=binary("less_equal", "__le__", result="bool_"),
)
def less_equal(x: Value, y: Value, /) -> Value:
    """Elementwise `x <= y`."""
    return lift(np.less_equal, x, y, keep=False)


@op(
    "comparison",
    result=comparison(">", NUMBERS),
    lanes=Lanes.CARRY,
    operator=">",
    stub=binary("greater", "__gt__", result="bool_"),
)
def greater(x: Value, y: Value, /) -> Value:
    """Elementwise `x > y`."""
    return lift(np.greater, x, y, keep=False)


@op(
    "comparison",
    result=comparison(">=", NUMBERS),
    lanes=Lanes.CARRY,
    operator=">=",
    stub=binary("greater_equal", "__ge__", result="bool_"),
)
def greater_equal(x: Value, y: Value, /) -> Value:
    """Elementwise `x >= y`."""
    return lift(np.greater_equal, x, y, keep=False)


@op(
    "logic",
    result=comparison("logical_and", ("bool",)),
    lanes=Lanes.CARRY,
    stub=binary("logical_and", result="bool_", scalar="bool"),
)
def logical_and(x: Value, y: Value, /) -> Value:
    """Elementwise `and` of bool tiles, the same as `x & y`."""
    return lift(np.logical_and, x, y)


@op(
    "logic",
    result=comparison("logical_or", ("bool",)),
    lanes=Lanes.CARRY,
    stub=binary("logical_or", result="bool_", scalar="bool"),
)
def logical_or(x: Value, y: Value, /) -> Value:
    """Elementwise `or` of bool tiles, the same as `x | y`."""
    return lift(np.logical_or, x, y)


@op(
    "logic",
    result=comparison("logical_xor", ("bool",)),
    lanes=Lanes.CARRY,
    stub=binary("logical_xor", result="bool_", scalar="bool"),
)
def logical_xor(x: Value, y: Value, /) -> Value:
    """Elementwise exclusive or of bool tiles, the same as `x ^ y`."""
    return lift(np.logical_xor, x, y)


@op(
    "logic",
    result=comparison("logical_not", ("bool",)),
    lanes=Lanes.CARRY,
    operator="unary not",
    stub=("def logical_not(x: Tile[bool_, *S], /) -> Tile[bool_, *S]", "def logical_not(x: bool, /) -> bool"),
)
def logical_not(x: Value, /) -> Value:
    """Elementwise `not` of a bool tile, the same as `~x`."""
    return lift(np.logical_not, x)


@op(
    "comparison",
    result=comparison("isnan", FLOATS),
    lanes=Lanes.CARRY,
    stub=unary("isnan", result="bool_", scalar="bool"),
)
def isnan(x: Value, /) -> Value:
    """Whether a float is nan, elementwise."""
    return lift(np.isnan, x, keep=False)


@op(
    "comparison",
    result=comparison("isinf", FLOATS),
    lanes=Lanes.CARRY,
    stub=unary("isinf", result="bool_", scalar="bool"),
)
def isinf(x: Value, /) -> Value:
    """Whether a float is infinite, elementwise."""
    return lift(np.isinf, x, keep=False)


@op(
    "comparison",
    result=comparison("isfinite", FLOATS),
    lanes=Lanes.CARRY,
    stub=unary("isfinite", result="bool_", scalar="bool"),
)
def isfinite(x: Value, /) -> Value:
    """Whether a float is neither infinite nor nan, elementwise."""
    return lift(np.isfinite, x, keep=False)


def _where_type(condition: Type, x: Type, y: Type, /) -> Type:
    chosen = number("where", condition, 0)
    if (chosen.kind if isinstance(chosen, ScalarType) else chosen.dtype.kind) != "bool":
        raise Refused(
            "dtype-mismatch",
            f"the condition of `where` is `{chosen}`, not a bool",
            "compare it, for example with `!= 0`",
            0,
        )
    left, right = number("where", x, 1), number("where", y, 2)
    dtype = agree("where", left, right, allowed=ANY)
    if dtype is None:
        kinds = {type.kind for type in (left, right) if isinstance(type, ScalarType)}
        if "bool" in kinds and len(kinds) > 1:
            raise Refused("dtype-mismatch", f"`where` of {' and '.join(sorted(kinds))} scalars", None, 2)
        scalar = ScalarType("float" if "float" in kinds else "int" if "int" in kinds else "bool")
        if isinstance(chosen, ScalarType):
            return scalar
        dtype = default_dtype(scalar)
    return TileType(dtype, *broadcast("where", chosen, left, right))


@op(
    "selection",
    result=_where_type,
    lanes=Lanes.CARRY,
    stub=(
        "def where(condition: Tile[bool_, *S], x: Tile[T, *S], y: Tile[T, *S] | float, /) -> Tile[T, *S]",
        "def where(condition: Tile[bool_, *S], x: float, y: Tile[T, *S], /) -> Tile[T, *S]",
        "def where(condition: Tile[bool_, *S], x: bool, y: bool, /) -> Tile[bool_, *S]",
        "def where(condition: Tile[bool_, *S], x: int, y: int, /) -> Tile[i32, *S]",
        "def where(condition: Tile[bool_, *S], x: float, y: float, /) -> Tile[f32, *S]",
        (
            "def where(condition: Tile[bool_, M, N], x: Tile[T, M, N], y: Tile[T, M, One] | Tile[T, One, N] | Tile[T, *tuple[()]], /)"
            " -> Tile[T, M, N]"
        ),
        (
            "def where(condition: Tile[bool_, M, N], x: Tile[T, M, One] | Tile[T, One, N] | Tile[T, *tuple[()]], y: Tile[T, M, N], /)"
            " -> Tile[T, M, N]"
        ),
        (
            "def where(condition: Tile[bool_, M, One] | Tile[bool_, One, N] | Tile[bool_, N] | Tile[bool_, *tuple[()]],"
            " x: Tile[T, M, N], y: Tile[T, M, N] | float, /) -> Tile[T, M, N]"
        ),
        "def where(condition: bool, x: Tile[T, *S], y: Tile[T, *S] | float, /) -> Tile[T, *S]",
        "def where(condition: bool, x: float, y: Tile[T, *S], /) -> Tile[T, *S]",
        "def where(condition: bool, x: int, y: int, /) -> int",
        "def where(condition: bool, x: float, y: float, /) -> float",
    ),
)
def where(condition: Value, x: Value, y: Value, /) -> Value:
    """Elementwise `x` where `condition` is true, else `y`. Of two scalars: an f32, i32 or bool_ tile."""
    dtype = next((v.dtype for v in (x, y) if is_tile(v)), None)
    if dtype is None and not is_tile(condition):
        chosen = x if condition else y
        return float(chosen) if isinstance(x, float) or isinstance(y, float) else chosen
    if dtype is None:
        kinds = {type(x), type(y)}
        dtype = np.dtype(np.float32 if float in kinds else np.int32 if int in kinds else np.bool_)
    left, right = (v if is_tile(v) else as_dtype(v, dtype) for v in (x, y))
    return np.asarray(np.where(condition, left, right))
