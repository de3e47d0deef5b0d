"""Launch conditions without choices: `n if n >= 0 else a.size + n` is no part of what a launch is asked.

A slice has extents that depend on the signs of its bounds. A condition on them is asked for one outcome of every choice:
the comparison that is left, and the conditions that make the choices come out that way.

Invariant: the conditions of one tuple together imply the condition that they stand for.

Worked example: the extent of `a[n:]` is to be at least 64. For `n >= 0` and `a.size >= n` that is `a.size >= n + 64`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_read import subterms
from tilecheck.symbolic.smt_terms import ZERO, neg, substitute
from tilecheck.verify.condition import Condition, at_least

_MOST_OUTCOMES = 8


def plain(condition: Condition) -> bool:
    """Whether a condition has no choices in it."""
    return all(term.kind != "ite" for term in subterms([condition.term]))


def outcomes(condition: Condition) -> Iterator[tuple[Condition, ...]]:
    """Conditions without choices that stand for `condition`, the likeliest first; itself if it has none."""
    if plain(condition):
        yield (condition,)
        return
    made = 0
    stack: list[tuple[Term, tuple[Term, ...]]] = [(condition.term, ())]
    while stack and made < _MOST_OUTCOMES:
        term, facts = stack.pop()
        choice = next((t for t in subterms([term]) if t.kind == "ite" and _innermost(t)), None)
        if choice is None:
            stated = [_comparison(fact) for fact in (*facts, term)]
            if term.kind != "false" and None not in stated:
                made += 1
                yield tuple(dict.fromkeys(each for each in stated if each is not None))
            continue
        cond, then, other = choice.parts
        sides = [(neg(cond), other), (cond, then)]
        if len(cond.symbols) > 1 and other.kind != "const":
            # The smaller of an extent and a bound: launches keep bounds below extents.
            sides.reverse()
        for fact, value in sides:
            if fact.kind != "false" and neg(fact) not in facts:
                known = facts if fact.kind == "true" or fact in facts else (*facts, fact)
                stack.append((substitute(term, {}, {choice: value}), known))


def _innermost(choice: Term) -> bool:
    return all(term is choice or term.kind != "ite" for term in subterms([choice]))


def _comparison(fact: Term) -> Condition | None:
    """`left >= right` with nothing negative on either side, None for what is no such comparison."""
    if fact.kind != "ge":
        return None
    return at_least(fact.parts[0], ZERO)
