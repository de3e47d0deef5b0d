"""A bounds check stays in a kernel that is to have none.

Why: `checks="launch"` promises that every access is proven, or compared on the host before the launch, so that the
compiled kernel holds no assert. An index that only the run knows breaks the promise. State what the launch ensures with
`requires=`, or take an index that carries its proof: a loop over `num_tiles`, a block id, `z.indices()`.
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
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel(checks="launch")
def pick(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], i: int) -> None:
    z.store(x.partition(BM)[i])  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel(checks="launch", requires="0 <= i and i < x.size // BM")
def pick(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], i: int) -> None:
    z.store(x.partition(BM)[i])
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the ladder left in a kernel that promised to be free of checks."""
    yield from checked.faults_of("check-in-kernel", SEVERITY)
