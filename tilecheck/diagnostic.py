"""What tilecheck says: one finding, its places, its way out.

Every front end (terminal, JSON, SARIF, GitHub, mypy, a run-time exception) prints the same `Diagnostic`.
The message stands alone: lower case, no full stop, the user's names in backticks. The fix is `help`, never part of
the complaint. Labels are the other points of the story: where a tensor was borrowed, where the borrow is needed again,
the second access of a race.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source: lines and columns count from 1, `end_column` is exclusive, columns are code points."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Label:
    """A further point of a finding: `text` says what happens at `span`, such as "`z` is borrowed here"."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A concrete counterexample, replayed in the interpreter before it is reported.

    `launch` holds grid, block, extents and scalars by name; `threads` are the two parties in words
    (`thread (0, 0, 0) of block (1, 0, 0)`), one for an out-of-bounds access; `index` is the element of `array`.
    """

    launch: Mapping[str, object] = field(hash=False)
    threads: tuple[str, ...]
    array: str
    index: tuple[int, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding of `rule` at `span`."""

    rule: str
    severity: Severity
    message: str
    span: Span
    kernel: str | None = None
    labels: tuple[Label, ...] = ()
    help: str | None = None
    witness: Witness | None = None
    notes: tuple[str, ...] = field(default=())

    def at(self, span: Span) -> Diagnostic:
        """The same finding, reported at `span`."""
        return replace(self, span=span)

    def sort_key(self) -> tuple[str, int, int, str, str]:
        """Findings are printed in the order of the source, then by rule and text, so that output is stable."""
        return (self.span.path, self.span.line, self.span.column, self.rule, self.message)
