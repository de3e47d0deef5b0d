"""A kernel writes through a tensor that it declared `Shared`.

Why: `Shared` tensors may be read by every block, and by other kernels and the host at the same time. A block that writes
one races with all of them. A kernel writes its own tile of a `Mut` tensor, and nobody else has that tile.
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


@tc.kernel
def double(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, BM]) -> None:
    x.store(z.load() * 2.0)  # error
    z.store(z.load())
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def clear(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    x[0] = 0.0  # error
    z.store(tc.load_like(x, z))
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def double(z: Tensor[Mut, f32, BM]) -> None:
    z.store(z.load() * 2.0)
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def clear(z: Tensor[Mut, f32, BM]) -> None:
    z.store(tc.zeros(BM))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the frontend and the type rules refused."""
    yield from checked.faults_of("write-to-shared", SEVERITY)
