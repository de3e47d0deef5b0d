"""Kernels written by hand for numba-cuda, one element a thread, as its documentation writes them. Needs a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

THREADS = 256


def scalar_kernels() -> dict[str, Any]:
    """`add`, `saxpy` by 2.5 and `silu_mul`, for f32 and f16 arrays; all but the sum is computed in f32."""
    numba: Any = import_module("numba")
    cuda: Any = import_module("numba.cuda")
    wide = numba.float32

    def add(z: Any, x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < z.size:
            z[i] = x[i] + y[i]

    def saxpy(z: Any, x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < z.size:
            z[i] = wide(2.5) * wide(x[i]) + wide(y[i])

    def silu_mul(z: Any, x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < z.size:
            t = wide(x[i])
            z[i] = t / (wide(1.0) + math.exp(-t)) * wide(y[i])

    return {function.__name__: cuda.jit(function) for function in (add, saxpy, silu_mul)}


def launch(kernel: Any, stream: int, *tensors: Any) -> Callable[[], object]:
    """A call that launches the kernel, one thread an element of the first tensor, on the driver's stream `stream`."""
    cuda: Any = import_module("numba.cuda")
    arrays = [cuda.as_cuda_array(tensor) for tensor in tensors]
    ready = kernel[-(-arrays[0].size // THREADS), THREADS, cuda.external_stream(stream)]
    return lambda: ready(*arrays)
