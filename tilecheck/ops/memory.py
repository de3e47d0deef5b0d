"""Loads and stores: what moves tiles between arrays and registers.

Writes have no index to get wrong: a `Mut` tensor is written at the block's own tile, a `Mapped` one at an index that
the partition minted, sub-tiles at an index local to the block. Stores clip at ragged edges; a load that hangs over an
edge has void lanes along that axis:

    z.load()    ->  Tile[f32, BM, BN], void along both axes (edges z.shape[0], z.shape[1])

The meanings call the interpreter's objects, which check every access and record it.
"""

from __future__ import annotations

from typing import Any, Literal

from tilecheck.ir.types import (
    ArrayExtent,
    Extent,
    IndexType,
    NoneType,
    ScalarType,
    StrType,
    SubTilesType,
    TensorType,
    TileType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.ops.extents import Void, show, voids
from tilecheck.ops.numbers import Value, describe, fits, number
from tilecheck.ops.row import NONE, Effect, Lanes, NotYet, Refused, op
from tilecheck.surface.dtypes import DTypeClass

PADS = ("zero", "neg_zero", "nan", "inf", "-inf")


def tensor(op: str, type: Type, argument: int = 0) -> TensorType:
    """`type` as a tensor parameter. Raises `Refused` for anything else."""
    if not isinstance(type, TensorType):
        raise Refused("usage", f"`{op}` takes a tensor parameter, not {describe(type)}", None, argument)
    return type


def known(type: TensorType) -> tuple[DTypeClass, tuple[Extent, ...]]:
    """Dtype and shape of a tensor; raises `NotYet` where the annotation leaves one open."""
    if type.dtype is None or type.shape is None:
        raise NotYet
    return type.dtype, type.shape


def edges(array: str, shape: tuple[Extent, ...], axes: tuple[int, ...] | None = None) -> Void:
    """The void axes of a tile of `shape`: each may hang over `array`, except an axis of extent 1."""
    order = axes or tuple(range(len(shape)))
    return voids(*((at, ArrayExtent(array, order[at])) for at, extent in enumerate(shape) if extent != 1))


def int_index(op: str, type: Type, argument: int) -> None:
    """Raises `Refused` unless `type` is an int scalar, as indices of tiles are."""
    value = number(op, type, argument)
    if not isinstance(value, ScalarType) or value.kind != "int":
        raise Refused("usage", f"`{op}` takes int indices, not {describe(type)}", None, argument)


def rank_is(op: str, what: str, given: int, rank: int, argument: int) -> None:
    """Raises `Refused` unless as many indices are `given` as `what` has axes."""
    if given != rank:
        raise Refused(
            "shape-mismatch", f"`{op}` of {what} takes {rank} indices, one per axis, not {given}", None, argument
        )


def pad_of(op: str, dtype: DTypeClass, pad: Type) -> Literal["zero", "neg_zero", "nan", "inf", "-inf"] | float | None:
    """What lanes beyond the edge read, None to leave them void. Raises `Refused` for what the dtype cannot hold."""
    names = ", ".join(map(repr, PADS))
    if isinstance(pad, NoneType):
        return None
    if isinstance(pad, StrType):
        for name in PADS:
            if pad.value == name:
                if name != "zero" and dtype.kind != "float":
                    raise Refused(
                        "dtype-mismatch", f"`pad={name!r}` of a `{dtype.name}` tensor", "pad ints with a number"
                    )
                return name  # type: ignore[return-value]
        raise Refused("usage", f"`pad={pad.value!r}` of `{op}` is no padding", f"use a number, or one of {names}")
    if isinstance(pad, ScalarType) and pad.value is not None:
        fits("pad", pad, dtype)
        return pad.value
    raise Refused(
        "unsupported", f"`pad` of `{op}` must be a constant, not {describe(pad)}", f"use a number, or one of {names}"
    )


# ---- the block's own tile


def own(op: str, type: Type) -> TensorType:
    t = tensor(op, type)
    if t.access == "Shared":
        raise Refused(
            "write-to-shared",
            f"`{op}` through `{t.name}`, which is `Shared`",
            f"declare `{t.name}: Tensor[Mut, ...]` and pass a partition, or write to another tensor",
            0,
        )
    if t.access == "Atomic":
        raise Refused(
            "write-to-shared", f"`{op}` through `{t.name}`, which is `Atomic`", "use `atomic_add` and its kin", 0
        )
    return t


def minted(op: str, target: TensorType, at: Type | None, argument: int) -> None:
    """Raises `Refused("foreign-index")` unless `at` is an index of `target`: none for `Mut`, a minted one for
    `Mapped`.
    """
    if target.access == "Mut":
        if at is not None:
            raise Refused(
                "foreign-index",
                f"`{op}` of `{target.name}` takes no index: a `Mut` tensor is written at the block's own tile",
                f"drop the index, or declare `{target.name}: Tensor[Mapped, ...]` and loop over `{target.name}.indices()`",
                argument,
            )
        return
    loop = f"`for at in {target.name}.indices():`"
    if at is None:
        raise Refused(
            "foreign-index", f"`{op}` of the `Mapped` tensor `{target.name}` needs an index", f"loop {loop}", 0
        )
    if not isinstance(at, IndexType):
        raise Refused(
            "foreign-index",
            f"`{op}` of `{target.name}` at {describe(at)}, which `{target.name}.indices()` did not mint",
            f"loop {loop} and pass `at`",
            argument,
        )
    if target.name not in at.arrays:
        owners = " and ".join(f"`{name}`" for name in at.arrays)
        raise Refused(
            "foreign-index",
            f"`{op}` of `{target.name}` at an index minted by {owners}",
            f"loop {loop}, or mint one index for both with `indices_with`",
            argument,
        )


def load_tile_type(view: Type, /, *at: Type) -> Type:
    if isinstance(view, TensorType):
        raise Refused(
            "usage",
            f"`{view.name}[...]` of a tensor",
            f"cut it into tiles first: `{view.name}.partition(...)[...]`",
            0,
        )
    if not isinstance(view, ViewType | SubTilesType):
        raise Refused("usage", f"`[...]` of {describe(view)}", None, 0)
    indices = at[0].items if len(at) == 1 and isinstance(at[0], TupleType) else at
    if len(indices) == 1 and isinstance(indices[0], IndexType):
        rank_is("[...]", f"the view of `{view.array}`", indices[0].rank, len(view.shape), 1)
    else:
        rank_is("[...]", f"the view of `{view.array}`", len(indices), len(view.shape), 1)
        for position, index in enumerate(indices):
            int_index("[...]", index, position + 1)
    if isinstance(view, SubTilesType):
        for axis, (part, whole) in enumerate(zip(view.shape, view.whole, strict=True)):
            if isinstance(part, int) and isinstance(whole, int) and whole % part:
                raise Refused(
                    "void-lanes",
                    f"`load` of sub-tiles of `{view.array}` on axis {axis}: {part} does not divide {whole}",
                    "cut the tile into sub-tiles that divide it, or load the whole tile",
                    0,
                )
        return TileType(view.dtype, view.shape, edges(view.array, view.shape))
    if view.pad is not None:
        return TileType(view.dtype, view.shape)
    return TileType(view.dtype, view.shape, edges(view.array, view.shape, view.permute))


def _load_type(source: Type, /, *at: Type, pad: Type = NONE) -> Type:
    if isinstance(source, ViewType | SubTilesType):
        if pad != NONE:
            raise Refused("usage", "`pad` of `load` of a view", "pad the view: `x.partition(..., pad=0.0)`")
        return load_tile_type(source, *at)
    t = tensor("load", source)
    if t.access == "Atomic":
        raise Refused("unsupported", f"`load` of `{t.name}`, which is `Atomic`", "read it in a later launch", 0)
    dtype, shape = known(t)
    if t.access == "Shared":
        if at:
            raise Refused(
                "usage", f"`load` of `{t.name}` takes no index", f"cut it into tiles: `{t.name}.partition(...)[...]`", 1
            )
        open_axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, ArrayExtent)]
        if open_axes:
            raise Refused(
                "unbound-dim",
                f"`load` of `{t.name}`, whose extent on axis {open_axes[0]} is only known at the launch",
                f"name the extent with a `Dim` in its annotation, or read tiles with `{t.name}.partition(...)[...]`",
                0,
            )
        return TileType(dtype, shape)
    minted("load", t, at[0] if at else None, 1)
    padded = pad_of("load", dtype, pad) is not None
    return TileType(dtype, shape, () if padded else edges(t.name, shape))


@op(
    "load and store",
    result=_load_type,
    lanes=Lanes.FRESH,
    effect=Effect.READ,
    method_of=("tensor", "view", "subtiles"),
    function=False,
    stub=(
        "Tensor: def load(self: Tensor[Mapped, T, *S], at: Index, /, *, pad: Pad = ...) -> Tile[T, *S]",
        "Tensor: def load(self: Tensor[Shared, T, *S], /, *, pad: Pad = ...) -> Tile[T, *S]",
    ),
)
def load(source: Any, /, *at: Any, pad: Any = None) -> Value:
    """The block's own tile of a `Mut` tensor as of its earlier stores, the tile of a `Mapped` one at a minted index, or
    the whole of a `Shared` tensor whose extents are all `Dim`s. Lanes beyond the edge read `pad`, without it they are
    void.
    """
    return source.load(*at) if pad is None else source.load(*at, pad=pad)


def _store_type(target: Type, tile: Type, /, *at: Type) -> Type:
    value = number("store", tile, 1)
    if isinstance(target, SubTilesType):
        rank_is("store", f"sub-tiles of `{target.array}`", len(at), len(target.shape), 2)
        for position, index in enumerate(at):
            int_index("store", index, position + 2)
        name, dtype, shape = target.array, target.dtype, target.shape
    elif isinstance(target, ViewType):
        raise Refused(
            "write-to-shared",
            f"`store` through a read view of `{target.array}`",
            "store to a `Mut` or `Mapped` tensor",
            0,
        )
    else:
        t = own("store", target)
        if len(at) > 1:
            raise Refused("usage", f"`store` of `{t.name}` takes one index, not {len(at)}", None, 2)
        minted("store", t, at[0] if at else None, 2)
        name = t.name
        dtype, shape = known(t)
    if isinstance(value, ScalarType):
        raise Refused(
            "shape-mismatch",
            f"`store` of a scalar to `{name}`, whose tile has shape {show(shape)}",
            f"make a tile of it: `tc.full({show(shape)}, {'...' if value.value is None else value.value}, dtype=tc.{dtype.name})`",
            1,
        )
    if value.dtype is not dtype:
        raise Refused(
            "dtype-mismatch",
            f"`store` of a `{value.dtype.name}` tile to `{name}`, which is `{dtype.name}`",
            f"convert it with `.astype(tc.{dtype.name})`",
            1,
        )
    if value.shape != shape:
        raise Refused(
            "shape-mismatch",
            f"`store` of a tile of shape {show(value.shape)} to `{name}`, whose tile has shape {show(shape)}",
            "compute a tile of that shape; `broadcast_to`, `reshape` and `permute_dims` change shapes",
            1,
        )
    return NoneType()


@op(
    "load and store",
    result=_store_type,
    lanes=Lanes.CARRY,
    effect=Effect.WRITE,
    method_of=("tensor", "subtiles"),
    function=False,
    stub=(
        "Tensor: def store(self: Tensor[Mut, T, *S], tile: Tile[T, *S], /) -> None",
        "Tensor: def store(self: Tensor[Mapped, T, *S], tile: Tile[T, *S], at: Index, /) -> None",
        "SubTiles: def store(self, tile: Tile[T, *S], /, *at: int) -> None",
    ),
)
def store(target: Any, tile: Value, /, *at: Any) -> None:
    """Write a tile of exactly the target's shape and dtype; lanes beyond the array's edge are dropped. A `Mapped`
    tensor takes an index minted by its `indices`, sub-tiles one int per axis. Stores of one block happen in program
    order.
    """
    target.store(tile, *at)


def _load_like_type(source: Type, like: Type, /, *at: Type, pad: Type = NONE) -> Type:
    t, model = tensor("load_like", source), tensor("load_like", like, 1)
    if t.access == "Atomic":
        raise Refused("unsupported", f"`load_like` of `{t.name}`, which is `Atomic`", "read it in a later launch", 0)
    if t.access != "Shared":
        raise Refused(
            "usage",
            f"`load_like` reads a `Shared` tensor, `{t.name}` is `{t.access}`",
            f"use `{t.name}.load()` for the block's own tile",
            0,
        )
    if model.access not in ("Mut", "Mapped"):
        raise Refused(
            "usage", f"`load_like` takes its position from a `Mut` tensor, `{model.name}` is `{model.access}`", None, 1
        )
    minted("load_like", model, at[0] if at else None, 2)
    if t.dtype is None or model.shape is None:
        raise NotYet
    if t.shape is not None and len(t.shape) != len(model.shape):
        raise Refused(
            "shape-mismatch",
            f"`load_like` of `{t.name}` of rank {len(t.shape)} at the tile of `{model.name}` of rank {len(model.shape)}",
            f"cut `{t.name}` with `.partition(...)` instead",
            0,
        )
    if pad_of("load_like", t.dtype, pad) is not None:
        return TileType(t.dtype, model.shape)
    # `x` covers `like`, as each launch checks, so a lane inside `like` is inside `x`: the edge is that of `like`. Where
    # the tile divides the extent of `x`, it lies inside `x` as a whole.
    whole = t.shape or (None,) * len(model.shape)
    hanging = [axis for axis, tile in enumerate(model.shape) if not _divides(tile, whole[axis])]
    void = tuple((axis, edge) for axis, edge in edges(model.name, model.shape) if axis in hanging)
    return TileType(t.dtype, model.shape, void)


def _divides(tile: Extent, whole: Extent | None) -> bool:
    """Whether tiles of this extent are known to divide the whole one."""
    return tile == whole or (isinstance(tile, int) and isinstance(whole, int) and whole % tile == 0)


@op(
    "load and store",
    result=_load_like_type,
    lanes=Lanes.FRESH,
    effect=Effect.READ,
    stub=(
        "def load_like(x: Tensor[Shared, T, *tuple[Any, ...]], like: Tensor[Mut, Any, *S], /, *, pad: Pad = ...) -> Tile[T, *S]",
        "def load_like(x: Tensor[Shared, T, *tuple[Any, ...]], like: Tensor[Mapped, Any, *S], at: Index, /, *, pad: Pad = ...) -> Tile[T, *S]",
    ),
)
def load_like(x: Any, like: Any, /, *at: Any, pad: Any = None) -> Value:
    """Read `x` at the position and in the shape of the block's own tile of `like`; `x` keeps its dtype. `x` must be at
    least as long as `like` on every axis, which each launch checks. Lanes beyond the edge of `x` read `pad`, a number
    such as `0.0` or one of "nan", "inf" and "-inf"; without it they are void.
    """
    return x.load_like(like, *at, pad=pad)
