"""Elementwise kernels of rank 1: one pass, bound by memory. Tiles of 1024 to 4096 elements."""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


@tc.kernel
def add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = x + y."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def add_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = x + y in half precision."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def saxpy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], a: float) -> None:
    """z = a * x + y."""
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def silu_mul(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = x * sigmoid(x) * y."""
    a = tc.load_like(x, z)
    z.store(a / (1.0 + tc.exp(-a)) * tc.load_like(y, z))


@tc.kernel
def silu_mul_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = x * sigmoid(x) * y, computed in f32."""
    a = tc.load_like(x, z).astype(f32)
    z.store((a / (1.0 + tc.exp(-a)) * tc.load_like(y, z).astype(f32)).astype(f16))
