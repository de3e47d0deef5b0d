"""Normalised rows: each row of x, shape (rows, N), over its own spread, times weights of shape (N,).

A tile is BM whole rows of BN lanes, BN >= N; lanes beyond a row count for nothing. Tensors hold f32, f16 or bf16, all of a
call the same; everything is computed in f32 and rounded once.

    rms_norm(z.partition(1, 4096), x, w, 1e-6).sync()
    add_rms_norm(z.partition(1, 4096), s.partition(1, 4096), x, r, w, 1e-6).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, Tile, f32
from tilecheck_runtime.kernels.dtypes import Real

WHOLE_ROWS = "N <= BN and z.shape[1] == N and x.shape[0] >= z.shape[0]"
ADDED_ROWS = "N <= BN and z.shape[1] == N and s.shape[1] == N and x.shape[0] >= z.shape[0] and r.shape[0] >= z.shape[0]"


class BM(Dim): ...


class BN(Dim): ...


class N(Dim): ...


def by_size(t: Tile[f32, BM, BN], eps: float) -> Tile[f32, BM, BN]:
    """Each row over the root of its mean square. Lanes beyond N are 0."""
    return t * tc.rsqrt(tc.sum(t * t, axis=1, keepdims=True) / N + eps)


def centred(t: Tile[f32, BM, BN]) -> Tile[f32, BM, BN]:
    """Each row less its mean. Lanes beyond N are 0, before and after."""
    d = t - tc.sum(t, axis=1, keepdims=True) / N
    if N < BN:
        d = tc.where(tc.expand_dims(tc.arange(BN), 0) < N, d, 0.0)
    return d


@tc.kernel(requires=WHOLE_ROWS)
def rms_norm(
    z: Tensor[Mut, Real, BM, BN], x: Tensor[Shared, Real, Dyn, N], w: Tensor[Shared, Real, N], eps: float
) -> None:
    """Each row of z = x / sqrt(mean(x * x) + eps) * w."""
    t = by_size(x.partition(BM, BN, pad=0)[tc.block_id(0), 0].astype(f32), eps)
    z.store((t * w.partition(BN, pad=0)[0].astype(f32)).astype(z.dtype))


@tc.kernel(requires=ADDED_ROWS)
def add_rms_norm(
    z: Tensor[Mut, Real, BM, BN],
    s: Tensor[Mut, Real, BM, BN],
    x: Tensor[Shared, Real, Dyn, N],
    r: Tensor[Shared, Real, Dyn, N],
    w: Tensor[Shared, Real, N],
    eps: float,
) -> None:
    """s = x + r, and each row of z = s / sqrt(mean(s * s) + eps) * w."""
    i = tc.block_id(0)
    t = x.partition(BM, BN, pad=0)[i, 0].astype(f32) + r.partition(BM, BN, pad=0)[i, 0].astype(f32)
    s.store(t.astype(z.dtype))
    z.store((by_size(t, eps) * w.partition(BN, pad=0)[0].astype(f32)).astype(z.dtype))


@tc.kernel(requires=WHOLE_ROWS)
def layer_norm(
    z: Tensor[Mut, Real, BM, BN],
    x: Tensor[Shared, Real, Dyn, N],
    w: Tensor[Shared, Real, N],
    b: Tensor[Shared, Real, N],
    eps: float,
) -> None:
    """Each row of z = (x - mean(x)) / sqrt(var(x) + eps) * w + b."""
    t = by_size(centred(x.partition(BM, BN, pad=0)[tc.block_id(0), 0].astype(f32)), eps)
    z.store((t * w.partition(BN, pad=0)[0].astype(f32) + b.partition(BN, pad=0)[0].astype(f32)).astype(z.dtype))
