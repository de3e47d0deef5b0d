"""Kernel code and host code are mixed up, or an op is called in a way it does not have.

Why: a kernel describes what one block does; it cannot launch, allocate or print like the host, and its ops mean nothing
there. A condition of `requires` that speaks of what the kernel has not would never be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.borrow.findings import Break
from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic, Label

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def inner(z: Tensor[Mut, f32, BM]) -> None:
    z.store(tc.zeros(BM))


@tc.kernel
def outer(z: Tensor[Mut, f32, BM]) -> None:
    inner(z)  # error
    z.store(tc.ones(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel(requires="n.size >= z.size")
def clear(z: Tensor[Mut, f32, BM]) -> None:  # error
    z.store(tc.zeros(BM))
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


def zero(z):
    z.store(tc.zeros(BM))


@tc.kernel
def outer(z: Tensor[Mut, f32, BM]) -> None:
    zero(z)
    z.store(tc.ones(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel(requires="z.size >= 1")
def clear(z: Tensor[Mut, f32, BM]) -> None:
    z.store(tc.zeros(BM))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the frontends and the type pass found misused, and the output of a graph that is taken twice."""
    for broken in checked.host.broken if checked.host is not None else ():
        if broken.kind is Break.TAKEN and broken.origin is not None:
            again = ", in an earlier round" if broken.origin == broken.span else ""
            labels = (Label(broken.origin, f"it is taken here{again}"),)
            message = f"`{broken.by}` takes what was taken already"
            way_out = "keep the output: its tensors change with each launch"
            yield Diagnostic("usage", SEVERITY, message, broken.span, None, labels, way_out)
    yield from checked.faults_of("usage", SEVERITY)
