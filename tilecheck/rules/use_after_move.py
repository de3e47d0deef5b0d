"""A tensor is used after its memory was given away, or an op after it was used up.

Why: `into_partition` and parameters that are `Tensor[Owned]` take the memory over. The old name, and every view or alias
of it, then speaks of memory that somebody else may be writing, or has freed. An op runs once: running it, recording it
in a graph and making another op of it (`then`, `zip`) use it up, unless it is `shared()`.
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
    z, x = tc.zeros(1024), tc.ones(1024)
    zp = z.into_partition(128)
    copy(zp, x).sync()
    print(z.numpy())  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    op = copy(z.partition(128), x)
    op.sync()
    op.sync()  # error
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
    zp = z.into_partition(128)
    copy(zp, x).sync()
    z = zp.unpartition()
    print(z.numpy())
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    for _ in range(2):
        op = copy(z.partition(128), x)
        op.sync()
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The uses of what was moved or used up."""
    for broken in checked.host.broken if checked.host is not None else ():
        if broken.kind is Break.SPENT:
            yield _spent(broken)
        if broken.kind is not Break.MOVED:
            continue
        labels: tuple[Label, ...] = ()
        if broken.origin is not None:
            again = ", in an earlier round" if broken.origin == broken.span else ""
            taker = f"`{broken.holder}`, whose `{broken.param}` is `Owned`" if broken.param else f"`{broken.holder}`"
            labels = (Label(broken.origin, f"`{broken.place}` is moved here, by {taker}{again}"),)
        way_out = "give away a copy" if broken.param else "take it back first, with `unpartition()` of the partition"
        via = "" if broken.by.startswith(broken.place) else f", through `{broken.by}`"
        message = f"`{broken.place}` is used after it was moved{via}"
        yield Diagnostic("use-after-move", SEVERITY, message, broken.span, None, labels, way_out)
    yield from checked.faults_of("use-after-move", SEVERITY)


def _spent(broken: Broken) -> Diagnostic:
    how, here, way_out = _ENDS.get(broken.by, _RUN)
    labels: tuple[Label, ...] = ()
    if broken.origin is not None:
        again = ", in an earlier round" if broken.origin == broken.span else ""
        labels = (Label(broken.origin, f"it {here} here{again}"),)
    message = f"`{broken.place}` is used again after it {how}"
    help = way_out.format(broken.place)
    return Diagnostic("use-after-move", SEVERITY, message, broken.span, None, labels, help)


_ONCE = "an op runs once: build it again, or make it `{}.shared()` before its first use"
_RUN = ("was run", "is run", _ONCE)
# What used an op up: how that is said at its next use and where it happened, and the way out.
_ENDS = {
    "joined": ("became part of another op", "becomes part of another op", _ONCE),
    "given up": ("was given up", "is given up", "build it again, or leave out `{}.discard()`"),
    "compiled": (
        "was compiled",
        "is compiled, which uses it up,",
        "build it again to run it: what was compiled is kept",
    ),
}
