"""Small kernels that the launch tests share."""

import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mapped, Mut, Shared, Tensor, f32, i32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


class D16(Dim, size=16): ...


@tc.kernel
def fill(z: Tensor[Mut, f32, BM], v: float) -> None:
    z.store(tc.full(BM, v))


@tc.kernel
def move(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


@tc.kernel
def move2(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    z.store(tc.load_like(x, z))


@tc.kernel
def plus(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def both(a: Tensor[Mut, f32, BM], b: Tensor[Mut, f32, BN], x: Tensor[Shared, f32, Dyn]) -> None:
    a.store(tc.load_like(x, a))
    b.store(tc.load_like(x, b))


@tc.kernel
def whole(z: Tensor[Mut, f32, BM], w: Tensor[Shared, f32, BM]) -> None:
    z.store(w.load())


@tc.kernel
def sixteen(z: Tensor[Mut, f32, D16]) -> None:
    z.store(tc.full(D16, 16.0))


@tc.kernel
def row_sums(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    xs = x.partition(BM, BK, pad=0.0)
    acc = tc.zeros(BM)
    for k in range(xs.num_tiles(1)):
        acc = acc + tc.sum(xs[tc.block_id(0), k], axis=1)
    z.store(acc)


@tc.kernel
def pick(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], i: int) -> None:
    z.store(x.partition(BM)[i])


@tc.kernel
def by_block(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(x.partition(BM)[tc.block_id(0)])


@tc.kernel
def peek(x: Tensor[Shared, f32, Dyn]) -> None:
    tile = x.partition(D16)[tc.block_id(0)]
    tc.device_assert(tc.sum(tile) == 0.0, "not zero")


@tc.kernel
def walk(z: Tensor[Mapped, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    xs = x.partition(BM)
    for at in z.indices():
        z.store(xs[at[0]], at)


@tc.kernel
def ones_within(z: Tensor[Mapped, f32, BM], start: int, count: int) -> None:
    for at in z.indices(within=(start, count)):
        z.store(tc.ones(BM), at)


@tc.kernel
def update(cache: Tensor[Mapped, f32, BM], fresh: Tensor[Shared, f32, Dyn], start: int, count: int) -> None:
    tiles = fresh.partition(BM)
    for at in cache.indices(within=(start, count)):
        cache.store(tiles[at[0] - start], at)


@tc.kernel
def tally(n: Tensor[Atomic, i32, Dyn], x: Tensor[Shared, i32, Dyn]) -> None:
    tile = x.partition(D16)[tc.block_id(0)]
    tc.atomic_add(n, tile, 1)


@tc.kernel(requires="x.shape[0] >= 2 * z.shape[0]")
def first_half(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


@tc.kernel
def in_step(a: Tensor[Mapped, f32, BM], b: Tensor[Mapped, f32, BM]) -> None:
    for at in a.indices_with(b):
        a.store(tc.full(BM, 1.0), at)
        b.store(tc.full(BM, 2.0), at)
