"""The kernel library: safe kernels only, each checked like a user's own.

| module | kernels |
|---|---|
| `pointwise` | `add`, `multiply`, `saxpy`, `relu`, `silu`, `gelu`, `silu_mul`, `gelu_mul` |
| `rows` | `softmax`, `row_sum`, `row_mean`, `row_max`, `row_min`, `row_argmax`, and `total` of a vector |
| `norms` | `rms_norm`, `add_rms_norm`, `layer_norm` |
| `matrix` | `gemm` and its transposes, `persistent_gemm`, `batched_gemm`, `linear` with bias and activation |
| `attention`, `decode` | causal `attention`, `grouped_attention`; `decode_split` and `decode_merge` for one token |
| `sequence` | `rope`, `cache_update`, `embedding`, `transpose` |

Each is one kernel for several dtypes: `Real` stands for f32, f16 or bf16, `Factor` for f16 or bf16, `Element` for any, and
is one dtype in a call; what is read in 16 bits is computed in f32. They are ordinary kernels: partition the output, bind
what occurs only in the body. No check stays inside one, but that of a token in `embedding`.

    import numpy as np
    import tilecheck as tc
    from tilecheck.kernels import softmax

    x = tc.asarray(np.random.rand(100, 64).astype(np.float32))
    z = tc.empty(100, 64)
    softmax(z.partition(4, 64), x).sync()
    assert np.allclose(z.numpy().sum(axis=1), 1)
"""

from tilecheck_runtime.kernels.attention import attention, grouped_attention
from tilecheck_runtime.kernels.decode import decode_merge, decode_split
from tilecheck_runtime.kernels.matrix import (
    batched_gemm,
    gemm,
    gemm_nt,
    gemm_tn,
    gemm_tt,
    linear,
    linear_bias,
    linear_gelu,
    linear_relu,
    linear_silu,
    persistent_gemm,
)
from tilecheck_runtime.kernels.norms import (
    add_rms_norm,
    layer_norm,
    rms_norm,
)
from tilecheck_runtime.kernels.pointwise import (
    add,
    gelu,
    gelu_mul,
    multiply,
    relu,
    saxpy,
    silu,
    silu_mul,
)
from tilecheck_runtime.kernels.rows import (
    row_argmax,
    row_max,
    row_mean,
    row_min,
    row_sum,
    softmax,
    total,
)
from tilecheck_runtime.kernels.sequence import (
    cache_update,
    embedding,
    rope,
    transpose,
)

__all__ = [
    "add",
    "add_rms_norm",
    "attention",
    "batched_gemm",
    "cache_update",
    "decode_merge",
    "decode_split",
    "embedding",
    "gelu",
    "gelu_mul",
    "gemm",
    "gemm_nt",
    "gemm_tn",
    "gemm_tt",
    "grouped_attention",
    "layer_norm",
    "linear",
    "linear_bias",
    "linear_gelu",
    "linear_relu",
    "linear_silu",
    "multiply",
    "persistent_gemm",
    "relu",
    "rms_norm",
    "rope",
    "row_argmax",
    "row_max",
    "row_mean",
    "row_min",
    "row_sum",
    "saxpy",
    "silu",
    "silu_mul",
    "softmax",
    "total",
    "transpose",
]
