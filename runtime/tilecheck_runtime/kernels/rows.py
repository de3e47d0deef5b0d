"""Kernels of rows: a tile holds BM whole rows, so BN is the row's length; a row that is no power of two wastes no memory
traffic, only lanes. Statistics are computed in f32.

A tile of a few rows keeps a block's loads in flight while it reduces; four rows of 4096 is a good size.
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


@tc.kernel
def softmax(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, BN]) -> None:
    """Each row of z = exp(x - max(x)) / sum(exp(x - max(x)))."""
    t = tc.load_like(x, z)
    e = tc.exp(t - tc.max(t, axis=1, keepdims=True))
    z.store(e / tc.sum(e, axis=1, keepdims=True))


@tc.kernel
def softmax_f16(z: Tensor[Mut, f16, BM, BN], x: Tensor[Shared, f16, Dyn, BN]) -> None:
    """Each row of z = softmax(x), computed in f32."""
    t = tc.load_like(x, z).astype(f32)
    e = tc.exp(t - tc.max(t, axis=1, keepdims=True))
    z.store((e / tc.sum(e, axis=1, keepdims=True)).astype(f16))


@tc.kernel
def rms_norm(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, BN], w: Tensor[Shared, f32, BN], eps: float
) -> None:
    """Each row of z = x / sqrt(mean(x * x) + eps) * w."""
    t = tc.load_like(x, z)
    scale = tc.rsqrt(tc.sum(t * t, axis=1, keepdims=True) / BN + eps)
    z.store(t * scale * w.load())


@tc.kernel
def rms_norm_f16(
    z: Tensor[Mut, f16, BM, BN], x: Tensor[Shared, f16, Dyn, BN], w: Tensor[Shared, f16, BN], eps: float
) -> None:
    """Each row of z = x / sqrt(mean(x * x) + eps) * w, computed in f32."""
    t = tc.load_like(x, z).astype(f32)
    scale = tc.rsqrt(tc.sum(t * t, axis=1, keepdims=True) / BN + eps)
    z.store((t * scale * w.load().astype(f32)).astype(f16))


@tc.kernel
def layer_norm(
    z: Tensor[Mut, f32, BM, BN],
    x: Tensor[Shared, f32, Dyn, BN],
    w: Tensor[Shared, f32, BN],
    b: Tensor[Shared, f32, BN],
    eps: float,
) -> None:
    """Each row of z = (x - mean(x)) / sqrt(var(x) + eps) * w + b."""
    t = tc.load_like(x, z)
    t = t - tc.sum(t, axis=1, keepdims=True) / BN
    scale = tc.rsqrt(tc.sum(t * t, axis=1, keepdims=True) / BN + eps)
    z.store(t * scale * w.load() + b.load())


@tc.kernel
def layer_norm_f16(
    z: Tensor[Mut, f16, BM, BN],
    x: Tensor[Shared, f16, Dyn, BN],
    w: Tensor[Shared, f16, BN],
    b: Tensor[Shared, f16, BN],
    eps: float,
) -> None:
    """Each row of z = (x - mean(x)) / sqrt(var(x) + eps) * w + b, computed in f32."""
    t = tc.load_like(x, z).astype(f32)
    t = t - tc.sum(t, axis=1, keepdims=True) / BN
    scale = tc.rsqrt(tc.sum(t * t, axis=1, keepdims=True) / BN + eps)
    z.store((t * scale * w.load().astype(f32) + b.load().astype(f32)).astype(f16))


@tc.kernel
def row_sum(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, f32, Dyn, BN]) -> None:
    """z[i, 0] = sum of row i of x."""
    xs = x.partition(BM, BN)
    z.store(tc.sum(xs[tc.block_id(0), 0], axis=1, keepdims=True))


@tc.kernel
def row_sum_f16(z: Tensor[Mut, f32, BM, One], x: Tensor[Shared, f16, Dyn, BN]) -> None:
    """z[i, 0] = sum of row i of x, in f32."""
    xs = x.partition(BM, BN)
    z.store(tc.sum(xs[tc.block_id(0), 0].astype(f32), axis=1, keepdims=True))
