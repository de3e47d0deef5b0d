"""Mapped partitions: the indices that `z.indices(...)` mints, and the stores that accept nothing else.

A minted index carries which partitions it is good for; an `OWNED` axis of it has no position until `z.at(at, j)` sets
one inside the range it was minted for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilecheck.interp.arguments import TensorArgument
from tilecheck.interp.machine import Machine, Memory
from tilecheck.interp.schedule import visits
from tilecheck.ops.numbers import Array


@dataclass(frozen=True, slots=True)
class MintedIndex:
    """An index of `z.indices(...)`: which tile, which partitions accept it, and the range it was minted for."""

    tile: tuple[int | None, ...]
    owners: tuple[int, ...]
    box: tuple[tuple[int, int], ...] = field(repr=False)
    machine: Machine = field(repr=False)

    def __getitem__(self, axis: int) -> int:
        value = self.tile[axis]
        if value is None:
            raise self.machine.trap(
                "foreign-index",
                f"axis {axis} of this index is `OWNED`, it has no position there",
                help=f"loop over `range(z.num_tiles({axis}))` and use `z.at(at, j)`",
            )
        return value


@dataclass(slots=True)
class MappedTensor:
    """A `Mapped` parameter: written at minted indices alone."""

    memory: Memory
    argument: TensorArgument
    tile: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.array.shape

    @property
    def size(self) -> int:
        return self.memory.array.size

    def num_tiles(self, axis: int) -> int:
        """How many tiles cover `axis`."""
        axis %= len(self.tile)
        return self.memory.tiles_along(axis, self.tile[axis])

    def indices(self, within: Any) -> Iterator[MintedIndex]:
        """The tiles that this block visits."""
        return self._mint(within, (id(self),))

    def indices_with(self, other: MappedTensor, within: Any) -> Iterator[MintedIndex]:
        """The tiles that this block visits, of two partitions with one tile grid and one map."""
        mine, theirs = self._tile_grid(), other._tile_grid()
        if mine != theirs or self.argument.map != other.argument.map:
            raise self.memory.machine.trap(
                "launch-contract",
                f"`{self.memory.name}` and `{other.memory.name}` do not share their tiles: {mine} tiles mapped "
                f"{self.argument.map}, {theirs} tiles mapped {other.argument.map}",
                array=other.memory.name,
                help="partition both into equal tile grids and map them alike",
            )
        return self._mint(within, (id(self), id(other)))

    def _tile_grid(self) -> tuple[int, ...]:
        return tuple(self.num_tiles(axis) for axis in range(len(self.tile)))

    def _mint(self, within: Any, owners: tuple[int, ...]) -> Iterator[MintedIndex]:
        machine = self.memory.machine
        assert self.argument.map is not None
        box = tuple(self._range(axis, pair) for axis, pair in enumerate(_pairs(within, len(self.tile))))
        start, counts = tuple(s for s, _ in box), tuple(n for _, n in box)
        for tile in visits(machine.block[0], start, counts, self.argument.map):
            yield MintedIndex(tile, owners, box, machine)

    def _range(self, axis: int, pair: tuple[int, int]) -> tuple[int, int]:
        """Start and count of a sub-range on `axis`, checked."""
        start, count = pair
        tiles = self.num_tiles(axis)
        count = tiles - start if count == -1 else count
        if start < 0 or count < 0 or start + count > tiles:
            raise self.memory.machine.trap(
                "out-of-bounds",
                f"`within` asks for {count} tiles from tile {start} on axis {axis} of `{self.memory.name}`, which has {tiles}",
                array=self.memory.name,
                index=(start,),
                help="a count of -1 means the rest of the axis",
            )
        return start, count

    def at(self, index: MintedIndex, *owned: int) -> MintedIndex:
        """`index` with its `OWNED` axes set."""
        self._accept(index)
        holes = [axis for axis, value in enumerate(index.tile) if value is None]
        name, machine = self.memory.name, self.memory.machine
        if len(holes) != len(owned):
            raise machine.trap(
                "foreign-index",
                f"the map of `{name}` leaves {len(holes)} axes `OWNED`, `at` sets {len(owned)}",
                array=name,
                help="give one int for each axis that the map leaves `OWNED`",
            )
        tile = list(index.tile)
        for axis, value in zip(holes, owned, strict=True):
            start, count = index.box[axis]
            if not start <= value < start + count:
                raise machine.trap(
                    "out-of-bounds",
                    f"tile {value} of `{name}` is out of bounds on the owned axis {axis}: the range is {start} to "
                    f"{start + count - 1}",
                    array=name,
                    index=(value,),
                    help=f"loop over `range({name}.num_tiles({axis}))`",
                )
            tile[axis] = value
        return MintedIndex(tuple(tile), index.owners, index.box, machine)

    def _accept(self, index: object) -> None:
        if not isinstance(index, MintedIndex) or id(self) not in index.owners:
            raise self.memory.machine.trap(
                "foreign-index",
                f"`{self.memory.name}` did not mint this index",
                array=self.memory.name,
                help=f"loop `for at in {self.memory.name}.indices():`",
            )

    def start(self, at: MintedIndex) -> tuple[int, ...]:
        """The first element of the tile at a minted index."""
        self._accept(at)
        return tuple(at[axis] * tile for axis, tile in enumerate(self.tile))

    def load(self, at: MintedIndex, pad: object = None) -> Array:
        """The tile at a minted index."""
        return self.memory.read(self.start(at), self.tile, pad).copy()

    def store(self, tile: Array, at: MintedIndex) -> None:
        """Replace the tile at a minted index."""
        self.memory.write(self.start(at), tile)


def indices_of(at: tuple[Any, ...]) -> tuple[int, ...]:
    """Indices given one by one, as a tuple, or as a minted index."""
    if len(at) == 1 and isinstance(at[0], MintedIndex):
        return tuple(at[0][axis] for axis in range(len(at[0].tile)))
    if len(at) == 1 and isinstance(at[0], tuple):
        return at[0]
    return at


def _pairs(within: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """A sub-range as one pair per axis."""
    if within is None:
        return ((0, -1),) * rank
    if rank == 1 and not isinstance(within[0], tuple):
        return (within,)
    return tuple(within)
