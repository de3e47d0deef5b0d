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

from tilecheck.symbolic.linear import ONE, Atom, Bounds, Monomial, Poly, Quotient, bounds
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


# A row over numbered products: coefficients by number, in order, and the constant.
_Numbered = tuple[tuple[tuple[int, int], ...], int]


def _contradicts(rows: Iterable[Row]) -> bool:
    """Eliminate product after product. They are numbered in a fixed order first, so that the work, and with it the
    answer at the limit, is the same in every run.
    """
    given = list(rows)
    numbers = {m: n for n, m in enumerate(sorted({m for terms, _ in given for m, _ in terms}, key=str))}
    left = {(tuple(sorted((numbers[m], c) for m, c in terms)), constant) for terms, constant in given}
    while True:
        if any(not terms and constant < 0 for terms, constant in left):
            return True
        left = {row for row in left if row[0]}
        counts: dict[int, list[int]] = {}
        for terms, _ in left:
            for number, coefficient in terms:
                pair = counts.setdefault(number, [0, 0])
                pair[coefficient > 0] += 1
        if not counts:
            return False
        victim = min(counts, key=lambda n: (counts[n][0] * counts[n][1] - sum(counts[n]), n))
        lower: list[tuple[int, _Numbered]] = []
        upper: list[tuple[int, _Numbered]] = []
        rest: set[_Numbered] = set()
        for row in left:
            coefficient = next((c for n, c in row[0] if n == victim), 0)
            if coefficient > 0:
                lower.append((coefficient, row))
            elif coefficient < 0:
                upper.append((-coefficient, row))
            else:
                rest.add(row)
        if len(rest) + len(lower) * len(upper) > _MOST:
            return False
        rest.update(_combined(p, a, n, b) for p, a in lower for n, b in upper)
        left = rest


def _combined(p: int, lower: _Numbered, n: int, upper: _Numbered) -> _Numbered:
    """`n * lower + p * upper`, from which the product with coefficients `p` and `-n` is gone."""
    total = {number: n * c for number, c in lower[0]}
    for number, c in upper[0]:
        total[number] = total.get(number, 0) + p * c
    constant = n * lower[1] + p * upper[1]
    terms = [(number, c) for number, c in sorted(total.items()) if c]
    common = gcd(*(c for _, c in terms)) if terms else 0
    if common > 1:
        return tuple((number, c // common) for number, c in terms), constant // common
    return tuple(terms), constant
