"""Elementwise kernels of rank 1: one pass, bound by memory. x, y and z have any length, z at most that of its inputs.

Tiles of 1024 to 4096 elements. Tensors hold f32, f16 or bf16, all of a call the same; 16 bits are computed in f32 and
rounded once, but for plain sums and products, which are the same either way.

    silu_mul(z.partition(2048), gate, up).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck_runtime.kernels.activations import gelu_of, relu_of, silu_of
from tilecheck_runtime.kernels.dtypes import Real


class BM(Dim): ...


@tc.kernel
def add(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn], y: Tensor[Shared, Real, Dyn]) -> None:
    """z = x + y."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def multiply(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn], y: Tensor[Shared, Real, Dyn]) -> None:
    """z = x * y."""
    z.store(tc.load_like(x, z) * tc.load_like(y, z))


@tc.kernel
def saxpy(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn], y: Tensor[Shared, Real, Dyn], a: float) -> None:
    """z = a * x + y."""
    z.store((a * tc.load_like(x, z).astype(f32) + tc.load_like(y, z).astype(f32)).astype(z.dtype))


@tc.kernel
def relu(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn]) -> None:
    """z = max(x, 0)."""
    z.store(relu_of(tc.load_like(x, z).astype(f32)).astype(z.dtype))


@tc.kernel
def silu(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn]) -> None:
    """z = x * sigmoid(x)."""
    z.store(silu_of(tc.load_like(x, z).astype(f32)).astype(z.dtype))


@tc.kernel
def gelu(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn]) -> None:
    """z = gelu(x), in the tanh form."""
    z.store(gelu_of(tc.load_like(x, z).astype(f32)).astype(z.dtype))


@tc.kernel
def silu_mul(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn], y: Tensor[Shared, Real, Dyn]) -> None:
    """z = silu(x) * y."""
    z.store((silu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(z.dtype))


@tc.kernel
def gelu_mul(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn], y: Tensor[Shared, Real, Dyn]) -> None:
    """z = gelu(x) * y, in the tanh form."""
    z.store((gelu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(z.dtype))
