"""Type rules of elementwise rows, one factory per kind of row.

A rule is the number rule (`agree`) and the shape rule (`broadcast`) together. `arithmetic("add")` is the rule of `x +
y`: one dtype, shapes that broadcast, scalars stay scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.types import NoneType, ScalarType, StrType, TileType, Type
from tilecheck.ops import exact
from tilecheck.ops.extents import broadcast
from tilecheck.ops.numbers import ANY, FLOATS, NUMBERS, agree, number, scalar_kind
from tilecheck.ops.row import NONE, Refused, ResultRule
from tilecheck.surface.dtypes import bool_, f32, f64


def arithmetic(op: str, allowed: Sequence[str] = NUMBERS) -> ResultRule:
    """The result has the arguments' dtype and common shape; scalars give the scalar of their kind."""

    def rule(*types: Type) -> Type:
        numbers = [number(op, type, at) for at, type in enumerate(types)]
        dtype = agree(op, *numbers, allowed=allowed)
        if dtype is None:
            return scalar_kind(*numbers)
        return TileType(dtype, *broadcast(op, *numbers))

    return rule


def bitwise(op: str) -> ResultRule:
    """As `arithmetic` for ints and bools; bools stay bools."""

    def rule(*types: Type) -> Type:
        numbers = [number(op, type, at) for at, type in enumerate(types)]
        dtype = agree(op, *numbers, allowed=("int", "uint", "bool"))
        if dtype is None:
            kinds = {type.kind for type in numbers if isinstance(type, ScalarType)}
            return ScalarType("bool" if kinds == {"bool"} else "int")
        return TileType(dtype, *broadcast(op, *numbers))

    return rule


def comparison(op: str, allowed: Sequence[str] = ANY) -> ResultRule:
    """A bool tile of the common shape, or a bool."""

    def rule(*types: Type) -> Type:
        numbers = [number(op, type, at) for at, type in enumerate(types)]
        dtype = agree(op, *numbers, allowed=allowed)
        if dtype is None:
            return ScalarType("bool")
        return TileType(bool_, *broadcast(op, *numbers))

    return rule


def floating(op: str) -> ResultRule:
    """For functions on floats: a float tile keeps its dtype, scalars give a float."""

    def rule(*types: Type) -> Type:
        numbers = [number(op, type, at) for at, type in enumerate(types)]
        dtype = agree(op, *numbers, allowed=FLOATS)
        if dtype is None:
            return ScalarType("float")
        return TileType(dtype, *broadcast(op, *numbers))

    return rule


def rounded(op: str, rule: ResultRule) -> ResultRule:
    """`rule` with the options `rounding` and `flush_to_zero`, which f32 and f64 tiles have; flushing is for f32 alone."""

    def checked(*types: Type, rounding: Type = NONE, flush_to_zero: Type = NONE) -> Type:
        result = rule(*types)
        flush = _constant(op, "flush_to_zero", flush_to_zero, (False, True))
        if _constant(op, "rounding", rounding, exact.ROUNDINGS) is None and not flush:
            return result
        wanted = (f32,) if flush else (f32, f64)
        if not isinstance(result, TileType) or result.dtype not in wanted:
            option = "flush_to_zero" if flush else "rounding"
            raise Refused(
                "dtype-mismatch",
                f"`{op}` with `{option}` of a `{result}`",
                f"it takes {' and '.join(dtype.name for dtype in wanted)} tiles; convert with `.astype`",
                0,
            )
        return result

    return checked


def flushing(op: str, rule: ResultRule) -> ResultRule:
    """`rule` with the option `flush_to_zero`, which f32 tiles have."""

    def checked(*types: Type, flush_to_zero: Type = NONE) -> Type:
        return rounded(op, rule)(*types, flush_to_zero=flush_to_zero)

    return checked


def nan_aware(op: str, rule: ResultRule) -> ResultRule:
    """`rule` with the option `propagate_nan`, which tiles have; it changes nothing for ints."""

    def checked(*types: Type, propagate_nan: Type = NONE) -> Type:
        result = rule(*types)
        if _constant(op, "propagate_nan", propagate_nan, (True, False)) is False and not isinstance(result, TileType):
            raise Refused("usage", f"`{op}` with `propagate_nan` of scalars", "make tiles of them with `full`", 0)
        return result

    return checked


def _constant(op: str, option: str, given: Type, allowed: Sequence[object]) -> object:
    """The value of an option, None if it is left out."""
    if isinstance(given, NoneType):
        return None
    # `1` is no `True` here.
    if isinstance(given, StrType | ScalarType) and (type(given.value), given.value) in [(type(a), a) for a in allowed]:
        return given.value
    values = ", ".join(map(repr, allowed))
    raise Refused("usage", f"`{option}` of `{op}` is a constant, one of {values}")


def one_tile(op: str, type: Type, argument: int = 0) -> TileType:
    """`type` as a tile, for ops that take no scalar there."""
    if isinstance(type, TileType):
        return type
    if isinstance(type, ScalarType):
        raise Refused(
            "shape-mismatch", f"`{op}` takes a tile, not the scalar {type}", "make a tile of it with `full`", argument
        )
    number(op, type, argument)
    raise Refused("usage", f"`{op}` takes a tile", None, argument)
