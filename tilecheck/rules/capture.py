"""Something is recorded in a graph that a replay cannot do again.

Why: a graph replays kernels and copies on the memory that they had when they were recorded. Memory that is made inside a
scope is made once, by the recording, and not again by a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc


def main(s: tc.Stream) -> None:
    with tc.CudaGraph.scope(s) as g:
        z = tc.zeros(64)  # error
    print(g.graph, z.shape)
""",
)

GOOD = (
    """
import tilecheck as tc


def main(s: tc.Stream) -> None:
    z = tc.zeros(64)
    with tc.CudaGraph.scope(s) as g:
        print(z.shape)
    print(g.graph)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("capture", SEVERITY)
