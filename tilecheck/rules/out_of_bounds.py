"""An index that some thread takes outside its array.

Why: numba checks no index on the device. A write beyond the end lands in somebody else's memory, a read brings
garbage, and a negative index silently wraps to the end of the array. A literal negative index (`a[-1]`) is meant and
allowed. Every thread of the launch counts, the surplus ones of the last block too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.verify.wording import diagnose

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def double(a):
    i = cuda.grid(1)
    a[i] *= 2  # error


double[2, 64](np.ones(100))
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def difference(a, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] - a[i - 1]  # error


difference[1, 64](np.ones(64), np.zeros(64))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


double[2, 64](np.ones(100))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The stray indices that the executor saw, and those that the tile checks found."""
    yield from checked.faults_of("out-of-bounds", SEVERITY)
    yield from (diagnose(finding, SEVERITY) for finding in checked.refuted("out-of-bounds"))
