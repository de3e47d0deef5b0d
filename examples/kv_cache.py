"""Writing new keys into a cache at a run-time position: the kernel visits only those tiles, all others stay as they are."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f32


class BM(Dim): ...


class BD(Dim): ...


@tc.kernel
def update(cache: Tensor[Mapped, f32, BM, BD], new: Tensor[Shared, f32, Dyn, Dyn], start: int, count: int) -> None:
    tiles = new.partition(BM, BD)
    for at in cache.indices(within=((start, count), (0, -1))):
        cache.store(tiles[at[0] - start, at[1]], at)


def main() -> None:
    rng = np.random.default_rng(16)
    old, fresh = rng.random((64, 32), np.float32), rng.random((16, 32), np.float32)
    cache, new = tc.asarray(old.copy()), tc.asarray(fresh)
    update(cache.partition(8, 16).map((1, 1), blocks=3), new, 4, 2).sync()
    expected = old.copy()
    expected[32:48] = fresh
    np.testing.assert_array_equal(cache.numpy(), expected)
    print("kv_cache: rows 32 to 47 of 64 replaced, equal to NumPy")


if __name__ == "__main__":
    main()
