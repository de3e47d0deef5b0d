"""A NumPy array is copied to the device and back at every launch of a loop.

Why: numba takes host arrays as arguments, copies them in before the kernel and out after it, and waits. In a loop the
copies cost more than the kernel and the stream never gets ahead of the host.
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
    x = np.ones(256)
    for _ in range(3):
        scale[2, 128](x, 0.5)  # error
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
    x = np.ones(256)
    d_x = cuda.to_device(x)
    for _ in range(3):
        scale[2, 128](d_x, 0.5)
    d_x.copy_to_host(x)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("host-array-copied", SEVERITY)
