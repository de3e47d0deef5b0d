"""Swapping the sequence and head axes, with the two swapped in the store's index as well.

In a language whose stores take any index this program runs and overwrites elements of other blocks. Here the swapped
index cannot be written: a `Mapped` output takes only an index that its own `indices()` minted, and a `Mut` output none.
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, One, Shared, Tensor, f32


class BM(Dim): ...


class BD(Dim): ...


@tc.kernel
def permute_heads(z: Tensor[Mapped, f32, One, BM, BD], x: Tensor[Shared, f32, Dyn, Dyn, Dyn]) -> None:
    xs = x.partition(BM, One, BD)
    for at in z.indices():
        head, row, column = at[0], at[1], at[2]
        tile = tc.permute_dims(xs[row, head, column], (1, 0, 2))
        z.store(tile, (row, head, column))  # error: foreign-index


def main() -> None:
    x, z = tc.ones(128, 8, 64), tc.zeros(8, 128, 64)
    permute_heads(z.partition(1, 32, 64).map((1, 1, 1), blocks=16), x).sync()


if __name__ == "__main__":
    main()
