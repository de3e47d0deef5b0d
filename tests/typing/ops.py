"""The kernel ops as mypy and pyright see them: exact shapes and dtypes, and wrong ones as ordinary errors."""

from typing import Any, assert_type

import tilecheck as tc
from tilecheck import (
    Atomic,
    Dim,
    Dyn,
    Mapped,
    Mut,
    One,
    Shared,
    Tensor,
    Tile,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i32,
    u32,
)


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


Square = Tile[f32, BM, BN]
Column = Tile[f32, BM, One]
Row = Tile[f32, One, BN]
Plain = Tile[f32, BN]
Point = Tile[f32, *tuple[()]]


def elementwise(t: Square, column: Column, row: Row, plain: Plain, point: Point, half: Tile[f16, BM, BN]) -> None:
    assert_type(t + t, Square)
    assert_type(2.0 * t - 1, Square)
    assert_type(t / column, Square)
    assert_type(column / t, Square)
    assert_type(t - row, Square)
    assert_type(t + plain, Square)
    assert_type(plain + t, Square)
    assert_type(t * point, Square)
    assert_type(point * t, Square)
    assert_type(column * row, Square)
    assert_type(row * column, Square)
    assert_type(t * BM, Square)
    assert_type(t**2, Square)
    assert_type(-t, Square)
    assert_type(t < column, Tile[bool_, BM, BN])
    assert_type(t == 0, Tile[bool_, BM, BN])
    assert_type((t < 0) & (t > column), Tile[bool_, BM, BN])
    assert_type(tc.maximum(t, 0), Square)
    assert_type(tc.minimum(column, t), Square)
    assert_type(tc.exp(half), Tile[f16, BM, BN])
    assert_type(tc.where(t > 0, t, 0), Square)
    assert_type(tc.where(t > 0, 1.0, 0.0), Square)
    assert_type(tc.where(t > row, t, column), Square)
    assert_type(tc.maximum(3, 4), int)
    assert_type(tc.sqrt(2), float)
    assert_type(tc.isnan(t), Tile[bool_, BM, BN])
    assert_type(tc.fma(t, t, 1.0), Square)
    assert_type(tc.add(t, row, rounding="down"), Square)
    assert_type(tc.sqrt(t, rounding="up", flush_to_zero=True), Square)
    assert_type(tc.minimum(t, 0.0, propagate_nan=False), Square)
    tc.divide(t, t, rounding="sideways")  # error: no such rounding
    tc.pow(t, t, rounding="up")  # error: `pow` takes no rounding
    t + half  # error: dtypes differ
    t + tc.zeros(BN, BM)  # error: extents swapped
    t + tc.zeros(BM, BK)  # error: an extent differs
    t + tc.zeros(BM)  # error: BM is not the last axis
    tc.maximum(t, tc.zeros(BN, BM))  # error: extents swapped
    t @ t  # error: inner extents differ


def reductions(t: Square, cube: Tile[f16, BM, BN, BK], mask: Tile[bool_, BM, BN]) -> None:
    assert_type(tc.sum(t, axis=0), Plain)
    assert_type(t.sum(axis=-1), Tile[f32, BM])
    assert_type(tc.max(t, axis=1, keepdims=True), Column)
    assert_type(t.sum(), Point)
    assert_type(tc.prod(cube, axis=1), Tile[f16, BM, BK])
    assert_type(cube.min(axis=2, keepdims=True), Tile[f16, BM, BN, One])
    assert_type(tc.argmax(t, axis=1), Tile[i32, BM])
    assert_type(tc.any(mask, axis=0), Tile[bool_, BN])
    assert_type(mask.all().item(), bool)
    assert_type(t.sum().item(), float)
    assert_type(tc.argmin(t).item(), int)
    assert_type(tc.cumsum(t, axis=1, reverse=True), Square)
    assert_type(tc.reduce(t, lambda a, b: tc.maximum(a, b), axis=1), Tile[f32, BM])
    assert_type(t.scan(lambda a, b: a + b, axis=0), Square)
    t.sum(axis=2)  # error: a rank-2 tile has no axis 2


def matrices(x: Tile[f16, BM, BK], y: Tile[f16, BK, BN], acc: Square, b: Tile[bf16, BK, BN]) -> None:
    assert_type(tc.mma(x, y, acc), Square)
    assert_type(x @ y, Tile[f16, BM, BN])
    assert_type(
        tc.mma(tc.zeros(BM, BK, dtype=i8), tc.zeros(BK, BN, dtype=i8), tc.zeros(BM, BN, dtype=i32)), Tile[i32, BM, BN]
    )
    tc.mma(y, x, acc)  # error: rows and columns swapped
    tc.mma(x, b, acc)  # error: dtypes differ
    tc.mma(x, y, tc.zeros(BM, BN, dtype=f16))  # error: f16 accumulates in f32


def shapes(t: Square, cube: Tile[f16, BM, BN, BK]) -> None:
    assert_type(tc.reshape(t, (BN, BM)), Tile[f32, BN, BM])
    assert_type(t.reshape(BK), Tile[f32, BK])
    assert_type(tc.concat((t, tc.zeros(BM, BK)), axis=1), Tile[f32, BM, Any])
    assert_type(tc.concat((t, tc.zeros(BK, BN), t)), Tile[f32, Any, BN])
    assert_type(tc.concat((cube, cube), axis=-2), Tile[f16, BM, Any, BK])
    assert_type(tc.concat((tc.zeros(BM), tc.zeros(BN))), Tile[f32, Any])
    tc.concat((t, tc.zeros(BN, BM)), axis=1)  # error: rows differ
    tc.concat((t, tc.zeros(BM, BN, dtype=f16)))  # error: dtypes differ
    tc.concat((t, t), axis=2)  # error: a rank-2 tile has no axis 2
    assert_type(tc.transpose(t), Tile[f32, BN, BM])
    assert_type(tc.permute_dims(cube, (2, 0, 1)), Tile[f16, BK, BM, BN])
    assert_type(tc.broadcast_to(tc.zeros(BN), (BM, BN)), Square)
    assert_type(tc.expand_dims(tc.zeros(BM), 1), Column)
    assert_type(tc.expand_dims(tc.zeros(BN), 0), Row)
    assert_type(tc.squeeze(tc.expand_dims(tc.zeros(BM), 1), 1), Tile[f32, BM])
    assert_type(t.astype(f64), Tile[f64, BM, BN])
    assert_type(tc.bitcast(t, u32), Tile[u32, BM, BN])
    assert_type(tc.extract(t, (0, 1), (BK, BK)), Tile[f32, BK, BK])
    tc.permute_dims(t, (0, 2))  # error: axis 2 of rank 2
    tc.transpose(cube)  # error: rank 3


def creation() -> None:
    assert_type(tc.full((BM, BN), 0.0), Square)
    assert_type(tc.full(BM, 1, dtype=i32), Tile[i32, BM])
    assert_type(tc.ones(BM, BN, dtype=f16), Tile[f16, BM, BN])
    assert_type(tc.arange(BM), Tile[i32, BM])
    assert_type(tc.rand(BM, BN, seed=1, offset=0), Square)
    assert_type(tc.random_bits(BM, seed=1, offset=0), Tile[u32, BM])
    tc.rand(BM, seed=1)  # error: every block would draw the same numbers


def memory(
    z: Tensor[Mut, f32, BM, BN],
    m: Tensor[Mapped, f32, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    ids: Tensor[Shared, i32, Dyn, Dyn],
    bins: Tensor[Atomic, i32, Dyn],
) -> None:
    assert_type(tc.load_like(x, z), Tile[f16, BM, BN])
    assert_type(x.partition(BM, BK)[0, 1], Tile[f16, BM, BK])
    assert_type(x.partition(BM, BK, pad=0.0).num_tiles(1), int)
    assert_type(z.load(), Square)
    assert_type(z.tiles(BM, BK)[0, 1], Tile[f32, BM, BK])
    assert_type(x.gather((tc.load_like(ids, z), 0)), Tile[f16, BM, BN])
    column, row = tc.expand_dims(tc.arange(BM), 1), tc.expand_dims(tc.arange(BN), 0)
    assert_type(x.gather((column, row)), Tile[f16, BM, BN])
    assert_type(tc.gather(x, (column, row), mask=column < row), Tile[f16, BM, BN])
    assert_type(tc.atomic_add(bins, tc.arange(BM), 1), Tile[i32, BM])
    tc.scatter(bins, tc.arange(BM), tc.arange(BM), mask=tc.arange(BM) < 4)
    bins.scatter(0, 1)
    tc.scatter(x, (0, 0), 1.0)  # error: x is Shared
    z.store(z.load())
    z.tiles(BK, BK).store(tc.zeros(BK, BK), 0, 1)
    for at in m.indices():
        assert_type(at[0], int)
        m.store(m.load(at) + tc.load_like(x, m, at).astype(f32), at)
    z.store(tc.zeros(BN, BM))  # error: extents swapped
    z.store(tc.load_like(x, z))  # error: dtypes differ
    m.store(z.load(), (0, 1))  # error: not a minted index
    m.store(z.load(), tc.block_id(0))  # error: not a minted index
    x.store(tc.load_like(x, z))  # error: x is Shared
    tc.atomic_add(z, (0, 0), 1.0)  # error: z is not Atomic
