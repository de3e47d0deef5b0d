"""Softmax along rows: a block holds some whole rows.

A reduction over a tile that hangs over an edge would mix in lanes that do not exist, so the launch is checked: the tile
has to divide the extent along the reduced axis. Here it is the whole row.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def softmax(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, BN]) -> None:
    rows = tc.load_like(x, z)
    weights = tc.exp(rows - tc.max(rows, axis=1, keepdims=True))
    z.store(weights / tc.sum(weights, axis=1, keepdims=True))


def reference(x: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.exp(x - x.max(axis=1, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return result


def main() -> None:
    a = np.random.default_rng(2).standard_normal((100, 64), np.float32)
    x, z = tc.asarray(a), tc.zeros(100, 64)
    softmax(z.partition(8, 64), x).sync()
    np.testing.assert_allclose(z.numpy(), reference(a), rtol=1e-5)
    print("softmax: 100 rows of 64, as NumPy says")


if __name__ == "__main__":
    main()
