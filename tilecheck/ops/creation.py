"""Tiles out of nothing: `zeros`, `ones`, `full`, `arange`. The default dtype is f32, `arange` counts in i32."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilecheck.ir.types import DTypeType, NoneType, ScalarType, TileType, TupleType, Type
from tilecheck.ops.extents import constant_int, extent_of, shape_of
from tilecheck.ops.numbers import Array, as_dtype, describe, fits, number
from tilecheck.ops.row import NONE, Lanes, Refused, op
from tilecheck.surface.dtypes import DTypeClass, f32, i32, i64


def dtype_of(op: str, type: Type, default: DTypeClass = f32) -> DTypeClass:
    """The dtype a `dtype=` argument names."""
    if isinstance(type, NoneType):
        return default
    if isinstance(type, DTypeType):
        return type.dtype
    raise Refused("usage", f"`{op}`: `dtype` is {describe(type)}, not a dtype", "pass one such as `tc.f32`")


def extents(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """The value of a shape given one by one or as a tuple."""
    return tuple(int(e) for e in (shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape))


def _zeros_type(*shape: Type, dtype: Type = NONE) -> Type:
    return TileType(dtype_of("zeros", dtype), shape_of("zeros", shape))


def _ones_type(*shape: Type, dtype: Type = NONE) -> Type:
    return TileType(dtype_of("ones", dtype), shape_of("ones", shape))


def _by_rank(name: str) -> tuple[str, ...]:
    lines: list[str] = []
    for rank, names in enumerate((("M",), ("M", "N"), ("M", "N", "K"), ("M", "N", "K", "L")), 1):
        params = ", ".join(f"d{at}: type[{n}]" for at, n in enumerate(names[:rank]))
        shape = ", ".join(names)
        lines.append(f"def {name}({params}, /) -> Tile[f32, {shape}]")
        lines.append(f"def {name}({params}, /, *, dtype: type[U]) -> Tile[U, {shape}]")
    return tuple(lines)


@op("creation", result=_zeros_type, lanes=Lanes.FRESH, stub=_by_rank("zeros"))
def zeros(*shape: Any, dtype: Any = None) -> Array:
    """A tile of zeros of these extents, f32 unless `dtype` says otherwise."""
    return np.zeros(extents(shape), (dtype or f32).numpy())


@op("creation", result=_ones_type, lanes=Lanes.FRESH, stub=_by_rank("ones"))
def ones(*shape: Any, dtype: Any = None) -> Array:
    """A tile of ones of these extents, f32 unless `dtype` says otherwise."""
    return np.ones(extents(shape), (dtype or f32).numpy())


def _full_type(shape: Type, value: Type, /, *, dtype: Type = NONE) -> Type:
    target = dtype_of("full", dtype)
    fill = number("full", value, 1)
    if isinstance(fill, TileType):
        if fill.shape:
            raise Refused("shape-mismatch", f"`full` with `{fill}`, not a scalar", "use `broadcast_to`", 1)
        if fill.dtype is not target:
            raise Refused(
                "dtype-mismatch",
                f"`full` of dtype `{target.name}` with a `{fill.dtype.name}` value",
                f"convert the value with `.astype(tc.{target.name})`",
                1,
            )
    elif fill.kind != "bool" or target.kind == "bool":
        fits("full", fill, target, 1)
    return TileType(target, shape_of("full", shape.items if isinstance(shape, TupleType) else (shape,)))


@op(
    "creation",
    result=_full_type,
    lanes=Lanes.FRESH,
    stub=tuple(
        f"def full(shape: {shape}, value: float | Tile[{dtype}, *tuple[()]], /{extra}) -> Tile[{dtype}, {names}]"
        for shape, names in (
            ("type[M] | tuple[type[M]]", "M"),
            ("tuple[type[M], type[N]]", "M, N"),
            ("tuple[type[M], type[N], type[K]]", "M, N, K"),
        )
        for dtype, extra in (("f32", ""), ("U", ", *, dtype: type[U]"))
    ),
)
def full(shape: Any, value: Any, /, *, dtype: Any = None) -> Array:
    """A tile filled with a scalar or a rank-0 tile. `shape` is a `Dim` or a tuple of them; f32 unless `dtype` is
    given.
    """
    target = (dtype or f32).numpy()
    fill = value if hasattr(value, "dtype") else as_dtype(value, target)
    return np.full(extents((shape,)), fill, target)


def _arange_type(extent: Type, /, *, start: Type = NONE, step: Type = NONE, dtype: Type = NONE) -> Type:
    size = extent_of("arange", extent, 0)
    first = 0 if isinstance(start, NoneType) else constant_int("arange", "`start`", start)
    by = 1 if isinstance(step, NoneType) else constant_int("arange", "`step`", step)
    fallback: DTypeClass = i32
    if isinstance(size, int) and not all(-(2**31) <= v < 2**31 for v in (first, first + by * max(size - 1, 0))):
        fallback = i64
    target = dtype_of("arange", dtype, fallback)
    if target.kind == "bool" or target.storage_only:
        raise Refused("dtype-mismatch", f"`arange` of dtype `{target.name}`", "count in an int or float dtype")
    if isinstance(size, int) and target.kind in ("int", "uint"):
        for value in (first, first + by * max(size - 1, 0)):
            fits("arange", ScalarType("int", value), target)
    return TileType(target, (size,))


@op(
    "creation",
    result=_arange_type,
    lanes=Lanes.FRESH,
    stub=(
        "def arange(extent: type[M], /, *, start: int = ..., step: int = ...) -> Tile[i32, M]",
        "def arange(extent: type[M], /, *, start: int = ..., step: int = ..., dtype: type[U]) -> Tile[U, M]",
    ),
)
def arange(extent: Any, /, *, start: int = 0, step: int = 1, dtype: Any = None) -> Array:
    """`start, start + step, ...`, one value per lane of a rank-1 tile: i32, or i64 if the values do not fit. `start`
    and `step` are constants.
    """
    size = int(extent)
    last = start + step * max(size - 1, 0)
    fallback = i32 if all(-(2**31) <= v < 2**31 for v in (start, last)) else i64
    return (start + step * np.arange(size, dtype=np.int64)).astype((dtype or fallback).numpy())
