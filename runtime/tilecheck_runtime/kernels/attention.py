"""Causal attention over heads, without the score matrix (the running maximum and sum of Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018).

q and z have shape (heads, queries, D), k and v (heads, keys, D), keys >= queries; query i sees keys 0 to i. A block
computes BM queries of one head. Key tiles below the diagonal are multiplied without a mask, those on it with one, those
after it are not visited. Exponentials have base 2, the logarithm's factor is folded into the scale.

    attention.where(BN=64)(z.partition(1, 128, depth), q, k, v, depth**-0.5).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f32
from tilecheck_runtime.kernels.dtypes import Factor

ONE_FOR_ONE = (
    "k.shape[0] >= z.shape[0] and v.shape[0] >= z.shape[0] and k.shape[1] >= z.shape[1] and v.shape[1] >= k.shape[1]"
)
ONE_FOR_G = "v.shape[0] >= k.shape[0] and k.shape[1] >= z.shape[1] and v.shape[1] >= k.shape[1]"


class G(Dim): ...


class ROWS(Dim): ...


class BM(Dim): ...


class BN(Dim): ...


class D(Dim): ...


@tc.kernel(requires=ONE_FOR_ONE)
def attention(
    z: Tensor[Mut, Factor, One, BM, D],
    q: Tensor[Shared, Factor, Dyn, Dyn, D],
    k: Tensor[Shared, Factor, Dyn, Dyn, D],
    v: Tensor[Shared, Factor, Dyn, Dyn, D],
    scale: float,
) -> None:
    """z = softmax(q @ k^T * scale, causal) @ v, with scale >= 0."""
    head, i = tc.block_id(0), tc.block_id(1)
    queries = tc.reshape(q.partition(One, BM, D, pad=0)[head, i, 0], BM, D)
    ks, vs = k.partition(One, BN, D, pad=0), v.partition(One, BN, D, pad=0)
    rows = tc.expand_dims(tc.arange(BM) + i * BM, 1)
    highest = tc.full((BM, One), -1e30, dtype=f32)
    total = tc.zeros(BM, One, dtype=f32)
    acc = tc.zeros(BM, D, dtype=f32)
    seen = tc.minimum(tc.minimum(ks.num_tiles(1), vs.num_tiles(1)), ((i + 1) * BM + BN - 1) // BN)
    whole = tc.minimum(seen, (i * BM) // BN)
    steep = scale * 1.4426950408889634
    for j in range(whole):
        keys = tc.permute_dims(tc.reshape(ks[head, j, 0], BN, D), (1, 0))
        scores = tc.mma(queries, keys, tc.zeros(BM, BN, dtype=f32))
        above = tc.maximum(highest, tc.max(scores, axis=1, keepdims=True) * steep)
        weights = tc.exp2(scores * steep - above, flush_to_zero=True)
        decay = tc.exp2(highest - above, flush_to_zero=True)
        total = total * decay + tc.sum(weights, axis=1, keepdims=True)
        acc = tc.mma(weights.astype(z.dtype), tc.reshape(vs[head, j, 0], BN, D), acc * decay)
        highest = above
    for j in range(whole, seen):
        keys = tc.permute_dims(tc.reshape(ks[head, j, 0], BN, D), (1, 0))
        columns = tc.expand_dims(tc.arange(BN) + j * BN, 0)
        scores = tc.mma(queries, keys, tc.zeros(BM, BN, dtype=f32)) * steep
        scores = tc.where(columns <= rows, scores, -1e30)
        above = tc.maximum(highest, tc.max(scores, axis=1, keepdims=True))
        weights = tc.exp2(scores - above, flush_to_zero=True)
        decay = tc.exp2(highest - above, flush_to_zero=True)
        total = total * decay + tc.sum(weights, axis=1, keepdims=True)
        acc = tc.mma(weights.astype(z.dtype), tc.reshape(vs[head, j, 0], BN, D), acc * decay)
        highest = above
    z.store(tc.reshape((acc / total).astype(z.dtype), One, BM, D))


@tc.kernel(requires=ONE_FOR_G)
def grouped_attention(
    z: Tensor[Mut, Factor, G, BM, D],
    q: Tensor[Shared, Factor, Dyn, Dyn, D],
    k: Tensor[Shared, Factor, Dyn, Dyn, D],
    v: Tensor[Shared, Factor, Dyn, Dyn, D],
    scale: float,
) -> None:
    """As `attention`, k and v with one head for G of z; ROWS is G * BM, so that a block reads its keys once for G heads:

    grouped_attention.where(BN=64, ROWS=128)(z.partition(4, 32, depth), q, k, v, depth**-0.5).sync()
    """
    group, i = tc.block_id(0), tc.block_id(1)
    queries = tc.reshape(q.partition(G, BM, D, pad=0)[group, i, 0], ROWS, D)
    ks, vs = k.partition(One, BN, D, pad=0), v.partition(One, BN, D, pad=0)
    rows = tc.expand_dims(tc.arange(ROWS) % BM + i * BM, 1)
    highest = tc.full((ROWS, One), -1e30, dtype=f32)
    total = tc.zeros(ROWS, One, dtype=f32)
    acc = tc.zeros(ROWS, D, dtype=f32)
    seen = tc.minimum(tc.minimum(ks.num_tiles(1), vs.num_tiles(1)), ((i + 1) * BM + BN - 1) // BN)
    whole = tc.minimum(seen, (i * BM) // BN)
    steep = scale * 1.4426950408889634
    for j in range(whole):
        keys = tc.permute_dims(tc.reshape(ks[group, j, 0], BN, D), (1, 0))
        scores = tc.mma(queries, keys, tc.zeros(ROWS, BN, dtype=f32))
        above = tc.maximum(highest, tc.max(scores, axis=1, keepdims=True) * steep)
        weights = tc.exp2(scores * steep - above, flush_to_zero=True)
        decay = tc.exp2(highest - above, flush_to_zero=True)
        total = total * decay + tc.sum(weights, axis=1, keepdims=True)
        acc = tc.mma(weights.astype(z.dtype), tc.reshape(vs[group, j, 0], BN, D), acc * decay)
        highest = above
    for j in range(whole, seen):
        keys = tc.permute_dims(tc.reshape(ks[group, j, 0], BN, D), (1, 0))
        columns = tc.expand_dims(tc.arange(BN) + j * BN, 0)
        scores = tc.mma(queries, keys, tc.zeros(ROWS, BN, dtype=f32)) * steep
        scores = tc.where(columns <= rows, scores, -1e30)
        above = tc.maximum(highest, tc.max(scores, axis=1, keepdims=True))
        weights = tc.exp2(scores - above, flush_to_zero=True)
        decay = tc.exp2(highest - above, flush_to_zero=True)
        total = total * decay + tc.sum(weights, axis=1, keepdims=True)
        acc = tc.mma(weights.astype(z.dtype), tc.reshape(vs[group, j, 0], BN, D), acc * decay)
        highest = above
    z.store(tc.reshape((acc / total).astype(z.dtype), G, BM, D))
