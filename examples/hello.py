"""The smallest kernel: every element of the output is written by exactly one block.

`z: Tensor[Mut, f32, BM]` is the block's own tile; cutting `z` in tiles of 4 makes the grid, one block per tile.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def hello(z: Tensor[Mut, f32, BM], greeting: float) -> None:
    z.store(tc.full((BM,), greeting))


def main() -> None:
    z = tc.zeros(16)
    hello(z.partition(4), 42.0).sync()
    np.testing.assert_array_equal(z.numpy(), np.full(16, 42.0, np.float32))
    print("hello: 4 blocks wrote", z.numpy())


if __name__ == "__main__":
    main()
