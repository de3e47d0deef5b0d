"""Rotary position embedding: a block's tile is cut in two halves, and each half is stored from both.

`z.tiles` cuts the block's own tile again; its indices are local to the block, so that no other block is in reach.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


class BD(Dim): ...


class Half(Dim): ...


@tc.kernel
def rope(
    z: Tensor[Mut, f32, BM, BD],
    x: Tensor[Shared, f32, Dyn, BD],
    cos: Tensor[Shared, f32, Dyn, Half],
    sin: Tensor[Shared, f32, Dyn, Half],
) -> None:
    i = tc.block_id(0)
    xs = x.partition(BM, Half)
    left, right = xs[i, 0], xs[i, 1]
    c, s = cos.partition(BM, Half)[i, 0], sin.partition(BM, Half)[i, 0]
    halves = z.tiles(BM, Half)
    halves.store(left * c - right * s, 0, 0)
    halves.store(right * c + left * s, 0, 1)


def main() -> None:
    a = np.random.default_rng(15).standard_normal((40, 32), np.float32)
    angle = np.arange(40, dtype=np.float32)[:, None] / 10_000 ** (np.arange(16, dtype=np.float32) / 16)
    x, cos, sin, z = tc.asarray(a), tc.asarray(np.cos(angle)), tc.asarray(np.sin(angle)), tc.zeros(40, 32)
    rope(z.partition(16, 32), x, cos, sin).sync()
    left, right = a[:, :16], a[:, 16:]
    expected = np.hstack([left * np.cos(angle) - right * np.sin(angle), right * np.cos(angle) + left * np.sin(angle)])
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5, atol=1e-6)
    print("rope: 40 positions of 32, as NumPy says")


if __name__ == "__main__":
    main()
