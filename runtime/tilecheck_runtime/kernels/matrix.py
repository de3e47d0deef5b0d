"""Matrix products of 16-bit tiles, accumulated in f32. BK occurs only in the body; ragged edges are padded with zeros, which
add nothing.

`gemm` gives every output tile a block, `persistent_gemm` gives a block many tiles, in bands that reuse the second-level
cache. Letters after `gemm_` say how x and y are stored, n as they are multiplied, t transposed: `gemm_nt` is x @ y^T, with
y of shape (columns, inner), as the weights of a linear layer are. `linear_*` add a bias, apply an activation and round
once, while the tile is still in registers.

    gemm.where(BK=64)(c.partition(128, 128), a, b).sync()
    persistent_gemm.where(BK=64)(c.partition(128, 128).map((8, 1), blocks=132), a, b).sync()
    linear_gelu_bf16.where(BK=64)(z.partition(128, 128), x, w, bias).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, One, Shared, Tensor, bf16, f16, f32
from tilecheck_runtime.kernels.activations import gelu_of, relu_of, silu_of


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@tc.kernel(requires="x.shape[0] == y.shape[0]")
def gemm_tn(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x^T @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BK, BM, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(0)):
        acc = tc.mma(tc.permute_dims(xs[k, i], (1, 0)), ys[k, j], acc)
    z.store(acc)


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def gemm_nt(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x @ y^T."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc)


@tc.kernel(requires="x.shape[0] == y.shape[1]")
def gemm_tt(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x^T @ y^T."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BK, BM, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(0)):
        acc = tc.mma(tc.permute_dims(xs[k, i], (1, 0)), tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc)


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def gemm_bf16(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, bf16, Dyn, Dyn], y: Tensor[Shared, bf16, Dyn, Dyn]
) -> None:
    """z = x @ y."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def gemm_nt_bf16(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, bf16, Dyn, Dyn], y: Tensor[Shared, bf16, Dyn, Dyn]
) -> None:
    """z = x @ y^T."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc)


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def persistent_gemm(
    z: Tensor[Mapped, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    """z = x @ y, a few blocks walking over all tiles."""
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    for at in z.indices():
        acc = tc.zeros(BM, BN, dtype=f32)
        for k in range(xs.num_tiles(1)):
            acc = tc.mma(xs[at[0], k], ys[k, at[1]], acc)
        z.store(acc, at)


@tc.kernel(requires="x.shape[2] == y.shape[1]")
def batched_gemm(
    z: Tensor[Mut, f32, One, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn, Dyn]
) -> None:
    """z[b] = x[b] @ y[b]."""
    b, i, j = tc.block_id(0), tc.block_id(1), tc.block_id(2)
    xs, ys = x.partition(One, BM, BK, pad=0), y.partition(One, BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(2)):
        acc = tc.mma(tc.reshape(xs[b, i, k], BM, BK), tc.reshape(ys[b, k, j], BK, BN), acc)
    z.store(tc.reshape(acc, One, BM, BN))


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def linear_f16(z: Tensor[Mut, f16, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    """z = x @ y^T, rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc.astype(f16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_bias_f16(
    z: Tensor[Mut, f16, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    y: Tensor[Shared, f16, Dyn, Dyn],
    b: Tensor[Shared, f16, Dyn],
) -> None:
    """z = x @ y^T + b, rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store((acc + b.partition(BN, pad=0)[j].astype(f32)).astype(f16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_relu_f16(
    z: Tensor[Mut, f16, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    y: Tensor[Shared, f16, Dyn, Dyn],
    b: Tensor[Shared, f16, Dyn],
) -> None:
    """z = relu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(relu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(f16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_gelu_f16(
    z: Tensor[Mut, f16, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    y: Tensor[Shared, f16, Dyn, Dyn],
    b: Tensor[Shared, f16, Dyn],
) -> None:
    """z = gelu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(gelu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(f16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_silu_f16(
    z: Tensor[Mut, f16, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    y: Tensor[Shared, f16, Dyn, Dyn],
    b: Tensor[Shared, f16, Dyn],
) -> None:
    """z = silu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(silu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(f16))


@tc.kernel(requires="x.shape[1] == y.shape[1]")
def linear_bf16(
    z: Tensor[Mut, bf16, BM, BN], x: Tensor[Shared, bf16, Dyn, Dyn], y: Tensor[Shared, bf16, Dyn, Dyn]
) -> None:
    """z = x @ y^T, rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(acc.astype(bf16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_bias_bf16(
    z: Tensor[Mut, bf16, BM, BN],
    x: Tensor[Shared, bf16, Dyn, Dyn],
    y: Tensor[Shared, bf16, Dyn, Dyn],
    b: Tensor[Shared, bf16, Dyn],
) -> None:
    """z = x @ y^T + b, rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store((acc + b.partition(BN, pad=0)[j].astype(f32)).astype(bf16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_relu_bf16(
    z: Tensor[Mut, bf16, BM, BN],
    x: Tensor[Shared, bf16, Dyn, Dyn],
    y: Tensor[Shared, bf16, Dyn, Dyn],
    b: Tensor[Shared, bf16, Dyn],
) -> None:
    """z = relu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(relu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(bf16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_gelu_bf16(
    z: Tensor[Mut, bf16, BM, BN],
    x: Tensor[Shared, bf16, Dyn, Dyn],
    y: Tensor[Shared, bf16, Dyn, Dyn],
    b: Tensor[Shared, bf16, Dyn],
) -> None:
    """z = gelu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(gelu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(bf16))


@tc.kernel(requires="x.shape[1] == y.shape[1] and b.size >= z.shape[1]")
def linear_silu_bf16(
    z: Tensor[Mut, bf16, BM, BN],
    x: Tensor[Shared, bf16, Dyn, Dyn],
    y: Tensor[Shared, bf16, Dyn, Dyn],
    b: Tensor[Shared, bf16, Dyn],
) -> None:
    """z = silu(x @ y^T + b), rounded once."""
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], tc.permute_dims(ys[j, k], (1, 0)), acc)
    z.store(silu_of(acc + b.partition(BN, pad=0)[j].astype(f32)).astype(bf16))
