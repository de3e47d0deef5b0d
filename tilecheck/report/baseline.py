"""Findings that a project accepts for now: a baseline, matched by content.

A finding is known by its rule, path, kernel and the text of its line, so that lines may move and messages may be
reworded. Two equal findings need two entries: a second copy of an old fault is a new finding. The file is JSON with one
fingerprint per entry and the words a reviewer needs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tilecheck.diagnostic import Diagnostic
from tilecheck.report.result import FileResult
from tilecheck.report.text import SourceLines

VERSION = 1


class BaselineError(Exception):
    """The baseline file cannot be used."""


def fingerprint(diagnostic: Diagnostic, lines_of: SourceLines, base: Path | None = None) -> str:
    """What stays the same about a finding while code around it moves; paths are relative to `base`."""
    lines = lines_of(diagnostic.span.path)
    number = diagnostic.span.line
    text = " ".join(lines[number - 1].split()) if 1 <= number <= len(lines) else ""
    path = os.path.relpath(diagnostic.span.path, base or os.curdir).replace(os.sep, "/")
    parts = (diagnostic.rule, path, diagnostic.kernel or "", text)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def write_baseline(file: Path, results: Sequence[FileResult], lines_of: SourceLines) -> int:
    """Accept every finding of `results`; returns how many. Raises `BaselineError`."""
    entries = [
        {
            "fingerprint": fingerprint(diagnostic, lines_of, file.parent.resolve()),
            "rule": diagnostic.rule,
            "path": diagnostic.span.path,
            "message": diagnostic.message,
        }
        for result in results
        for diagnostic in result.diagnostics
        if diagnostic.severity != "note"
    ]
    text = json.dumps({"version": VERSION, "accepted": entries}, indent=2, ensure_ascii=False)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BaselineError(f"cannot write the baseline {file}: {error.strerror}") from None
    return len(entries)


def read_baseline(file: Path) -> Counter[str]:
    """The accepted fingerprints. Raises `BaselineError`."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"cannot read the baseline {file}: {error.strerror}") from None
    except ValueError as error:
        raise BaselineError(f"the baseline {file} is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise BaselineError(f"the baseline {file} has no version {VERSION}; write it again with --write-baseline")
    try:
        return Counter(str(entry["fingerprint"]) for entry in document["accepted"])
    except (KeyError, TypeError):
        raise BaselineError(f"the baseline {file} has an entry without fingerprint") from None


def subtract(
    results: Sequence[FileResult], accepted: Counter[str], lines_of: SourceLines, base: Path
) -> tuple[list[FileResult], int]:
    """`results` without the accepted findings, and how many were accepted."""
    left = Counter(accepted)
    hidden = 0
    kept: list[FileResult] = []
    for result in results:
        fresh: list[Diagnostic] = []
        for diagnostic in result.diagnostics:
            mark = fingerprint(diagnostic, lines_of, base)
            if diagnostic.severity != "note" and left[mark] > 0:
                left[mark] -= 1
                hidden += 1
            else:
                fresh.append(diagnostic)
        kept.append(result.with_findings(tuple(fresh)))
    return kept, hidden
