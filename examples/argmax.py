"""The position of the largest value of each row, over rows of any width: a running best, tile by tile."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32, i32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def argmax(z: Tensor[Mut, i32, BM], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    i = tc.block_id(0)
    xs = x.partition(BM, BN, pad="-inf")
    best = tc.max(xs[i, 0], axis=1)
    at = tc.argmax(xs[i, 0], axis=1)
    for j in range(1, xs.num_tiles(1)):
        value = tc.max(xs[i, j], axis=1)
        at = tc.where(value > best, tc.argmax(xs[i, j], axis=1) + j * BN, at)
        best = tc.maximum(best, value)
    z.store(at)


def main() -> None:
    a = np.random.default_rng(14).standard_normal((50, 77), np.float32)
    x, z = tc.asarray(a), tc.zeros(50, dtype=i32)
    argmax.where(BN=32)(z.partition(16), x).sync()
    np.testing.assert_array_equal(z.numpy(), a.argmax(axis=1))
    print("argmax: 50 rows of 77, equal to NumPy")


if __name__ == "__main__":
    main()
