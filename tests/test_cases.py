"""The literate cases: what is marked is found, on its line, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.literate import Case, read_cases
from tilecheck.check import check_text
from tilecheck.diagnostic import Diagnostic
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.rules import RULES, rule_name

ALL = read_cases()


def linted(case: Case, folder: Path) -> list[Diagnostic]:
    """What the linter says of the last file of `case`, notes left out."""
    for name, text in case.files:
        (folder / name).write_text(text, encoding="utf-8")
    path = str(folder / case.files[-1][0])
    found = check_text(path, case.text, Modules(), Options()).diagnostics
    return [item for item in found if item.severity != "note"]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_linter_finds_what_is_marked(case: Case, tmp_path: Path) -> None:
    found = linted(case, tmp_path)
    got = sorted((item.span.line, item.severity, item.rule) for item in found)
    assert got == sorted((want.line, want.severity, want.rule) for want in case.expected)
    for want in case.expected:
        messages = [item.message for item in found if (item.span.line, item.rule) == (want.line, want.rule)]
        assert any(want.words in message for message in messages), messages


def test_cases_name_rules_that_exist() -> None:
    known = {rule_name(rule) for rule in RULES}
    assert {want.rule for case in ALL for want in case.expected} <= known


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in ALL}) == len(ALL)
