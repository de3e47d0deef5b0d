"""Values and their types, for tests of op rows: what a type rule must say about what a meaning returns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilecheck.ir.types import DimType, DTypeType, NoneType, ScalarType, TileType, TupleType, Type
from tilecheck.surface.dtypes import DTYPES, DTypeClass, f64, i64

BY_NUMPY = {dtype.numpy(): dtype for dtype in DTYPES.values()}
COMPUTED = [dtype for dtype in DTYPES.values() if not dtype.storage_only]
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (3, 5), (1, 5), (3, 1), (2, 3, 5))


class Ext(int):
    """An int that stands for a `Dim`."""


def tile(dtype: DTypeClass, shape: tuple[int, ...], seed: int = 0) -> Any:
    """A tile of values that stress the dtype: small ones, negative ones, limits and special floats."""
    rng = np.random.default_rng((seed, *shape))
    target = dtype.numpy()
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind == "float":
        values = np.asarray(rng.normal(0, 3, shape))
        special = np.asarray(rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5], shape))
        return np.asarray(np.where(rng.random(shape) < 0.25, special, values)).astype(target)
    info = np.iinfo(target)
    values = np.asarray(rng.integers(max(info.min, -9), 10, shape)).astype(target)
    limits = np.asarray(rng.choice(np.array([info.min, info.max, 0, 1], target), shape))
    return np.asarray(np.where(rng.random(shape) < 0.25, limits, values)).astype(target)


def type_of(value: Any) -> Type:
    """The kernel type of a test value."""
    if isinstance(value, np.ndarray):
        return TileType(BY_NUMPY[value.dtype], value.shape)
    if isinstance(value, Ext):
        return DimType(int(value))
    if isinstance(value, DTypeClass):
        return DTypeType(value)
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    if value is None:
        return NoneType()
    kind = {bool: "bool", int: "int", float: "float"}[type(value)]
    return ScalarType(kind, value)  # type: ignore[arg-type]


def check(result: Any, predicted: Type) -> None:
    """Assert that a value is of the type that was predicted for it."""
    match predicted:
        case TileType(dtype, shape):
            assert isinstance(result, np.ndarray), result
            assert (result.dtype, result.shape) == (dtype.numpy(), shape)
        case ScalarType(kind):
            assert type(result).__name__ == kind, (result, predicted)
        case NoneType():
            assert result is None
        case _:
            raise AssertionError(predicted)


def operands(arity: int, dtype: DTypeClass) -> list[tuple[Any, ...]]:
    """Argument lists for an elementwise op: equal shapes, stretching ones, scalars on each side, scalars alone."""
    scalar: Any = {"float": 1.5, "int": 3, "uint": 3, "bool": True}[dtype.kind]
    lists: list[tuple[Any, ...]] = [tuple(tile(dtype, s, n) for n in range(arity)) for s in SHAPES]
    if arity > 1:
        pairs = [((3, 5), (3, 1)), ((1, 5), (3, 1)), ((), (7,)), ((2, 3, 5), (3, 1)), ((5,), (3, 5))]
        lists += [tuple(tile(dtype, pair[n % 2], n) for n in range(arity)) for pair in pairs]
        for chosen in itertools.product((False, True), repeat=arity):
            lists.append(tuple(scalar if s else tile(dtype, (4,), n) for n, s in enumerate(chosen)))
    elif dtype in (f64, i64):
        lists.append((scalar,))
    return lists
