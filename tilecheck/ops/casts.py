"""Conversions: `astype` between dtypes, `bitcast` of bits, and between scalars and rank-0 tiles.

Float to int truncates towards 0 and saturates, nan becomes 0, as a GPU's conversion does. Int to int wraps. Float to
float rounds to nearest even; `f8e4m3` has no infinity, so what overflows becomes nan. f64 to bf16 and the 8-bit
floats goes through f32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilecheck.ir.types import DTypeType, ScalarType, StrType, TileType, Type
from tilecheck.ops.creation import dtype_of
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.numbers import Array, Value, is_tile, number
from tilecheck.ops.row import Lanes, Refused, op


def _astype_type(x: Type, dtype: Type, /) -> Type:
    tile = one_tile("astype", x)
    if not isinstance(dtype, DTypeType):
        raise Refused("usage", "`astype` takes a dtype", "pass one such as `tc.f32`", 1)
    return TileType(dtype.dtype, tile.shape, tile.void)


@op(
    "conversion",
    result=_astype_type,
    lanes=Lanes.CARRY,
    method_of=("tile",),
    stub=(
        "def astype(x: Tile[Any, *S], dtype: type[U], /) -> Tile[U, *S]",
        "Tile: def astype(self, dtype: type[U], /) -> Tile[U, *S]",
    ),
)
def astype(x: Array, dtype: Any, /) -> Array:
    """The tile's values in another dtype. Float to int truncates and saturates (nan gives 0), int to int wraps, to
    `bool_` compares with 0.
    """
    target: np.dtype[Any] = dtype.numpy()
    if target.kind == "b":
        return np.asarray(x.astype(np.float32) != 0 if x.dtype.kind not in "fiub" else x != 0)
    if target.kind not in "iu" or x.dtype.kind in "iub":
        if target.kind not in "fiu" and x.dtype.kind in "iu":
            return x.astype(np.float32).astype(target)
        return x.astype(target)
    wide = x.astype(np.float64)
    info = np.iinfo(target)
    # The largest int of 64 bits is no float64: what reaches the power of two above it saturates instead.
    top = np.float64(info.max)
    inside = np.where((wide > np.float64(info.min)) & (wide < top), wide, 0).astype(target)
    bounded = np.where(wide >= top, info.max, np.where(wide <= np.float64(info.min), info.min, inside))
    return np.where(np.isnan(wide), 0, bounded).astype(target)


def _bitcast_type(x: Type, dtype: Type, /) -> Type:
    tile = one_tile("bitcast", x)
    target = dtype_of("bitcast", dtype)
    if target.bits != tile.dtype.bits or "bool" in (target.kind, tile.dtype.kind):
        raise Refused(
            "dtype-mismatch",
            f"`bitcast` of a `{tile.dtype.name}` tile to `{target.name}`: {tile.dtype.bits} bits and {target.bits} bits",
            "both dtypes have one width, and neither is `bool_`",
            1,
        )
    return TileType(target, tile.shape, tile.void)


@op(
    "conversion",
    result=_bitcast_type,
    lanes=Lanes.CARRY,
    method_of=("tile",),
    stub=(
        "def bitcast(x: Tile[Any, *S], dtype: type[U], /) -> Tile[U, *S]",
        "Tile: def bitcast(self, dtype: type[U], /) -> Tile[U, *S]",
    ),
)
def bitcast(x: Array, dtype: Any, /) -> Array:
    """The same bits read as another dtype of the same width."""
    return np.asarray(np.ascontiguousarray(x).view(dtype.numpy()).reshape(x.shape))


def _rank0(op: str, x: Type) -> TileType | ScalarType:
    value = number(op, x, 0)
    if isinstance(value, TileType) and value.shape:
        raise Refused(
            "shape-mismatch",
            f"`{op}` of `{value}`, which has more than one lane",
            "reduce it to rank 0 first, for example with `sum` or `max`",
            0,
        )
    return value


def _item_type(x: Type, /) -> Type:
    value = _rank0("item", x)
    if isinstance(value, ScalarType):
        return ScalarType(value.kind)
    if value.dtype.kind == "bool":
        return ScalarType("bool")
    return ScalarType("float" if value.dtype.kind == "float" else "int")


@op(
    "conversion",
    result=_item_type,
    lanes=Lanes.CARRY,
    method_of=("tile",),
    function=False,
    stub=(
        "Tile: def item(self: Tile[bool_, *tuple[()]], /) -> bool",
        (
            "Tile: def item(self: Tile[i8, *tuple[()]] | Tile[i16, *tuple[()]] | Tile[i32, *tuple[()]] | Tile[i64, *tuple[()]]"
            " | Tile[u8, *tuple[()]] | Tile[u16, *tuple[()]] | Tile[u32, *tuple[()]] | Tile[u64, *tuple[()]], /) -> int"
        ),
        "Tile: def item(self: Tile[Any, *tuple[()]], /) -> float",
    ),
)
def item(x: Value, /) -> Any:
    """The one value of a rank-0 tile as a scalar; u64 values wrap to 64-bit ints."""
    if not is_tile(x):
        return x
    if x.dtype.kind in "iu":
        return int(x.astype(np.int64))
    return bool(x) if x.dtype.kind == "b" else float(x.astype(np.float64))


def _int_type(x: Type, /) -> Type:
    _rank0("int", x)
    return ScalarType("int")


@op("conversion", result=_int_type, lanes=Lanes.CARRY, function=False)
def int_(x: Value, /) -> int:
    """`int(x)` of a scalar or rank-0 tile: truncates towards 0, saturates at 64 bits, nan gives 0."""
    value = item(x)
    if isinstance(value, float):
        low, high = -(1 << 63), (1 << 63) - 1
        return 0 if value != value else low if value <= low else high if value >= high else int(value)
    return int(value)


def _float_type(x: Type, /) -> Type:
    if isinstance(x, StrType):
        if x.value not in ("inf", "-inf", "nan"):
            raise Refused("usage", f"`float({x.value!r})` in a kernel", "write the number out", 0)
        return ScalarType("float", float(x.value))
    _rank0("float", x)
    return ScalarType("float")


@op("conversion", result=_float_type, lanes=Lanes.CARRY, function=False)
def float_(x: Value, /) -> float:
    """`float(x)` of a scalar or rank-0 tile, or of "inf", "-inf" and "nan"."""
    return float(x if isinstance(x, str) else item(x))


def _bool_type(x: Type, /) -> Type:
    _rank0("bool", x)
    return ScalarType("bool")


@op("conversion", result=_bool_type, lanes=Lanes.CARRY, function=False)
def bool_(x: Value, /) -> bool:
    """`bool(x)` of a scalar or rank-0 tile: whether it is not 0."""
    return bool(item(x))
