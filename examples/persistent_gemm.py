"""A matrix product with fewer blocks than tiles: each block walks over tiles, in bands of 2 for the sake of the cache.

The index comes from `z.indices()`, so that each tile is written by exactly one block, for any number of blocks.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def persistent_gemm(
    z: Tensor[Mapped, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    for at in z.indices():
        acc = tc.zeros(BM, BN, dtype=f32)
        for k in range(xs.num_tiles(1)):
            acc = tc.mma(xs[at[0], k], ys[k, at[1]], acc)
        z.store(acc, at)


def main() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.random((100, 48)).astype(np.float16), rng.random((48, 80)).astype(np.float16)
    x, y, c = tc.asarray(a), tc.asarray(b), tc.zeros(100, 80)
    persistent_gemm.where(BK=16)(c.partition(16, 16).map((2, 1), blocks=6), x, y).sync()
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)
    print("persistent_gemm: 35 tiles by 6 blocks, as NumPy says")


if __name__ == "__main__":
    main()
