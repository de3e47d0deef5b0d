"""A kernel reads a module variable that changes after its first launch.

Why: a kernel is compiled at its first launch and keeps the values that module variables have then. Setting one afterwards
changes nothing, without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "warning"

BAD = (
    """
from numba import cuda

GAIN = 1.0


@cuda.jit
def amplify(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= GAIN  # error


def set_gain(value):
    global GAIN
    GAIN = value
""",
    """
from numba import cuda

GAIN = 1.0


@cuda.jit
def amplify(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= GAIN  # error


data = cuda.device_array(64)
amplify[1, 64](data)
GAIN = 5.0
amplify[1, 64](data)
""",
)

GOOD = (
    """
from numba import cuda


@cuda.jit
def amplify(x, gain):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= gain
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("frozen-global", SEVERITY)
