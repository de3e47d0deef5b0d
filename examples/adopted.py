"""A plain numba-cuda kernel, unchanged, under our launch: its conditions are derived and checked at every call.

Needs numba-cuda; without a GPU the kernel runs on the CPU.
"""

import sys

import numpy as np

import tilecheck as tc

try:
    from numba import cuda
except ModuleNotFoundError:
    sys.exit("adopted: needs numba-cuda, which the extra `cuda` brings: pip install '.[cuda]'")


@cuda.jit
def stencil(out, x):
    i = cuda.grid(1)
    if i > 0 and i < out.size - 1:
        out[i] = (x[i - 1] + x[i] + x[i + 1]) / 3


def main() -> None:
    host = np.arange(200, dtype=np.float32) ** 2
    x, out = tc.asarray(host), tc.zeros(200)
    smooth = tc.adopt(stencil, block=64)
    smooth(out.partition(64), x).sync()
    np.testing.assert_allclose(out.numpy()[1:-1], (host[:-2] + host[1:-1] + host[2:]) / 3, rtol=1e-6)
    print("adopted: 200 elements, as NumPy says; an `x` shorter than `out` would be refused")


if __name__ == "__main__":
    main()
