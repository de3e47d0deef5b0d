"""Device work is run or waited for where an op is just being put together.

Why: a function that `then` calls and the body of a graph scope run while the runtime submits work of its own. Waiting
there waits for oneself, or records the wait instead of the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, w, x = tc.zeros(64), tc.zeros(64), tc.ones(64)
    copy(z.partition(8), x).then(lambda _: copy(w.partition(8), x).sync()).sync()  # error
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main(s: tc.Stream) -> None:
    z, x = tc.zeros(64), tc.ones(64)
    with tc.CudaGraph.scope(s) as g:
        copy(z.partition(8), x).sync()  # error
    g.graph.launch().sync()
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, w, x = tc.zeros(64), tc.zeros(64), tc.ones(64)
    copy(z.partition(8), x).then(lambda _: copy(w.partition(8), x)).sync()
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main(s: tc.Stream) -> None:
    z, x = tc.zeros(64), tc.ones(64)
    with tc.CudaGraph.scope(s) as g:
        g.record(copy(z.partition(8), x))
    g.graph.launch().sync()
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("reentrant-sync", SEVERITY)


def fix(line: str, diagnostic: Diagnostic) -> Edit | None:
    """Let a lambda of `then` return its op instead of running it."""
    span, run = diagnostic.span, ".sync()"
    before, body = line[: span.column - 1], line[span.column - 1 : span.end_column - 1]
    if span.end_line != span.line or not body.endswith(run) or not _THEN.search(before):
        return None
    return Edit(span.line, span.end_column - len(run), span.end_column, "")


_THEN = re.compile(r"\.then\(lambda [^:()]*: $")
