# ruff: noqa: C416, E731, PIE800, PIE804, RUF021
"""Every construct of host code once: read by both front ends of the host IR, never run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import overload

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Owned, Shared, Tensor, f32
from tilecheck import zeros as fresh


class B(Dim): ...


class F(Dim, size=3): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def take(t: Tensor[Owned, f32, Dyn], *more: int, key: str = "a", **rest: float) -> Tensor[Shared, f32, Dyn]:
    return t


G = 3
a, b = tc.zeros(4), fresh(3)
c: int = 4
c += 1
del a
d = e = [1, 2.5, "x", b"y", 1j, None, True, ...]


class Model:
    buf: Tensor[Owned, f32, Dyn]

    def __init__(self) -> None:
        self.buf = tc.zeros(4)
        self.d = {1: 2, **{3: 4}}

    @property
    def size(self) -> int:
        return self.buf.size

    @staticmethod
    def same(x: int) -> int:
        return x


@overload
def either(x: int) -> int: ...
@overload
def either(x: str) -> str: ...
def either(x: int | str) -> int | str:
    return x


def main(flag: bool, xs: list[int]) -> int:
    global G
    z, x = tc.zeros(1024), tc.zeros(1024)
    op = copy(z.partition(128), x)
    op.sync()
    s = f"{z} and {x!r:>{c}}"
    if flag and not xs or s == "":
        z = tc.zeros(3)
    elif flag:
        x = tc.zeros(4)
    else:
        pass
    for i, _v in enumerate(xs):
        if i:
            continue
        break
    else:
        G = 4
    while (n := len(xs)) > 3:
        xs.pop()
    with open("f") as f, open("g"):
        f.read()
    try:
        copy(z.partition(3), x).sync()
    except (ValueError, TypeError) as err:
        raise RuntimeError("x") from err
    except OSError:
        raise
    finally:
        xs.clear()
    subject: object = xs
    match subject:
        case [1, *rest]:
            return len(rest)
        case {"a": q, **kw}:
            return len(kw) + (q is None)
        case int(real=w) | (float() as w):
            return int(w)
        case _:
            pass
    ys = [i * 2 for i in xs if i if i > 2 for j in xs]
    zs = {i: j for i, j in zip(xs, ys, strict=True)}
    ss = {*xs, 1}
    gg = (i for i in xs)
    h = lambda p, q=3: p + q
    t = xs[1:2], xs[::2], xs[-1], z[0:3]
    u = 1 if flag else 2
    assert flag, "no"

    def inner(y: int) -> int:
        return y + u

    print(*t, zs, ss, gg, h(1), n, sep="", **{})
    print(1 < u < 3, -u, ~u, not u)
    return inner(u)


async def wait(z: Tensor[Owned, f32, Dyn]) -> None:
    await asyncio.sleep(1)
    async with asyncio.Lock() as lock:
        print(lock)
    async for q in numbers():
        print(q)


async def numbers() -> AsyncIterator[int]:
    yield 3


def values() -> Generator[int | None, int, None]:
    x = yield 3
    print(x)
    yield from values()
    yield None
