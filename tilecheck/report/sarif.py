"""Findings as SARIF 2.1.0, the form that code scanning services take.

One run, one driver; each rule that fired is described once and results point at it by index. Further points of a
finding are related locations, the help is part of the message, a fingerprint (rule, path, kernel and the text of the
line, never its number) lets a service follow a finding while code moves.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from tilecheck.diagnostic import Diagnostic, Label, Span
from tilecheck.report.baseline import fingerprint
from tilecheck.report.result import FileResult
from tilecheck.report.text import SourceLines
from tilecheck.rules import RULES, rule_name

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(results: Sequence[FileResult], version: str, lines_of: SourceLines) -> str:
    """The whole run as one SARIF document; `version` is the checker's."""
    found = [diagnostic for result in results for diagnostic in result.diagnostics]
    documents = {rule_name(rule): inspect.cleandoc(rule.__doc__ or "") for rule in RULES}
    fired = [name for name in documents if any(diagnostic.rule == name for diagnostic in found)]
    driver = {
        "name": "tilecheck",
        "version": version,
        "rules": [_rule(name, documents[name]) for name in fired],
    }
    index = {name: n for n, name in enumerate(fired)}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, index, lines_of) for diagnostic in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(name: str, document: str) -> dict[str, Any]:
    summary, _, rest = document.partition("\n\n")
    return {
        "id": name,
        "shortDescription": {"text": " ".join(summary.split())},
        "fullDescription": {"text": " ".join((rest or summary).split())},
    }


def _result(diagnostic: Diagnostic, index: Mapping[str, int], lines_of: SourceLines) -> dict[str, Any]:
    message = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    result: dict[str, Any] = {
        "ruleId": diagnostic.rule,
        "ruleIndex": index[diagnostic.rule],
        "level": diagnostic.severity,
        "message": {"text": message},
        "locations": [{"physicalLocation": _location(diagnostic.span)}],
        "partialFingerprints": {"tilecheck/v1": fingerprint(diagnostic, lines_of)},
    }
    if diagnostic.labels:
        result["relatedLocations"] = [_related(n, label) for n, label in enumerate(diagnostic.labels, 1)]
    return result


def _related(number: int, label: Label) -> dict[str, Any]:
    return {"id": number, "message": {"text": label.text}, "physicalLocation": _location(label.span)}


def _location(span: Span) -> dict[str, Any]:
    path = PurePath(span.path)
    uri = path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
    return {
        "artifactLocation": {"uri": uri},
        "region": {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        },
    }
