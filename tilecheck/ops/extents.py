"""The shape rules: when extents agree, what broadcasting gives, which axis is meant, and where void lanes go.

Two extents are equal iff they are the same number or the same `Dim`. An axis of extent 1 stretches, as in NumPy, and
shapes align at their last axes; a `Dim` whose value is still unknown never counts as 1:

    broadcast("add", Tile[f32, BM, BN], Tile[f32, BM, 1])  ->  (BM, BN)
    broadcast("add", Tile[f32, BM, BN], Tile[f32, BN, BM]) ->  Refused("shape-mismatch", "... `BN` and `BM` on axis 1")

Invariant: `void` of a result lists every axis along which a lane of the result depends on a void lane of an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.types import ArrayExtent, DimType, Extent, NoneType, ScalarType, TileType, TupleType, Type
from tilecheck.ops.numbers import describe
from tilecheck.ops.row import Refused

Void = tuple[tuple[int, ArrayExtent], ...]


def voids(*entries: tuple[int, ArrayExtent]) -> Void:
    """Void entries in their one order, without repetitions."""
    return tuple(sorted(set(entries), key=lambda entry: (entry[0], entry[1].array, entry[1].axis)))


def show(shape: Sequence[Extent]) -> str:
    """A shape as users read it: `(BM, 64)`."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def broadcast(op: str, *types: TileType | ScalarType) -> tuple[tuple[Extent, ...], Void]:
    """The common shape of the tiles among `types` and its void axes. Raises `Refused("shape-mismatch")`."""
    tiles = [(at, t) for at, t in enumerate(types) if isinstance(t, TileType)]
    rank = max((len(t.shape) for _, t in tiles), default=0)
    shape: list[Extent] = [1] * rank
    owner: list[TileType | None] = [None] * rank
    entries: list[tuple[int, ArrayExtent]] = []
    for at, tile in tiles:
        offset = rank - len(tile.shape)
        for axis, extent in enumerate(tile.shape):
            axis_out = axis + offset
            if extent == 1:
                continue
            if shape[axis_out] == 1:
                shape[axis_out], owner[axis_out] = extent, tile
            elif shape[axis_out] != extent:
                raise mismatch(op, owner[axis_out] or tile, tile, shape[axis_out], extent, axis, at)
        entries += [(axis + offset, edge) for axis, edge in tile.void]
    return tuple(shape), voids(*entries)


def mismatch(
    op: str, left: TileType, right: TileType, one: Extent, other: Extent, axis: int, argument: int | None = None
) -> Refused:
    """The refusal for two tiles whose extents differ on `axis`."""
    return Refused(
        "shape-mismatch",
        f"`{op}` of tiles of shape {show(left.shape)} and {show(right.shape)}: "
        f"`{one}` and `{other}` differ on axis {axis}",
        "use tiles of one shape; an axis of extent 1 stretches, see `reshape`, `expand_dims` and `permute_dims`",
        argument,
    )


def elements(shape: Sequence[Extent]) -> tuple[int, tuple[Extent, ...]]:
    """A number of elements as a constant factor and sorted symbolic factors."""
    constant = 1
    symbols: list[Extent] = []
    for extent in shape:
        if isinstance(extent, int):
            constant *= extent
        else:
            symbols.append(extent)
    return constant, tuple(sorted(symbols, key=str))


def extent_of(op: str, type: Type, argument: int | None = None) -> Extent:
    """The extent that a `Dim` argument names. Raises `Refused` for a bare int, as kernels take extents from types."""
    if isinstance(type, DimType):
        return type.extent
    if isinstance(type, ScalarType) and type.kind == "int":
        shown = "an int" if type.value is None else str(type.value)
        name = "D" if type.value is None else f"D{type.value}"
        size = "..." if type.value is None else str(type.value)
        declared = f"declare `class {name}(Dim, size={size}): ...` at the top of the module and pass `{name}`"
        raise Refused(
            "unsupported",
            f"`{op}` takes its extents as `Dim`s, not as {shown}",
            "pass `One`: `from tilecheck import One`" if type.value == 1 else declared,
            argument,
        )
    raise Refused("usage", f"`{op}` takes its extents as `Dim`s, not {describe(type)}", None, argument)


def shape_of(op: str, types: Sequence[Type], first: int = 0) -> tuple[Extent, ...]:
    """The shape named by `Dim` arguments, given one by one or as a single tuple."""
    if len(types) == 1 and isinstance(types[0], TupleType):
        return tuple(extent_of(op, item, first) for item in types[0].items)
    return tuple(extent_of(op, type, first + at) for at, type in enumerate(types))


def constant_int(op: str, what: str, type: Type, argument: int | None = None) -> int:
    """The value of an int that must be known in the source, such as an axis."""
    if isinstance(type, ScalarType) and type.kind == "int" and isinstance(type.value, int):
        return type.value
    if isinstance(type, DimType) and isinstance(type.extent, int):
        return type.extent
    if isinstance(type, ScalarType) and type.kind == "int":
        raise Refused("unsupported", f"`{op}`: {what} is computed in the kernel", "write it as a number", argument)
    raise Refused("unsupported", f"`{op}`: {what} must be a constant int, not {describe(type)}", None, argument)


def constant_bool(op: str, what: str, type: Type) -> bool:
    """The value of a flag that must be known in the source."""
    if isinstance(type, ScalarType) and isinstance(type.value, bool):
        return type.value
    raise Refused("unsupported", f"`{op}`: `{what}` must be `True` or `False`, not {describe(type)}")


def axis_of(op: str, type: Type, rank: int, argument: int | None = None) -> int:
    """A constant axis, negative ones counted from the end. Raises `Refused("shape-mismatch")` outside the rank."""
    axis = constant_int(op, "the axis", type, argument)
    if not -rank <= axis < rank:
        raise Refused(
            "shape-mismatch",
            f"`{op}` along axis {axis} of {'a value' if rank else 'a tile'} of rank {rank}",
            f"axes go from 0 to {rank - 1}" if rank else "a rank-0 tile has no axis",
            argument,
        )
    return axis % rank


def axes_of(op: str, type: Type, rank: int) -> tuple[int, ...]:
    """The axes an `axis` argument names: None is all of them, a tuple several."""
    if isinstance(type, NoneType):
        return tuple(range(rank))
    if isinstance(type, TupleType):
        axes = tuple(axis_of(op, item, rank) for item in type.items)
        if len(set(axes)) != len(axes):
            raise Refused("shape-mismatch", f"`{op}` names an axis twice in {axes}")
        return tuple(sorted(axes))
    return (axis_of(op, type, rank),)
