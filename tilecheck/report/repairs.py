"""Repairs of kernels: an edit is a guess until the checker has proved the file that it makes.

A rule module with repairs has `repairs(lines, diagnostic) -> Iterator[Edit]`, likely ones first, and `REPAIRED`, the
property that a repair must have proved, or None where the end of the finding is enough. A repair is taken if the property
is proven for the kernel, the finding is gone, and no kernel has more findings of any rule than before.

Worked example: a race between lines 9 and 11 gets a `cuda.syncthreads()` in line 11, unless threads would miss it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from tilecheck.diagnostic import Diagnostic
from tilecheck.edit import Edit
from tilecheck.report.fixes import LINE
from tilecheck.report.result import FileResult
from tilecheck.rules import RULES, rule_name

Repairs = Callable[[Sequence[str], Diagnostic], Iterator[Edit]]
Recheck = Callable[[str], FileResult]
# Repairs of one file, one after the other.
_MOST = 100
_PROVED = ("proven", "proven-given")


def repairers() -> dict[str, tuple[Repairs, str | None]]:
    """The rules that have repairs, each with the property that a repair must have proved."""
    made: dict[str, tuple[Repairs, str | None]] = {}
    for rule in RULES:
        if hasattr(rule, "repairs"):
            module = cast(Any, rule)
            made[rule_name(rule)] = (module.repairs, module.REPAIRED)
    return made


def apply_repairs(text: str, result: FileResult, recheck: Recheck) -> tuple[str, int]:
    """`text`, of which `result` says what is wrong, after all repairs that can be proved, and how many those are."""
    known = repairers()
    given_up: set[tuple[object, ...]] = set()
    count = 0
    while count < _MOST:
        # A finding about a kernel of another file is repaired there.
        here = {kernel.name for kernel in result.kernels}
        open_ones = (d for d in result.diagnostics if d.rule in known and d.kernel in here)
        found = next((d for d in open_ones if _key(d) not in given_up), None)
        if found is None:
            break
        repairs, wanted = known[found.rule]
        for edit in repairs([line.rstrip("\r\n") for line in LINE.findall(text)], found):
            edited = _edited(text, edit)
            after = recheck(edited)
            if _better(result, after, found, wanted):
                text, result, count = edited, after, count + 1
                break
        else:
            given_up.add(_key(found))
    return text, count


def _key(finding: Diagnostic) -> tuple[object, ...]:
    return finding.rule, finding.kernel, finding.message, finding.span.line


def _edited(text: str, edit: Edit) -> str:
    lines = LINE.findall(text)
    line = lines[edit.line - 1]
    added = edit.text.replace("\n", "\r\n") if line.endswith("\r\n") else edit.text
    lines[edit.line - 1] = line[: edit.start - 1] + added + line[edit.end - 1 :]
    return "".join(lines)


def _better(before: FileResult, after: FileResult, finding: Diagnostic, wanted: str | None) -> bool:
    old, new = (Counter((d.rule, d.kernel) for d in r.diagnostics) for r in (before, after))
    if any(number > old[name] for name, number in new.items()):
        return False
    if wanted is None:
        return _key(finding) not in {_key(d) for d in after.diagnostics}
    verdicts = [kernel.verdicts for kernel in after.kernels if kernel.name == finding.kernel]
    return bool(verdicts) and all(shown[wanted].verdict in _PROVED for shown in verdicts)
