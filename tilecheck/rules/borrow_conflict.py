"""A tensor is borrowed exclusively while something else borrows the same elements.

Why: a kernel that writes a tensor must be the only one that has it. If another argument of the launch, another op or an
older view covers some of the same elements, what it sees depends on which block runs first. A borrow lasts as long as
what has it: an op until it is waited for, a view or a partition until its last use. Two arguments of a plain kernel may
be one array only if every thread keeps to its own element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.borrow.findings import Break, Broken
from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic, Label

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z = tc.zeros(1024)
    copy(z.partition(128), z).sync()  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    t, x = tc.zeros(64), tc.ones(64)
    half = t[0:32]
    copy(t.partition(8), x).sync()  # error
    print(half.numpy())
""",
    """
from numba import cuda


@cuda.jit
def shift(src, dst):
    i = cuda.grid(1)
    if i + 1 < src.size:
        dst[i] = src[i + 1]


def main() -> None:
    d = cuda.device_array(64)
    shift[1, 64](d, d)  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z.partition(128), x).sync()
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    t, x = tc.zeros(64), tc.ones(64)
    half = t[0:32]
    print(half.numpy())
    copy(t.partition(8), x).sync()
""",
    """
from numba import cuda


@cuda.jit
def double(src, dst):
    i = cuda.grid(1)
    if i < src.size:
        dst[i] = src[i] + src[i]


def main() -> None:
    d = cuda.device_array(64)
    double[1, 64](d, d)
""",
)


_KINDS = (
    Break.ONE_CALL,
    Break.HELD,
    Break.IDLE,
    Break.BUILT,
    Break.MOVED_BUILT,
    Break.MOVED_IDLE,
    Break.MOVED_VIEW,
    Break.CAPTURED,
    Break.LENT,
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The borrows of host code that cannot stand together."""
    for broken in checked.host.broken if checked.host is not None else ():
        if broken.kind in _KINDS:
            labels = tuple(_labels(broken))
            yield Diagnostic("borrow-conflict", SEVERITY, _message(broken), broken.span, None, labels, _help(broken))
    yield from checked.faults_of("borrow-conflict", SEVERITY)


def _message(broken: Broken) -> str:
    place, holder = broken.place, broken.holder
    match broken.kind:
        case Break.ONE_CALL:
            first, _, second = broken.param.partition(", ")
            return f"`{holder}` gets `{place}` twice and writes it: as `{first}` and as `{second}`"
        case Break.IDLE:
            return f"cannot borrow `{place}` exclusively: `{holder}` is used again later"
        case Break.BUILT:
            return f"cannot {'write' if broken.writes else 'read'} `{place}` while `{holder}` holds it"
        case Break.CAPTURED | Break.LENT:
            exclusively = " exclusively" if broken.verb == "borrow" else ""
            holds = "holds it" if broken.kind is Break.CAPTURED else "shares its memory"
            return f"cannot {broken.verb} `{place}`{exclusively} while `{holder}` {holds}"
        case Break.MOVED_BUILT:
            return f"cannot move `{place}` while `{holder}` holds it"
        case Break.MOVED_IDLE:
            still = "is used again later" if broken.later is not None else "is still there"
            return f"cannot move `{place}`: `{holder}`, which borrows from it, {still}"
        case Break.MOVED_VIEW:
            return f"cannot move `{place}`: it shares its memory with `{holder}`, which is still there"
        case _:
            return f"cannot borrow `{place}` while `{holder}` holds it"


def _labels(broken: Broken) -> Iterator[Label]:
    if broken.kind is Break.ONE_CALL and broken.origin is not None:
        yield Label(broken.origin, f"`{broken.place}` is passed here")
        yield Label(broken.span, "and here")
        return
    if broken.kind is Break.MOVED_VIEW and broken.origin is not None:
        yield Label(broken.origin, f"`{broken.holder}` is made here")
        return
    if broken.origin is not None:
        taken = f" as `{broken.param}`" if broken.param else ""
        begun = {Break.CAPTURED: "captured", Break.LENT: "lent"}.get(broken.kind, "borrowed")
        yield Label(broken.origin, f"`{broken.place}` is {begun} here{taken}")
    if broken.later is not None:
        yield Label(broken.later, "the borrow is needed again here")


def _help(broken: Broken) -> str:
    match broken.kind:
        case Break.ONE_CALL:
            return f"pass two tensors: make a copy of `{broken.place}`, or write to a new one"
        case Break.MOVED_VIEW:
            return f"move the tensor that owns the memory, or `del {broken.holder}` first"
        case Break.MOVED_IDLE if broken.later is None:
            return f"`del {broken.holder}` first"
        case Break.CAPTURED:
            drop = f"`del {broken.holder}`" if broken.named else "drop the graph"
            return f"{drop} first, or give it a tensor of its own"
        case Break.LENT:
            drop = f"`del {broken.holder}` first" if broken.named else "let go of that array first"
            return f"{drop}, or lend a copy: `{broken.place}.copy()`"
        case Break.IDLE | Break.MOVED_IDLE:
            return f"use `{broken.holder}` for the last time before this line, or take it anew after it"
        case _:
            run = "`await` the op first" if broken.in_async else "run the op first, with `sync()`"
            return f"{run}, or give it up with `discard()`"
