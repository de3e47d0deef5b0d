"""A kernel uses what the kernel language has not.

Why: a kernel is compiled for the device, from a small part of Python: assignments, loops over ranges and tiles, branches
on scalars, ops and functions of your own. The message names the construct, the help what to write instead.
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
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def positive(z: Tensor[Mut, f32, BM]) -> None:
    tile = z.load()
    if tile > 0.0:  # error
        z.store(tile)
""",
    """
from statistics import mean as avg

import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def smooth(z: Tensor[Mut, f32, BM]) -> None:
    z.store(avg(z.load()))  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def pair(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    tiles = [tc.load_like(t, z) for t in (x, y)]  # error
    z.store(tiles[0] + tiles[1])
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


@tc.kernel
def positive(z: Tensor[Mut, f32, BM]) -> None:
    tile = z.load()
    z.store(tc.where(tile > 0.0, tile, 0.0))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Tensor, f32


class BM(Dim): ...


def smooth_one(tile):
    return tile / 2.0 + 0.5


@tc.kernel
def smooth(z: Tensor[Mut, f32, BM]) -> None:
    z.store(smooth_one(z.load()))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def pair(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) + tc.load_like(y, z))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the frontend and the type pass cannot read."""
    yield from checked.faults_of("unsupported", SEVERITY)
