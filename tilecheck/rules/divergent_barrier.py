"""A barrier that some threads of its group can miss, or meet elsewhere.

Why: `syncthreads` waits for all threads of the block, `grid.sync` for all of the grid. If one takes another branch, has
returned, ran fewer rounds of a loop or was ended by a failing assert, the others wait for ever, or go on with stale
data. Two barriers in two branches are two barriers, even if everybody meets one of them.
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
def smooth(a, out):
    s = cuda.shared.array(32, float32)
    i = cuda.grid(1)
    if i >= a.size:
        return
    s[cuda.threadIdx.x] = a[i]
    cuda.syncthreads()  # error
    out[i] = s[cuda.threadIdx.x]


smooth[2, 32](np.ones(50, np.float32), np.zeros(50, np.float32))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def smooth(a, out):
    s = cuda.shared.array(32, float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = a[i] if i < a.size else 0.0
    cuda.syncthreads()
    if i < a.size:
        out[i] = s[cuda.threadIdx.x]


smooth[2, 32](np.ones(50, np.float32), np.zeros(50, np.float32))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The barriers that the executor saw missed."""
    yield from checked.faults_of("divergent-barrier", SEVERITY)
    yield from (diagnose(finding, SEVERITY) for finding in checked.refuted("divergent-barrier"))
