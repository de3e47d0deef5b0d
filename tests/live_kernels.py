"""Kernels that tests read as live functions."""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32

FACTOR = 3


class BM(Dim): ...


def times(t, by):
    return t * by


@tc.kernel
def scale(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(times(tc.load_like(x, z) * FACTOR, 2))


def make(n):
    @tc.kernel
    def filled(z: Tensor[Mut, f32, BM]) -> None:
        z.store(tc.full(BM, n))

    return filled


def local_dim():
    class BX(Dim): ...

    @tc.kernel
    def copy(z: Tensor[Mut, f32, BX], x: Tensor[Shared, f32, Dyn]) -> None:
        z.store(tc.load_like(x, z))

    return copy
