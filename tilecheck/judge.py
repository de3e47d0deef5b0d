"""From what the analyses found to what is said: the rules word it, the file's comments silence what they allow.

Apart from `check.py`, which leads here, so that whoever has results already (the mypy adapter, from its cache) judges
them without loading a parser.

Invariant: a rule that fails leaves a note in its place, and the other rules still speak.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic, Span
from tilecheck.frontend.gate import Unreadable
from tilecheck.report.result import FileResult
from tilecheck.report.summary import summaries
from tilecheck.report.suppressions import META, apply_allows, read_allows
from tilecheck.rules import RULES, Rule, rule_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """`budget` is the prover's time per kernel in seconds; `rules` are the names of the rules to report, None for all;
    `simt` says whether SIMT kernels are looked at; `stored` whether proofs of them are kept between runs.
    """

    budget: float = 20.0
    rules: frozenset[str] | None = None
    simt: bool = True
    stored: bool = False

    def wants(self, rule: str) -> bool:
        return self.rules is None or rule in self.rules


def judge(checked: Checked, options: Options) -> FileResult:
    """Let the rules word what was found, and the file's comments silence what they allow."""
    found = run_rules(checked, [name for name in wanted(options) if name not in META])
    diagnostics, silenced = heed(checked, found, options)
    return FileResult(checked.path, diagnostics, summaries(checked), silenced)


def heed(checked: Checked, found: Iterable[Diagnostic], options: Options) -> tuple[tuple[Diagnostic, ...], int]:
    """What the comments of the file leave of `found`, with what is to be said about them, in order; and how many
    findings they silence.
    """
    names = wanted(options)
    allows = read_allows(checked.path, checked.text)
    kept, silenced, faults = apply_allows(found, allows, names, [rule_name(rule) for rule in RULES])
    about_file = replace(checked, faults=(*faults, *checked.faults))
    about_allows = run_rules(about_file, [name for name in names if name in META])
    return tuple(sorted({*kept, *about_allows}, key=Diagnostic.sort_key)), silenced


def wanted(options: Options) -> list[str]:
    """The names of the rules to report."""
    return [name for name in map(rule_name, RULES) if options.wants(name)]


def run_rules(checked: Checked, names: Collection[str]) -> list[Diagnostic]:
    """The findings of the named rules. A rule that fails leaves a note in its place."""
    found: list[Diagnostic] = []
    for rule in RULES:
        name = rule_name(rule)
        if name in names:
            found += contained(partial(_findings, rule, checked), partial(_broken, checked, name))
    return found


def _findings(rule: Rule, checked: Checked) -> list[Diagnostic]:
    return list(rule.check(checked))


def _broken(checked: Checked, rule: str, why: str) -> list[Diagnostic]:
    message = f"this rule failed on this file: {why}"
    return [Diagnostic(rule, "note", message, start_of(checked.path), help="please report this")]


def contained(work: Callable[[], T], instead: Callable[[str], T]) -> T:
    """`work()`, or `instead(reason)` if it fails: the one place where the linter turns its own bug into an unknown."""
    try:
        return work()
    except Unreadable:
        raise
    except Exception as error:
        return instead(f"internal error {type(error).__name__}: {error}")


def start_of(path: str) -> Span:
    """Where a finding about a whole file stands."""
    return Span(path, 1, 1, 1, 2)
