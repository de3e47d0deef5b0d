"""One sum per block, in numba-cuda's language: a tree in shared memory whose barriers are proved to be enough.

Needs numba-cuda for the names in the body; without a GPU the kernel runs on the CPU, thread by thread.
"""

import sys

import numpy as np

import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32

try:
    from numba import cuda, float32
except ModuleNotFoundError:
    sys.exit("block_sum: needs numba-cuda, which the extra `cuda` brings: pip install '.[cuda]'")

THREADS = 64


@tc.simt(block=THREADS)
def block_sum(out: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    partial = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    partial[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0 and cuda.blockIdx.x < out.size:
        out[cuda.blockIdx.x] = partial[0]


def main() -> None:
    host = np.random.default_rng(1).random(1000, np.float32)
    x, out = tc.asarray(host), tc.zeros(16)
    block_sum(out.partition(1), x).sync()
    padded = np.zeros(16 * THREADS, np.float32)
    padded[: host.size] = host
    np.testing.assert_allclose(out.numpy(), padded.reshape(16, THREADS).sum(1), rtol=1e-5)
    print("block_sum: 1000 elements in 16 blocks, as NumPy says")


if __name__ == "__main__":
    main()
