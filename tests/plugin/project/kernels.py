"""Kernels and functions that other files use."""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Owned, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def take(t: Tensor[Owned, f32, Dyn]) -> None:
    print(t.numpy())


class Pool:
    def give(self, t: Tensor[Owned, f32, Dyn]) -> None: ...
    def fill(self, out: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None: ...
