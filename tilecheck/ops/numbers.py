"""The number rules: which dtypes meet in an op, and how NumPy computes exactly that.

One rule decides for every elementwise op. Tiles that meet have one dtype; a scalar takes it. So `x * 2` and `x * 0.5`
stay f16 for an f16 `x`, a float scalar on an int tile is refused, and nothing is promoted behind the user's back:

    agree("add", TileType(f16, (16,)), ScalarType("float"))   ->  f16
    agree("add", TileType(i32, (16,)), ScalarType("float"))   ->  Refused("dtype-mismatch", ...)

Invariant: the value side (`lift`) computes in the dtype that the type side (`agree`) names. f16 and bf16 compute in
f32 and round once per op, which is what a GPU does. Ints wrap. Without a tile, ints are 64-bit two's complement and
floats f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilecheck.ir.types import DimType, ScalarType, TileType, Type
from tilecheck.ops.row import Refused
from tilecheck.surface.dtypes import DTypeClass, bool_, f32, i32

Array = npt.NDArray[Any]
# A tile or a scalar of a kernel.
Value = Any

FLOATS = ("float",)
INTS = ("int", "uint")
NUMBERS = ("float", "int", "uint")
BITS = ("int", "uint", "bool")
ANY = ("float", "int", "uint", "bool")

_WORDS = {FLOATS: "float", INTS: "int", NUMBERS: "number", BITS: "int or bool", ANY: "element"}


# ---- types


def number(op: str, type: Type, argument: int | None = None) -> TileType | ScalarType:
    """`type` as a tile or a scalar; a `Dim` counts as an int. Raises `Refused` for anything else."""
    if isinstance(type, TileType | ScalarType):
        return type
    if isinstance(type, DimType):
        return ScalarType("int", type.extent if isinstance(type.extent, int) else None)
    raise Refused("usage", f"`{op}` takes tiles and scalars, not {describe(type)}", None, argument)


def describe(type: Type) -> str:
    """A type in words, for messages."""
    match type:
        case TileType() | ScalarType():
            return f"`{type}`"
        case DimType(extent):
            return f"the extent `{extent}`"
    return {
        "TensorType": "a tensor",
        "ViewType": "a partition view",
        "SubTilesType": "sub-tiles",
        "IndexType": "an index",
        "TupleType": "a tuple",
        "StrType": "a string",
        "NoneType": "`None`",
        "DTypeType": "a dtype",
        "FunctionType": "a function",
    }.get(type.__class__.__name__, "this value")


def computable(op: str, dtype: DTypeClass, allowed: Sequence[str], argument: int | None = None) -> None:
    """Raises `Refused` unless the op computes with `dtype`; the 8-bit floats are for storage alone."""
    if dtype.storage_only:
        raise Refused(
            "dtype-mismatch",
            f"`{op}` of a `{dtype.name}` tile: `{dtype.name}` stores values and does not compute",
            "convert it first, for example with `.astype(tc.f16)`",
            argument,
        )
    if dtype.kind not in allowed:
        wanted = _WORDS.get(tuple(allowed), " or ".join(allowed))
        target = "tc.f32" if tuple(allowed) == FLOATS else "tc.bool_" if tuple(allowed) == ("bool",) else "tc.i32"
        raise Refused(
            "dtype-mismatch",
            f"`{op}` takes {wanted} tiles, this one is `{dtype.name}`",
            f"convert it first, for example with `.astype({target})`",
            argument,
        )


def limits(dtype: DTypeClass) -> tuple[int, int]:
    """The smallest and largest value of an int dtype."""
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def fits(op: str, scalar: ScalarType, dtype: DTypeClass, argument: int | None = None) -> None:
    """Raises `Refused` unless `scalar` may take `dtype`, the dtype of the tile it meets."""
    if scalar.kind == "float" and dtype.kind != "float":
        raise Refused(
            "dtype-mismatch",
            f"`{op}` of a float scalar and a `{dtype.name}` tile",
            "convert the tile with `.astype(tc.f32)`, or make the scalar an int",
            argument,
        )
    if (scalar.kind == "bool") != (dtype.kind == "bool"):
        raise Refused(
            "dtype-mismatch",
            f"`{op}` of {'an' if scalar.kind == 'int' else 'a'} {scalar.kind} scalar and a `{dtype.name}` tile",
            "convert the tile with `.astype`, or the scalar with `int` or a comparison",
            argument,
        )
    if dtype.kind in INTS and isinstance(scalar.value, int):
        low, high = limits(dtype)
        if not low <= scalar.value <= high:
            raise Refused(
                "dtype-mismatch",
                f"`{op}`: {scalar.value} does not fit the tile's dtype `{dtype.name}` ({low} to {high})",
                "convert the tile to a wider dtype with `.astype`",
                argument,
            )


def agree(op: str, *types: Type, allowed: Sequence[str] = NUMBERS) -> DTypeClass | None:
    """The one dtype of the tiles among `types`, None if all are scalars. Raises `Refused` if they do not agree."""
    numbers = [number(op, type, at) for at, type in enumerate(types)]
    tiles = [(at, type) for at, type in enumerate(numbers) if isinstance(type, TileType)]
    if not tiles:
        for at, type in enumerate(numbers):
            if (
                isinstance(type, ScalarType)
                and type.kind not in allowed
                and not (type.kind == "int" and "float" in allowed)
            ):
                raise Refused("dtype-mismatch", f"`{op}` of a {type.kind} scalar", None, at)
        return None
    dtype = tiles[0][1].dtype
    for at, tile in tiles:
        if tile.dtype is not dtype:
            raise Refused(
                "dtype-mismatch",
                f"`{op}` of a `{dtype.name}` tile and a `{tile.dtype.name}` tile",
                f"convert one of them, for example with `.astype(tc.{dtype.name})`",
                at,
            )
        computable(op, tile.dtype, allowed, at)
    for at, type in enumerate(numbers):
        if isinstance(type, ScalarType):
            fits(op, type, dtype, at)
    return dtype


def scalar_kind(*types: TileType | ScalarType) -> ScalarType:
    """The scalar that arithmetic of scalars gives: float if one is, else int."""
    kinds = {type.kind for type in types if isinstance(type, ScalarType)}
    return ScalarType("float" if "float" in kinds else "int")


# ---- values


def is_tile(value: Value) -> bool:
    """Whether a value is a tile; NumPy's own scalars are rank-0 tiles."""
    return isinstance(value, np.ndarray | np.generic)


def as_dtype(value: Value, dtype: np.dtype[Any]) -> Array:
    """A scalar as a rank-0 tile of `dtype`: floats round, ints wrap."""
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        if dtype.kind == "i" and wrapped >> (bits - 1):
            wrapped -= 1 << bits
        return np.array(wrapped, dtype)
    return np.array(value, dtype)


def narrow(dtype: np.dtype[Any]) -> bool:
    """Whether a float dtype computes in f32."""
    return dtype.itemsize == 2 and dtype.kind not in "iub"


def lift(f: Callable[..., Any], *values: Value, keep: bool = True) -> Value:
    """`f` on tiles and scalars under the number rules. `keep` is False for functions into bool.

    Scalars alone compute as int64 or float64 and come back as Python scalars.
    """
    dtype = next((v.dtype for v in values if is_tile(v)), None)
    if dtype is None:
        kinds = {type(v) for v in values}
        scalar = np.dtype("float64" if float in kinds else "int64" if int in kinds else "bool")
        return np.asarray(f(*(as_dtype(v, scalar) for v in values))).item()
    arrays = [v if is_tile(v) else as_dtype(v, dtype) for v in values]
    if narrow(dtype):
        result = f(*(a.astype(np.float32) for a in arrays))
        return np.asarray(result.astype(dtype) if keep else result)
    return np.asarray(f(*arrays))


def default_dtype(scalar: ScalarType) -> DTypeClass:
    """The dtype of a tile made of scalars alone."""
    return {"float": f32, "int": i32, "bool": bool_}[scalar.kind]
