"""Tiles or tensors of different element types meet, or a type that an op does not take.

Why: nothing is promoted behind your back. A kernel that mixes f16 and f32 computes in one of them, and which one
decides both speed and result, so the cast is written: `tile.astype(f32)`. Scalars take the type of the tile they meet.
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
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


@tc.kernel
def add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) + tc.load_like(y, z))  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f16, f32


class BM(Dim): ...


@tc.kernel
def halve(z: Tensor[Mut, f16, BM]) -> None:
    tile = z.load()
    for _ in range(3):
        tile = tile.astype(f32) / 2.0  # error
    z.store(tile)
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


@tc.kernel
def add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f16, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z).astype(f32) + tc.load_like(y, z))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f16, f32


class BM(Dim): ...


@tc.kernel
def halve(z: Tensor[Mut, f16, BM]) -> None:
    tile = z.load().astype(f32)
    for _ in range(3):
        tile = tile / 2.0
    z.store(tile.astype(f16))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the number rules refused."""
    yield from checked.faults_of("dtype-mismatch", SEVERITY)
