"""Tensors in tiles: `x.partition(...)` of what is read, `z.tiles(...)` of the block's own tile, and `num_tiles`.

A view pads or leaves lanes beyond the edge void; sub-tiles are clipped at the end of the block's own tile, so that
sub-tiles of different blocks never meet:

    x.partition(BM, BK)[i, k]             ->  Tile[f16, BM, BK], void along both axes (edges x.shape[0], x.shape[1])
    x.partition(BM, BK, pad=0.0)[i, k]    ->  Tile[f16, BM, BK], no void lane
"""

from __future__ import annotations

from typing import Any

from tilecheck.ir.types import (
    NoneType,
    ScalarType,
    SubTilesType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.ops.extents import axis_of, constant_int, shape_of
from tilecheck.ops.memory import known, load_tile_type, own, pad_of, tensor
from tilecheck.ops.numbers import Value, describe
from tilecheck.ops.row import NONE, Effect, Lanes, NotYet, Refused, op


def _partition_type(x: Type, /, *shape: Type, pad: Type = NONE, permute: Type = NONE) -> Type:
    t = tensor("partition", x)
    if t.access != "Shared":
        raise Refused(
            "usage",
            f"`partition` of `{t.name}`, which is `{t.access}`, in a kernel",
            f"cut the block's own tile with `{t.name}.tiles(...)`; read views are of `Shared` tensors",
            0,
        )
    extents = shape_of("partition", shape, 1)
    if t.shape is not None and len(extents) != len(t.shape):
        raise Refused(
            "shape-mismatch",
            f"`partition` of `{t.name}` of rank {len(t.shape)} with {len(extents)} extents",
            "give one `Dim` per axis",
            1,
        )
    order = tuple(range(len(extents)))
    if not isinstance(permute, NoneType):
        if not isinstance(permute, TupleType):
            raise Refused("usage", f"`permute` of `partition` is a tuple of axes, not {describe(permute)}")
        order = tuple(constant_int("partition", "each axis of `permute`", item) for item in permute.items)
        if sorted(order) != list(range(len(extents))):
            raise Refused(
                "shape-mismatch", f"`permute={order}` of `partition` does not name each of the {len(extents)} axes once"
            )
    if t.dtype is None:
        raise NotYet
    return ViewType(t.name, t.dtype, extents, order, pad_of("partition", t.dtype, pad))


@op(
    "load and store",
    result=_partition_type,
    lanes=Lanes.FRESH,
    method_of=("tensor",),
    function=False,
    stub=(
        "Tensor: def partition(self: Tensor[Shared, T, *tuple[Any, ...]], d0: type[M], /, *, pad: Pad = ...) -> View[T, M]",
        (
            "Tensor: def partition(self: Tensor[Shared, T, *tuple[Any, ...]], d0: type[M], d1: type[N], /, *, pad: Pad = ...,"
            " permute: tuple[int, int] | None = ...) -> View[T, M, N]"
        ),
        (
            "Tensor: def partition(self: Tensor[Shared, T, *tuple[Any, ...]], d0: type[M], d1: type[N], d2: type[K], /, *,"
            " pad: Pad = ..., permute: tuple[int, int, int] | None = ...) -> View[T, M, N, K]"
        ),
        (
            "Tensor: def partition(self: Tensor[Shared, T, *tuple[Any, ...]], d0: type[M], d1: type[N], d2: type[K],"
            " d3: type[L], /, *, pad: Pad = ..., permute: tuple[int, int, int, int] | None = ...) -> View[T, M, N, K, L]"
        ),
    ),
)
def partition(x: Any, /, *shape: Any, pad: Any = None, permute: Any = None) -> Any:
    """A view of a `Shared` tensor that is read in tiles of these extents: `x.partition(BM, BK)[i, k]`.

    `pad` is what lanes beyond the edge read: a number or 'zero', 'neg_zero', 'nan', 'inf', '-inf'; without it they are
    void. With `permute`, axis `a` of the tiles walks axis `permute[a]` of the tensor.
    """
    return x.view(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape, pad, permute)


@op(
    "load and store",
    result=load_tile_type,
    lanes=Lanes.FRESH,
    effect=Effect.READ,
    function=False,
    stub=(
        "View: def __getitem__(self, at: int | tuple[int, ...] | Index, /) -> Tile[T, *S]",
        "SubTiles: def __getitem__(self, at: int | tuple[int, ...], /) -> Tile[T, *S]",
    ),
)
def load_tile(view: Any, /, *at: Any) -> Value:
    """`xs[i, k]`: the tile of a view, or of sub-tiles, at these indices in tiles."""
    return view.load(*at)


def _num_tiles_type(view: Type, axis: Type, /) -> Type:
    if isinstance(view, ViewType | SubTilesType):
        rank = len(view.shape)
    else:
        t = tensor("num_tiles", view)
        if t.access not in ("Mut", "Mapped"):
            raise Refused(
                "usage",
                f"`num_tiles` of `{t.name}`, which is not cut into tiles",
                f"partition it first: `{t.name}.partition(...)`",
                0,
            )
        if t.shape is None:
            raise NotYet
        rank = len(t.shape)
    axis_of("num_tiles", axis, rank, 1)
    return ScalarType("int")


@op(
    "load and store",
    result=_num_tiles_type,
    lanes=Lanes.FRESH,
    method_of=("tensor", "view", "subtiles"),
    function=False,
    stub=(
        "View: def num_tiles(self, axis: int, /) -> int",
        "SubTiles: def num_tiles(self, axis: int, /) -> int",
        (
            "Tensor: def num_tiles(self: Tensor[Mut, Any, *tuple[Any, ...]] | Tensor[Mapped, Any, *tuple[Any, ...]],"
            " axis: int, /) -> int"
        ),
    ),
)
def num_tiles(view: Any, axis: int, /) -> int:
    """How many tiles cover the array along `axis`: the extent over the tile's, rounded up. Sub-tiles count within the
    block's own tile.
    """
    return int(view.num_tiles(axis))


def _tiles_type(z: Type, /, *shape: Type) -> Type:
    t = own("tiles", z)
    if t.access != "Mut":
        raise Refused("usage", f"`tiles` of `{t.name}`, which is `{t.access}`", "sub-tiles are of a `Mut` tensor", 0)
    extents = shape_of("tiles", shape, 1)
    dtype, whole = known(t)
    if len(extents) != len(whole):
        raise Refused(
            "shape-mismatch", f"`tiles` of `{t.name}` of rank {len(whole)} with {len(extents)} extents", None, 1
        )
    return SubTilesType(t.name, dtype, extents, whole)


@op(
    "load and store",
    result=_tiles_type,
    lanes=Lanes.FRESH,
    method_of=("tensor",),
    function=False,
    stub=(
        "Tensor: def tiles(self: Tensor[Mut, T, *tuple[Any, ...]], d0: type[M], /) -> SubTiles[T, M]",
        "Tensor: def tiles(self: Tensor[Mut, T, *tuple[Any, ...]], d0: type[M], d1: type[N], /) -> SubTiles[T, M, N]",
        (
            "Tensor: def tiles(self: Tensor[Mut, T, *tuple[Any, ...]], d0: type[M], d1: type[N], d2: type[K], /)"
            " -> SubTiles[T, M, N, K]"
        ),
    ),
)
def tiles(z: Any, /, *shape: Any) -> Any:
    """Cut the block's own tile again. Indices are local to the block; a sub-tile that hangs over the block's tile is
    clipped there, so sub-tiles of different blocks never meet, whether they divide or not.
    """
    return z.tiles(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)
