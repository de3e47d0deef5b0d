"""A file that mentions kernels cannot be read as Python.

Why: nothing in a file that does not parse was checked, so silence would look like a clean result. The finding stands on
the line where reading stopped: a syntax error, bytes that are not text in the file's encoding, nesting too deep for a
parser, or a file that the system does not let us open.
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

def launch(z:  # error
    tc.zeros(8)
""",
)

GOOD = (
    """
import tilecheck as tc

def launch() -> None:
    print(tc.zeros(8).numpy())
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The places where reading stopped."""
    yield from checked.faults_of("unreadable", SEVERITY)
