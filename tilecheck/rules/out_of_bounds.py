"""An access takes an index outside of its array.

Why: nothing on the device stops it. A read brings in memory of somebody else, a write destroys it, and a negative index
wraps once to the other end. In a tile kernel an index that cannot be right is found from constants and extents; in a
thread-level kernel with the launch that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class BM(Dim): ...


class D8(Dim, size=8): ...


class D16(Dim, size=16): ...


@tc.kernel
def third(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, D16]) -> None:
    z.store(x.partition(D8)[2].sum() + tc.zeros(BM))  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def last(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(x.partition(BM)[-1])  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class BM(Dim): ...


class D8(Dim, size=8): ...


class D16(Dim, size=16): ...


@tc.kernel
def second(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, D16]) -> None:
    z.store(x.partition(D8)[1].sum() + tc.zeros(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def last(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    xs = x.partition(BM)
    z.store(xs[xs.num_tiles(0) - 1])
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Indices that no launch can put right."""
    yield from checked.faults_of("out-of-bounds", SEVERITY)
