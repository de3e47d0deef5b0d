"""Host code with mistakes, in every kind of place."""

from kernels import copy

import tilecheck as tc


def main() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z.partition(128), x).sync()
