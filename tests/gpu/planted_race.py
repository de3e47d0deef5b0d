"""Two planted races in shared memory, for the interpreter, the checker and racecheck.

`placed` writes where an array says, and the caller names one place for all threads: the prover cannot know the array, so the
kernel opts out. `shifted` is a kernel of numba's own, in which nobody waits before reading a neighbour's element.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda, float32

import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32

SAME = "x.shape[0] == z.shape[0] and where.shape[0] == z.shape[0] and z.shape[0] % 128 == 0"


@tc.simt(block=128, requires=SAME)
def placed(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], where: Tensor[Shared, i32, Dyn]) -> None:
    tc.unsafe("the caller names each place once")
    s = cuda.shared.array(128, float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = 0.0
    cuda.syncthreads()
    s[where[i] % 128] = x[i]
    cuda.syncthreads()
    z[i] = s[cuda.threadIdx.x]


@cuda.jit
def shifted(z, x):  # type: ignore[no-untyped-def]
    s = cuda.shared.array(128, float32)
    i = cuda.grid(1)
    if i < z.size and i < x.size:
        s[cuda.threadIdx.x] = x[i]
        z[i] = s[127 - cuda.threadIdx.x]


def main() -> None:
    x = np.arange(256, dtype=np.float32)
    if sys.argv[1] == "placed":
        where = np.zeros(256, np.int32)
        placed(tc.zeros(256).partition(128), tc.asarray(x), tc.asarray(where)).sync()
    else:
        z = cuda.device_array_like(x)
        shifted[2, 128](z, cuda.to_device(x))
        z.copy_to_host()


if __name__ == "__main__":
    main()
