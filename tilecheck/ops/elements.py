"""Element by element: `gather` reads a `Shared` tensor at indices of the kernel's own, `scatter` and atomics change an
`Atomic` one.

Indices are not wrapped: each is compared with the extent, and one outside stops the kernel, unless `mask` is false
there. A void lane must not become an index, so index tiles are loaded with `pad=`. Changes of different lanes and blocks
happen in some order, each whole; atomics return the old value. Relaxed memory order, visible to the whole device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilecheck.ir.types import Extent, NoneType, ScalarType, TileType, TupleType, Type
from tilecheck.ops.extents import broadcast
from tilecheck.ops.memory import tensor
from tilecheck.ops.numbers import Array, Value, as_dtype, computable, describe, fits, is_tile, number
from tilecheck.ops.row import NONE, Effect, Lanes, NotYet, Refused, op
from tilecheck.surface.dtypes import DTypeClass

_ZERO = ScalarType("int", 0)
# Index tiles of one shape, with ints among them, for ranks up to 3.
_INDICES = (
    "Tile[Any, *S] | tuple[Tile[Any, *S]]",
    "tuple[Tile[Any, *S], Tile[Any, *S] | int]",
    "tuple[int, Tile[Any, *S]]",
    "tuple[Tile[Any, *S], Tile[Any, *S] | int, Tile[Any, *S] | int]",
    "tuple[int, Tile[Any, *S], Tile[Any, *S] | int]",
    "tuple[int, int, Tile[Any, *S]]",
)


def _function_and_method(lines: Iterable[str]) -> tuple[str, ...]:
    """Lines of a function, and of the method of `Tensor`, whose `S` is taken by the class; and of the grid of
    elements that a column and a row of indices name.
    """
    functions = tuple(lines)
    grid = functions[0].replace(_INDICES[0], "tuple[Tile[Any, M, One], Tile[Any, One, N]]").replace("*S]", "M, N]")
    functions = (*functions, grid)
    methods = (line.replace("(x:", "(self:").replace("(z:", "(self:").replace("*S]", "*S2]") for line in functions)
    return (*functions, *(f"Tensor: {line}" for line in methods))


def _index_types(op: str, index: Type, rank: int | None) -> tuple[TileType | ScalarType, ...]:
    """The index per axis, ints all. Raises `Refused` for another number of them than `rank`."""
    items = index.items if isinstance(index, TupleType) else (index,)
    numbers = tuple(number(op, item, 1) for item in items)
    for item in numbers:
        kind = item.kind if isinstance(item, ScalarType) else item.dtype.kind
        if kind not in ("int", "uint"):
            raise Refused(
                "dtype-mismatch", f"`{op}` at an index `{item}`, not an int", "convert with `.astype(tc.i32)`", 1
            )
    if rank is not None and len(numbers) != rank:
        raise Refused(
            "shape-mismatch",
            f"`{op}` of a tensor of rank {rank} with {len(numbers)} indices",
            "give a tuple with one index per axis",
            1,
        )
    return numbers


def _mask_type(op: str, mask: Type, argument: int) -> tuple[TileType | ScalarType, ...]:
    if isinstance(mask, NoneType):
        return ()
    value = number(op, mask, argument)
    if (value.kind if isinstance(value, ScalarType) else value.dtype.kind) != "bool":
        raise Refused(
            "dtype-mismatch", f"the mask of `{op}` is {describe(mask)}, not a bool tile", "compare it", argument
        )
    return (value,)


def _strip(tile: TileType | ScalarType) -> TileType | ScalarType:
    """The type without void lanes, which the caller of a mixing op has excluded."""
    return TileType(tile.dtype, tile.shape) if isinstance(tile, TileType) else tile


def _mixes_lanes(x: Type, index: Type, /, *rest: Type, **_: Type) -> Sequence[tuple[int, int]]:
    del x
    found: list[tuple[int, int]] = []
    for at, type in enumerate((index, *rest), 1):
        for item in type.items if isinstance(type, TupleType) else (type,):
            if isinstance(item, TileType):
                found += [(at, axis) for axis in range(len(item.shape))]
    return tuple(dict.fromkeys(found))


def _gather_type(x: Type, index: Type, /, mask: Type = NONE, pad: Type = _ZERO) -> Type:
    t = tensor("gather", x)
    if t.access != "Shared":
        raise Refused("usage", f"`gather` of `{t.name}`, which is `{t.access}`", "it reads `Shared` tensors", 0)
    indices = _index_types("gather", index, None if t.shape is None else len(t.shape))
    masks = _mask_type("gather", mask, 2)
    if t.dtype is None:
        raise NotYet
    fill = number("gather", pad, 3)
    if isinstance(fill, TileType):
        raise Refused("usage", "`pad` of `gather` is a tile, not a scalar", None, 3)
    if fill != _ZERO:
        fits("gather", fill, t.dtype, 3)
    shape, void = broadcast("gather", *map(_strip, (*indices, *masks)))
    return TileType(t.dtype, shape, void)


@op(
    "load and store",
    result=_gather_type,
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.READ,
    method_of=("tensor",),
    stub=_function_and_method(
        f"def gather(x: Tensor[Shared, T, *tuple[Any, ...]], index: {index}, /, mask: Tile[bool_, *S] | None = ...,"
        f" pad: Scalar = ...) -> Tile[T, *S]"
        for index in _INDICES
    ),
)
def gather(x: Any, index: Any, /, mask: Any = None, pad: Any = 0) -> Array:
    """The elements of `x` at `index`: an int tile, or a tuple with one per axis, in elements. Lanes whose `mask` is
    false are not read and give `pad`.
    """
    return np.asarray(x.gather(_each(index), mask, pad))


def _each(index: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(i) for i in (index if isinstance(index, tuple) else (index,)))


# ---- atomics

_WIDE = (32, 64)


def _atomic_type(op: str, z: Type, index: Type, values: Sequence[Type], mask: Type, kinds: Sequence[str]) -> Type:
    dtype, shape = _changed_shape(op, z, index, values, mask, kinds)
    if dtype.bits not in _WIDE and not (op == "atomic_add" and dtype.name in ("f16", "bf16")):
        raise Refused("dtype-mismatch", f"`{op}` on `{dtype.name}` elements", "atomics take 32 and 64 bits", 0)
    return TileType(dtype, shape)


def _changed_shape(
    op: str, z: Type, index: Type, values: Sequence[Type], mask: Type, kinds: Sequence[str]
) -> tuple[DTypeClass, tuple[Extent, ...]]:
    """The dtype of an `Atomic` tensor and the shape of the lanes that change it."""
    t = tensor(op, z)
    if t.access != "Atomic":
        raise Refused(
            "write-to-shared" if t.access == "Shared" else "usage",
            f"`{op}` on `{t.name}`, which is `{t.access}`",
            f"declare `{t.name}: Tensor[Atomic, ...]`",
            0,
        )
    indices = _index_types(op, index, None if t.shape is None else len(t.shape))
    masks = _mask_type(op, mask, 2 + len(values))
    if t.dtype is None:
        raise NotYet
    computable(op, t.dtype, kinds, 0)
    shape, _ = broadcast(op, *map(_strip, (*indices, *masks)))
    for at, given in enumerate(values, 2):
        _value_type(op, given, t.dtype, at)
        # A value stretches to the indices, never the other way: two updates of one lane would be a surprise.
        whole, _ = broadcast(op, TileType(t.dtype, shape), _strip(number(op, given, at)))
        if whole != shape:
            raise Refused("shape-mismatch", f"`{op}` of {describe(given)} at indices of shape {shape}", None, at)
    return t.dtype, shape


def _value_type(op: str, given: Type, dtype: DTypeClass, argument: int) -> None:
    value = number(op, given, argument)
    if isinstance(value, ScalarType):
        fits(op, value, dtype, argument)
    elif value.dtype is not dtype:
        raise Refused(
            "dtype-mismatch",
            f"`{op}` of a `{value.dtype.name}` tile to `{dtype.name}` elements",
            f"convert it with `.astype(tc.{dtype.name})`",
            argument,
        )


def _stub(name: str, values: str = "value", returns: bool = True) -> tuple[str, ...]:
    params = "".join(f"{v}: Tile[T, *S] | Tile[T, *tuple[()]] | Scalar, " for v in values.split())
    indices = (*_INDICES, "int | tuple[int, ...]")
    return _function_and_method(
        f"def {name}(z: Tensor[Atomic, T, *tuple[Any, ...]], index: {index}, "
        f"{params if '*S' in index else params.replace('Tile[T, *S] | ', '')}/,"
        f" mask: {'Tile[bool_, *S]' if '*S' in index else 'bool'} | None = ...)"
        f" -> {'None' if not returns else 'Tile[T, *S]' if '*S' in index else 'Tile[T, *tuple[()]]'}"
        for index in indices
    )


def _scatter_type(z: Type, index: Type, value: Type, /, mask: Type = NONE) -> Type:
    _changed_shape("scatter", z, index, (value,), mask, ("float", "int", "uint", "bool"))
    return NoneType()


@op(
    "load and store",
    result=_scatter_type,
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("scatter", returns=False),
)
def scatter(z: Any, index: Any, value: Value, /, mask: Any = None) -> None:
    """Set the elements at `index` to `value`, of any dtype but the 8-bit floats. Where several lanes or blocks name one element, one of their
    values stays. `atomic_exchange` also returns what was there.
    """
    _update(z, index, mask, lambda old, new: new, value)


def _update(z: Any, index: Any, mask: Any, f: Callable[..., Any], *values: Value) -> Array:
    dtype = z.memory.array.dtype
    given = [v if is_tile(v) else as_dtype(v, dtype) for v in values]
    return np.asarray(z.update(_each(index), mask, given, f))


def _rule(op: str, kinds: Sequence[str]) -> Callable[..., Type]:
    def rule(z: Type, index: Type, value: Type, /, mask: Type = NONE) -> Type:
        return _atomic_type(op, z, index, (value,), mask, kinds)

    return rule


@op(
    "atomic",
    result=_rule("atomic_add", ("float", "int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_add"),
)
def atomic_add(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Add `value` to the elements at `index`, returns the old ones. Floats and ints of 32 and 64 bits, f16 and bf16."""
    return _update(z, index, mask, lambda old, new: old + new, value)


@op(
    "atomic",
    result=_rule("atomic_max", ("int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_max"),
)
def atomic_max(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Set the int elements at `index` to the larger of themselves and `value`, returns the old ones."""
    return _update(z, index, mask, max, value)


@op(
    "atomic",
    result=_rule("atomic_min", ("int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_min"),
)
def atomic_min(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Set the int elements at `index` to the smaller of themselves and `value`, returns the old ones."""
    return _update(z, index, mask, min, value)


@op(
    "atomic",
    result=_rule("atomic_and", ("int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_and"),
)
def atomic_and(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Combine the int elements at `index` with `value` by bitwise and, returns the old ones."""
    return _update(z, index, mask, lambda old, new: old & new, value)


@op(
    "atomic",
    result=_rule("atomic_or", ("int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_or"),
)
def atomic_or(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Combine the int elements at `index` with `value` by bitwise or, returns the old ones."""
    return _update(z, index, mask, lambda old, new: old | new, value)


@op(
    "atomic",
    result=_rule("atomic_xor", ("int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_xor"),
)
def atomic_xor(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Combine the int elements at `index` with `value` by bitwise exclusive or, returns the old ones."""
    return _update(z, index, mask, lambda old, new: old ^ new, value)


@op(
    "atomic",
    result=_rule("atomic_exchange", ("float", "int", "uint")),
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_exchange"),
)
def atomic_exchange(z: Any, index: Any, value: Value, /, mask: Any = None) -> Array:
    """Replace the elements at `index` by `value`, returns the old ones. Floats and ints of 32 and 64 bits."""
    return _update(z, index, mask, lambda old, new: new, value)


def _cas_type(z: Type, index: Type, expected: Type, value: Type, /, mask: Type = NONE) -> Type:
    return _atomic_type("atomic_cas", z, index, (expected, value), mask, ("int", "uint"))


@op(
    "atomic",
    result=_cas_type,
    lanes=Lanes.MIX,
    mixes=_mixes_lanes,
    effect=Effect.ATOMIC,
    method_of=("tensor",),
    stub=_stub("atomic_cas", "expected value"),
)
def atomic_cas(z: Any, index: Any, expected: Value, value: Value, /, mask: Any = None) -> Array:
    """Replace the int elements at `index` that equal `expected` by `value`, returns the old ones."""
    return _update(z, index, mask, lambda old, wanted, new: new if old == wanted else old, expected, value)
