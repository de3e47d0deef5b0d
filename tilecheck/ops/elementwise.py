"""Type rules of elementwise rows, one factory per kind of row.

A rule is the number rule (`agree`) and the shape rule (`broadcast`) together. `arithmetic("add")` is the rule of `x +
y`: one dtype, shapes that broadcast, scalars stay scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.types import ScalarType, TileType, Type
from tilecheck.ops.extents import broadcast
from tilecheck.ops.numbers import ANY, FLOATS, NUMBERS, agree, number, scalar_kind
from tilecheck.ops.row import Refused, ResultRule
from tilecheck.surface.dtypes import bool_


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
