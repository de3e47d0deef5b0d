"""Transposing a matrix: the store has no index, so a block cannot write to another block's place.

The block at (i, j) of the output reads the tile at (j, i) of the input and turns it.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def transpose(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    z.store(tc.permute_dims(x.partition(BN, BM)[j, i], (1, 0)))


def main() -> None:
    a = np.random.default_rng(4).standard_normal((50, 70), np.float32)
    x, z = tc.asarray(a), tc.zeros(70, 50)
    transpose(z.partition(32, 16), x).sync()
    np.testing.assert_array_equal(z.numpy(), a.T)
    print("transpose: 50 x 70, equal to NumPy")


if __name__ == "__main__":
    main()
