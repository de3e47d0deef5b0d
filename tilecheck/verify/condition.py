"""One launch condition: its text in the `requires` grammar, and its meaning.

Worked example: `at_least(c.size, a.size)` reads `c.size >= a.size`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_read import show
from tilecheck.symbolic.smt_terms import ge


@dataclass(frozen=True, slots=True)
class Condition:
    """A launch condition in the `requires` grammar, and its meaning."""

    text: str
    term: Term


def at_least(left: Term, right: Term) -> Condition:
    """`left >= right`; `right <= left` where the left side is a constant."""
    if left.kind == "const":
        return Condition(f"{words(right)} <= {words(left)}", ge(left, right))
    return Condition(f"{words(left)} >= {words(right)}", ge(left, right))


def words(term: Term) -> str:
    """A term in the grammar of conditions, without outer brackets."""
    text = show(term).replace("*", " * ")
    return text[1:-1] if text.startswith("(") and text.endswith(")") and term.kind == "lin" else text


def unique(candidates: Iterator[Condition]) -> Iterator[Condition]:
    """The candidates that say something, each once."""
    seen: set[Term] = set()
    for condition in candidates:
        if condition.term not in seen and condition.term.kind not in ("true", "false"):
            seen.add(condition.term)
            yield condition
