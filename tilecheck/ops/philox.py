"""Random numbers from counters: the same on every backend, for every grid and tile shape.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a function from
a 128-bit counter and a 64-bit key to 128 random bits. Lane `i` of a tile, in row-major order, uses counter `offset +
i` and key `seed`, so an element has its number whichever block computes it, if `offset` is the element's position:

    tc.rand(BM, seed=seed, offset=tc.block_id(0) * BM) > p       # a dropout mask that does not depend on BM

`random_bits` and `rand` agree bit for bit between backends, `randn` up to the last digits of log and cos.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilecheck.ir.types import TileType, Type
from tilecheck.ops.creation import dtype_of, extents
from tilecheck.ops.elementwise import one_tile
from tilecheck.ops.extents import shape_of
from tilecheck.ops.memory import int_index
from tilecheck.ops.numbers import Array, computable
from tilecheck.ops.row import NONE, Lanes, ResultRule, op
from tilecheck.surface.dtypes import f32, u32

Words = npt.NDArray[np.uint64]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def words(counter: Words, seed: int) -> tuple[Words, Words, Words, Words]:
    """The four 32-bit words of Philox4x32-10 for 64-bit counters (high half 0) and a 64-bit key."""
    c0, c1 = counter & _LOW, counter >> _HALF
    c2, c3 = np.zeros_like(counter), np.zeros_like(counter)
    key = seed & 0xFFFFFFFFFFFFFFFF
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def _lanes(shape: Sequence[int], offset: int) -> Words:
    count = int(np.prod(shape, dtype=np.int64))
    start = np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
    return (np.arange(count, dtype=np.uint64) + start).reshape(tuple(shape))


def _philox_type(counter: Type, seed: Type, /) -> Type:
    int_index("philox", seed, 1)
    tile = one_tile("philox", counter)
    computable("philox", tile.dtype, ("int", "uint"), 0)
    return TileType(u32, tile.shape, tile.void)


@op(
    "random",
    result=_philox_type,
    lanes=Lanes.CARRY,
    stub="def philox(counter: Tile[Any, *S], seed: int, /) -> Tile[u32, *S]",
)
def philox(counter: Array, seed: int, /) -> Array:
    """Random bits (u32) for each int of `counter`, a function of the counter and the seed alone: the first word of
    Philox4x32-10.
    """
    return words(counter.astype(np.int64).astype(np.uint64), seed)[0].astype(np.uint32)


def _fresh(op: str, dtype: bool) -> ResultRule:
    def rule(*shape: Type, seed: Type, offset: Type, **named: Type) -> Type:
        int_index(op, seed, 0)
        int_index(op, offset, 0)
        target = dtype_of(op, named.get("dtype", NONE)) if dtype else u32
        if dtype:
            computable(op, target, ("float",))
        return TileType(target, shape_of(op, shape))

    return rule


def _stub(name: str, dtype: str | None) -> tuple[str, ...]:
    lines: list[str] = []
    for names in (("M",), ("M", "N"), ("M", "N", "K")):
        params = ", ".join(f"d{at}: type[{n}]" for at, n in enumerate(names))
        shape = ", ".join(names)
        lines.append(f"def {name}({params}, /, *, seed: int, offset: int) -> Tile[{dtype or 'u32'}, {shape}]")
        if dtype:
            lines.append(f"def {name}({params}, /, *, seed: int, offset: int, dtype: type[U]) -> Tile[U, {shape}]")
    return tuple(lines)


@op("random", result=_fresh("random_bits", dtype=False), lanes=Lanes.FRESH, stub=_stub("random_bits", None))
def random_bits(*shape: Any, seed: int, offset: int) -> Array:
    """A u32 tile of random bits; lane `i` in row-major order is `philox(offset + i, seed)`."""
    return words(_lanes(extents(shape), offset), seed)[0].astype(np.uint32)


def _unit(first: Words, second: Words, dtype: np.dtype[Any]) -> Array:
    """Random words as floats in [0, 1), every value a multiple of 2**-digits with the dtype's digits."""
    if dtype == np.float64:
        bits = (first << np.uint64(21)) | (second >> np.uint64(11))
        return bits.astype(np.float64) * 2.0**-53
    digits = {"float32": 24, "float16": 11}.get(dtype.name, 8)
    kept = (first >> np.uint64(32 - digits)).astype(np.float32)
    return (kept * np.float32(2.0**-digits)).astype(dtype)


@op("random", result=_fresh("rand", dtype=True), lanes=Lanes.FRESH, stub=_stub("rand", "f32"))
def rand(*shape: Any, seed: int, offset: int, dtype: Any = None) -> Array:
    """A float tile, uniform in [0, 1); lane `i` in row-major order depends on `seed` and `offset + i` alone. f32 unless
    `dtype` is given.
    """
    first, second, _, _ = words(_lanes(extents(shape), offset), seed)
    return _unit(first, second, (dtype or f32).numpy())


@op("random", result=_fresh("randn", dtype=True), lanes=Lanes.FRESH, stub=_stub("randn", "f32"))
def randn(*shape: Any, seed: int, offset: int, dtype: Any = None) -> Array:
    """A float tile, normal with mean 0 and deviation 1 (Box and Muller, in f32, for f64 in f64); lane `i` in
    row-major order depends on `seed` and `offset + i` alone. f32 unless `dtype` is given.
    """
    target = (dtype or f32).numpy()
    wide = np.dtype(np.float64 if target == np.float64 else np.float32)
    a, b, c, d = words(_lanes(extents(shape), offset), seed)
    radius = np.sqrt(wide.type(-2) * np.log(wide.type(1) - _unit(a, b, wide)))
    return np.asarray(radius * np.cos(wide.type(2 * np.pi) * _unit(c, d, wide))).astype(target)
