"""Threads read shared memory where an array says, and nothing makes them wait for who writes there.

The prover cannot know the array, so the kernel opts out; the interpreter stops it, and racecheck sees it on a GPU.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32

SAME = "x.shape[0] == z.shape[0] and z.shape[0] % 128 == 0"


@tc.simt(block=128, requires=SAME)
def taken(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], where: Tensor[Shared, i32, Dyn]) -> None:
    tc.unsafe("each thread takes what it put there itself")
    s = cuda.shared.array(128, float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = 0.0
    cuda.syncthreads()
    s[cuda.threadIdx.x] = x[i]
    if i < where.size:
        z[i] = s[where[i] % 128]


def main() -> None:
    x = np.arange(256, dtype=np.float32)
    # What a thread of another warp puts there.
    where = np.arange(255, -1, -1, dtype=np.int32)
    taken(tc.zeros(256).partition(128), tc.asarray(x), tc.asarray(where)).sync()


if __name__ == "__main__":
    main()
