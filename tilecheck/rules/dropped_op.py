"""An operation is built and never run.

Why: calling a kernel builds a lazy op and does nothing else. Without `sync()`, `run()` or `await` the kernel never runs,
and the output keeps what it had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.borrow.findings import Break
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
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z.partition(128), x)  # error
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
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z.partition(128), x).sync()
""",
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def build_only() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    op = copy(z.partition(128), x)
    print(op.grid)
    op.discard()
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The ops that no path runs, hands on or drops by name."""
    # An op that is used again after it joined another is told there: one mistake, one finding.
    joined = (
        {each.origin for each in checked.host.broken if each.kind is Break.SPENT} if checked.host is not None else ()
    )
    for site in checked.host.dropped if checked.host is not None else ():
        if site.span in joined:
            continue
        message = f"`{site.name}` is built and never run"
        run = _AWAIT if site.in_async else _RUN
        run = _PARTS if site.name.rpartition(".")[2].startswith("unzip(") else run
        help = f"record it: `{site.scope}.record(...)`" if site.scope and run is not _PARTS else run
        yield Diagnostic("dropped-op", SEVERITY, message, site.span, help=help)
    yield from checked.faults_of("dropped-op", SEVERITY)


_RUN = "add `.sync()`, or give it up with `.discard()`"
_PARTS = "run one of its parts, or give the op up with `.discard()` instead"
_AWAIT = "`await` it, or give it up with `.discard()`"


def fix(line: str, diagnostic: Diagnostic) -> Edit | None:
    """Run an op that is a statement of its own, or record it in the graph scope around."""
    span = diagnostic.span
    statement = line.partition("#")[0].strip()
    if (
        diagnostic.help == _PARTS
        or span.end_line != span.line
        or statement != line[span.column - 1 : span.end_column - 1]
    ):
        return None
    if diagnostic.help == _AWAIT:
        return Edit(span.line, span.column, span.column, "await ")
    if diagnostic.help == _RUN:
        return Edit(span.line, span.end_column, span.end_column, ".sync()")
    scope = (diagnostic.help or "").partition("`")[2].partition(".record")[0]
    return Edit(span.line, span.column, span.end_column, f"{scope}.record({statement})")
