"""Reductions along the rows of a matrix, and softmax. x has shape (rows, N).

Kernels that need a row more than once keep it in registers: their tile is BM whole rows of BN lanes, BN >= N, and lanes
beyond the row read what changes nothing. BN == N is the quick choice: a row then moves in whole vectors; Tile IR wants the
next power of two.
Reductions walk over rows of any length in steps of BN, bound with `where(BN=...)`; z has shape (rows, 1). x holds f32,
f16 or bf16; everything is computed in f32, and sums and extrema are f32.

    softmax(z.partition(2, 4096), x).sync()
    row_max.where(BN=4096)(z.partition(1, 1), x).sync()
"""

import math

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, Tile, f32, i32
from tilecheck_runtime.kernels.dtypes import Real

LOWEST = -math.inf
HIGHEST = -LOWEST
# What a sum starts from: adding it changes nothing, not even the sign of a zero, so the compiler leaves it out.
NOTHING = -0.0
AS_MANY_ROWS = "x.shape[0] >= z.shape[0]"
WHOLE_ROWS = "N <= BN and z.shape[1] == N and x.shape[0] >= z.shape[0]"


class BM(Dim): ...


class BN(Dim): ...


class N(Dim): ...


def share(t: Tile[f32, BM, BN]) -> Tile[f32, BM, BN]:
    """Each row of exp(t), over its sum: one division a row. Powers of 2 take one instruction a lane, and what is smaller
    than a normal number counts as 0.
    """
    e = tc.exp2((t - tc.max(t, axis=1, keepdims=True)) * 1.4426950408889634, flush_to_zero=True)
    return e * (1.0 / tc.sum(e, axis=1, keepdims=True))


@tc.kernel(requires=WHOLE_ROWS)
def softmax(z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Real, Dyn, N]) -> None:
    """Each row of z = exp(x - max(x)) / sum(exp(x - max(x)))."""
    z.store(share(x.partition(BM, BN, pad="-inf")[tc.block_id(0), 0].astype(f32)).astype(z.dtype))


@tc.kernel(requires=AS_MANY_ROWS)
def row_sum(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, Real, Dyn, Dyn]) -> None:
    """z[i, 0] = the sum of row i of x."""
    i, xs = tc.block_id(0), x.partition(BM, BN, pad=0)
    t = tc.full((BM, BN), NOTHING, dtype=f32)
    for j in range(xs.num_tiles(1)):
        t = t + xs[i, j].astype(f32)
    z.store(tc.sum(t, axis=1, keepdims=True))


@tc.kernel(requires=AS_MANY_ROWS)
def row_mean(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, Real, Dyn, Dyn]) -> None:
    """z[i, 0] = the mean of row i of x."""
    i, xs = tc.block_id(0), x.partition(BM, BN, pad=0)
    t = tc.full((BM, BN), NOTHING, dtype=f32)
    for j in range(xs.num_tiles(1)):
        t = t + xs[i, j].astype(f32)
    z.store(tc.sum(t, axis=1, keepdims=True) / x.shape[1])


@tc.kernel(requires=AS_MANY_ROWS)
def row_max(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, Real, Dyn, Dyn]) -> None:
    """z[i, 0] = the largest value of row i of x."""
    i, xs = tc.block_id(0), x.partition(BM, BN, pad="-inf")
    t = tc.full((BM, BN), LOWEST, dtype=f32)
    for j in range(xs.num_tiles(1)):
        t = tc.maximum(t, xs[i, j].astype(f32))
    z.store(tc.max(t, axis=1, keepdims=True))


@tc.kernel(requires=AS_MANY_ROWS)
def row_min(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, Real, Dyn, Dyn]) -> None:
    """z[i, 0] = the smallest value of row i of x."""
    i, xs = tc.block_id(0), x.partition(BM, BN, pad="inf")
    t = tc.full((BM, BN), HIGHEST, dtype=f32)
    for j in range(xs.num_tiles(1)):
        t = tc.minimum(t, xs[i, j].astype(f32))
    z.store(tc.min(t, axis=1, keepdims=True))


@tc.kernel(requires=AS_MANY_ROWS)
def row_argmax(z: Tensor[Mut, i32, BM], x: Tensor[Shared, Real, Dyn, Dyn]) -> None:
    """z[i] = the position of the first largest value in row i of x, which has no nan."""
    i, xs = tc.block_id(0), x.partition(BM, BN, pad="-inf")
    best = tc.full(BM, LOWEST, dtype=f32)
    at = tc.zeros(BM, dtype=i32)
    for j in range(xs.num_tiles(1)):
        t = xs[i, j].astype(f32)
        value = tc.max(t, axis=1)
        at = tc.where(value > best, tc.argmax(t, axis=1) + j * BN, at)
        best = tc.maximum(best, value)
    z.store(at)


@tc.kernel
def total(z: Tensor[Mut, f32, One], x: Tensor[Shared, Real, Dyn]) -> None:
    """The sum of x in as many parts as z has elements; `total` of those into one element is the sum of all.

    Block b adds up tiles b, b + z.size, and so on, so that the order of the sum, and the result, is always the same.
    """
    xs = x.partition(BN, pad=0)
    t = tc.full(BN, NOTHING, dtype=f32)
    for j in range(tc.block_id(0), xs.num_tiles(0), tc.num_blocks(0)):
        t = t + xs[j].astype(f32)
    z.store(tc.reshape(tc.sum(t), One))
