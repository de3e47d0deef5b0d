"""What type checkers say about the surface: nothing, except on the lines that end in `# error`."""

import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mapped, Mut, Owned, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


class D64(Dim, size=64): ...


@tc.kernel
def scale_add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], a: float) -> None:
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel(checks="launch", requires="x.shape[1] % 64 == 0")
def product(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@tc.kernel
def walk(z: Tensor[Mapped, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    xs = x.partition(BM, BN)
    for at in z.indices():
        z.store(2.0 * xs[at[0], at[1]], at)


@tc.kernel
def normalise(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    rows = tc.load_like(x, z)
    rows = rows - rows.max(axis=1, keepdims=True)
    z.store(rows / rows.sum(axis=1, keepdims=True))
    z.store(rows / BN + D64 // 2 * BM)
    z.store(rows / rows.sum(axis=1))  # error: a column is no row


@tc.kernel
def mistakes(
    z: Tensor[Mut, f32, BM, BN],
    x: Tensor[Shared, f16, Dyn, Dyn],
    y: Tensor[Shared, f16, Dyn, Dyn],
    m: Tensor[Mapped, f32, BM, BN],
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BN, BK)
    acc = tc.mma(xs[0, 0], ys[0, 0], tc.zeros(BM, BN))  # error: BN and BK are swapped
    x.store(xs[0, 0])  # error: shared
    m.store(tc.zeros(BM, BN))  # error: no index
    z.store(tc.zeros(BM, BN, dtype=f16))  # error: dtype
    z.store(tc.zeros(BN, BM))  # error: shape
    z.store(acc)


@tc.simt(block=256)
def threads(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    z[0] = x[0]
    x[0] = z[0]  # error: shared


@tc.kernel
def tally(n: Tensor[Atomic, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    tc.atomic_add(n, 0, 1.0)


def borrow(t: Tensor[Mut, f32, Dyn]) -> None: ...
def take(t: Tensor[Owned, f32, Dyn]) -> None: ...


def look(t: Tensor[Shared, f32, Dyn]) -> None:
    print(t[0], t[1:3].numpy())
    borrow(t)  # error: shared
    tally(t, t)  # error: shared
    t.partition(4)  # error: shared


def main() -> None:
    x, y, z = tc.zeros(1024), tc.ones(1024), tc.empty(1024)
    a, b, c = tc.zeros(128, 128, dtype=f16), tc.randn((128, 128), dtype=f16), tc.full((128, 128), 1.0)
    scale_add(z.partition(128), x, y, 2.0).sync()
    product.where(BK=64)(c.partition(128, 128), a, b).sync()
    walk(c.partition(64, 64).map((4, 1), blocks=132), c).sync()
    threads(z, x).sync()
    tally(z, x).sync()
    product(c.partition(128, 128), c, b)  # error: dtype
    scale_add(c.partition(128, 128), x, y, 2.0)  # error: rank
    scale_add(z.partition(128), x, y)  # error: arguments
    walk(c.partition(64, 64), c)  # error: not mapped
    borrow(z)
    take(z)
    take(y.partition(4))  # error: borrowed, not owned
    rest = tc.zeros(64)
    while rest.size > 16:
        piece, rest = rest.split(16)
        borrow(piece)
    take(rest)


def halves(rest: Tensor[Mut, f32, Dyn]) -> None:
    piece, rest = rest.split(16)
    borrow(piece)
    take(rest)  # error: borrowed, not owned
