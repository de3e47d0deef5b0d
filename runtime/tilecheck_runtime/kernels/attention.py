"""Causal attention over heads, without the score matrix (the running maximum and sum of Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018).

q, k, v and z have shape (heads, sequence, D); a block computes BM queries of one head, the key tiles after the diagonal
are not visited.
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class D(Dim): ...


@tc.kernel
def attention(
    z: Tensor[Mut, f16, One, BM, D],
    q: Tensor[Shared, f16, Dyn, Dyn, D],
    k: Tensor[Shared, f16, Dyn, Dyn, D],
    v: Tensor[Shared, f16, Dyn, Dyn, D],
    scale: float,
) -> None:
    """z = softmax(q @ k^T * scale, causal) @ v."""
    head, i = tc.block_id(0), tc.block_id(1)
    queries = tc.reshape(q.partition(One, BM, D, pad=0)[head, i, 0], BM, D)
    ks, vs = k.partition(One, BN, D, pad=0), v.partition(One, BN, D, pad=0)
    rows = tc.expand_dims(tc.arange(BM) + i * BM, 1)
    highest = tc.full((BM, One), -1e30, dtype=f32)
    total = tc.zeros(BM, One, dtype=f32)
    acc = tc.zeros(BM, D, dtype=f32)
    for j in range(tc.minimum(ks.num_tiles(1), ((i + 1) * BM + BN - 1) // BN)):
        keys = tc.permute_dims(tc.reshape(ks[head, j, 0], BN, D), (1, 0))
        scores = tc.mma(queries, keys, tc.zeros(BM, BN, dtype=f32)) * scale
        columns = tc.expand_dims(tc.arange(BN) + j * BN, 0)
        scores = tc.where(columns <= rows, scores, -1e30)
        above = tc.maximum(highest, tc.max(scores, axis=1, keepdims=True))
        weights = tc.exp(scores - above)
        decay = tc.exp(highest - above)
        total = total * decay + tc.sum(weights, axis=1, keepdims=True)
        acc = tc.mma(weights.astype(f16), tc.reshape(vs[head, j, 0], BN, D), acc * decay)
        highest = above
    z.store(tc.reshape((acc / total).astype(f16), One, BM, D))
