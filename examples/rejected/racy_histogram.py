"""A histogram whose threads add to one bin at the same time, as plain numba-cuda accepts it."""

import numpy as np
from numba import cuda


@cuda.jit
def histogram(bins, keys):
    i = cuda.grid(1)
    if i < keys.size:
        bins[i % 16] += 1  # error: data-race


def main() -> None:
    keys = np.arange(1024)
    bins = cuda.to_device(np.zeros(16, np.int32))
    histogram[4, 256](bins, cuda.to_device(keys))
    print(bins.copy_to_host())


if __name__ == "__main__":
    main()
