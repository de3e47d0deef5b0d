"""One launch condition: its text in the `requires` grammar, and its meaning.

Worked example: `at_least(c.size, a.size)` reads `c.size >= a.size`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_read import show
from tilecheck.symbolic.smt_terms import conj, ge, linear_parts, num, scale, sub, total


@dataclass(frozen=True, slots=True)
class Condition:
    """A launch condition in the `requires` grammar, and its meaning."""

    text: str
    term: Term


def at_least(left: Term, right: Term) -> Condition:
    """`left >= right` with nothing negative on either side; `right <= left` where the left side is a constant."""
    if any(
        weight < 0
        for side in (left, right)
        for weight in (linear_parts(side)[0], *dict(linear_parts(side)[1]).values())
    ):
        const, parts = linear_parts(sub(left, right))
        more, less = ([num(max(sign * const, 0))] for sign in (1, -1))
        more += [scale(atom, weight) for atom, weight in parts if weight > 0]
        less += [scale(atom, -weight) for atom, weight in parts if weight < 0]
        left, right = total(more), total(less)
    if left.kind == "const":
        return Condition(f"{words(right)} <= {words(left)}", ge(left, right))
    return Condition(f"{words(left)} >= {words(right)}", ge(left, right))


def words(term: Term) -> str:
    """A term in the grammar of conditions, without outer brackets."""
    text = show(term).replace("*", " * ")
    return text[1:-1] if text.startswith("(") and text.endswith(")") and term.kind in ("lin", "div", "mod") else text


def equalities(conditions: Sequence[Condition]) -> list[Condition]:
    """`conditions` with `a == b` for `a <= b` and `a >= b`."""
    made: list[Condition] = []
    done: set[Condition] = set()
    for condition in conditions:
        left, relation, right = condition.text.partition(" <= ")
        twin = next(
            (c for c in conditions if relation and c.text in (f"{left} >= {right}", f"{right} <= {left}")), None
        )
        if condition in done:
            continue
        if twin is not None:
            done.add(twin)
            condition = Condition(f"{left} == {right}", conj(condition.term, twin.term))
        made.append(condition)
    return [condition for condition in made if condition not in done]


def unique(candidates: Iterator[Condition]) -> Iterator[Condition]:
    """The candidates that say something about the launch, not about one of its threads, each once."""
    seen: set[Term] = set()
    for condition in candidates:
        whole = condition.term.kind not in ("true", "false") and condition.term.level is Level.GRID
        if whole and condition.term not in seen:
            seen.add(condition.term)
            yield condition
