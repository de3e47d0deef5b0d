"""Elementwise kernels of rank 1: one pass, bound by memory. x, y and z have any length, z at most that of its inputs.

Tiles of 1024 to 4096 elements. A kernel without suffix computes in f32; `_f16` and `_bf16` read and write 16 bits, and all
but sums and products compute in f32 and round once.

    silu_mul_bf16(z.partition(2048), gate, up).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, bf16, f16, f32
from tilecheck_runtime.kernels.activations import gelu_of, relu_of, silu_of


class BM(Dim): ...


@tc.kernel
def add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = x + y."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def add_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = x + y."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def add_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn], y: Tensor[Shared, bf16, Dyn]) -> None:
    """z = x + y."""
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def multiply(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = x * y."""
    z.store(tc.load_like(x, z) * tc.load_like(y, z))


@tc.kernel
def multiply_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = x * y."""
    z.store(tc.load_like(x, z) * tc.load_like(y, z))


@tc.kernel
def multiply_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn], y: Tensor[Shared, bf16, Dyn]) -> None:
    """z = x * y."""
    z.store(tc.load_like(x, z) * tc.load_like(y, z))


@tc.kernel
def saxpy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], a: float) -> None:
    """z = a * x + y."""
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def saxpy_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn], a: float) -> None:
    """z = a * x + y."""
    z.store((a * tc.load_like(x, z).astype(f32) + tc.load_like(y, z).astype(f32)).astype(f16))


@tc.kernel
def saxpy_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn], y: Tensor[Shared, bf16, Dyn], a: float) -> None:
    """z = a * x + y."""
    z.store((a * tc.load_like(x, z).astype(f32) + tc.load_like(y, z).astype(f32)).astype(bf16))


@tc.kernel
def relu(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    """z = max(x, 0)."""
    z.store(relu_of(tc.load_like(x, z)))


@tc.kernel
def relu_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn]) -> None:
    """z = max(x, 0)."""
    z.store(relu_of(tc.load_like(x, z).astype(f32)).astype(f16))


@tc.kernel
def relu_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn]) -> None:
    """z = max(x, 0)."""
    z.store(relu_of(tc.load_like(x, z).astype(f32)).astype(bf16))


@tc.kernel
def silu(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    """z = x * sigmoid(x)."""
    z.store(silu_of(tc.load_like(x, z)))


@tc.kernel
def silu_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn]) -> None:
    """z = x * sigmoid(x)."""
    z.store(silu_of(tc.load_like(x, z).astype(f32)).astype(f16))


@tc.kernel
def silu_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn]) -> None:
    """z = x * sigmoid(x)."""
    z.store(silu_of(tc.load_like(x, z).astype(f32)).astype(bf16))


@tc.kernel
def gelu(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    """z = gelu(x), in the tanh form."""
    z.store(gelu_of(tc.load_like(x, z)))


@tc.kernel
def gelu_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn]) -> None:
    """z = gelu(x), in the tanh form."""
    z.store(gelu_of(tc.load_like(x, z).astype(f32)).astype(f16))


@tc.kernel
def gelu_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn]) -> None:
    """z = gelu(x), in the tanh form."""
    z.store(gelu_of(tc.load_like(x, z).astype(f32)).astype(bf16))


@tc.kernel
def silu_mul(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = silu(x) * y."""
    z.store(silu_of(tc.load_like(x, z)) * tc.load_like(y, z))


@tc.kernel
def silu_mul_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = silu(x) * y."""
    z.store((silu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(f16))


@tc.kernel
def silu_mul_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn], y: Tensor[Shared, bf16, Dyn]) -> None:
    """z = silu(x) * y."""
    z.store((silu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(bf16))


@tc.kernel
def gelu_mul(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    """z = gelu(x) * y, in the tanh form."""
    z.store(gelu_of(tc.load_like(x, z)) * tc.load_like(y, z))


@tc.kernel
def gelu_mul_f16(z: Tensor[Mut, f16, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f16, Dyn]) -> None:
    """z = gelu(x) * y, in the tanh form."""
    z.store((gelu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(f16))


@tc.kernel
def gelu_mul_bf16(z: Tensor[Mut, bf16, BM], x: Tensor[Shared, bf16, Dyn], y: Tensor[Shared, bf16, Dyn]) -> None:
    """z = gelu(x) * y, in the tanh form."""
    z.store((gelu_of(tc.load_like(x, z).astype(f32)) * tc.load_like(y, z).astype(f32)).astype(bf16))
