"""Applying the fixes that rules offer: all edits of a file in one pass.

A rule module with a fix has `fix(line, diagnostic) -> Edit | None`. Edits are applied from the bottom up; of two that
overlap the later one in the file waits for the next run. Bytes outside of the edits, line ends included, stay as they are;
a line that an edit leaves blank goes. A rule sees one line only, so an edit after which the file does not parse any more
is left out, and so is one that uses a name which is not bound on each way to its line (`bound.py`).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable
from typing import cast

from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit
from tilecheck.report.bound import bound_at
from tilecheck.rules import RULES, rule_name

# A line with its end, whichever of the three it is.
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
Fix = Callable[[str, Diagnostic], Edit | None]


def fixers() -> dict[str, Fix]:
    """The rules that have a fix."""
    return {rule_name(rule): cast(Fix, rule.fix) for rule in RULES if hasattr(rule, "fix")}


def apply_fixes(text: str, diagnostics: Iterable[Diagnostic]) -> tuple[str, int]:
    r"""`text` (with any line ends) after the fixes of `diagnostics`, and how many were applied."""
    lines = LINE.findall(text)
    known = fixers()
    edits: list[Edit] = []
    tree = _parsed(text)
    for diagnostic in diagnostics:
        fix = known.get(diagnostic.rule)
        number = diagnostic.span.line
        if fix is None or not 1 <= number <= len(lines):
            continue
        edit = fix(lines[number - 1].rstrip("\r\n"), diagnostic)
        if edit is None or any(_overlap(edit, other) for other in edits):
            continue
        if edit.needs and (tree is None or not bound_at(tree, edit.needs, edit.line)):
            continue
        if _parsed(_edited(lines, [edit])) is not None:
            edits.append(edit)
    return _edited(lines, edits), len(edits)


def _edited(lines: list[str], edits: list[Edit]) -> str:
    lines = list(lines)
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.start), reverse=True):
        line = lines[edit.line - 1]
        end = line[len(line.rstrip("\r\n")) :] or "\n"
        edited = line[: edit.start - 1] + edit.text.replace("\n", end) + line[edit.end - 1 :]
        lines[edit.line - 1] = edited if edited.strip() else ""
    return "".join(lines)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            return None


def _overlap(one: Edit, other: Edit) -> bool:
    same = (one.start, one.end) == (other.start, other.end)
    return one.line == other.line and (same or (one.start < other.end and other.start < one.end))
