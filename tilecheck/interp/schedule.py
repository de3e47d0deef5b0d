"""Which block visits which tile of a mapped partition.

The tiles (of a sub-range) that are streamed are numbered; block `p` of `n` visits numbers `p, p + n, p + 2n, ...`. So
each number, and as `position` is one-to-one, each tile, is visited by exactly one block exactly once, for every rank,
extent, group shape and block count. The numbering walks groups of tiles row by row, and each group row by row; the
last group of an axis is shorter:

    map (2, 1) on a 3 x 2 tile grid:    0 2        groups of 2 x 1, the last band has 1 row
                                        1 3
                                        4 5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.interp.arguments import OWNED, TileMap


def position(number: int, extents: Sequence[int], group: Sequence[int]) -> tuple[int, ...]:
    """The tile with this `number` on a grid of `extents` tiles walked in groups of `group` tiles.

    Written on ints with `//`, `-`, `*` and `min` alone, so that a code generator can write the same.
    """
    starts: list[int] = []
    inside: list[int] = []
    for axis, extent in enumerate(extents):
        # Full slices of this axis hold `group` rows; all that comes before in the walk is complete along later axes.
        rest = 1
        for later in extents[axis + 1 :]:
            rest *= later
        for earlier in inside:
            rest *= earlier
        block = number // (group[axis] * rest)
        number -= block * group[axis] * rest
        starts.append(block * group[axis])
        inside.append(min(group[axis], extent - block * group[axis]))
    coordinates: list[int] = []
    for axis in range(len(extents)):
        rest = 1
        for later in inside[axis + 1 :]:
            rest *= later
        offset = number // rest
        number -= offset * rest
        coordinates.append(starts[axis] + offset)
    return tuple(coordinates)


def count(extents: Sequence[int], shape: Sequence[int]) -> int:
    """How many numbers are streamed: the product of the extents that are not `OWNED`."""
    total = 1
    for extent, entry in zip(extents, shape, strict=True):
        if entry != OWNED:
            total *= extent
    return total


def visits(block: int, start: Sequence[int], extents: Sequence[int], map: TileMap) -> Iterator[tuple[int | None, ...]]:
    """The tiles that `block` visits in the range of `extents` tiles from `start`; None on an `OWNED` axis."""
    streamed = [axis for axis, entry in enumerate(map.shape) if entry != OWNED]
    inner = [extents[axis] for axis in streamed]
    group = [map.shape[axis] for axis in streamed]
    for number in range(block, count(extents, map.shape), map.blocks):
        found = position(number, inner, group)
        tile: list[int | None] = [None] * len(extents)
        for axis, coordinate in zip(streamed, found, strict=True):
            tile[axis] = start[axis] + coordinate
        yield tuple(tile)
