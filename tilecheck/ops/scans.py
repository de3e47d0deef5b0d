"""Running results along an axis, and reductions with a device function: `cumsum`, `cumprod`, `scan`, `reduce`.

All mix the lanes along their axis. The function of `scan` and `reduce` takes two rank-0 tiles of the tile's dtype and
returns one; it must be associative, as the order in which lanes are combined is not specified (left operands come
from earlier lanes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilecheck.ir.types import FunctionType, ScalarType, TileType, Type
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.extents import axis_of, constant_bool, voids
from tilecheck.ops.numbers import Array, computable, describe, narrow
from tilecheck.ops.reductions import drop_axes
from tilecheck.ops.row import Lanes, MixRule, Refused, ResultRule, op
from tilecheck.ops.signatures import reduction

_FALSE = ScalarType("bool", False)
_FIRST = ScalarType("int", 0)


def _running(op: str) -> ResultRule:
    def rule(x: Type, /, axis: Type = _FIRST, reverse: Type = _FALSE) -> Type:
        tile = one_tile(op, x)
        computable(op, tile.dtype, ("float", "int", "uint"), 0)
        at = axis_of(op, axis, len(tile.shape), 1)
        constant_bool(op, "reverse", reverse)
        return TileType(tile.dtype, tile.shape, voids(*((a, edge) for a, edge in tile.void if a != at)))

    return rule


def _mixes(op: str, position: int) -> MixRule:
    """The lanes of argument 0 along the axis, which is argument `position`."""

    def rule(x: Type, /, *rest: Type, axis: Type = _FIRST, **_: Type) -> Sequence[tuple[int, int]]:
        tile = one_tile(op, x)
        given = rest[position - 1] if len(rest) >= position else axis
        return ((0, axis_of(op, given, len(tile.shape), position)),)

    return rule


def _accumulate(f: np.ufunc, x: Array, axis: int, reverse: bool) -> Array:
    wide = np.dtype(np.float32) if narrow(x.dtype) else x.dtype
    lanes = np.flip(x, axis) if reverse else x
    result = f.accumulate(lanes.astype(wide, copy=False), axis=axis, dtype=wide).astype(x.dtype, copy=False)
    return np.asarray(np.flip(result, axis) if reverse else result)


_RUNNING_STUB = (
    "def {name}(x: Tile[T, *S], /, axis: int = ..., reverse: bool = ...) -> Tile[T, *S]",
    "Tile: def {name}(self, /, axis: int = ..., reverse: bool = ...) -> Tile[T, *S]",
)


@op(
    "scan",
    result=_running("cumsum"),
    lanes=Lanes.MIX,
    mixes=_mixes("cumsum", 1),
    method_of=("tile",),
    stub=tuple(line.format(name="cumsum") for line in _RUNNING_STUB),
)
def cumsum(x: Array, /, axis: int = 0, reverse: bool = False) -> Array:
    """Running sum along `axis`, each lane included; from the end with `reverse`. f16 and bf16 sum in f32, ints wrap."""
    return _accumulate(np.add, x, axis, reverse)


@op(
    "scan",
    result=_running("cumprod"),
    lanes=Lanes.MIX,
    mixes=_mixes("cumprod", 1),
    method_of=("tile",),
    stub=tuple(line.format(name="cumprod") for line in _RUNNING_STUB),
)
def cumprod(x: Array, /, axis: int = 0, reverse: bool = False) -> Array:
    """Running product along `axis`, each lane included; from the end with `reverse`."""
    return _accumulate(np.multiply, x, axis, reverse)


def _combiner(op: str, tile: TileType, f: Type) -> None:
    """Raises `Refused` unless `f` combines two lanes of `tile` into one."""
    form = f"it takes two rank-0 `{tile.dtype.name}` tiles and returns one"
    if not isinstance(f, FunctionType):
        raise Refused("usage", f"`{op}` takes a device function, not {describe(f)}", form, 1)
    if len(f.params) != 2:
        raise Refused("usage", f"the function of `{op}` takes {len(f.params)} values, not 2", form, 1)
    if not isinstance(f.result, TileType) or f.result.shape or f.result.dtype is not tile.dtype:
        raise Refused("dtype-mismatch", f"the function of `{op}` returns {describe(f.result)}", form, 1)


def _scan_type(x: Type, f: Type, /, axis: Type = _FIRST, reverse: Type = _FALSE) -> Type:
    tile = one_tile("scan", x)
    computable("scan", tile.dtype, ("float", "int", "uint", "bool"), 0)
    _combiner("scan", tile, f)
    at = axis_of("scan", axis, len(tile.shape), 2)
    constant_bool("scan", "reverse", reverse)
    return TileType(tile.dtype, tile.shape, voids(*((a, edge) for a, edge in tile.void if a != at)))


@op(
    "scan",
    result=_scan_type,
    lanes=Lanes.MIX,
    mixes=_mixes("scan", 2),
    method_of=("tile",),
    stub=(
        (
            "def scan(x: Tile[T, *S], f: Callable[[Tile[T, *tuple[()]], Tile[T, *tuple[()]]], Tile[T, *tuple[()]]], /,"
            " axis: int = ..., reverse: bool = ...) -> Tile[T, *S]"
        ),
        (
            "Tile: def scan(self, f: Callable[[Tile[T, *tuple[()]], Tile[T, *tuple[()]]], Tile[T, *tuple[()]]], /,"
            " axis: int = ..., reverse: bool = ...) -> Tile[T, *S]"
        ),
    ),
)
def scan(x: Array, f: Callable[[Any, Any], Any], /, axis: int = 0, reverse: bool = False) -> Array:
    """Running `f` along `axis`, each lane included; from the end with `reverse`. `f` is an associative device
    function.
    """
    lanes = np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0)
    out = np.array(lanes)
    for at in range(1, len(lanes)):
        out[at] = f(out[at - 1], lanes[at])
    result = np.moveaxis(out, 0, axis)
    return np.asarray(np.flip(result, axis) if reverse else result)


def _reduce_type(x: Type, f: Type, /, axis: Type = _FIRST, keepdims: Type = _FALSE) -> Type:
    tile = one_tile("reduce", x)
    computable("reduce", tile.dtype, ("float", "int", "uint", "bool"), 0)
    _combiner("reduce", tile, f)
    at = axis_of("reduce", axis, len(tile.shape), 2)
    return drop_axes(tile, (at,), constant_bool("reduce", "keepdims", keepdims), tile.dtype)


def _reduce_stub() -> tuple[str, ...]:

    function = "f: Callable[[Tile[T, *tuple[()]], Tile[T, *tuple[()]]], Tile[T, *tuple[()]]], /, "
    return tuple(
        line.replace(", axis: ", f", {function}axis: ") for line in reduction("reduce") if "axis: None" not in line
    )


@op(
    "scan",
    result=_reduce_type,
    lanes=Lanes.MIX,
    mixes=_mixes("reduce", 2),
    method_of=("tile",),
    stub=_reduce_stub(),
)
def reduce(x: Array, f: Callable[[Any, Any], Any], /, axis: int = 0, keepdims: bool = False) -> Array:
    """All lanes along `axis` combined by `f`, an associative device function."""
    lanes = np.moveaxis(x, axis, 0)
    total = np.array(lanes[0])
    for at in range(1, len(lanes)):
        total = np.broadcast_to(np.asarray(f(total, lanes[at])).astype(x.dtype), total.shape)
    return np.expand_dims(total, axis) if keepdims else total
