"""A matrix product per batch entry: the batch is axis 0 of the grid, with tiles of extent 1."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def batched_gemm(
    z: Tensor[Mut, f32, One, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn, Dyn]
) -> None:
    b, i, j = tc.block_id(0), tc.block_id(1), tc.block_id(2)
    xs, ys = x.partition(One, BM, BK, pad=0), y.partition(One, BK, BN, pad=0)
    acc = tc.zeros(One, BM, BN, dtype=f32)
    for k in range(xs.num_tiles(2)):
        acc = tc.mma(xs[b, i, k], ys[b, k, j], acc)
    z.store(acc)


def main() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.random((3, 40, 50)).astype(np.float16), rng.random((3, 50, 24)).astype(np.float16)
    x, y, c = tc.asarray(a), tc.asarray(b), tc.zeros(3, 40, 24)
    batched_gemm.where(BK=16)(c.partition(1, 16, 16), x, y).sync()
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)
    print("batched_gemm: 3 products of 40 x 50 by 50 x 24, as NumPy says")


if __name__ == "__main__":
    main()
