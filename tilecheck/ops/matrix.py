"""Matrix products. `mma` adds a product to an accumulator: f32 for f16, bf16 and f32, f64 for f64, i32 for 8-bit ints.

The inner axis is mixed, so it must not be void in either argument; rows and columns only move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilecheck.ir.types import Extent, TileType, Type
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.extents import Void, show, voids
from tilecheck.ops.numbers import Array, computable, narrow
from tilecheck.ops.row import Lanes, Refused, op
from tilecheck.surface.dtypes import DTypeClass, f32, f64, i32

_HELP = "the columns of the first tile meet the rows of the second"


def accumulator(op: str, dtype: DTypeClass) -> DTypeClass:
    """The dtype in which products of `dtype` are summed. Raises `Refused` for dtypes without a product."""
    computable(op, dtype, ("float", "int", "uint"), 0)
    if dtype.kind == "float":
        return f64 if dtype is f64 else f32
    if dtype.bits == 8:
        return i32
    raise Refused("dtype-mismatch", f"`{op}` of `{dtype.name}` tiles", "it takes floats and 8-bit ints", 0)


def _product(op: str, x: TileType, y: TileType) -> tuple[tuple[Extent, ...], Void]:
    rank = len(x.shape)
    if rank != len(y.shape) or rank not in (2, 3):
        raise Refused(
            "shape-mismatch",
            f"`{op}` of tiles of shape {show(x.shape)} and {show(y.shape)}",
            "both have rank 2, or rank 3 with equal first extents",
            1,
        )
    if x.dtype is not y.dtype:
        raise Refused(
            "dtype-mismatch",
            f"`{op}` of a `{x.dtype.name}` tile and a `{y.dtype.name}` tile",
            f"convert one of them, for example with `.astype(tc.{x.dtype.name})`",
            1,
        )
    if x.shape[-1] != y.shape[-2]:
        raise Refused(
            "shape-mismatch",
            f"`{op}` of tiles of shape {show(x.shape)} and {show(y.shape)}: inner extents `{x.shape[-1]}` and "
            f"`{y.shape[-2]}` differ",
            _HELP,
            1,
        )
    if rank == 3 and x.shape[0] != y.shape[0]:
        raise Refused(
            "shape-mismatch",
            f"`{op}` of tiles of shape {show(x.shape)} and {show(y.shape)}: `{x.shape[0]}` and `{y.shape[0]}` differ on axis 0",
            None,
            1,
        )
    rows = [(axis, edge) for axis, edge in x.void if axis != rank - 1]
    columns = [(axis, edge) for axis, edge in y.void if axis != rank - 2]
    return (*x.shape[:-1], y.shape[-1]), voids(*rows, *columns)


def _mma_type(x: Type, y: Type, acc: Type, /) -> Type:
    a, b, c = one_tile("mma", x, 0), one_tile("mma", y, 1), one_tile("mma", acc, 2)
    shape, void = _product("mma", a, b)
    wanted = accumulator("mma", a.dtype)
    if c.dtype is not wanted:
        raise Refused(
            "dtype-mismatch",
            f"`mma` of `{a.dtype.name}` tiles accumulates in `{wanted.name}`, the accumulator is `{c.dtype.name}`",
            f"start from `zeros({', '.join(map(str, shape))}, dtype=tc.{wanted.name})`",
            2,
        )
    if c.shape != shape:
        raise Refused(
            "shape-mismatch",
            f"`mma` gives shape {show(shape)}, the accumulator has shape {show(c.shape)}",
            f"start from `zeros({', '.join(map(str, shape))}, dtype=tc.{wanted.name})`",
            2,
        )
    return TileType(wanted, shape, voids(*void, *c.void))


def _mixes_inner(x: Type, y: Type, /, *_: Type) -> Sequence[tuple[int, int]]:
    assert isinstance(x, TileType) and isinstance(y, TileType)
    return ((0, len(x.shape) - 1), (1, len(y.shape) - 2))


_ACCUMULATORS = (("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32"), ("u8", "i32"))


@op(
    "matrix",
    result=_mma_type,
    lanes=Lanes.MIX,
    mixes=_mixes_inner,
    stub=tuple(
        f"def mma(x: Tile[{d}, {x}], y: Tile[{d}, {y}], acc: Tile[{a}, {z}], /) -> Tile[{a}, {z}]"
        for d, a in _ACCUMULATORS
        for x, y, z in (("M, K", "K, N", "M, N"), ("B, M, K", "B, K, N", "B, M, N"))
    ),
)
def mma(x: Array, y: Array, acc: Array, /) -> Array:
    """`x @ y + acc`, the product summed in the accumulator's dtype: f32 for f16, bf16 and f32, f64 for f64, i32 for
    8-bit ints. Shapes (M, K), (K, N) and (M, N), or with one equal leading axis each.
    """
    return np.asarray(np.matmul(x.astype(acc.dtype, copy=False), y.astype(acc.dtype, copy=False)) + acc)


def _matmul_type(x: Type, y: Type, /) -> Type:
    a, b = one_tile("@", x, 0), one_tile("@", y, 1)
    shape, void = _product("@", a, b)
    if a.dtype.kind != "float":
        raise Refused(
            "dtype-mismatch",
            f"`@` of `{a.dtype.name}` tiles would not hold its sums",
            f"use `mma` with `zeros({', '.join(map(str, shape))}, dtype=tc.i32)`",
            0,
        )
    accumulator("@", a.dtype)
    return TileType(a.dtype, shape, void)


@op(
    "matrix",
    result=_matmul_type,
    lanes=Lanes.MIX,
    mixes=_mixes_inner,
    operator="@",
    stub=(
        "def matmul(x: Tile[T, M, K], y: Tile[T, K, N], /) -> Tile[T, M, N]",
        "def matmul(x: Tile[T, B, M, K], y: Tile[T, B, K, N], /) -> Tile[T, B, M, N]",
        "Tile: def __matmul__(self: Tile[T, M, K], other: Tile[T, K, N], /) -> Tile[T, M, N]",
        "Tile: def __matmul__(self: Tile[T, B, M, K], other: Tile[T, B, K, N], /) -> Tile[T, B, M, N]",
    ),
)
def matmul(x: Array, y: Array, /) -> Any:
    """`x @ y` of float tiles in their dtype; f16 and bf16 sum in f32 and round once at the end."""
    wide = np.dtype(np.float32) if narrow(x.dtype) else x.dtype
    product = np.matmul(x.astype(wide, copy=False), y.astype(wide, copy=False))
    return np.asarray(product).astype(x.dtype, copy=False)
