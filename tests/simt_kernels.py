"""SIMT kernels for `test_simt_launch`. The bodies are numba-cuda's language; on the CPU its stand-in provides the names."""

from contextlib import nullcontext

import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck.verify.stand_in import cuda_on_cpu
from tilecheck_runtime.backends import default

with cuda_on_cpu() if default().name == "cpu" else nullcontext():
    from numba import cuda, float32


class BM(Dim): ...


@tc.simt(block=64)
def double(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = 2 * x[i]


@tc.simt(block=32)
def block_sums(out: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    d = 16
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0 and cuda.blockIdx.x < out.size:
        out[cuda.blockIdx.x] = s[0]


@tc.simt(block=8)
def tile_width(z: Tensor[Mut, f32, BM]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = BM


@tc.simt(block=4, requires="n % 2 == 0 and n <= blockDim.x")
def even(z: Tensor[Mut, f32, Dyn], n: int) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = n


@tc.simt(block=4)
def all_on_one(z: Tensor[Mut, f32, Dyn]) -> None:
    z[0] = cuda.threadIdx.x


@tc.unsafe("the test wants to see it stop")
@tc.simt(block=4)
def scatter(z: Tensor[Mut, f32, Dyn], where: Tensor[Shared, tc.i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < where.size and 0 <= where[i] < z.size:
        z[where[i]] = i


@tc.simt(block=4, requires="x.size >= perm.size and 0 <= perm < z.size and distinct(perm)")
def permute(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], perm: Tensor[Shared, tc.i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < perm.size:
        z[perm[i]] = x[i]


@tc.simt(block=4, requires="nondecreasing(ptr) and 0 <= ptr <= z.size")
def rows(z: Tensor[Mut, f32, Dyn], ptr: Tensor[Shared, tc.i32, Dyn]) -> None:
    row = cuda.grid(1)
    if row < ptr.size - 1:
        for k in range(ptr[row], ptr[row + 1]):
            z[k] = row


@tc.kernel(requires="0 <= where < x.size")
def pick(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], where: Tensor[Shared, tc.i32, Dyn]) -> None:
    z.store(tc.gather(x, tc.load_like(where, z, pad=0)))


@tc.simt(block=4)
def first_of(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = x[0]


@tc.simt(block=4)
def by_turns(z: Tensor[Mut, f32, Dyn], count: Tensor[Atomic, tc.i32, Dyn]) -> None:
    turn = cuda.atomic.add(count, 0, 1)
    if turn < z.size:
        z[turn] = cuda.grid(1)


@cuda.jit
def spread(z, perm):
    i = cuda.grid(1)
    if i < perm.size:
        z[perm[i]] = i


@cuda.jit
def plain(z, x, n):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = x[i] + n
