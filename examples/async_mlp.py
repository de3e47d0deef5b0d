"""Two layers for several batches at a time: each batch is a chain of launches, awaited together.

The second layer reads what the first wrote; the runtime orders the two by the data, on whatever stream each runs.
"""

import asyncio

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def linear_relu(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn], w: Tensor[Shared, f32, Dyn, Dyn]
) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ws = x.partition(BM, BK, pad=0), w.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ws[k, j], acc)
    z.store(tc.maximum(acc, 0.0))


async def mlp(batch: np.ndarray, w1: Tensor[Shared, f32, Dyn, Dyn], w2: Tensor[Shared, f32, Dyn, Dyn]) -> np.ndarray:
    x, hidden, z = tc.asarray(batch), tc.zeros(batch.shape[0], w1.shape[1]), tc.zeros(batch.shape[0], w2.shape[1])
    layer = linear_relu.where(BK=16)
    await layer(hidden.partition(16, 16), x, w1)
    await layer(z.partition(16, 16), hidden, w2)
    return z.numpy()


async def run(batches: list[np.ndarray], w1: np.ndarray, w2: np.ndarray) -> list[np.ndarray]:
    first, second = tc.asarray(w1), tc.asarray(w2)
    return await asyncio.gather(*(mlp(batch, first, second) for batch in batches))


def main() -> None:
    rng = np.random.default_rng(12)
    w1, w2 = rng.standard_normal((20, 32), np.float32), rng.standard_normal((32, 10), np.float32)
    batches = [rng.standard_normal((rows, 20), np.float32) for rows in (16, 40, 7)]
    for batch, result in zip(batches, asyncio.run(run(batches, w1, w2)), strict=True):
        np.testing.assert_allclose(result, np.maximum(np.maximum(batch @ w1, 0) @ w2, 0), rtol=1e-4, atol=1e-4)
    print("async_mlp: 3 batches through 2 layers, as NumPy says")


if __name__ == "__main__":
    main()
