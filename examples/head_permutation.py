"""Swapping the sequence and head axes: (S, H, D) to (H, S, D), a persistent kernel over a mapped output.

Each tile of `z` is visited by exactly one block, whatever the number of blocks; the store takes the visited index.
`rejected/head_permutation.py` is the same program with the index swapped.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, One, Shared, Tensor, f32


class BM(Dim): ...


class BD(Dim): ...


@tc.kernel
def permute_heads(z: Tensor[Mapped, f32, One, BM, BD], x: Tensor[Shared, f32, Dyn, Dyn, Dyn]) -> None:
    xs = x.partition(BM, One, BD)
    for at in z.indices():
        z.store(tc.permute_dims(xs[at[1], at[0], at[2]], (1, 0, 2)), at)


def main() -> None:
    a = np.random.default_rng(6).standard_normal((128, 8, 64), np.float32)
    x, z = tc.asarray(a), tc.zeros(8, 128, 64)
    permute_heads(z.partition(1, 32, 64).map((1, 1, 1), blocks=5), x).sync()
    np.testing.assert_array_equal(z.numpy(), a.transpose(1, 0, 2))
    print("head_permutation: (128, 8, 64) to (8, 128, 64), equal to NumPy")


if __name__ == "__main__":
    main()
