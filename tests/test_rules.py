"""Every rule keeps its word: explained, its bad example fails where it says, its good one is silent, it has its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.pages import page
from tilecheck.report.result import FileResult
from tilecheck.rules import RULES, Rule, rule_name

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = [(rule, n) for rule in RULES for n in range(len(rule.BAD))]
REPAIRED = [(rule, n) for rule in RULES for n in range(len(rule.GOOD))]


def checked(text: str) -> FileResult:
    return check_text("example.py", text, Modules(), Options())


def marked(text: str) -> list[int]:
    """The lines whose comment ends in `# error`."""
    return [number for number, line in enumerate(text.split("\n"), 1) if line.rstrip().endswith("# error")]


@pytest.mark.parametrize(("rule", "n"), EXAMPLES, ids=lambda value: rule_name(value) if hasattr(value, "BAD") else None)
def test_a_bad_example_fails_on_its_marked_lines(rule: Rule, n: int) -> None:
    found = [(item.span.line, item.rule) for item in checked(rule.BAD[n]).diagnostics if item.severity != "note"]
    assert marked(rule.BAD[n]), "an example marks its line with `# error`"
    assert sorted(set(found)) == [(line, rule_name(rule)) for line in marked(rule.BAD[n])]


@pytest.mark.parametrize(("rule", "n"), REPAIRED, ids=lambda value: rule_name(value) if hasattr(value, "BAD") else None)
def test_a_good_example_is_silent(rule: Rule, n: int) -> None:
    assert [item for item in checked(rule.GOOD[n]).diagnostics if item.severity != "note"] == []


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_a_rule_is_explained(rule: Rule) -> None:
    shown = page(rule)
    assert rule.BAD and rule.GOOD
    assert shown.summary.endswith(".") and len(shown.summary) <= 160
    assert shown.why.startswith("Why: ")
    assert (ROOT / "docs" / "rules" / f"{shown.name}.md").is_file()


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_messages_follow_the_style(rule: Rule) -> None:
    for text in rule.BAD:
        for found in checked(text).diagnostics:
            assert found.severity == rule.SEVERITY or found.severity == "note"
            assert not found.message.endswith("."), found.message
            assert not found.message[0].isupper(), found.message
            assert "\n" not in found.message


def test_names_are_unique_and_modules_are_listed() -> None:
    names = [rule_name(rule) for rule in RULES]
    assert len(set(names)) == len(names)
    files = {path.stem.replace("_", "-") for path in (ROOT / "tilecheck" / "rules").glob("*.py")}
    assert {name for name in files if not name.startswith("-")} == set(names)
