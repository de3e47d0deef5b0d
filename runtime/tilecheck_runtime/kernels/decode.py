"""Attention of one new token over a cache, in two launches: blocks share the keys of a head, then their parts are merged.

One launch per token has as many blocks as heads, too few to fill a device; `decode_split` cuts the keys into as many parts
as its outputs have tiles along axis 1 (Dao and others, "Flash-Decoding", 2023). The query heads that share a key head are
the BM rows of one tile, BM >= group and a multiple of 16 for tensor cores. Exponentials have base 2.

q and z have shape (key heads, group, D), k and v (key heads, positions, D); the first `length` positions count.

    parts, highest, total = tc.empty(kv, splits * 16, depth), tc.empty(kv, splits * 16, 1), tc.empty(kv, splits * 16, 1)
    pieces = (parts.partition(1, 16, depth), highest.partition(1, 16, 1), total.partition(1, 16, 1))
    decode_split.where(BN=64)(*pieces, q, k, v, depth**-0.5, length).sync()
    decode_merge(z.partition(1, 16, depth), parts, highest, total).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f32
from tilecheck_runtime.kernels.dtypes import Factor

SPLIT = (
    "q.shape[0] >= z.shape[0] and q.shape[1] <= BM and k.shape[0] >= z.shape[0] and v.shape[0] >= z.shape[0]"
    " and 1 <= length and length <= k.shape[1] and v.shape[1] >= k.shape[1]"
)
MERGE = (
    "z.shape[1] <= BM and parts.shape[0] >= z.shape[0]"
    " and highest.shape[0] >= z.shape[0] and highest.shape[1] >= parts.shape[1]"
    " and total.shape[0] >= z.shape[0] and total.shape[1] >= parts.shape[1]"
)


class BM(Dim): ...


class BN(Dim): ...


class D(Dim): ...


@tc.kernel(requires=SPLIT)
def decode_split(
    z: Tensor[Mut, f32, One, BM, D],
    highest: Tensor[Mut, f32, One, BM, One],
    total: Tensor[Mut, f32, One, BM, One],
    q: Tensor[Shared, Factor, Dyn, Dyn, D],
    k: Tensor[Shared, Factor, Dyn, Dyn, D],
    v: Tensor[Shared, Factor, Dyn, Dyn, D],
    scale: float,
    length: int,
) -> None:
    """Of every n-th key tile, n parts in all: the weighted sum of v, the largest score, and the sum of the weights."""
    head, part = tc.block_id(0), tc.block_id(1)
    queries = tc.reshape(q.partition(One, BM, D, pad=0)[head, 0, 0], BM, D)
    ks, vs = k.partition(One, BN, D, pad=0), v.partition(One, BN, D, pad=0)
    top = tc.full((BM, One), -1e30, dtype=f32)
    weight = tc.zeros(BM, One, dtype=f32)
    acc = tc.zeros(BM, D, dtype=f32)
    steep = scale * 1.4426950408889634
    seen = tc.minimum(tc.minimum(ks.num_tiles(1), vs.num_tiles(1)), (length + BN - 1) // BN)
    for j in range(part, seen, tc.num_blocks(1)):
        at = tc.arange(BN) + j * BN
        keys = tc.permute_dims(tc.reshape(ks[head, j, 0], BN, D), (1, 0))
        scores = tc.mma(queries, keys, tc.zeros(BM, BN, dtype=f32)) * steep
        scores = tc.where(tc.expand_dims(at, 0) < length, scores, -1e30)
        above = tc.maximum(top, tc.max(scores, axis=1, keepdims=True))
        weights = tc.exp2(scores - above, flush_to_zero=True)
        decay = tc.exp2(top - above, flush_to_zero=True)
        weight = weight * decay + tc.sum(weights, axis=1, keepdims=True)
        values = tc.where(tc.expand_dims(at, 1) < length, tc.reshape(vs[head, j, 0], BN, D), 0)
        acc = tc.mma(weights.astype(q.dtype), values, acc * decay)
        top = above
    z.store(tc.reshape(acc, One, BM, D))
    highest.store(tc.reshape(top, One, BM, One))
    total.store(tc.reshape(weight, One, BM, One))


@tc.kernel(requires=MERGE)
def decode_merge(
    z: Tensor[Mut, Factor, One, BM, D],
    parts: Tensor[Shared, f32, Dyn, Dyn, D],
    highest: Tensor[Shared, f32, Dyn, Dyn, One],
    total: Tensor[Shared, f32, Dyn, Dyn, One],
) -> None:
    """z = softmax(q @ k^T * scale) @ v, from the parts that `decode_split` left."""
    head = tc.block_id(0)
    ps = parts.partition(One, BM, D, pad=0)
    hs, ts = highest.partition(One, BM, One, pad=0), total.partition(One, BM, One, pad=0)
    top = tc.full((One, BM, One), -1e30, dtype=f32)
    weight = tc.zeros(One, BM, One, dtype=f32)
    acc = tc.zeros(One, BM, D, dtype=f32)
    for p in range(ps.num_tiles(1)):
        above = tc.maximum(top, hs[head, p, 0])
        decay = tc.exp2(top - above, flush_to_zero=True)
        rise = tc.exp2(hs[head, p, 0] - above, flush_to_zero=True)
        weight = weight * decay + ts[head, p, 0] * rise
        acc = acc * decay + ps[head, p, 0] * rise
        top = above
    z.store((acc / weight).astype(z.dtype))
