"""Where the bounds ladder stands while it walks a kernel: values of variables, facts of the path, loops around.

A variable holds a `Poly` (an int that is known exactly, as arithmetic on atoms), a `Minted` index, a `Truth` (what a bool
says when true and when false), or None. Facts speak about atoms, never about variables, so assigning a variable kills no
fact and keeps none alive by mistake: the new value is other atoms.

    for k in range(xs.num_tiles(0)):     k = Fresh("k"), facts 0 <= k, k < ceil(x.shape[0] / BM)
        at = k                           at is the same atom
        if far > 0:
            at = k + far                 far is any 64-bit int, so the sum may wrap: a new atom, no facts
                                         after the join `at` is again new
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilecheck.ir.kernel import For, Node
from tilecheck.symbolic.contents import Relation
from tilecheck.symbolic.linear import INT64, ZERO, Atom, Bounds, Fresh, Poly, Scalar, atom_bounds, bounds
from tilecheck.symbolic.requires import Comparison


@dataclass(frozen=True, slots=True)
class Minted:
    """An index from `z.indices(...)`: its items, one per axis, and the axes that `z.at` has set, those a map leaves
    `OWNED`.
    """

    items: tuple[Poly, ...]
    owned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Truth:
    """A bool: the comparisons that hold when it is true, and when it is false; () where none is known. `whole` is False if
    they leave out a part of what makes it true.
    """

    true: tuple[Comparison, ...] = ()
    false: tuple[Comparison, ...] = ()
    whole: bool = True


Value = Poly | Minted | Truth | tuple["Value", ...] | None
Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Range:
    """A value that counts from `start`, below `stop` if it goes `up`, else above it, in steps of `step`, whose sign is
    known. `loop` is its `for`, None for a minted item.
    """

    atom: Fresh
    start: Poly
    stop: Poly
    step: Poly
    up: bool
    loop: For | None


@dataclass(slots=True)
class LoopFrame:
    """A loop around the access: the values before it, how many branches stood around it, and whether every round runs
    to its end.
    """

    node: Node
    before: Values
    depth: int
    whole: bool
    range: Range | None = None


def compare(relation: Relation, left: Poly, right: Poly) -> Comparison:
    """A comparison of ours."""
    return Comparison(relation, left, right)


_OPPOSITE: dict[Relation, Relation] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def negated(comparison: Comparison) -> Comparison:
    """What holds where a comparison does not."""
    return compare(_OPPOSITE[comparison.relation], comparison.left, comparison.right)


@dataclass(slots=True)
class Path:
    """The state of the walk. `always` holds at every launch, `declared` by `requires`, `path` where the walk stands."""

    always: list[Comparison] = field(default_factory=list)
    declared: list[Comparison] = field(default_factory=list)
    path: list[Comparison] = field(default_factory=list)
    values: Values | None = field(default_factory=dict)
    ranges: dict[Fresh, Range] = field(default_factory=dict)
    # The value of a `min` or `max` is one of these, and in this relation to the others.
    choices: dict[Fresh, tuple[Relation, tuple[Poly, ...]]] = field(default_factory=dict)
    loops: list[LoopFrame] = field(default_factory=list)
    # How many branches stand around the statement.
    depth: int = 0
    # How many of them, and of the ways to leave before, have conditions that no comparison says.
    unreadable: int = 0
    _fresh: int = 0
    _known: dict[Atom, Bounds] = field(default_factory=dict)
    _stale: bool = True

    def fresh(self, text: str, low: int | None = INT64[0], high: int | None = INT64[1]) -> Fresh:
        """A new atom for a value that only the kernel has."""
        self._fresh += 1
        return Fresh(self._fresh, text, low, high)

    def facts(self) -> list[Comparison]:
        """All that may be used here."""
        return [*self.always, *self.path, *self.declared]

    def known(self, atom: Atom) -> Bounds:
        """Constant bounds of an atom, from facts that compare it with a constant or with something bounded."""
        if self._stale:
            self._stale, self._known = False, _constant_bounds(self.facts())
        return self._known.get(atom, (None, None))

    def bounds(self, poly: Poly) -> Bounds:
        """Constant bounds of a polynomial here."""
        return bounds(poly, self.known)

    def assume(self, facts: Sequence[Comparison]) -> None:
        """Add facts of the path."""
        self.path.extend(facts)
        self._stale = self._stale or bool(facts)

    def ensure(self, fact: Comparison, declared: bool = False) -> None:
        """Add a fact that holds at every launch from here on, by construction or by `requires`."""
        (self.declared if declared else self.always).append(fact)
        self._stale = True

    def mark(self) -> tuple[int, int]:
        """How many facts there are, for `forget`."""
        return len(self.path), len(self.always)

    def forget(self, mark: tuple[int, int]) -> None:
        """Drop the facts that came after `mark`."""
        del self.path[mark[0] :], self.always[mark[1] :]
        self._stale = True


def _constant_bounds(facts: Sequence[Comparison]) -> dict[Atom, Bounds]:
    found: dict[Atom, Bounds] = {}

    def tell(atom: Atom, low: int | None, high: int | None) -> None:
        old = found.get(atom, atom_bounds(atom))
        lows = [v for v in (old[0], low) if v is not None]
        highs = [v for v in (old[1], high) if v is not None]
        found[atom] = max(lows, default=None), min(highs, default=None)

    for _ in range(2):
        for fact in facts:
            for poly, relation, other in (
                (fact.left, fact.relation, fact.right),
                (fact.right, _swap(fact.relation), fact.left),
            ):
                atom = poly.atom
                if atom is None or other == ZERO + poly:
                    continue
                low, high = bounds(other, lambda a: found.get(a, (None, None)))
                if relation in (">=", ">", "==") and low is not None:
                    tell(atom, low + (relation == ">"), None)
                if relation in ("<=", "<", "==") and high is not None:
                    tell(atom, None, high - (relation == "<"))
    return found


def _swap(relation: Relation) -> Relation:
    swapped: dict[Relation, Relation] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
    return swapped[relation]


def holder(atom: Atom, values: Values) -> str | None:
    """A variable that holds exactly this atom."""
    alone = Poly.of(atom)
    return next((name for name, value in values.items() if value == alone), None)


def available(poly: Poly, values: Values) -> bool:
    """Whether the value can be computed where the variables hold `values`."""
    leaves = [a for a in poly.atoms() if isinstance(a, Scalar | Fresh)]
    return all(holder(atom, values) is not None for atom in leaves)


def join_values(path: Path, a: Values | None, b: Values | None) -> Values | None:
    """What variables hold where two paths meet: what both hold, or something new between the bounds of both."""
    if a is None or b is None:
        return b if a is None else a
    joined: Values = {}
    for name in a.keys() & b.keys():
        one, other = a[name], b[name]
        if one == other:
            joined[name] = one
        elif isinstance(one, Poly) and isinstance(other, Poly):
            (low, high), (low2, high2) = path.bounds(one), path.bounds(other)
            lowest = None if low is None or low2 is None else min(low, low2)
            highest = None if high is None or high2 is None else max(high, high2)
            joined[name] = Poly.of(path.fresh(name, lowest, highest))
        else:
            joined[name] = None
    return joined
