"""Reductions along axes: `sum max min prod argmax argmin any all`, and `reduce` with a function of the user's.

A reduction mixes all lanes along its axes, so these must not be void. Values keep the tile's dtype; floats of 16 bits
accumulate in f32 and round once, ints wrap. The order of summation is not specified: it may differ between backends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilecheck.ir.types import Extent, NoneType, ScalarType, TileType, Type
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.extents import axes_of, axis_of, constant_bool, voids
from tilecheck.ops.numbers import NUMBERS, Array, computable, narrow
from tilecheck.ops.row import NONE, Lanes, MixRule, Refused, ResultRule, op
from tilecheck.ops.signatures import reduction
from tilecheck.surface.dtypes import DTypeClass, bool_, i32

_FALSE = ScalarType("bool", False)


def drop_axes(tile: TileType, axes: Sequence[int], keep: bool, dtype: DTypeClass) -> TileType:
    """The tile left when `axes` are reduced: gone, or of extent 1 with `keep`; void entries of other axes move along."""
    shape: list[Extent] = []
    place: dict[int, int] = {}
    for axis, extent in enumerate(tile.shape):
        if axis in axes:
            if keep:
                shape.append(1)
            continue
        place[axis] = len(shape)
        shape.append(extent)
    return TileType(dtype, tuple(shape), voids(*((place[a], edge) for a, edge in tile.void if a in place)))


def _is_float(type: Type) -> bool:
    return isinstance(type, ScalarType) and type.kind == "float"


def _reduces(op: str, allowed: Sequence[str] = NUMBERS, dtype: DTypeClass | None = None) -> ResultRule:
    def rule(x: Type, /, axis: Type = NONE, keepdims: Type = _FALSE) -> Type:
        if op in ("max", "min") and (isinstance(x, ScalarType) or isinstance(axis, TileType) or _is_float(axis)):
            larger = "larger" if op == "max" else "smaller"
            raise Refused("usage", f"`{op}` of two values", f"use `{op}imum` for the {larger} of two, lane by lane", 1)
        tile = one_tile(op, x)
        computable(op, tile.dtype, allowed, 0)
        axes = axes_of(op, axis, len(tile.shape))
        return drop_axes(tile, axes, constant_bool(op, "keepdims", keepdims), dtype or tile.dtype)

    return rule


def mixes_axis(op: str) -> MixRule:
    """The lanes of argument 0 along `axis`, all of them for None."""

    def rule(x: Type, /, *rest: Type, axis: Type = NONE, **_: Type) -> Sequence[tuple[int, int]]:
        tile = one_tile(op, x)
        named = rest[0] if rest else axis
        return tuple((0, a) for a in axes_of(op, named, len(tile.shape)))

    return rule


def _along(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


def _fold(f: Callable[..., Any], x: Array, axis: Any, keepdims: bool) -> Array:
    wide = np.dtype(np.float32) if narrow(x.dtype) else x.dtype
    result = f(x.astype(wide, copy=False), axis=_along(axis, x.ndim), dtype=wide, keepdims=keepdims)
    return np.asarray(result).astype(x.dtype, copy=False)


@op(
    "reduction",
    result=_reduces("sum"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("sum"),
    method_of=("tile",),
    stub=reduction("sum"),
)
def sum_(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Sum along `axis` (an int, a tuple, None for all). `keepdims` leaves the axes with extent 1."""
    return _fold(np.sum, x, axis, keepdims)


@op(
    "reduction",
    result=_reduces("prod"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("prod"),
    method_of=("tile",),
    stub=reduction("prod"),
)
def prod(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Product along `axis` (an int, a tuple, None for all)."""
    return _fold(np.prod, x, axis, keepdims)


@op(
    "reduction",
    result=_reduces("max"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("max"),
    method_of=("tile",),
    stub=reduction("max"),
)
def max_(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Largest value along `axis` (an int, a tuple, None for all); nan if a lane is nan."""
    wide = x.astype(np.float32) if narrow(x.dtype) else x
    return np.asarray(np.max(wide, axis=_along(axis, x.ndim), keepdims=keepdims)).astype(x.dtype, copy=False)


@op(
    "reduction",
    result=_reduces("min"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("min"),
    method_of=("tile",),
    stub=reduction("min"),
)
def min_(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Smallest value along `axis` (an int, a tuple, None for all); nan if a lane is nan."""
    wide = x.astype(np.float32) if narrow(x.dtype) else x
    return np.asarray(np.min(wide, axis=_along(axis, x.ndim), keepdims=keepdims)).astype(x.dtype, copy=False)


@op(
    "reduction",
    result=_reduces("any", ("bool",), bool_),
    lanes=Lanes.MIX,
    mixes=mixes_axis("any"),
    method_of=("tile",),
    stub=reduction("any", result="bool_"),
)
def any_(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether some lane of a bool tile is true along `axis` (an int, a tuple, None for all)."""
    return np.asarray(np.any(x, axis=_along(axis, x.ndim), keepdims=keepdims))


@op(
    "reduction",
    result=_reduces("all", ("bool",), bool_),
    lanes=Lanes.MIX,
    mixes=mixes_axis("all"),
    method_of=("tile",),
    stub=reduction("all", result="bool_"),
)
def all_(x: Array, /, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether every lane of a bool tile is true along `axis` (an int, a tuple, None for all)."""
    return np.asarray(np.all(x, axis=_along(axis, x.ndim), keepdims=keepdims))


def _arg(op: str) -> ResultRule:
    def rule(x: Type, /, axis: Type = NONE, keepdims: Type = _FALSE) -> Type:
        tile = one_tile(op, x)
        computable(op, tile.dtype, NUMBERS, 0)
        rank = len(tile.shape)
        axes = tuple(range(rank)) if isinstance(axis, NoneType) else (axis_of(op, axis, rank, 1),)
        return drop_axes(tile, axes, constant_bool(op, "keepdims", keepdims), i32)

    return rule


def _arg_of(f: Callable[..., Any], x: Array, axis: int | None, keepdims: bool) -> Array:
    wide = x.astype(np.float32) if narrow(x.dtype) else x
    if x.ndim == 0:
        return np.zeros((), np.int32)
    return np.asarray(f(wide, axis=axis, keepdims=keepdims)).astype(np.int32)


@op(
    "reduction",
    result=_arg("argmax"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("argmax"),
    method_of=("tile",),
    stub=reduction("argmax", result="i32"),
)
def argmax(x: Array, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position (i32) of the first largest value along `axis`, of the flattened tile for None; the first nan if any."""
    return _arg_of(np.argmax, x, axis, keepdims)


@op(
    "reduction",
    result=_arg("argmin"),
    lanes=Lanes.MIX,
    mixes=mixes_axis("argmin"),
    method_of=("tile",),
    stub=reduction("argmin", result="i32"),
)
def argmin(x: Array, /, axis: int | None = None, keepdims: bool = False) -> Array:
    """Position (i32) of the first smallest value along `axis`, of the flattened tile for None; the first nan if any."""
    return _arg_of(np.argmin, x, axis, keepdims)
