"""Does a comparison of polynomials follow from others? Fourier-Motzkin elimination, on integers.

Products of atoms count as unknowns of their own, between the bounds of their factors; quotients bring their defining
inequalities. The negated goal joins the facts; if elimination ends in a contradiction, the goal follows. What does not
follow is unknown, never false: the method is sound and incomplete. For a symbolic tile extent `B`, facts are also used
multiplied by it (`multipliers`), which is what `i < n` must become to speak about `i * B`.

    implies([i >= 0, i <= 7], i * 16 < 128)  ->  True

Invariant: an answer True holds for every integer value of the atoms within their bounds. Work is bounded by `_MOST`
inequalities at a time; where there are many facts, those next to the goal are tried alone first, so that facts about
something else cost no proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import gcd

from tilecheck.symbolic.linear import ONE, Atom, Bounds, Monomial, Poly, Quotient, bounds
from tilecheck.symbolic.requires import Comparison

_MOST = 160
# Up to this many inequalities there is one attempt, with all of them.
_FEW = 24
# An inequality `sum + constant >= 0`: coefficients by the number of an unknown, in order, and the constant.
Row = tuple[tuple[tuple[int, int], ...], int]


def implies(
    facts: Sequence[Comparison],
    goal: Comparison,
    multipliers: Sequence[Poly] = (),
    known: Callable[[Atom], Bounds] | None = None,
) -> bool:
    """Whether `goal` holds wherever all `facts` do."""
    match goal.relation:
        case "==":
            return all(_implies(facts, p, multipliers, known) for p in (goal.left - goal.right, goal.right - goal.left))
        case "!=":
            less, more = goal.right - goal.left - ONE, goal.left - goal.right - ONE
            return _implies(facts, less, multipliers, known) or _implies(facts, more, multipliers, known)
        case _:
            return _implies(facts, next(_at_least_zero(goal)), multipliers, known)


def _at_least_zero(comparison: Comparison) -> Iterator[Poly]:
    """Polynomials that the comparison says are `>= 0`; none for `!=`."""
    a, b = comparison.left, comparison.right
    match comparison.relation:
        case "<":
            yield b - a - ONE
        case "<=":
            yield b - a
        case ">":
            yield a - b - ONE
        case ">=":
            yield a - b
        case "==":
            yield a - b
            yield b - a
        case "!=":
            return


def _implies(
    facts: Sequence[Comparison], goal: Poly, multipliers: Sequence[Poly], known: Callable[[Atom], Bounds] | None
) -> bool:
    low, _ = bounds(goal, known)
    if low is not None and low >= 0:
        return True
    given = [p for fact in facts for p in _at_least_zero(fact)]
    given += [p * m for p in given for m in multipliers if m.constant is None]
    return any(_refuted(polys, known) for polys in _relevant([-goal - ONE, *_defined(goal, known)], given, known))


def _refuted(polys: Sequence[Poly], known: Callable[[Atom], Bounds] | None) -> bool:
    """Whether `polys` cannot all be `>= 0`."""
    unknowns: dict[Monomial, int] = {}
    rows = {_row(poly, unknowns) for poly in polys}
    for monomial in tuple(unknowns):
        rows.update(_row(poly, unknowns) for poly in _bound(monomial, known))
    return _contradicts(rows)


def _defined(poly: Poly, known: Callable[[Atom], Bounds] | None) -> list[Poly]:
    """The defining inequalities of the quotients in `poly`."""
    quotients = dict.fromkeys(atom for atom in poly.atoms() if isinstance(atom, Quotient))
    return [inequality for atom in quotients for inequality in _definition(atom, known)]


def _relevant(goal: list[Poly], facts: list[Poly], known: Callable[[Atom], Bounds] | None) -> Iterator[list[Poly]]:
    """The goal with the facts that share an atom with it, directly or through others, their quotients defined.

    Few are yielded together; of many, first those that bring the fewest new atoms, above all such as no other fact has.
    """
    found, atoms = list(goal), {a for poly in goal for a in poly.atoms()}
    strongest: dict[tuple[tuple[Monomial, int], ...], tuple[int, Poly]] = {}
    for poly in facts:
        constant = next((c for monomial, c in poly.terms if not monomial), 0)
        terms = tuple(term for term in poly.terms if term[0])
        if terms not in strongest or constant < strongest[terms][0]:
            strongest[terms] = constant, poly
    left = [(poly, set(poly.atoms())) for _, poly in strongest.values()]
    met = Counter(atom for _, own in left for atom in own)
    while near := [(poly, own) for poly, own in left if own & atoms]:
        left = [(poly, own) for poly, own in left if not own & atoms]
        near.sort(key=lambda item: (sum(met[a] == 1 for a in item[1] - atoms), len(item[1] - atoms)))
        inside = sum(own <= atoms for _, own in near)
        for count, (poly, own) in enumerate(near):
            if len(near) > _FEW and count in (inside, _FEW):
                yield list(found)
            if len(found) >= _MOST:
                break
            found += [poly, *_defined(poly, known)]
            atoms |= own
    yield found


def _definition(atom: Quotient, known: Callable[[Atom], Bounds] | None) -> Iterator[Poly]:
    """What defines a quotient by a divisor of at least 1."""
    low, _ = bounds(atom.right, known)
    if low is None or low < 1:
        return
    q = Poly.of(atom)
    if atom.op == "//":
        yield atom.left - q * atom.right
        yield q * atom.right + atom.right - ONE - atom.left
    elif atom.op == "ceil":
        yield q * atom.right - atom.left
        yield atom.left + atom.right - ONE - q * atom.right
    else:
        whole = Poly.of(Quotient("//", atom.left, atom.right))
        yield atom.left - whole * atom.right - q
        yield q + whole * atom.right - atom.left
        yield q
        yield atom.right - ONE - q


def _bound(monomial: Monomial, known: Callable[[Atom], Bounds] | None) -> Iterator[Poly]:
    poly = Poly(((monomial, 1),))
    low, high = bounds(poly, known)
    if low is not None:
        yield poly - Poly.of(low)
    if high is not None:
        yield Poly.of(high) - poly


def _row(poly: Poly, unknowns: dict[Monomial, int]) -> Row:
    """`poly >= 0` over numbered unknowns."""
    constant, terms = 0, []
    for monomial, coefficient in poly.terms:
        if monomial:
            terms.append((unknowns.setdefault(monomial, len(unknowns)), coefficient))
        else:
            constant = coefficient
    return _reduced(terms, constant)


def _reduced(terms: list[tuple[int, int]], constant: int) -> Row:
    """Coprime coefficients; the constant rounds down, as the sum is an integer."""
    terms.sort()
    common = gcd(*(c for _, c in terms)) if terms else 1
    if common > 1:
        return tuple((m, c // common) for m, c in terms), constant // common
    return tuple(terms), constant


def _contradicts(rows: set[Row]) -> bool:
    """Eliminates unknowns one by one, the cheapest first."""
    left = _tightest(rows)
    while left:
        if any(not terms and constant < 0 for terms, constant in left):
            return True
        counts: dict[int, list[int]] = {}
        for terms, _ in left:
            for unknown, coefficient in terms:
                counts.setdefault(unknown, [0, 0])[coefficient > 0] += 1
        if not counts:
            return False
        victim = min(counts, key=lambda u: (counts[u][0] * counts[u][1] - counts[u][0] - counts[u][1], u))
        lower: list[tuple[dict[int, int], int]] = []
        upper: list[tuple[dict[int, int], int]] = []
        kept: set[Row] = set()
        for row in left:
            sides = dict(row[0])
            if victim not in sides:
                kept.add(row)
            else:
                (lower if sides[victim] > 0 else upper).append((sides, row[1]))
        if len(kept) + len(lower) * len(upper) > _MOST:
            return False
        kept.update(_combined(a, b, victim) for a in lower for b in upper)
        left = _tightest(kept)
    return False


def _tightest(rows: set[Row]) -> set[Row]:
    """Of rows with the same sum, the strongest."""
    best: dict[tuple[tuple[int, int], ...], int] = {}
    for terms, constant in rows:
        if not terms and constant >= 0:
            continue
        best[terms] = min(constant, best.get(terms, constant))
    return set(best.items())


def _combined(lower: tuple[dict[int, int], int], upper: tuple[dict[int, int], int], victim: int) -> Row:
    p, n = lower[0][victim], -upper[0][victim]
    total = {unknown: n * c for unknown, c in lower[0].items()}
    for unknown, c in upper[0].items():
        total[unknown] = total.get(unknown, 0) + p * c
    return _reduced([(u, c) for u, c in total.items() if c], n * lower[1] + p * upper[1])
