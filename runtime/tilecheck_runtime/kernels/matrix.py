"""Matrix products of 16-bit tiles, accumulated in f32. BK occurs only in the body; ragged edges are padded with zeros, which
add nothing.

`gemm` gives every output tile a block, `persistent_gemm` gives a block many tiles, in bands that reuse the second-level
cache. Letters after `gemm_` say how x and y are stored, n as they are multiplied, t transposed: `gemm_nt` is x @ y^T, with
y of shape (columns, inner), as the weights of a linear layer are. `linear_*` add a bias, apply an activation and round
once, while the tile is still in registers. x and y are both f16 or both bf16, products without bias go to f32 as well.

    gemm.where(BK=64)(c.partition(128, 128), a, b).sync()
    persistent_gemm.where(BK=64)(c.partition(128, 128).map((8, 1), blocks=132), a, b).sync()
    linear_gelu.where(BK=64)(z.partition(128, 128), x, w, bias).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, One, Shared, Tensor, Tile, View, f32
from tilecheck_runtime.kernels.activations import gelu_of, relu_of, silu_of
from tilecheck_runtime.kernels.dtypes import Factor, Real

ONE_BIAS_EACH = "x.shape[1] == y.shape[1] and b.size >= z.shape[1]"


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


def product_nt(xs: View[Factor, BM, BK], ys: View[Factor, BN, BK], i: int, j: int) -> Tile[f32, BM, BN]:
    """Tile (i, j) of x @ y^T."""
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    return acc


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def gemm(
    z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tc.kernel(requires="x.shape[0] == y.shape[0]")
def gemm_tn(
    z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x^T @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BK, BM, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(0)):
        acc = tc.mma(tc.permute_dims(xs[k, i], (1, 0)), ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def gemm_nt(
    z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x @ y^T."""
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    z.store(product_nt(xs, ys, tc.block_id(0), tc.block_id(1)).astype(z.dtype))


@tc.kernel(requires="x.shape[0] == y.shape[1]")
def gemm_tt(
    z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x^T @ y^T."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BK, BM, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(0)):
        acc = tc.mma(tc.permute_dims(xs[k, i], (1, 0)), tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc.astype(z.dtype))


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def persistent_gemm(
    z: Tensor[Mapped, Real, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x @ y, a few blocks walking over all tiles."""
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    for at in z.indices():
        acc = tc.zeros(BM, BN, dtype=f32)
        for k in range(xs.num_tiles(1)):
            acc = tc.mma(xs[at[0], k], ys[k, at[1]], acc)
        z.store(acc.astype(z.dtype), at)


@tc.kernel(requires="x.shape[2] == y.shape[1]")
def batched_gemm(
    z: Tensor[Mut, Real, One, BM, BN],
    x: Tensor[Shared, Factor, Dyn, Dyn, Dyn],
    y: Tensor[Shared, Factor, Dyn, Dyn, Dyn],
) -> None:
    """z[b] = x[b] @ y[b]."""
    b, i, j = tc.block_id(0), tc.block_id(1), tc.block_id(2)
    xs, ys = x.partition(One, BM, BK, pad=0), y.partition(One, BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(2)):
        acc = tc.mma(tc.reshape(xs[b, i, k], BM, BK), tc.reshape(ys[b, k, j], BK, BN), acc)
    z.store(tc.reshape(acc.astype(z.dtype), One, BM, BN))


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def linear(
    z: Tensor[Mut, Factor, BM, BN], x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn]
) -> None:
    """z = x @ y^T, rounded once."""
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    z.store(product_nt(xs, ys, tc.block_id(0), tc.block_id(1)).astype(z.dtype))


def biased(
    x: Tensor[Shared, Factor, Dyn, Dyn], y: Tensor[Shared, Factor, Dyn, Dyn], b: Tensor[Shared, Factor, Dyn]
) -> Tile[f32, BM, BN]:
    """The block's own tile of x @ y^T + b."""
    j = tc.block_id(1)
    t = product_nt(x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0), tc.block_id(0), j)
    return t + b.partition(BN, pad=0)[j].astype(f32)


@tc.kernel(requires=ONE_BIAS_EACH)
def linear_bias(
    z: Tensor[Mut, Factor, BM, BN],
    x: Tensor[Shared, Factor, Dyn, Dyn],
    y: Tensor[Shared, Factor, Dyn, Dyn],
    b: Tensor[Shared, Factor, Dyn],
) -> None:
    """z = x @ y^T + b, rounded once."""
    z.store(biased(x, y, b).astype(z.dtype))


@tc.kernel(requires=ONE_BIAS_EACH)
def linear_relu(
    z: Tensor[Mut, Factor, BM, BN],
    x: Tensor[Shared, Factor, Dyn, Dyn],
    y: Tensor[Shared, Factor, Dyn, Dyn],
    b: Tensor[Shared, Factor, Dyn],
) -> None:
    """z = relu(x @ y^T + b), rounded once."""
    z.store(relu_of(biased(x, y, b)).astype(z.dtype))


@tc.kernel(requires=ONE_BIAS_EACH)
def linear_gelu(
    z: Tensor[Mut, Factor, BM, BN],
    x: Tensor[Shared, Factor, Dyn, Dyn],
    y: Tensor[Shared, Factor, Dyn, Dyn],
    b: Tensor[Shared, Factor, Dyn],
) -> None:
    """z = gelu(x @ y^T + b), rounded once."""
    z.store(gelu_of(biased(x, y, b)).astype(z.dtype))


@tc.kernel(requires=ONE_BIAS_EACH)
def linear_silu(
    z: Tensor[Mut, Factor, BM, BN],
    x: Tensor[Shared, Factor, Dyn, Dyn],
    y: Tensor[Shared, Factor, Dyn, Dyn],
    b: Tensor[Shared, Factor, Dyn],
) -> None:
    """z = silu(x @ y^T + b), rounded once."""
    z.store(silu_of(biased(x, y, b)).astype(z.dtype))
