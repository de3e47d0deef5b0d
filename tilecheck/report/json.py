"""Findings and verdicts for programs: the JSON form, version 1.

    {"version": 1, "diagnostics": [...], "kernels": [...]}

A diagnostic has `path line column end_line end_column rule severity message kernel labels[{line, column, text}] help`
and, if refuted, `witness{launch, threads, array, index, lines}`; a label in another file has its `path`, and `notes`
are there when a finding has some. A kernel has `path line name track assumptions verdicts`; a tile kernel `accesses`. A kernel with `launches[{path, line}]` has its
verdicts for those launches alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilecheck.diagnostic import Diagnostic
from tilecheck.report.result import FileResult, KernelSummary

VERSION = 1


def to_json(results: Sequence[FileResult]) -> str:
    """The whole run as one JSON document."""
    document = {
        "version": VERSION,
        "diagnostics": [diagnostic_json(found) for result in results for found in result.diagnostics],
        "kernels": [kernel_json(kernel) for result in results for kernel in result.kernels],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """One finding as JSON values."""
    span = diagnostic.span
    values: dict[str, Any] = {
        "path": span.path,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "rule": diagnostic.rule,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "kernel": diagnostic.kernel,
        "labels": [
            {"line": label.span.line, "column": label.span.column, "text": label.text}
            | ({"path": label.span.path} if label.span.path != span.path else {})
            for label in diagnostic.labels
        ],
        "help": diagnostic.help,
    }
    if diagnostic.notes:
        values["notes"] = list(diagnostic.notes)
    if diagnostic.witness is not None:
        witness = diagnostic.witness
        values["witness"] = {
            "launch": dict(witness.launch),
            "threads": list(witness.threads),
            "array": witness.array,
            "index": list(witness.index),
            "lines": list(witness.lines),
        }
    return values


def kernel_json(kernel: KernelSummary) -> dict[str, Any]:
    """One kernel as JSON values."""
    values: dict[str, Any] = {
        "path": kernel.path,
        "line": kernel.line,
        "name": kernel.name,
        "track": kernel.track,
        "assumptions": list(kernel.assumptions),
        "verdicts": {
            name: {"verdict": shown.verdict, "conditions": list(shown.conditions), "reason": shown.reason}
            for name, shown in kernel.verdicts.items()
        },
    }
    if kernel.launches:
        values["launches"] = [{"path": path, "line": line} for path, line in kernel.launches]
    if kernel.track == "tile":
        values["accesses"] = [
            {"line": access.line, "array": access.array, "axis": access.axis, "rung": access.rung}
            for access in kernel.accesses
        ]
    return values
