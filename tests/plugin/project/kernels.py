"""Kernels that other files launch."""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Owned, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


# tilecheck: allow[data-race]
def take(t: Tensor[Owned, f32, Dyn]) -> None:
    print(t.numpy())
