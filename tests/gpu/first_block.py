"""A kernel whose blocks fail from number 1234 on, all at once: prints what the error says, once per round.

python -m tests.gpu.first_block
"""

from __future__ import annotations

import numpy as np

import tilecheck as tc
from tests.launch_kernels import peek

BLOCKS, FIRST, ROUNDS = 100_000, 1234, 20


def main() -> None:
    values = np.zeros(16 * BLOCKS, np.float32)
    values[16 * FIRST :] = 1
    x = tc.asarray(values)
    for _ in range(ROUNDS):
        try:
            peek(x).with_grid(BLOCKS).sync()
        except tc.KernelStopped as error:
            print(error.message, *error.points)


if __name__ == "__main__":
    main()
