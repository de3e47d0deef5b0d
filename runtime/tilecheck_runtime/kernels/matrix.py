"""Matrix products in half precision, accumulated in single.

`gemm` gives every output tile a block; `persistent_gemm` gives a block many tiles, in bands that reuse the second-level
cache. BK occurs only in the body: `gemm.where(BK=64)(c.partition(128, 128), a, b)`. Ragged edges are padded with zeros,
which add nothing.
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@tc.kernel
def persistent_gemm(
    z: Tensor[Mapped, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    """z = x @ y, a few blocks walking over all tiles: `z.partition(128, 128).map((8, 1), blocks=132)`."""
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    for at in z.indices():
        acc = tc.zeros(BM, BN, dtype=f32)
        for k in range(xs.num_tiles(1)):
            acc = tc.mma(xs[at[0], k], ys[k, at[1]], acc)
        z.store(acc, at)
