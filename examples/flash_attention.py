"""Attention without the score matrix: one pass over keys with a running maximum and sum, full or causal.

`visible` hides keys past the end of the sequence and, when causal, those after the row's own position.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


class D(Dim): ...


@tc.kernel
def flash_attention(
    z: Tensor[Mut, f32, One, BM, D],
    q: Tensor[Shared, f32, Dyn, Dyn, D],
    k: Tensor[Shared, f32, Dyn, Dyn, D],
    v: Tensor[Shared, f32, Dyn, Dyn, D],
    scale: float,
    causal: bool,
) -> None:
    head, i = tc.block_id(0), tc.block_id(1)
    queries = q.partition(One, BM, D, pad=0)[head, i, 0]
    ks, vs = k.partition(One, BN, D, pad=0), v.partition(One, BN, D, pad=0)
    rows = tc.reshape(i * BM + tc.arange(BM), One, BM, One)
    highest = tc.full((One, BM, One), -1e30)
    total = tc.zeros(One, BM, One)
    acc = tc.zeros(One, BM, D)
    for j in range(ks.num_tiles(1)):
        columns = tc.reshape(j * BN + tc.arange(BN), One, One, BN)
        scores = tc.mma(queries, tc.permute_dims(ks[head, j, 0], (0, 2, 1)), tc.zeros(One, BM, BN)) * scale
        ahead = tc.broadcast_to(columns, One, BM, BN) > tc.broadcast_to(rows, One, BM, BN)
        beyond = tc.broadcast_to(columns, One, BM, BN) >= k.shape[1]
        hidden = tc.logical_or(beyond, tc.logical_and(ahead, causal))
        scores = tc.where(hidden, -1e30, scores)
        new_highest = tc.maximum(highest, tc.max(scores, axis=2, keepdims=True))
        weights = tc.exp(scores - tc.broadcast_to(new_highest, One, BM, BN))
        decay = tc.exp(highest - new_highest)
        total = total * decay + tc.sum(weights, axis=2, keepdims=True)
        acc = tc.mma(weights, vs[head, j, 0], acc * tc.broadcast_to(decay, One, BM, D))
        highest = new_highest
    z.store(acc / tc.broadcast_to(total, One, BM, D))


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) * scale
    if causal:
        scores = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=2, keepdims=True) @ v
    return result


def main() -> None:
    rng = np.random.default_rng(10)
    a, b, c = (rng.standard_normal((2, 50, 16), np.float32) for _ in range(3))
    q, k, v = tc.asarray(a), tc.asarray(b), tc.asarray(c)
    for causal in (False, True):
        z = tc.zeros(2, 50, 16)
        flash_attention.where(BN=16)(z.partition(1, 16, 16), q, k, v, 0.25, causal).sync()
        np.testing.assert_allclose(z.numpy(), reference(a, b, c, 0.25, causal), rtol=1e-4, atol=1e-5)
    print("flash_attention: 2 heads of 50 x 16, full and causal, as NumPy says")


if __name__ == "__main__":
    main()
