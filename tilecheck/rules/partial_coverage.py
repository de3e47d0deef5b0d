"""A part of an output is not written.

Why: what no block writes keeps its old contents, and nothing says so. It happens when a store stands on one path only,
or when the grid is rounded down: `n // block` blocks leave out the last `n % block` elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "warning"

BAD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    n, tpb = 300, 64
    d = cuda.to_device(np.zeros(n))
    scale[n // tpb, tpb](d, 2.0)  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def maybe(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], flag: int) -> None:
    if flag > 0:
        z.store(tc.load_like(x, z))  # error
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    n, tpb = 300, 64
    d = cuda.to_device(np.zeros(n))
    scale[(n + tpb - 1) // tpb, tpb](d, 2.0)
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    n, tpb = 320, 64
    d = cuda.to_device(np.zeros(n))
    scale[n // tpb, tpb](d, 2.0)
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def maybe(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], flag: int) -> None:
    if flag > 0:
        z.store(tc.load_like(x, z))
    else:
        z.store(tc.zeros(BM))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show, and stores on some paths alone."""
    yield from checked.faults_of("partial-coverage", SEVERITY)
