"""A Python float or a true division turns float32 code into float64.

Why: numba types a float literal as float64, so `0.5 * x[i]` on a float32 array is computed in double precision and
rounded back, which most devices do many times slower. Nothing looks wrong, and nothing is, except the speed.
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
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 0.5 * x[i]  # error


halve[1, 64](cuda.to_device(np.ones(64, np.float32)))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = float32(0.5) * x[i]


halve[1, 64](cuda.to_device(np.ones(64, np.float32)))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The kernels that promote."""
    yield from checked.faults_of("implicit-float64", SEVERITY)
