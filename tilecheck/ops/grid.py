"""Where a block is: block ids, the grid, and the indices that mapped partitions mint.

An index can only come from `z.indices(...)`; it carries which partitions it is good for, and nothing else is accepted
by `store`. Every tile of the range is visited by exactly one block, exactly once.
"""

from __future__ import annotations

from typing import Any

from tilecheck.ir.types import IndexType, NoneType, ScalarType, TensorType, TupleType, Type
from tilecheck.ops.extents import constant_int
from tilecheck.ops.memory import int_index, minted, tensor
from tilecheck.ops.numbers import describe
from tilecheck.ops.row import NONE, Lanes, NotYet, Refused, op


def _grid_axis(op: str, axis: Type) -> Type:
    value = constant_int(op, "the axis", axis, 0)
    if not 0 <= value < 3:
        raise Refused("shape-mismatch", f"`{op}({value})`: a grid has axes 0, 1 and 2", None, 0)
    return ScalarType("int")


def _block_id_type(axis: Type, /) -> Type:
    return _grid_axis("block_id", axis)


def _num_blocks_type(axis: Type, /) -> Type:
    return _grid_axis("num_blocks", axis)


@op("grid", result=_block_id_type, lanes=Lanes.FRESH, stub="def block_id(axis: int, /) -> int")
def block_id(axis: int, /) -> int:
    """This block's index along grid axis 0, 1 or 2. The interpreter knows the block and supplies the value."""
    raise LookupError(f"block_id({axis}) outside a block")


@op("grid", result=_num_blocks_type, lanes=Lanes.FRESH, stub="def num_blocks(axis: int, /) -> int")
def num_blocks(axis: int, /) -> int:
    """The number of blocks along grid axis 0, 1 or 2. The interpreter knows the grid and supplies the value."""
    raise LookupError(f"num_blocks({axis}) outside a block")


def _mapped(op: str, type: Type, argument: int = 0) -> tuple[TensorType, int]:
    t = tensor(op, type, argument)
    if t.access != "Mapped":
        raise Refused(
            "foreign-index",
            f"`{op}` of `{t.name}`, which is `{t.access}`",
            f"declare `{t.name}: Tensor[Mapped, ...]` and launch with `.partition(...).map(...)`",
            argument,
        )
    if t.shape is None:
        raise NotYet
    return t, len(t.shape)


def _within(op: str, within: Type, rank: int) -> None:
    """A sub-range: one `(start, count)` per axis, or the pair alone for rank 1. A count of -1 is the rest of the
    axis.
    """
    if isinstance(within, NoneType):
        return
    form = "`within` is one `(start, count)` per axis, in tiles"
    if not isinstance(within, TupleType):
        raise Refused("usage", f"`{op}`: {form}, not {describe(within)}")
    pairs = within.items
    if rank == 1 and len(pairs) == 2 and not any(isinstance(item, TupleType) for item in pairs):
        pairs = (within,)
    if len(pairs) != rank or any(not isinstance(pair, TupleType) or len(pair.items) != 2 for pair in pairs):
        raise Refused("shape-mismatch", f"`{op}` of rank {rank}: {form}")
    for axis, pair in enumerate(pairs):
        assert isinstance(pair, TupleType)
        for item in pair.items:
            int_index(op, item, 0)
        start, count = pair.items
        if isinstance(start, ScalarType) and isinstance(start.value, int) and start.value < 0:
            raise Refused("out-of-bounds", f"`{op}` starts at tile {start.value} on axis {axis}", "start at 0 or later")
        if isinstance(count, ScalarType) and isinstance(count.value, int) and count.value < -1:
            raise Refused(
                "out-of-bounds", f"`{op}` counts {count.value} tiles on axis {axis}", "-1 means the rest of the axis"
            )


def _indices_type(z: Type, /, *, within: Type = NONE) -> Type:
    t, rank = _mapped("indices", z)
    _within("indices", within, rank)
    return IndexType((t.name,), rank)


@op(
    "grid",
    result=_indices_type,
    lanes=Lanes.FRESH,
    method_of=("tensor",),
    function=False,
    stub="Tensor: def indices(self: Tensor[Mapped, Any, *tuple[Any, ...]], *, within: Within = ...) -> Iterator[Index]",
)
def indices(z: Any, /, *, within: Any = None) -> Any:
    """The tiles of `z` that this block visits, for a `for` loop. Each tile (of `within`, one `(start, count)` in
    tiles per axis, -1 for the rest) is visited by exactly one block, exactly once. An item is an int, for loads; the
    index itself is what `store` takes.
    """
    return z.indices(within)


def _indices_with_type(z: Type, other: Type, /, *, within: Type = NONE) -> Type:
    t, rank = _mapped("indices_with", z)
    partner, other_rank = _mapped("indices_with", other, 1)
    if rank != other_rank:
        raise Refused(
            "shape-mismatch",
            f"`indices_with` of `{t.name}` of rank {rank} and `{partner.name}` of rank {other_rank}",
            None,
            1,
        )
    _within("indices_with", within, rank)
    return IndexType((t.name, partner.name), rank)


@op(
    "grid",
    result=_indices_with_type,
    lanes=Lanes.FRESH,
    method_of=("tensor",),
    function=False,
    stub="Tensor: def indices_with(self: Tensor[Mapped, Any, *tuple[Any, ...]], other: Tensor[Mapped, Any,"
    " *tuple[Any, ...]], /, *, within: Within = ...) -> Iterator[Index]",
)
def indices_with(z: Any, other: Any, /, *, within: Any = None) -> Any:
    """As `indices`, for two partitions at once: an index is good for stores to both. Their tile grids, maps and block
    counts must be equal, which each launch checks.
    """
    return z.indices_with(other, within)


def _at_type(z: Type, index: Type, /, *owned: Type) -> Type:
    t, rank = _mapped("at", z)
    minted("at", t, index, 1)
    for position, item in enumerate(owned):
        int_index("at", item, position + 2)
    if not 1 <= len(owned) < rank:
        raise Refused(
            "shape-mismatch",
            f"`at` of `{t.name}` of rank {rank} with {len(owned)} owned indices",
            "give one int for each axis that the map leaves `OWNED`",
            2,
        )
    return IndexType((t.name,), rank)


@op(
    "grid",
    result=_at_type,
    lanes=Lanes.FRESH,
    method_of=("tensor",),
    function=False,
    stub="Tensor: def at(self: Tensor[Mapped, Any, *tuple[Any, ...]], index: Index, /, *owned: int) -> Index",
)
def at(z: Any, index: Any, /, *owned: int) -> Any:
    """The index of a tile on a partition with `OWNED` axes: the streamed axes come from the minted `index`, the owned
    ones, in order, from the ints, such as `range(z.num_tiles(1))`.
    """
    return z.at(index, *owned)
