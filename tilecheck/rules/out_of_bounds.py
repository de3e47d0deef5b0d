"""An access takes an index outside of its array.

Why: nothing on the device stops it. A read brings in memory of somebody else, a write destroys it, and a negative index
wraps once to the other end. In a tile kernel an index that cannot be right is found from constants and extents; in a
thread-level kernel with the launch that shows it, surplus threads of the last block included. A literal `a[-1]` is
meant and allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit
from tilecheck.verify.wording import diagnose

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class BM(Dim): ...


class D8(Dim, size=8): ...


class D16(Dim, size=16): ...


@tc.kernel
def third(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, D16]) -> None:
    z.store(x.partition(D8)[2].sum() + tc.zeros(BM))  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def last(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(x.partition(BM)[-1])  # error
""",
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
import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32


class BM(Dim): ...


class D8(Dim, size=8): ...


class D16(Dim, size=16): ...


@tc.kernel
def second(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, D16]) -> None:
    z.store(x.partition(D8)[1].sum() + tc.zeros(BM))
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def last(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    xs = x.partition(BM)
    z.store(xs[xs.num_tiles(0) - 1])
""",
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
    """Indices that no launch can put right, and those that the executor saw stray."""
    yield from checked.faults_of("out-of-bounds", SEVERITY)
    yield from (diagnose(finding, SEVERITY) for finding in checked.refuted("out-of-bounds"))


REPAIRED: str | None = "in-bounds"
_GUARD = re.compile(r"guard with `([^`]+)`")
_STORE = re.compile(r"^\s*\w+\[[^=]*\]\s*(?:[-+*/%&|^]|//|\*\*|<<|>>)?=(?!=)[^;\\]*$")


def repairs(lines: Sequence[str], diagnostic: Diagnostic) -> Iterator[Edit]:
    """The guard that the finding names, around a store that stands on a line of its own."""
    guard = _GUARD.match(diagnostic.help or "")
    line = lines[diagnostic.span.line - 1]
    if guard is None or "..." in guard[1] or not _STORE.match(line) or line.count("(") != line.count(")"):
        return
    indent = line[: len(line) - len(line.lstrip())]
    inner = "\t" if indent.endswith("\t") else "    "
    yield Edit(diagnostic.span.line, 1, len(indent) + 1, f"{indent}if {guard[1]}:\n{indent}{inner}")
