"""Shared memory is read before anything in this launch wrote it.

Why: shared memory starts with whatever the block before left there. The usual cause is a store under a guard and a
load without one: in the last block some slots are never written.
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
from numba import cuda, float32


@cuda.jit
def flip(a, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < a.size:
        s[t] = a[i]
    cuda.syncthreads()
    out[i] = s[31 - t]  # error


flip[2, 32](np.ones(50, np.float32), np.zeros(64, np.float32))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def flip(a, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = a[i] if i < a.size else 0.0
    cuda.syncthreads()
    out[i] = s[31 - t]


flip[2, 32](np.ones(50, np.float32), np.zeros(64, np.float32))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The reads of unset elements that the executor saw."""
    yield from (diagnose(finding, SEVERITY) for finding in checked.refuted("uninitialised-shared"))
