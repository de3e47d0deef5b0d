"""An op would mix the void lanes of a ragged tile into valid ones.

Why: the last tile of a row may hang over the array's edge. The lanes out there hold nothing; elementwise ops carry them
along and a store drops them, but a sum, a scan or a matrix product would add them in. So would a store of a tile of one
array into the middle of another. Fill them at the load with `pad=`, or use tiles that divide the extent. Where only the
launch knows the extent, the launch checks.
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


class D1(Dim, size=1): ...


class D64(Dim, size=64): ...


class D100(Dim, size=100): ...


@tc.kernel
def total(z: Tensor[Mut, f32, D1], x: Tensor[Shared, f32, D100]) -> None:
    xs = x.partition(D64)
    acc = tc.zeros(D1)
    for k in range(xs.num_tiles(0)):
        acc = acc + xs[k].sum(keepdims=True, axis=0)  # error
    z.store(acc)
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class D1(Dim, size=1): ...


class D64(Dim, size=64): ...


class D100(Dim, size=100): ...


@tc.kernel
def total(z: Tensor[Mut, f32, D1], x: Tensor[Shared, f32, D100]) -> None:
    xs = x.partition(D64, pad=0.0)
    acc = tc.zeros(D1)
    for k in range(xs.num_tiles(0)):
        acc = acc + xs[k].sum(keepdims=True, axis=0)
    z.store(acc)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Tiles that never divide the extent they hang over."""
    yield from checked.faults_of("void-lanes", SEVERITY)
