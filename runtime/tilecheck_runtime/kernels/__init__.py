"""The kernel library: safe kernels only, each checked like a user's own.

Pointwise (`add`, `saxpy`, `silu_mul`), rows (`softmax`, `rms_norm`, `layer_norm`, `row_sum`), matrix products (`gemm`,
`persistent_gemm`) and `attention`. They are ordinary kernels: partition the output, bind what occurs only in the body.

    from tilecheck_runtime.kernels import softmax
    softmax(z.partition(4, 4096), x).sync()
"""

from tilecheck_runtime.kernels.attention import attention
from tilecheck_runtime.kernels.matrix import gemm, persistent_gemm
from tilecheck_runtime.kernels.pointwise import add, add_f16, saxpy, silu_mul, silu_mul_f16
from tilecheck_runtime.kernels.rows import (
    layer_norm,
    layer_norm_f16,
    rms_norm,
    rms_norm_f16,
    row_sum,
    row_sum_f16,
    softmax,
    softmax_f16,
)

__all__ = [
    "add",
    "add_f16",
    "attention",
    "gemm",
    "layer_norm",
    "layer_norm_f16",
    "persistent_gemm",
    "rms_norm",
    "rms_norm_f16",
    "row_sum",
    "row_sum_f16",
    "saxpy",
    "silu_mul",
    "silu_mul_f16",
    "softmax",
    "softmax_f16",
]
