"""Matrix product in half precision, accumulated in single: BK occurs only in the body and is bound by `where`."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


def main() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((96, 80)).astype(np.float16), rng.random((80, 64)).astype(np.float16)
    x, y, c = tc.asarray(a), tc.asarray(b), tc.zeros(96, 64)
    gemm.where(BK=32)(c.partition(32, 32), x, y).sync()
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)
    print("gemm: 96 x 80 by 80 x 64, as NumPy says")


if __name__ == "__main__":
    main()
