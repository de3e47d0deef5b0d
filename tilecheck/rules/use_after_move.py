"""A tensor is used after its memory was given away.

Why: `into_partition` and parameters that are `Tensor[Owned]` take the memory over. The old name, and every view or alias
of it, then speaks of memory that somebody else may be writing, or has freed.
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
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The uses of what was moved."""
    for broken in checked.host.broken if checked.host is not None else ():
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
