"""A Python float or a true division turns float32 code into float64.

Why: numba types a float literal as float64, so `0.5 * x[i]` on a float32 array is computed in double precision and
rounded back, which most devices do many times slower. Nothing looks wrong, and nothing is, except the speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit

SEVERITY: Literal["error", "warning"] = "warning"

BAD = (
    """
import numpy as np
from numba import cuda


@cuda.jit
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 0.5 * x[i]  # error


halve[1, 64](cuda.to_device(np.ones(64, np.float32)))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = float32(0.5) * x[i]


halve[1, 64](cuda.to_device(np.ones(64, np.float32)))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The kernels that promote."""
    yield from checked.faults_of("implicit-float64", SEVERITY)


# The end of the finding is the proof.
REPAIRED: str | None = None
_FLOAT32 = re.compile(r"^from numba(?:\.cuda)? import [^#\n]*\bfloat32\b")
_LITERAL = re.compile(r"(?<![\w.)\]])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?(?![\w.])")


def repairs(lines: Sequence[str], diagnostic: Diagnostic) -> Iterator[Edit]:
    """`float32(...)` around a literal of the expression, by a name that the file has for it."""
    span = diagnostic.span
    if span.line != span.end_line:
        return
    if any(_FLOAT32.match(line) for line in lines):
        name = "float32"
    elif any(re.match(r"import numpy as np\b", line) for line in lines):
        name = "np.float32"
    else:
        return
    part = lines[span.line - 1][span.column - 1 : span.end_column - 1]
    for literal in _LITERAL.finditer(part):
        start, end = span.column + literal.start(), span.column + literal.end()
        yield Edit(span.line, start, end, f"{name}({literal[0]})")
