"""The symbol table of one symbolic run: names, levels, facts, and values that are functions of their arguments.

A *fact* belongs to a symbol and holds wherever that symbol occurs; a query takes the facts of the symbols it mentions
and of the symbols those mention (`closure`). Nothing else ever enters a query, so queries stay small.

Invariant: names are unique and given in the order of creation, so a run of one kernel always yields the same queries.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilecheck.symbolic.smt_nodes import Applied, Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_terms import eq, ge, ge0, implies, le, num, variable


class Symbols:
    """All symbols of one run, and the memo that makes equal applications one symbol."""

    def __init__(self) -> None:
        self.count = 0
        self._names: set[str] = set()
        self._applications: dict[tuple[object, ...], Term] = {}

    def fresh(
        self,
        label: str,
        level: Level,
        taint: Taint = Taint.NONE,
        low: int | None = None,
        high: int | None = None,
        boolean: bool = False,
    ) -> Term:
        """A new unknown within constant bounds."""
        self.count += 1
        name = label if label not in self._names else f"{label}!{self.count}"
        self._names.add(name)
        return variable(Symbol(name, self.count, level, taint, low, high, boolean))

    def apply(
        self,
        function: str,
        level: Level,
        arguments: tuple[Term, ...],
        taint: Taint = Taint.DATA,
        low: int | None = None,
        high: int | None = None,
        boolean: bool = False,
        label: str | None = None,
    ) -> Term:
        """`function(arguments)`, the same symbol for the same arguments. `level` says which threads share the function."""
        key = (function, level, arguments, boolean)
        found = self._applications.get(key)
        if found is None:
            own = max([level, *(a.level for a in arguments)])
            found = self.fresh(label or function, own, taint, low, high, boolean)
            assert found.symbol is not None
            found.symbol.applied = Applied(function, level, arguments)
            self._applications[key] = found
        return found


def give_fact(term: Term, fact: Term) -> None:
    """`fact` holds wherever the symbol `term` is used."""
    assert term.symbol is not None
    if fact.kind != "true":
        term.symbol.facts.append(fact)


def bound_by(term: Term, low: Term | None = None, high: Term | None = None) -> None:
    """The symbol `term` lies in [low, high]."""
    if low is not None:
        give_fact(term, ge(term, low))
    if high is not None:
        give_fact(term, le(term, high))


def closure(terms: Iterable[Term]) -> dict[Symbol, None]:
    """The symbols of `terms`, and those of their facts and arguments, in a stable order."""
    seen: dict[Symbol, None] = {}
    work = [s for t in terms for s in sorted(t.symbols, key=lambda s: s.order)]
    work.reverse()
    while work:
        symbol = work.pop()
        if symbol in seen:
            continue
        seen[symbol] = None
        inner = list(symbol.facts)
        if symbol.applied is not None:
            inner.extend(symbol.applied.arguments)
        for term in inner:
            work.extend(sorted(term.symbols, key=lambda s: s.order))
    return seen


def power_of_two_facts(power: Term, exponent: Term) -> None:
    """`power == 2**exponent` for exponents from 0 to 32, and `power >= 1` beyond."""
    give_fact(power, implies(ge0(exponent), ge(power, num(1))))
    for k in range(33):
        if (exponent.low or 0) <= k and (exponent.high is None or k <= exponent.high):
            give_fact(power, implies(eq(exponent, num(k)), eq(power, num(2**k))))
