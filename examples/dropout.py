"""Dropout with a counter-based generator: the same seed drops the same elements, whatever the tiles and their order."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def dropout(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], p: float, seed: int) -> None:
    kept = tc.rand(BM, seed=seed, offset=tc.block_id(0) * BM) >= p
    z.store(tc.where(kept, tc.load_like(x, z) / (1.0 - p), 0.0))


def main() -> None:
    a = np.random.default_rng(11).random(10_000, np.float32) + 1
    x = tc.asarray(a)
    results = []
    for tile in (128, 256):
        z = tc.zeros(10_000)
        dropout(z.partition(tile), x, 0.25, 42).sync()
        results.append(z.numpy())
    np.testing.assert_array_equal(results[0], results[1])
    kept = results[0] != 0
    np.testing.assert_allclose(results[0][kept], a[kept] / 0.75, rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.02
    print(f"dropout: kept {kept.mean():.1%} of 10000 elements, for two tile sizes the same ones")


if __name__ == "__main__":
    main()
