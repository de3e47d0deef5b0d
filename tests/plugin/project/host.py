"""Host code with mistakes, in every kind of place. Each program is wrong on the marked lines and nowhere else."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

import again
from again import clone, fresh
from kernels import Pool, copy, take

import tilecheck as tc
from tilecheck import Dyn, Owned, Shared, Tensor, f32

T = TypeVar("T", int, str)

g = tc.zeros(64)
take(g)
print(g.shape)  # E: use-after-move


def launches() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z.partition(128), z).sync()  # E: borrow-conflict
    copy(z, x).sync()  # E: unpartitioned-output
    copy(z.partition(128), x)  # E: dropped-op
    copy(z.partition(128), x).sync()


def moves(flag: bool) -> None:
    z = tc.zeros(8)
    alias = z
    if flag:
        take(z)
    print(alias.numpy())  # E: use-after-move


def loop(n: int) -> None:
    t = tc.zeros(8)
    for _ in range(n):
        take(t)  # E: use-after-move


def repaired(n: int) -> None:
    for _ in range(n):
        t = tc.zeros(8)
        take(t)
    z, x = tc.zeros(8), tc.zeros(8)
    for _ in range(n):
        copy(z.partition(8), x).sync()
    print(z.numpy())


def other_names() -> None:
    a, b = fresh(8), tc.zeros(8)
    clone(a.partition(8), a).sync()  # E: borrow-conflict
    again.duplicate(b.partition(8), b).sync()  # E: borrow-conflict
    again.take(a)
    print(a.size)  # E: use-after-move


class Model:
    def __init__(self) -> None:
        self.buffer = tc.zeros(64)
        self.pool = Pool()

    def step(self, x: Tensor[Shared, f32, Dyn]) -> None:
        copy(self.buffer.partition(8), self.buffer).sync()  # E: borrow-conflict
        copy(self.buffer.partition(8), x).sync()
        self.pool.fill(self.buffer, self.buffer)  # E: borrow-conflict

    @staticmethod
    def end(t: Tensor[Owned, f32, Dyn]) -> int:
        Pool().give(t)
        return t.size  # E: use-after-move

    @property
    def spent(self) -> int:
        t = tc.zeros(3)
        take(t)
        return t.size  # E: use-after-move


def outer() -> Callable[[], None]:
    def inner() -> None:
        t = tc.zeros(8)
        take(t)
        take(t)  # E: use-after-move

    return inner


def generic(x: T) -> T:
    t = tc.zeros(8)
    take(t)
    print(x, t.shape)  # E: use-after-move
    return x


@overload
def either(x: int) -> int: ...
@overload
def either(x: str) -> str: ...
def either(x: Any) -> Any:
    t = tc.zeros(8)
    take(t)
    take(t)  # E: use-after-move
    return x


async def flight() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    running = copy(z.partition(8), x).run()
    print(z.numpy())  # E: use-in-flight
    await running
    print(z.numpy())
    await asyncio.sleep(0)


def unannotated():
    z = tc.zeros(8)
    copy(z.partition(8), z).sync()  # E: borrow-conflict
    take(z)
    print(z.numpy())  # E: use-after-move


def unreachable(flag: bool) -> None:
    t = tc.zeros(8)
    take(t)
    if sys.platform == "never":
        take(t)
    if flag:
        sys.exit(1)
    raise SystemExit
    take(t)


def silenced() -> None:
    t = tc.zeros(8)
    take(t)
    take(t)  # type: ignore[use-after-move]
    # tilecheck: allow[use-after-move] shown on purpose
    take(t)


ü = tc.zeros(8)
take(ü), print("äöü", ü.size)  # E: use-after-move
