"""Two threads in one question.

The walk speaks of one generic thread. A second one is the same terms with the symbols above the shared level primed:
two threads of a block share what the launch and the block agree on, two threads of different blocks only what the
launch agrees on. Uniformity needs no pass of its own: a term that two threads cannot see differently has no symbol
above the level they share.

A question takes the facts of the symbols it mentions, the consistency of values that are functions of their arguments
(equal arguments, equal values), and what is known of tickets, ranks and exclusive or.

Invariant: facts are true of every pair of threads of the mode, so `refutes` is a proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations

from tilecheck.symbolic.smt_nodes import Applied, Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import (
    TRUE,
    add,
    conj,
    disj,
    div,
    eq,
    ge,
    implies,
    le,
    ne,
    neg,
    num,
    substitute,
    variable,
)
from tilecheck.verify.run import WARP_LANES, Run

_MOST_APPLICATIONS = 16


class Mode(Enum):
    """Which two threads are compared; the value is the widest level that they share."""

    SAME_BLOCK = "two threads of a block"
    SAME_WARP = "two threads of a warp"
    OTHER_WARP = "two threads of different warps of a block"
    OTHER_BLOCK = "two threads of different blocks"

    @property
    def shared(self) -> Level:
        return {Mode.SAME_WARP: Level.WARP, Mode.OTHER_BLOCK: Level.GRID}.get(self, Level.BLOCK)


class Twin:
    """The second thread of `mode`: `of(term)` is what it sees where the first sees `term`.

    `aligned` are loop counters that the two threads share, because they meet inside the loop.
    """

    def __init__(self, mode: Mode, aligned: Collection[Symbol] = ()) -> None:
        self.mode = mode
        self.aligned = aligned
        self._mapping: dict[Term, Term] = {}
        self._memo: dict[Term, Term] = {}
        self._primed: dict[Symbol, Symbol] = {}

    def of(self, term: Term) -> Term:
        found = self._memo.get(term)
        if found is not None:
            return found
        for symbol in term.symbols:
            if symbol not in self._primed and not self._common(symbol):
                self._prime(symbol)
        return substitute(term, self._mapping, self._memo)

    def symbol(self, symbol: Symbol) -> Symbol:
        """The symbol that stands for `symbol` in the second thread."""
        if self._common(symbol):
            return symbol
        if symbol not in self._primed:
            self._prime(symbol)
        return self._primed[symbol]

    def _common(self, symbol: Symbol) -> bool:
        return symbol.level <= self.mode.shared or symbol in self.aligned

    def _prime(self, symbol: Symbol) -> None:
        name = f"{symbol.name}'"
        twin = Symbol(name, symbol.order, symbol.level, symbol.taint, symbol.low, symbol.high, symbol.boolean)
        self._primed[symbol] = twin
        self._mapping[variable(symbol)] = variable(twin)
        if symbol.applied is not None:
            arguments = tuple(self.of(argument) for argument in symbol.applied.arguments)
            twin.applied = Applied(symbol.applied.function, symbol.applied.level, arguments)


@dataclass
class Question:
    """Formulas about one or two threads, with everything that is known about their symbols."""

    main: list[Term]
    facts: list[Term]
    first: dict[Symbol, None]
    second: dict[Symbol, None] = field(default_factory=dict)
    twin: Twin | None = None

    @property
    def formulas(self) -> list[Term]:
        return [*self.main, *self.facts]

    def taints(self) -> set[Taint]:
        return {s.taint for s in (*self.first, *self.second)}


def about_one(run: Run, terms: Sequence[Term]) -> Question:
    """A question about a single thread."""
    symbols = closure([*terms, *run.dims.thread, *run.dims.at])
    facts = [fact for s in symbols for fact in s.facts]
    facts += _consistency(run, [(variable(s), s.applied) for s in symbols if s.applied is not None])
    return Question(list(terms), list(dict.fromkeys(facts)), symbols)


class Pairing:
    """Questions about two threads of one mode. `tickets` are counter values that give disjoint ranges, with their
    increments; `aligned` as in `Twin`.
    """

    def __init__(
        self, run: Run, mode: Mode, tickets: Mapping[Term, Term] | None = None, aligned: Collection[Symbol] = ()
    ) -> None:
        self.run = run
        self.mode = mode
        self.twin = Twin(mode, aligned)
        self.tickets = tickets or {}

    def ask(
        self, first: Sequence[Term], second: Sequence[Term], both: Iterable[Term] = (), mentions: Sequence[Term] = ()
    ) -> Question:
        """`first` holds for one thread, `second` (in the first thread's terms) for the other. `both` is about the two
        already; `mentions` are the terms, unprimed, that it takes from either.
        """
        of = self.twin.of
        dims = [*self.run.dims.thread, *self.run.dims.at]
        one = closure([*first, *mentions, *dims])
        two = closure([*second, *mentions, *dims])
        main = [*first, *(of(t) for t in second), *both, self._distinct()]
        facts = [fact for s in one for fact in s.facts]
        facts += [of(fact) for s in two for fact in s.facts]
        facts += self._applications(one, two)
        facts += self._exclusive(one, two)
        kept = [f for f in dict.fromkeys(facts) if f is not TRUE]
        return Question([m for m in main if m is not TRUE], kept, one, two, self.twin)

    def _distinct(self) -> Term:
        """That the two threads are of the mode."""
        dims = self.run.dims
        of = self.twin.of
        if self.mode is Mode.OTHER_BLOCK:
            return disj(*(ne(t, of(t)) for t in dims.at))
        apart = disj(*(ne(t, of(t)) for t in dims.thread))
        if self.mode is Mode.SAME_BLOCK:
            return apart
        warp = div(dims.linear, num(WARP_LANES))
        same = eq(warp, of(warp))
        return conj(apart, same if self.mode is Mode.SAME_WARP else neg(same))

    def _applications(self, one: dict[Symbol, None], two: dict[Symbol, None]) -> list[Term]:
        shared: list[tuple[Term, Applied]] = []
        apart: list[list[tuple[Term, Applied]]] = [[], []]
        of = self.twin.of
        for symbols, twin, own in ((one, False, apart[0]), (two, True, apart[1])):
            for symbol in symbols:
                applied = symbol.applied
                if applied is None:
                    continue
                term = variable(symbol)
                if twin:
                    term = of(term)
                    applied = Applied(applied.function, applied.level, tuple(of(a) for a in applied.arguments))
                (shared if applied.level <= self.mode.shared else own).append((term, applied))
        return [fact for applications in (shared, *apart) for fact in _consistency(self.run, applications)]

    def _exclusive(self, one: dict[Symbol, None], two: dict[Symbol, None]) -> list[Term]:
        made = []
        of = self.twin.of
        for old, increment in self.tickets.items():
            if old.symbol in one and old.symbol in two and of(old) is not old:
                a, b, m, n = old, of(old), increment, of(increment)
                apart = disj(le(add(a, m), b), le(add(b, n), a))
                made.append(implies(conj(ge(m, num(1)), ge(n, num(1))), apart))
        if self.mode is Mode.SAME_WARP or self._one_warp():
            for rank, predicate in self.run.ranks.items():
                if rank.symbol in one and rank.symbol in two:
                    made.append(implies(conj(predicate, of(predicate)), ne(rank, of(rank))))
        return made

    def _one_warp(self) -> bool:
        threads = self.run.dims.threads
        return self.mode is Mode.SAME_BLOCK and threads.high is not None and threads.high <= WARP_LANES


def _consistency(run: Run, applications: Sequence[tuple[Term, Applied]]) -> list[Term]:
    """Equal arguments give equal values, and what is known of array contents; exclusive or is a bijection in each
    argument.
    """
    groups: dict[tuple[str, Level, int], dict[Term, Applied]] = {}
    for term, applied in applications:
        groups.setdefault((applied.function, applied.level, len(applied.arguments)), {})[term] = applied
    made: list[Term] = []
    for (function, _, _), members in groups.items():
        items = list(members.items())[:_MOST_APPLICATIONS]
        known = run.known.get(function)
        for (v, a), (w, b) in combinations(items, 2):
            same = conj(*(eq(x, y) for x, y in zip(a.arguments, b.arguments, strict=True)))
            made.append(implies(same, eq(v, w)))
            if known is not None:
                made.extend(known.between(v, a.arguments, w, b.arguments))
            if function == "bits ^":
                made.extend(_exclusive_or(v, a.arguments, w, b.arguments))
                made.extend(_gray_code(v, a.arguments, w, b.arguments))
    return made


def _exclusive_or(v: Term, a: tuple[Term, ...], w: Term, b: tuple[Term, ...]) -> list[Term]:
    made = []
    for i in (0, 1):
        for j in (0, 1):
            # v = p ^ m, w = q ^ m with one mask m: v == q iff w == p, and v == w iff p == q.
            p, m, q, n = a[1 - i], a[i], b[1 - j], b[j]
            if m is n or (m.kind != "const" and n.kind != "const"):
                made.append(implies(eq(m, n), conj(eq(eq(v, q), eq(w, p)), eq(eq(v, w), eq(p, q)))))
    return made


def _gray_code(v: Term, a: tuple[Term, ...], w: Term, b: tuple[Term, ...]) -> list[Term]:
    """`x ^ (x >> k)` takes a value once: its bits from the top down give those of x, which is not negative."""
    one, two = _shifted(a), _shifted(b)
    if one is None or two is None or one[1] != two[1]:
        return []
    x, y = one[0], two[0]
    return [implies(conj(ge(x, num(0)), ge(y, num(0))), eq(eq(v, w), eq(x, y)))]


def _shifted(arguments: tuple[Term, ...]) -> tuple[Term, int] | None:
    """The x and the 2**k of arguments x and `x >> k`, in either order; None if they are no such pair."""
    for x, y in (arguments, arguments[::-1]):
        if y.kind == "div" and y.parts[0] is x and y.parts[1].kind == "const":
            power = y.parts[1].const
            if power > 1 and power & (power - 1) == 0:
                return x, power
    return None
