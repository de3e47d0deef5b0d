"""A kernel with our annotations could not be shown safe.

Why: `@tc.simt` promises that its kernels are checked. Where the prover can neither prove nor refute, the promise would
be empty, so it is refused until the code says more: a guard, a `requires` condition (of array elements too, such as
`distinct(where)`), a simpler index. What cannot be made provable is opted out in place, `tc.unsafe("reason")`, and listed
by `tilecheck audit`.

A function of the host that has more paths than are followed is named in a note: the run time checks what was left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.verify.verdict import Property, Verdict

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32


@tc.simt(block=128)
def scatter(out: Tensor[Mut, f32, Dyn], where: Tensor[Shared, i32, Dyn]) -> None:  # error
    i = cuda.grid(1)
    if i < where.size:
        out[where[i]] = 1.0
""",
)

GOOD = (
    """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32


@tc.simt(block=128)
def scatter(out: Tensor[Mut, f32, Dyn], where: Tensor[Shared, i32, Dyn]) -> None:
    tc.unsafe("the caller passes a permutation")
    i = cuda.grid(1)
    if i < where.size:
        out[where[i]] = 1.0
""",
    """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32


@tc.simt(block=128, requires="0 <= where < out.size and distinct(where)")
def scatter(out: Tensor[Mut, f32, Dyn], where: Tensor[Shared, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < where.size:
        out[where[i]] = 1.0
""",
)

_WORDS = {
    Property.RACE_FREE: "free of data races",
    Property.IN_BOUNDS: "within its arrays",
    Property.BARRIERS_UNIFORM: "uniform at its barriers",
    Property.SHARED_INITIALISED: "reading only shared memory that was written",
}


# How the prover says that it knows nothing of the elements of an array.
_TAKEN = re.compile(r"the (index of `(?P<array>\w+)`|range of the index) is taken from `(?P<source>\w+)`")


def _more(name: Property, reason: str) -> str:
    """What could be said for a property, from the reason why it is open."""
    found = _TAKEN.search(reason)
    if found is None:
        return "say more (a guard, `requires=...`)"
    if name is Property.IN_BOUNDS:
        limit = f"{found['array']}.size" if found["array"] else "n"
        return f'say where the elements lie, such as `requires="0 <= {found["source"]} < {limit}"`, or guard the access'
    order = "distinct" if found["array"] else "nondecreasing"
    return f'say how the elements differ, such as `requires="{order}({found["source"]})"`'


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The open properties of annotated kernels."""
    yield from checked.faults_of("unproven", SEVERITY)
    for part in checked.host.unfollowed if checked.host is not None else ():
        message = f"some paths through `{part.name}` were not followed: {part.reason}"
        help = "what they do to tensors is checked while they run; a shorter function is checked whole"
        yield Diagnostic("unproven", "note", message, part.span, help=help)
    for report in checked.simt:
        if not report.annotated or report.unsafe:
            continue
        for name, answer in report.verdicts.items():
            if answer.verdict is Verdict.UNKNOWN:
                kernel = report.kernel
                message = f"`{kernel.name}` could not be shown to be {_WORDS[name]}"
                help = f'{_more(name, answer.reason or "")}, or opt out with `tc.unsafe("reason")` in the kernel'
                notes = (answer.reason,) if answer.reason is not None else ()
                yield Diagnostic("unproven", SEVERITY, message, kernel.span, kernel.name, help=help, notes=notes)
