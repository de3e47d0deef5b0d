"""Adding two vectors whose length the tile does not divide: the last block clips its store."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def vector_add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(1000, np.float32), rng.random(1000, np.float32)
    x, y, z = tc.asarray(a), tc.asarray(b), tc.zeros(1000)
    op = vector_add(z.partition(128), x, y)
    grid = op.grid
    op.sync()
    np.testing.assert_array_equal(z.numpy(), a + b)
    print(f"vector_add: 1000 elements in a grid of {grid}, equal to NumPy")


if __name__ == "__main__":
    main()
