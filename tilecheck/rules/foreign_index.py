"""A store takes an index that its partition did not mint.

Why: two blocks that store at one index race. `z.indices()` gives each tile to exactly one block, and only its indices
are accepted; a block id, a computed number or the index of another tensor could be anybody's tile.
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
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def scale(z: Tensor[Mapped, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    xs = x.partition(BM)
    for at in z.indices():
        z.store(2.0 * xs[at[0]], tc.block_id(0))  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def split(a: Tensor[Mapped, f32, BM], b: Tensor[Mapped, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    for at in a.indices():
        tile = x.partition(BM)[at[0]]
        a.store(tile, at)
        b.store(-tile, at)  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def scale(z: Tensor[Mapped, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    xs = x.partition(BM)
    for at in z.indices():
        z.store(2.0 * xs[at[0]], at)
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def split(a: Tensor[Mapped, f32, BM], b: Tensor[Mapped, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    for at in a.indices_with(b):
        tile = x.partition(BM)[at[0]]
        a.store(tile, at)
        b.store(-tile, at)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the type rules of stores and indices refused."""
    yield from checked.faults_of("foreign-index", SEVERITY)
