"""An extent has no value, or is no extent at all.

Why: the tile of a block has an extent on every axis, which the partition binds at the launch: that is what the `Dim`s of
a `Mut` parameter are for. A run-time extent (`Dyn`) is for tensors that are read.
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
from tilecheck import Dim, Dyn, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def clear(z: Tensor[Mut, f32, Dyn]) -> None:  # error
    z.store(tc.zeros(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(x.load())  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def clear(z: Tensor[Mut, f32, BM]) -> None:
    z.store(tc.zeros(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, BM]) -> None:
    z.store(x.load())
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the frontend and the type rules found without an extent."""
    yield from checked.faults_of("unbound-dim", SEVERITY)
