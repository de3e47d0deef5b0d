"""`--fix` on every literate case and every example of a rule: each edit ends one finding, none begins, and a second run
changes nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.literate import Case, read_cases
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.fixes import apply_fixes, fixers
from tilecheck.report.repairs import apply_repairs, repairers
from tilecheck.report.result import FileResult
from tilecheck.rules import RULES, rule_name

FIXED = {*fixers(), *repairers()}
EXAMPLES = [
    Case(f"{rule_name(rule)} {number}", "", (("example.py", text),), False)
    for rule in RULES
    if rule_name(rule) in FIXED
    for number, text in enumerate(rule.BAD)
]
CASES = [case for case in read_cases() if any(want.rule in FIXED for want in case.expected)]


def checked(path: Path, text: str) -> FileResult:
    return check_text(str(path), text, Modules(), Options())


def fixed(path: Path, text: str, result: FileResult) -> tuple[str, int]:
    """`text`, of which `result` says what is wrong, as `tilecheck check --fix` leaves it, and how many edits that were."""
    after, count = apply_fixes(text, result.diagnostics)
    again = checked(path, after) if count else result
    after, more = apply_repairs(after, again, lambda edited: checked(path, edited))
    return after, count + more


def rules_in(result: FileResult) -> Counter[str]:
    return Counter(found.rule for found in result.diagnostics)


@pytest.mark.parametrize("case", [*CASES, *EXAMPLES], ids=lambda case: case.name)
def test_each_fix_ends_a_finding_and_begins_none(case: Case, tmp_path: Path) -> None:
    for name, content in case.files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    path = tmp_path / case.files[-1][0]
    found = checked(path, case.text)
    after, count = fixed(path, case.text, found)
    assert (after != case.text) == (count > 0)
    if count:
        ast.parse(after)
        left = checked(path, after)
        before, rest = rules_in(found), rules_in(left)
        assert rest <= before and set(before - rest) <= FIXED
        assert rest.total() <= before.total() - count
        assert fixed(path, after, left) == (after, 0)


def test_each_rule_with_a_fix_has_an_example_of_it(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    ended = {case.name.split()[0] for case in EXAMPLES if fixed(path, case.text, checked(path, case.text))[1]}
    # Tiles of its example may be of any size, so that no partition is the right one.
    assert ended == FIXED - {"unpartitioned-output"}
