"""A launch asks for what cannot be: its grid, block, shared memory or extents do not fit.

Why: the driver refuses such a launch at run time, with a number instead of a reason, or a kernel reads shared memory
that it was not given. Where the numbers stand in the file they can be checked before anything runs.
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
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    d = cuda.to_device(np.zeros(2048))
    scale[1, 2048](d, 2.0)  # error
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
    n, tpb = 1000, 128
    d = cuda.to_device(np.zeros(n))
    scale[n / tpb, tpb](d, 2.0)  # error
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main(n: int) -> None:
    tpb = 128
    blocks = (n + tpb - 1) // tpb
    scale[tpb, blocks](cuda.device_array(n), 2.0)  # error
""",
    """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32


@tc.simt(block=32, requires="x.size >= n * step and z.size >= n")
def every(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], n: int, step: int) -> None:
    i = cuda.grid(1)
    if step >= 0 and i < n:
        z[i] = x[i * step]


def main() -> None:
    z, x = tc.zeros(32), tc.ones(64)
    every(z.partition(32), x, 32, 3).sync()  # error
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
    d = cuda.to_device(np.zeros(2048))
    scale[8, 256](d, 2.0)
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
    n, tpb = 1000, 128
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


def main(n: int) -> None:
    tpb = 128
    blocks = (n + tpb - 1) // tpb
    scale[blocks, tpb](cuda.device_array(n), 2.0)
""",
    """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32


@tc.simt(block=32, requires="x.size >= n * step and z.size >= n")
def every(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], n: int, step: int) -> None:
    i = cuda.grid(1)
    if step >= 0 and i < n:
        z[i] = x[i * step]


def main() -> None:
    z, x = tc.zeros(32), tc.ones(64)
    every(z.partition(32), x, 32, 2).sync()
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("launch-contract", SEVERITY)
