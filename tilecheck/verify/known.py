"""What `requires` says of array contents, as facts of the values that a kernel loads.

A fact holds for the array as it is at the launch, so it is used for arrays that the kernel never writes, and only of
places inside the array: what lies outside is nobody's element. Bounds are facts of each loaded value; how elements stand
to one another is stated for each two loaded values of a question, so that no question has a quantifier.

Invariant: every formula made here is true of any two elements of an array that keeps the facts.

Worked example: under `distinct(perm)` the values v = perm[i] and w = perm[j] of two threads bring "i and j inside of
`perm` and v == w imply i == j", so `out[perm[i]]` has one writer per element.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilecheck.symbolic.contents import Relation
from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_symbols import give_fact
from tilecheck.symbolic.smt_terms import COMPARE, conj, eq, ge0, implies, le, lt, neg
from tilecheck.verify.values import Array


@dataclass(slots=True)
class Known:
    """What is known of the elements of one array."""

    extents: tuple[Term, ...]
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


def loads_of(array: Array) -> str:
    """The name of the function from places of a never-written array to its elements."""
    return f"load {array.name}"
