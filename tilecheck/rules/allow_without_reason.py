"""An allow comment gives no reason.

Why: a suppression is a claim that the code is safe although a check says otherwise. The next reader, and `tilecheck
audit`, need to know what the claim rests on. The finding is silenced all the same, so that one line has one error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
from numba import cuda

@cuda.jit
def histogram(bins, keys):
    i = cuda.grid(1)
    if i < keys.size:
        bins[keys[i] % 16] += 1  # tilecheck: allow[data-race]  # error
""",
)

GOOD = (
    """
from numba import cuda

@cuda.jit
def histogram(bins, keys):
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(bins, keys[i] % 16, 1)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The allow comments without a reason."""
    yield from checked.faults_of("allow-without-reason", SEVERITY)
