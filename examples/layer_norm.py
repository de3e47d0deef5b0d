"""Layer normalisation of whole rows: mean and variance in one pass over a tile that holds them."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def layer_norm(
    z: Tensor[Mut, f32, BM, BN],
    x: Tensor[Shared, f32, Dyn, BN],
    gamma: Tensor[Shared, f32, BN],
    beta: Tensor[Shared, f32, BN],
    eps: float,
) -> None:
    rows = tc.load_like(x, z)
    centred = rows - tc.sum(rows, axis=1, keepdims=True) / x.shape[1]
    variance = tc.sum(centred * centred, axis=1, keepdims=True) / x.shape[1]
    scale = tc.expand_dims(gamma.partition(BN)[0], 0)
    shift = tc.expand_dims(beta.partition(BN)[0], 0)
    z.store(centred * tc.rsqrt(variance + eps) * scale + shift)


def main() -> None:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((60, 64), np.float32)
    g, b = rng.standard_normal(64, np.float32), rng.standard_normal(64, np.float32)
    x, gamma, beta, z = tc.asarray(a), tc.asarray(g), tc.asarray(b), tc.zeros(60, 64)
    layer_norm(z.partition(8, 64), x, gamma, beta, 1e-5).sync()
    centred = a - a.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-4, atol=1e-5)
    print("layer_norm: 60 rows of 64, as NumPy says")


if __name__ == "__main__":
    main()
