"""saxpy in place, as plain numba-cuda accepts it: the index forgets the block, so all blocks add to the same elements."""

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(z, x, a):
    i = cuda.threadIdx.x
    if i < z.size and i < x.size:
        z[i] += a * x[i]  # error: data-race


def main() -> None:
    z, x = cuda.to_device(np.zeros(4096, np.float32)), cuda.to_device(np.ones(4096, np.float32))
    saxpy[16, 256](z, x, np.float32(2))
    print(z.copy_to_host())


if __name__ == "__main__":
    main()
