"""What `requires` says of array contents, or host code shows of them, as facts of the values that a kernel loads.

A fact holds for the array as it is at the launch, so it is used for arrays that the kernel never writes, and only of
places inside the array: what lies outside is nobody's element. Bounds are facts of each loaded value; how elements stand
to one another is stated for each two loaded values of a question, so that no question has a quantifier.

Invariant: every formula made here is true of any two elements of an array that keeps the facts.

Worked example: under `distinct(perm)` the values v = perm[i] and w = perm[j] of two threads bring "i and j inside of
`perm` and v == w imply i == j", so `out[perm[i]]` has one writer per element.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilecheck.ir.host_array import Drawn, HostArray
from tilecheck.symbolic.contents import Bounded, ElementFact, Ordered, Relation
from tilecheck.symbolic.linear import Poly
from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_symbols import give_fact
from tilecheck.symbolic.smt_terms import COMPARE, conj, eq, ge0, implies, le, lt, neg, num
from tilecheck.verify.values import Array


@dataclass(slots=True)
class Known:
    """What is known of the elements of one array; `required` if a contract says it, and any such elements are accepted."""

    extents: tuple[Term, ...]
    required: bool = False
    bounds: list[tuple[Relation, Term]] = field(default_factory=list)
    distinct: bool = False
    nondecreasing: bool = False

    def inside(self, index: tuple[Term, ...]) -> Term:
        """That `index` is a place of the array."""
        return conj(*(conj(ge0(at), lt(at, extent)) for at, extent in zip(index, self.extents, strict=True)))

    def say(self, loaded: Term, index: tuple[Term, ...]) -> None:
        """Give the symbol `loaded`, the element at `index`, what is known of each element."""
        assert loaded.symbol is not None
        for relation, bound in self.bounds:
            fact = implies(self.inside(index), COMPARE[relation](loaded, bound))
            if fact not in loaded.symbol.facts:
                give_fact(loaded, fact)

    def between(self, v: Term, at: tuple[Term, ...], w: Term, other: tuple[Term, ...]) -> list[Term]:
        """What is known of the elements v at `at` and w at `other`."""
        if not (self.distinct or self.nondecreasing):
            return []
        both = conj(self.inside(at), self.inside(other))
        made = []
        if self.distinct:
            same = conj(*(eq(x, y) for x, y in zip(at, other, strict=True)))
            made.append(implies(conj(both, neg(same)), neg(eq(v, w))))
        if self.nondecreasing:
            (i,), (j,) = at, other
            made.append(implies(conj(both, le(i, j)), le(v, w)))
            made.append(implies(conj(both, le(j, i)), le(w, v)))
        return made


def shown_facts(name: str, seen: HostArray) -> tuple[ElementFact, ...]:
    """What host code shows of the elements of the argument `name`, which it does not write down."""
    drawn = seen.drawn() if isinstance(seen.contents, Drawn) else None
    if drawn is None:
        return ()
    made: list[ElementFact] = [Bounded(name, ">=", Poly.of(drawn.low))] if drawn.low is not None else []
    made += [Bounded(name, "<=", Poly.of(drawn.high))] if drawn.high is not None else []
    made += [Ordered(name, "distinct")] if drawn.distinct else []
    line = seen.shape is not None and len(seen.shape) == 1
    return (*made, *([Ordered(name, "nondecreasing")] if drawn.nondecreasing and line else []))


def shown(array: Array, seen: HostArray) -> Known | None:
    """What host code shows of an argument, written down or not; None if that is nothing."""
    drawn = seen.drawn()
    if drawn is None:
        return None
    made = Known(array.extents, distinct=drawn.distinct, nondecreasing=drawn.nondecreasing and len(array.extents) == 1)
    made.bounds += [(">=", num(drawn.low))] if drawn.low is not None else []
    made.bounds += [("<=", num(drawn.high))] if drawn.high is not None else []
    return made


def loads_of(array: Array) -> str:
    """The name of the function from places of a never-written array to its elements."""
    return f"load {array.name}"
