"""Shape changes: `reshape`, `permute_dims`, `transpose`, `broadcast_to`, `expand_dims`, `squeeze`, `concat`, `extract`.

Void axes move with their axis. `reshape` keeps axes that it leaves alone (those before and after the part that
changes, extents of 1 aside) and mixes the rest, which must not be void.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from tilecheck.ir.types import Extent, ScalarType, TileType, TupleType, Type
from tilecheck.ops.creation import extents
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.extents import axis_of, constant_int, elements, extent_of, mismatch, shape_of, show, voids
from tilecheck.ops.numbers import Array, describe
from tilecheck.ops.row import Lanes, NotYet, Refused, op

_DIMS = ("M", "N", "K", "L")
_FIRST = ScalarType("int", 0)
_ANY = "Tile[T, *tuple[Any, ...]]"


def _to_shape(name: str) -> tuple[str, ...]:
    """Lines of a function and a method that take the new shape."""
    lines: list[str] = []
    for rank in range(1, 5):
        names = _DIMS[:rank]
        dims = ", ".join(f"type[{n}]" for n in names)
        params = ", ".join(f"d{at}: type[{n}]" for at, n in enumerate(names))
        result = f"Tile[T, {', '.join(names)}]"
        lines.append(f"def {name}(x: {_ANY}, shape: tuple[{dims}], /) -> {result}")
        lines.append(f"def {name}(x: {_ANY}, {params}, /) -> {result}")
        lines.append(f"Tile: def {name}(self, shape: tuple[{dims}], /) -> {result}")
        lines.append(f"Tile: def {name}(self, {params}, /) -> {result}")
    return tuple(lines)


def _kept(old: Sequence[Extent], new: Sequence[Extent]) -> dict[int, int]:
    """The axes of `old` that a reshape to `new` leaves alone, and where they go."""
    before = [axis for axis, extent in enumerate(old) if extent != 1]
    after = [axis for axis, extent in enumerate(new) if extent != 1]
    kept: dict[int, int] = {}
    first = 0
    while first < min(len(before), len(after)) and old[before[first]] == new[after[first]]:
        kept[before[first]] = after[first]
        first += 1
    last = 1
    while last <= min(len(before), len(after)) - first and old[before[-last]] == new[after[-last]]:
        kept[before[-last]] = after[-last]
        last += 1
    return kept


def _reshape_type(x: Type, /, *shape: Type) -> Type:
    tile = one_tile("reshape", x)
    new = shape_of("reshape", shape, 1)
    old_count, old_symbols = elements(tile.shape)
    new_count, new_symbols = elements(new)
    if old_symbols == new_symbols and old_count != new_count:
        raise Refused(
            "shape-mismatch",
            f"`reshape` of shape {show(tile.shape)} to {show(new)}: the numbers of elements differ",
            "keep the product of the extents",
            1,
        )
    kept = _kept(tile.shape, new)
    return TileType(tile.dtype, new, voids(*((kept[a], edge) for a, edge in tile.void if a in kept)))


def _reshape_mixes(x: Type, /, *shape: Type) -> Sequence[tuple[int, int]]:
    tile = one_tile("reshape", x)
    kept = _kept(tile.shape, shape_of("reshape", shape, 1))
    return tuple((0, axis) for axis, extent in enumerate(tile.shape) if axis not in kept and extent != 1)


@op(
    "shape",
    result=_reshape_type,
    lanes=Lanes.MIX,
    mixes=_reshape_mixes,
    method_of=("tile",),
    stub=_to_shape("reshape"),
)
def reshape(x: Array, /, *shape: Any) -> Array:
    """The same elements in row-major order under another shape, given as `Dim`s or a tuple of them."""
    return x.reshape(extents(shape))


def _permuted(tile: TileType, order: Sequence[int]) -> TileType:
    place = {axis: at for at, axis in enumerate(order)}
    return TileType(
        tile.dtype, tuple(tile.shape[a] for a in order), voids(*((place[a], edge) for a, edge in tile.void))
    )


def _permute_dims_type(x: Type, axes: Type, /) -> Type:
    tile = one_tile("permute_dims", x)
    if not isinstance(axes, TupleType):
        raise Refused("usage", f"`permute_dims` takes a tuple of axes, not {describe(axes)}", None, 1)
    rank = len(tile.shape)
    order = tuple(axis_of("permute_dims", item, rank, 1) for item in axes.items)
    if sorted(order) != list(range(rank)):
        raise Refused(
            "shape-mismatch", f"`permute_dims` with {order} does not name each of the {rank} axes once", None, 1
        )
    return _permuted(tile, order)


def _permutations(name: str) -> tuple[str, ...]:
    lines: list[str] = []
    for rank in (2, 3, 4):
        names = _DIMS[:rank]
        for order in permutations(range(rank)):
            axes = ", ".join(f"Literal[{a}]" for a in order)
            result = ", ".join(names[a] for a in order)
            whole = f"Tile[T, {', '.join(names)}]"
            lines.append(f"def {name}(x: {whole}, axes: tuple[{axes}], /) -> Tile[T, {result}]")
            lines.append(f"Tile: def {name}(self: {whole}, axes: tuple[{axes}], /) -> Tile[T, {result}]")
    return tuple(lines)


@op(
    "shape",
    result=_permute_dims_type,
    lanes=Lanes.MOVE,
    method_of=("tile",),
    stub=_permutations("permute_dims"),
)
def permute_dims(x: Array, axes: tuple[int, ...], /) -> Array:
    """The tile with its axes in the order `axes`: axis `k` of the result is axis `axes[k]` of `x`."""
    return x.transpose(axes)


def _transpose_type(x: Type, /) -> Type:
    tile = one_tile("transpose", x)
    if len(tile.shape) != 2:
        raise Refused(
            "shape-mismatch",
            f"`transpose` of `{tile}` of rank {len(tile.shape)}",
            "use `permute_dims` for other ranks",
            0,
        )
    return _permuted(tile, (1, 0))


@op(
    "shape",
    result=_transpose_type,
    lanes=Lanes.MOVE,
    method_of=("tile",),
    stub=(
        "def transpose(x: Tile[T, M, N], /) -> Tile[T, N, M]",
        "Tile: def transpose(self: Tile[T, M, N], /) -> Tile[T, N, M]",
    ),
)
def transpose(x: Array, /) -> Array:
    """A rank-2 tile with rows and columns exchanged."""
    return x.transpose()


def _broadcast_to_type(x: Type, /, *shape: Type) -> Type:
    tile = one_tile("broadcast_to", x)
    new = shape_of("broadcast_to", shape, 1)
    offset = len(new) - len(tile.shape)
    if offset < 0:
        raise Refused(
            "shape-mismatch", f"`broadcast_to` of shape {show(tile.shape)} to {show(new)} drops an axis", None, 1
        )
    for axis, extent in enumerate(tile.shape):
        if extent not in (1, new[axis + offset]):
            raise mismatch(
                "broadcast_to", tile, TileType(tile.dtype, new), extent, new[axis + offset], axis + offset, 1
            )
    return TileType(tile.dtype, new, voids(*((a + offset, edge) for a, edge in tile.void)))


@op(
    "shape",
    result=_broadcast_to_type,
    lanes=Lanes.MOVE,
    method_of=("tile",),
    stub=_to_shape("broadcast_to"),
)
def broadcast_to(x: Array, /, *shape: Any) -> Array:
    """The tile stretched to a shape: axes of extent 1, and missing leading ones, repeat."""
    return np.broadcast_to(x, extents(shape))


def _expand_dims_type(x: Type, axis: Type, /) -> Type:
    tile = one_tile("expand_dims", x)
    at = axis_of("expand_dims", axis, len(tile.shape) + 1, 1)
    shape = (*tile.shape[:at], 1, *tile.shape[at:])
    return TileType(tile.dtype, shape, voids(*((a + (a >= at), edge) for a, edge in tile.void)))


def _expansions(name: str, removes: bool) -> tuple[str, ...]:
    lines: list[str] = []
    for rank in range(4):
        names = _DIMS[:rank]
        small = f"Tile[T, {', '.join(names)}]" if names else "Tile[T, *tuple[()]]"
        for at in range(rank + 1):
            large = f"Tile[T, {', '.join((*names[:at], 'One', *names[at:]))}]"
            source, result = (large, small) if removes else (small, large)
            literal = f"Literal[{at}, {at - rank - 1}]"
            lines.append(f"def {name}(x: {source}, axis: {literal}, /) -> {result}")
            lines.append(f"Tile: def {name}(self: {source}, axis: {literal}, /) -> {result}")
    return tuple(lines)


@op(
    "shape",
    result=_expand_dims_type,
    lanes=Lanes.MOVE,
    method_of=("tile",),
    stub=_expansions("expand_dims", removes=False),
)
def expand_dims(x: Array, axis: int, /) -> Array:
    """The tile with a new axis of extent 1 at `axis`."""
    return np.expand_dims(x, axis)


def _squeeze_type(x: Type, axis: Type, /) -> Type:
    tile = one_tile("squeeze", x)
    at = axis_of("squeeze", axis, len(tile.shape), 1)
    if tile.shape[at] != 1:
        raise Refused("shape-mismatch", f"`squeeze` of axis {at} of shape {show(tile.shape)}, which is not 1", None, 1)
    shape = (*tile.shape[:at], *tile.shape[at + 1 :])
    return TileType(tile.dtype, shape, voids(*((a - (a > at), edge) for a, edge in tile.void if a != at)))


@op(
    "shape",
    result=_squeeze_type,
    lanes=Lanes.MOVE,
    method_of=("tile",),
    stub=_expansions("squeeze", removes=True),
)
def squeeze(x: Array, axis: int, /) -> Array:
    """The tile without `axis`, whose extent is 1."""
    return np.squeeze(x, axis)


def _tiles_of(op: str, arrays: Type) -> tuple[TileType, ...]:
    if not isinstance(arrays, TupleType) or not arrays.items:
        raise Refused(
            "usage", f"`{op}` takes a tuple of tiles, not {describe(arrays)}", f"write `{op}((x, y), axis=0)`", 0
        )
    return tuple(one_tile(op, item) for item in arrays.items)


def _concat_type(arrays: Type, /, axis: Type = _FIRST) -> Type:
    tiles = _tiles_of("concat", arrays)
    first = tiles[0]
    at = axis_of("concat", axis, len(first.shape), 1)
    total = 0
    for tile in tiles:
        if tile.dtype is not first.dtype:
            raise Refused(
                "dtype-mismatch",
                f"`concat` of a `{first.dtype.name}` tile and a `{tile.dtype.name}` tile",
                f"convert one of them, for example with `.astype(tc.{first.dtype.name})`",
                0,
            )
        if len(tile.shape) != len(first.shape):
            raise Refused("shape-mismatch", f"`concat` of shapes {show(first.shape)} and {show(tile.shape)}", None, 0)
        for other, (one, two) in enumerate(zip(first.shape, tile.shape, strict=True)):
            if other != at and one != two:
                raise mismatch("concat", first, tile, one, two, other, 0)
    for tile in tiles:
        extent = tile.shape[at]
        if not isinstance(extent, int):
            raise NotYet
        total += extent
    shape = (*first.shape[:at], total, *first.shape[at + 1 :])
    return TileType(first.dtype, shape, voids(*((a, edge) for tile in tiles for a, edge in tile.void if a != at)))


def _concat_mixes(arrays: Type, /, axis: Type = _FIRST) -> Sequence[tuple[int, int]]:
    return ((0, axis_of("concat", axis, len(_tiles_of("concat", arrays)[0].shape), 1)),)


def _concatenations() -> tuple[str, ...]:
    """All extents but that of `axis` are those of every tile; the sum has no name."""
    lines: list[str] = []
    for rank in range(1, 5):
        for axis in range(rank):
            extents = ", ".join("Any" if at == axis else name for at, name in enumerate(_DIMS[:rank]))
            literal = f"Literal[{axis}, {axis - rank}]{' = ...' if axis == 0 else ''}"
            lines.append(
                f"def concat(arrays: tuple[Tile[T, {extents}], ...], /, axis: {literal}) -> Tile[T, {extents}]"
            )
    return tuple(lines)


@op("shape", result=_concat_type, lanes=Lanes.MIX, mixes=_concat_mixes, stub=_concatenations())
def concat(arrays: tuple[Array, ...], /, axis: int = 0) -> Array:
    """Tiles one after the other along `axis`; other extents are equal."""
    return np.concatenate(arrays, axis)


def _extract_type(x: Type, index: Type, shape: Type, /) -> Type:
    tile = one_tile("extract", x)
    rank = len(tile.shape)
    indices = index.items if isinstance(index, TupleType) else (index,)
    new = tuple(extent_of("extract", d, 2) for d in (shape.items if isinstance(shape, TupleType) else (shape,)))
    if len(indices) != rank or len(new) != rank:
        raise Refused("shape-mismatch", f"`extract` of `{tile}` takes {rank} indices and {rank} extents", None, 1)
    for axis, (at, whole, part) in enumerate(zip(indices, tile.shape, new, strict=True)):
        part_index = constant_int("extract", "each index", at, 1)
        if not isinstance(whole, int) or not isinstance(part, int):
            continue
        if whole % part:
            raise Refused(
                "shape-mismatch",
                f"`extract` of shape {show(new)} from {show(tile.shape)}: {part} does not divide {whole} on axis {axis}",
                None,
                2,
            )
        if not 0 <= part_index < whole // part:
            raise Refused(
                "out-of-bounds",
                f"`extract` of part {part_index} on axis {axis}, which has {whole // part} parts of {part}",
                None,
                1,
            )
    return TileType(tile.dtype, new, voids(*((a, edge) for a, edge in tile.void if new[a] == tile.shape[a])))


def _extract_mixes(x: Type, index: Type, shape: Type, /) -> Sequence[tuple[int, int]]:
    """The axes that are cut: a part may lie beyond the edge as a whole, so the tile itself must not hang over."""
    del index
    tile = one_tile("extract", x)
    new = shape_of("extract", shape.items if isinstance(shape, TupleType) else (shape,), 2)
    return tuple((0, axis) for axis, (whole, part) in enumerate(zip(tile.shape, new, strict=True)) if whole != part)


@op(
    "shape",
    result=_extract_type,
    lanes=Lanes.MIX,
    mixes=_extract_mixes,
    method_of=("tile",),
    stub=tuple(
        f"{prefix}def extract({receiver}: {_ANY}, index: {index}, shape: {shape}, /) -> Tile[T, {names}]"
        for prefix, receiver in (("", "x"), ("Tile: ", "self"))
        for index, shape, names in (
            ("int | tuple[int]", "type[M] | tuple[type[M]]", "M"),
            ("tuple[int, int]", "tuple[type[M], type[N]]", "M, N"),
            ("tuple[int, int, int]", "tuple[type[M], type[N], type[K]]", "M, N, K"),
        )
    ),
)
def extract(x: Array, index: Any, shape: Any, /) -> Array:
    """The part of `x` at constant `index` when it is cut into parts of `shape`, which divides it."""
    sizes = extents((shape,))
    places = index if isinstance(index, tuple) else (index,)
    return x[tuple(slice(i * n, (i + 1) * n) for i, n in zip(places, sizes, strict=True))]
