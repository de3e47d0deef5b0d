"""Root-mean-square normalisation of rows with a weight per column, the row read tile by tile.

`pad=0` fills what hangs over the end of a row, so that the sum of squares may run over any width.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def rms_norm(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn], weight: Tensor[Shared, f32, Dyn], eps: float
) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs = x.partition(BM, BN, pad=0)
    squares = tc.zeros(BM, BN)
    for k in range(xs.num_tiles(1)):
        squares = squares + xs[i, k] * xs[i, k]
    mean = tc.sum(squares, axis=1, keepdims=True) / x.shape[1]
    scale = tc.rsqrt(mean + eps)
    columns = weight.partition(BN, pad=0)[j]
    z.store(xs[i, j] * scale * tc.expand_dims(columns, 0))


def main() -> None:
    rng = np.random.default_rng(3)
    a, w = rng.standard_normal((32, 100), np.float32), rng.standard_normal(100, np.float32)
    x, weight, z = tc.asarray(a), tc.asarray(w), tc.zeros(32, 100)
    rms_norm(z.partition(8, 32), x, weight, 1e-6).sync()
    expected = a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5, atol=1e-6)
    print("rms_norm: 32 rows of 100 in tiles of 32, as NumPy says")


if __name__ == "__main__":
    main()
