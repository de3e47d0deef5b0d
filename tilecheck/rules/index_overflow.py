"""Index arithmetic in fewer bits than the launch needs.

Why: numba computes indices in 64 bits, but a cast to `int32` wraps without a word once a product of extents passes 2**31,
which a flat array of a few gigabytes does. The kernel works on every small test and corrupts memory on the large run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import numpy as np
from numba import cuda, int32


@cuda.jit
def first_column(flat, out, pitch):
    row = cuda.grid(1)
    if row < out.size:
        out[row] = flat[int32(row * pitch)]  # error


first_column[160, 256](cuda.device_array(40000 * 70000, np.int8), cuda.device_array(40000, np.int8), 70000)
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def first_column(flat, out, pitch):
    row = cuda.grid(1)
    if row < out.size:
        out[row] = flat[row * pitch]


first_column[160, 256](cuda.device_array(40000 * 70000, np.int8), cuda.device_array(40000, np.int8), 70000)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The casts that lose bits."""
    yield from checked.faults_of("index-overflow", SEVERITY)
