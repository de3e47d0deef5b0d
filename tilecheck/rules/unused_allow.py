"""An allow comment silences nothing.

Why: a suppression that outlives its finding hides the next one of that kind on the same line. Code that was repaired
should lose the comment too. An allow that names no rule at all is reported here as well, because it never worked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit

SEVERITY: Literal["error", "warning"] = "warning"

BAD = (
    """
import tilecheck as tc

x = tc.zeros(8)  # tilecheck: allow[data-race] left over from an older version  # error
print(x.numpy())
""",
)

GOOD = (
    """
import tilecheck as tc

x = tc.zeros(8)
print(x.numpy())
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The allow comments that no finding needed."""
    yield from checked.faults_of("unused-allow", SEVERITY)


def fix(line: str, diagnostic: Diagnostic) -> Edit | None:
    """Remove the comment, unless it allows other rules too, or is meant for a rule that was misspelt."""
    if not (diagnostic.help or "").startswith("remove the comment"):
        return None
    start = diagnostic.span.column - 1
    end = diagnostic.span.end_column - 1
    return Edit(diagnostic.span.line, len(line[:start].rstrip()) + 1, end + 1, "")
