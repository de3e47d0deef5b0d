"""Findings as GitHub workflow commands, which GitHub shows next to the changed lines.

::error file=gemm.py,line=21,endLine=21,col=5,endColumn=23,title=tilecheck data-race::cannot write ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.diagnostic import Diagnostic
from tilecheck.report.result import FileResult

_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}


def to_github(results: Sequence[FileResult]) -> Iterator[str]:
    """One workflow command per finding."""
    for result in results:
        for diagnostic in result.diagnostics:
            yield _command(diagnostic)


def _command(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    properties = {
        "file": span.path,
        "line": span.line,
        "endLine": span.end_line,
        "col": span.column,
        "endColumn": span.end_column,
        "title": f"tilecheck {diagnostic.rule}",
    }
    message = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{_COMMAND[diagnostic.severity]} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
