"""What a rule with a fix gives: one replacement on one line.

A rule module offers `fix(line, diagnostic) -> Edit | None`; None when this finding has no safe edit. Edits of one file
are applied together, from the bottom up, and one that overlaps another waits for the next run.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the columns `start` to `end` (from 1, `end` exclusive) of `line` by `text`, which uses the name `needs`, if
    any: it must be bound wherever the line is reached.
    """

    line: int
    start: int
    end: int
    text: str
    needs: str = ""
