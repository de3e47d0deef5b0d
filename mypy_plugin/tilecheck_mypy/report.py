"""From our diagnostics to mypy's: one error code per rule, and one place that calls `errors.report`.

Codes are the names of the modules in `tilecheck/rules/`, all below the parent `tilecheck`, so that
`# type: ignore[data-race]`, `# type: ignore[tilecheck]`, `disable_error_code` and per-module settings work. mypy checks
code names right after it has loaded its plugins, so the list is read from the folder and no rule is imported for it.

mypy knows no warnings: ours are errors there. Labels, help and notes become notes at the error's own place, since mypy
sorts by line and a note elsewhere would be printed away from its error; they vanish with an ignored error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mypy.errorcodes import ErrorCode
from mypy.errors import ErrorInfo, Errors

import tilecheck

if TYPE_CHECKING:
    from tilecheck.diagnostic import Diagnostic

RULES_FOLDER = os.path.join(os.path.dirname(str(tilecheck.__file__)), "rules")

PARENT = ErrorCode("tilecheck", "Any rule of tilecheck", "tilecheck")
# What goes wrong inside the plugin itself is said once, under this code.
INTERNAL = ErrorCode("tilecheck-internal", "tilecheck could not analyse a file", "tilecheck", sub_code_of=PARENT)
CODES: dict[str, ErrorCode] = {
    name: ErrorCode(name, f"`tilecheck explain {name}` says more", "tilecheck", sub_code_of=PARENT)
    for name in sorted(file[:-3].replace("_", "-") for file in os.listdir(RULES_FOLDER) if file[:1].isalpha())
}


def report(errors: Errors, finding: Diagnostic) -> None:
    """Hand `finding` to mypy, for the file that `errors` is set to. Notes of severity `note` stay silent."""
    if finding.severity == "note":
        return
    span = finding.span
    line, column = max(span.line, 1), max(span.column - 1, 0)
    end_line = max(span.end_line, line)
    place: dict[str, Any] = {
        "code": CODES.get(finding.rule, PARENT),
        "end_line": end_line,
        "end_column": max(span.end_column - 1, column + 1) if end_line == line else max(span.end_column - 1, 1),
        "origin_span": range(line, end_line + 1),
    }
    error = errors.report(line, column, finding.message, **place)
    for text in notes(finding):
        errors.report(line, column, text, severity="note", parent_error=error, **place)
    _drop_twins(errors, error, SAID_BY_MYPY.get(finding.rule, ()))


SAID_BY_MYPY = {
    "dtype-mismatch": ("arg-type", "misc"),
    "launch-contract": ("arg-type",),
    "shape-mismatch": ("arg-type",),
    "unpartitioned-output": ("arg-type",),
    "usage": ("arg-type", "call-arg", "index", "misc"),
    "write-to-shared": ("arg-type", "call-overload", "misc"),
    "borrow-conflict": ("misc",),
}
"""What mypy says, in words about types, of the mistake that a rule finds."""


def _drop_twins(errors: Errors, error: ErrorInfo, codes: tuple[str, ...]) -> None:
    """Take back what mypy said of the same mistake at the same place, with its notes: one mistake is told once, in our
    words. Where ours is ignored or disabled, mypy's stays.
    """
    known = errors.error_info_map.get(errors.file, [])
    if not codes or not any(info is error for info in known):
        return
    twins = [
        info
        for info in known
        if info.severity == "error" and info.code is not None and info.code.code in codes
        if (info.line, info.column) == (error.line, error.column)
        if any(name in info.message for name in ("Tensor", "Partition", "Kernel", "_Launcher"))
    ]
    if twins:
        gone = {(twin.code, twin.line, twin.column) for twin in twins}
        errors.error_info_map[errors.file] = [i for i in known if (i.code, i.line, i.column) not in gone]


def notes(finding: Diagnostic) -> Iterator[str]:
    """The further points of a finding, a line each; a place in another line is named in words."""
    for label in finding.labels:
        elsewhere = label.span.path != finding.span.path
        where = f"{label.span.path}:{label.span.line}" if elsewhere else f"line {label.span.line}"
        yield f"{label.text} ({where})"
    yield from finding.notes
    if finding.help is not None:
        yield f"help: {finding.help}"
