"""A warp operation whose mask does not name the lanes that reach it.

Why: a shuffle, vote or `syncwarp` waits for every lane of its mask. A lane that took another branch, or does not exist
because the block is no multiple of 32, is waited for in vain or answers with garbage.
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
def half_sum(a):
    t = cuda.threadIdx.x
    v = a[t]
    if t < 16:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 8)  # error
    a[t] = v


half_sum[1, 32](np.ones(32, np.int32))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def half_sum(a):
    t = cuda.threadIdx.x
    v = a[t]
    w = cuda.shfl_down_sync(0xFFFFFFFF, v, 8)
    if t < 16:
        v += w
    a[t] = v


half_sum[1, 32](np.ones(32, np.int32))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The warp operations that the executor saw part."""
    yield from (diagnose(finding, SEVERITY) for finding in checked.refuted("warp-sync"))
