"""Live SIMT kernels for `test_numba_live`: what a running program has in its globals and closures."""

import math

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck.verify.stand_in import cuda_on_cpu

with cuda_on_cpu():
    from numba import cuda, float32

WIDTH = 8
TABLE = np.array([3, 1, 2], np.int32)


class D8(Dim, size=8): ...


class BM(Dim): ...


@cuda.jit(device=True)
def scaled(x, by):
    return math.sqrt(x) * by


@tc.simt(block=(8, 4), requires="a.size >= c.size")
def ours(c: Tensor[Mut, f32, BM], a: Tensor[Shared, f32, Dyn], n: int) -> None:
    s = cuda.shared.array(WIDTH, float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = a[i]
    cuda.syncthreads()
    if i < BM + D8:
        c[i] = scaled(s[cuda.threadIdx.x], TABLE[1] + TABLE[n]) + n


def make(n):
    @cuda.jit
    def inner(x):
        x[cuda.grid(1)] = n

    return inner
