"""Does a comparison of polynomials follow from others? Fourier-Motzkin elimination, on integers.

Products of atoms count as unknowns of their own, between the bounds of their factors; quotients bring their defining
inequalities. The negated goal joins the facts; if elimination ends in a contradiction, the goal follows. What does not
follow is unknown, never false: the method is sound and incomplete. For a symbolic tile extent `B`, facts are also used
multiplied by it (`multipliers`), which is what `i < n` must become to speak about `i * B`.

    implies([i >= 0, i <= 7], i * 16 < 128)  ->  True

Invariant: an answer True holds for every integer value of the atoms within their bounds. Work is bounded by `_MOST`
inequalities; beyond, the answer is False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd

from tilecheck.symbolic.linear import ONE, ZERO, Atom, Bounds, Monomial, Poly, Quotient, bounds
from tilecheck.symbolic.requires import Comparison

_MOST = 600
# An inequality `poly >= 0`, its constant apart: coefficients by product, and the constant.
Row = tuple[tuple[tuple[Monomial, int], ...], int]


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
    rows = {_row(-goal - ONE), *map(_row, given)}
    for poly in (goal, *given):
        for atom in poly.atoms():
            if isinstance(atom, Quotient):
                rows.update(map(_row, _definition(atom, known)))
    seen: set[Monomial] = set()
    for row in tuple(rows):
        for monomial, _ in row[0]:
            if monomial not in seen:
                seen.add(monomial)
                rows.update(_bound_rows(monomial, known))
    return _contradicts(rows)


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


def _bound_rows(monomial: Monomial, known: Callable[[Atom], Bounds] | None) -> Iterator[Row]:
    poly = Poly(((monomial, 1),))
    low, high = bounds(poly, known)
    if low is not None:
        yield _row(poly - Poly.of(low))
    if high is not None:
        yield _row(Poly.of(high) - poly)


def _row(poly: Poly) -> Row:
    """`poly >= 0` with coprime coefficients; the constant rounds down, as the sum is an integer."""
    constant = next((c for m, c in poly.terms if m == ()), 0)
    terms = [(m, c) for m, c in poly.terms if m != ()]
    common = gcd(*(c for _, c in terms)) if terms else 0
    if common > 1:
        return tuple((m, c // common) for m, c in terms), constant // common
    return tuple(terms), constant


def _contradicts(rows: Iterable[Row]) -> bool:
    left = set(rows)
    while True:
        if any(not terms and constant < 0 for terms, constant in left):
            return True
        left = {row for row in left if row[0]}
        counts: dict[Monomial, list[int]] = {}
        for terms, _ in left:
            for monomial, coefficient in terms:
                pair = counts.setdefault(monomial, [0, 0])
                pair[coefficient > 0] += 1
        if not counts:
            return False
        victim = min(counts, key=lambda m: counts[m][0] * counts[m][1] - sum(counts[m]))
        lower = [row for row in left if _coefficient(row, victim) > 0]
        upper = [row for row in left if _coefficient(row, victim) < 0]
        left = {row for row in left if _coefficient(row, victim) == 0}
        if len(left) + len(lower) * len(upper) > _MOST:
            return False
        left.update(_combined(a, b, victim) for a in lower for b in upper)


def _coefficient(row: Row, monomial: Monomial) -> int:
    return next((c for m, c in row[0] if m == monomial), 0)


def _combined(lower: Row, upper: Row, victim: Monomial) -> Row:
    p, n = _coefficient(lower, victim), -_coefficient(upper, victim)
    return _row(_poly(lower) * Poly.of(n) + _poly(upper) * Poly.of(p))


def _poly(row: Row) -> Poly:
    return sum((Poly(((m, c),)) for m, c in row[0]), ZERO) + Poly.of(row[1])
