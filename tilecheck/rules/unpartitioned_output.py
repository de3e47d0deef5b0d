"""A tensor is passed whole where the kernel writes one tile per block.

Why: a `Mut` parameter is a block's own tile. The partition says which tile is whose, and the grid follows from it;
without one there is nothing that keeps two blocks apart.
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
    z, x = tc.zeros(1024), tc.ones(1024)
    copy(z, x).sync()  # error
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
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("unpartitioned-output", SEVERITY)


def fix(line: str, diagnostic: Diagnostic) -> Edit | None:
    """Cut the tensor into the only tiles that there are, where the kernel fixes all extents."""
    span = diagnostic.span
    tiles = _FIXED.match(diagnostic.help or "")
    if tiles is None or span.end_line != span.line or not line[span.column - 1 : span.end_column - 1].isidentifier():
        return None
    return Edit(span.line, span.end_column, span.end_column, tiles[1])


_FIXED = re.compile(r"pass `\w+(\.partition\(\d+(?:, \d+)*\))`")
