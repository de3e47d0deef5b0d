"""The fault record: one 64-bit word in which the checks that stay in a kernel note the first block that fails.

Blocks run in any order and several may fail, so each keeps the larger of the word and its own code by one atomic maximum,
and the codes fall with block and line: what is left is the lowest block, and of its lines the lowest. The word is 0 while
all is well, and signed, since that is the only maximum that every compiler here has. A kernel without checks has no record.

    >>> decoded(max(0, code(30, 7), code(20, 4), code(25, 4)))
    (20, 4)
"""

from __future__ import annotations

# Larger than every `block << 32 | line`: a grid has at most 2**31 - 1 blocks along the axis on which it is started.
MOST = (1 << 63) - 1


def code(line: int, block: int) -> int:
    """What a check at `line` leaves that fails in `block`."""
    return MOST - (block << 32 | line)


def decoded(word: int) -> tuple[int, int] | None:
    """Line and block of a record; None while all is well."""
    if word == 0:
        return None
    block, line = divmod(MOST - word, 1 << 32)
    return line, block
