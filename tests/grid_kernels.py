"""A SIMT kernel whose blocks wait for each other. On the CPU numba's stand-in provides the names."""

from contextlib import nullcontext

import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32
from tilecheck.verify.stand_in import cuda_on_cpu
from tilecheck_runtime.backends import default

with cuda_on_cpu() if default().name == "cpu" else nullcontext():
    from numba import cuda


@tc.simt(block=64, requires="w.size >= z.size and x.size >= z.size")
def mirrored(z: Tensor[Mut, f32, Dyn], w: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        w[i] = 2 * x[i]
    cuda.cg.this_grid().sync()
    if i < z.size:
        z[i] = w[z.size - 1 - i]
