"""A rule's module, read as a page: what `explain`, `rules`, the documentation and SARIF show.

The docstring's first paragraph is the summary, the rest the reason; `BAD` and `GOOD` are the examples, with the marks
of the tests (`# error`) left out.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from tilecheck.rules import RULES, Rule, rule_name

_MARK = re.compile(r"[ \t]*# error\b[^\n]*")


@dataclass(frozen=True, slots=True)
class Page:
    """One rule as people read it; `fixable` says whether `tilecheck check --fix` can repair it."""

    name: str
    severity: str
    summary: str
    why: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    fixable: bool


def page(rule: Rule) -> Page:
    """The page of one rule."""
    document = inspect.cleandoc(rule.__doc__ or "")
    summary, _, rest = document.partition("\n\n")
    return Page(
        rule_name(rule),
        rule.SEVERITY,
        " ".join(summary.split()),
        "\n\n".join(" ".join(part.split()) for part in rest.split("\n\n")),
        tuple(unmarked(example) for example in rule.BAD),
        tuple(unmarked(example) for example in rule.GOOD),
        hasattr(rule, "fix") or hasattr(rule, "repairs"),
    )


def pages() -> tuple[Page, ...]:
    """All rules, in the order of the documentation."""
    return tuple(page(rule) for rule in RULES)


def unmarked(example: str) -> str:
    """An example without the tests' marks."""
    return _MARK.sub("", example).strip("\n")
