"""Tiles, views or arguments of shapes that do not fit each other meet.

Why: every extent of a tile is known when the kernel is compiled, so a shape that cannot fit is a mistake at every launch.
Two extents are equal if they are the same number or the same `Dim`; two `Dim`s are different until a launch says
otherwise, so a kernel that needs them equal names one.
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


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK), y.partition(BN, BK)
    acc = tc.zeros(BM, BN)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)  # error
    z.store(acc)
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    acc = tc.zeros(BM, BN)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the shape rules refused."""
    yield from checked.faults_of("shape-mismatch", SEVERITY)
