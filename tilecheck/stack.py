"""Room for nested code.

Parsers, walks and terms recurse as deep as the source nests: a chain of four hundred `if` is a choice in a choice in a choice.
Python's limit is for runaway recursion, so it is raised while a file is checked or a kernel is proved; what is deeper still
raises `RecursionError`, which the caller words.

Worked example: `with deep_stack(): check(...)`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

# Python frames; a frame of the recursive walks takes a few hundred bytes of stack.
LIMIT = 12_000


@contextlib.contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the recursion limit for the duration of a block."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
