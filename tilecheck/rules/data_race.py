"""Two threads touch one element at the same time, and one of them writes.

Why: what the other one sees, and what is left in the end, depends on who comes first, which changes from run to run
and from device to device. Only barriers, warp syncs, fences with atomics and the end of a kernel order threads; blocks
are not ordered at all, and a warp does not run in lock step. Atomics may meet each other, but not plain accesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit
from tilecheck.rules import borrow_conflict
from tilecheck.verify.wording import diagnose

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def reverse(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    a[t] = s[63 - t]  # error


reverse[1, 64](np.arange(64, dtype=np.float32))
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def count(hits, a):
    i = cuda.grid(1)
    if i < a.size and a[i] > 0:
        hits[0] += 1  # error


count[4, 64](np.zeros(1, np.int64), np.ones(256))
""",
)

GOOD = (
    """
import numpy as np
from numba import cuda, float32


@cuda.jit
def reverse(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    a[t] = s[63 - t]


reverse[1, 64](np.arange(64, dtype=np.float32))
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def count(hits, a):
    i = cuda.grid(1)
    if i < a.size and a[i] > 0:
        cuda.atomic.add(hits, 0, 1)


count[4, 64](np.zeros(1, np.int64), np.ones(256))
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The races that the executor saw, and a note where all writers agree on the value."""
    yield from checked.faults_of("data-race", SEVERITY)
    overlaps = {finding.span.line for finding in borrow_conflict.check(checked)}
    for finding in checked.refuted("data-race"):
        # One array passed twice is the cause of a race between the two, and is reported as such.
        if finding.launch is None or finding.launch.line not in overlaps:
            yield diagnose(finding, SEVERITY)
    for report in checked.simt:
        for place in report.same_value:
            message = f"several threads write `{place.text}`, all with the same value"
            yield Diagnostic("data-race", "note", message, place.span, report.kernel.name, help=_SAME)


_SAME = "harmless on today's devices; let one thread do it to be free of the race"


REPAIRED: str | None = "race-free"
_BETWEEN = re.compile(r"put a `cuda\.syncthreads\(\)` between line (\d+) and line (\d+)")
_CUDA = re.compile(r"^(?:from numba import [^#\n]*\bcuda\b(?!\s+as)|from numba_cuda)")


def repairs(lines: Sequence[str], diagnostic: Diagnostic) -> Iterator[Edit]:
    """A barrier before the later of the two lines, or before one of the blocks that it stands in."""
    between = _BETWEEN.search(diagnostic.help or "")
    if between is None or not any(_CUDA.match(line) for line in lines):
        return
    first, last = int(between[1]), int(between[2])
    depth = None
    for number in range(last, first, -1):
        line = lines[number - 1]
        indent = len(line) - len(line.lstrip())
        if line.strip() and (depth is None or indent < depth) and not line.lstrip().startswith(("elif", "else", "#")):
            depth = indent
            yield Edit(number, 1, 1, f"{line[:indent]}cuda.syncthreads()\n")
