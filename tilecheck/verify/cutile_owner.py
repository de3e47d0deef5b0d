"""Whether the block that touches an element can be read off the element: then no two blocks touch one.

Tile kernels number their tiles in many ways (row by row, in bands, block by block of a persistent loop), and a solver for
nonlinear arithmetic takes long over any of them. All are mixed-radix numbers, so this asks for their digits instead. A term
is *agreed* if two blocks that touch one element must have the same value for it:

- the positions of the element, all that is the same for the whole launch, and whatever is computed from agreed terms;
- of an agreed sum, the only part that is not agreed yet;
- of an agreed `u * d + v` with 0 <= v < d for an agreed d, both u and v;
- x, if `x // d` and `x % d` are agreed for an agreed d >= 1;
- x, if `x // w`, `(x % w) // s` and `x % s` are agreed: x lies in one stretch of s numbers, and they differ modulo s.

If the ids of the block come out agreed, the two blocks are one. Invariant: every step is a theorem of the integers, and its
side conditions are shown by the solver for one thread at a time, so an answer is a proof.

    i * tm + e == i' * tm + e' with e, e' in [0, tm)  ->  i == i'
    i = first + p % size, j = (p % (8 * n)) // size, first = 8 * (p // (8 * n)), size = min(m - first, 8)  ->  p == p'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.symbolic.smt_bands import banded
from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_read import subterms
from tilecheck.symbolic.smt_terms import (
    ONE,
    add,
    disj,
    div,
    factors,
    ge,
    ge0,
    le,
    linear_parts,
    lt,
    mod,
    mul,
    num,
    product,
    scale,
    split,
)
from tilecheck.verify.condition import Condition, at_least, unique, words
from tilecheck.verify.pairs import about_one
from tilecheck.verify.run import Run
from tilecheck.verify.values import Access

_QUERY_MS = 300
_ROUNDS = 12
_MOST_CONDITIONS = 6


def conditions_apart(
    run: Run, first: Access, second: Access, likely: tuple[Condition, ...] = ()
) -> tuple[Condition, ...] | None:
    """The launch conditions under which no two blocks meet in these accesses; None if that cannot be shown.

    `likely` are those that accesses of the same array needed.
    """
    if _Digits(run, first, second, likely).same_block():
        return likely
    kept = list(unique(band_conditions(run, first)))[:_MOST_CONDITIONS]
    if not kept or not _Digits(run, first, second, kept).same_block():
        return None
    for candidate in tuple(kept):
        rest = [c for c in kept if c is not candidate]
        if _Digits(run, first, second, rest).same_block():
            kept = rest
    return tuple(kept)


class _Digits:
    """What two blocks agree on that touch one element."""

    def __init__(self, run: Run, first: Access, second: Access, assumed: Sequence[Condition]) -> None:
        self.run = run
        terms = [condition.term for condition in assumed]
        self.known = tuple([*terms, access.guard, *inside(access)] for access in (first, second))
        self.agreed: set[Term] = set()
        self.equal = list(zip(first.index, second.index, strict=True))
        self.done: set[tuple[Term, Term, Term]] = set()
        self.universe = [t for t in subterms([*first.index, *second.index]) if not t.boolean]

    def same_block(self) -> bool:
        """Whether the ids of the block are agreed."""
        blocks = [at for at in self.run.dims.at if at.kind != "const"]
        for _ in range(_ROUNDS):
            if all(self._is_agreed(at) for at in blocks):
                return True
            before = len(self.agreed), len(self.equal)
            for one, two in tuple(self.equal):
                self._last_part(one, two)
                self._digits(one, two)
            for term in tuple(self.agreed):
                self._factor(term)
            self._whole_numbers()
            if before == (len(self.agreed), len(self.equal)):
                return False
        return False

    def _is_agreed(self, term: Term) -> bool:
        if term.level is Level.GRID or term in self.agreed:
            return True
        return bool(term.parts) and all(self._is_agreed(part) for part in term.parts)

    def _agree(self, term: Term) -> None:
        if not self._is_agreed(term):
            self.agreed.add(term)
            self._equate(term, term)

    def _equate(self, one: Term, two: Term) -> None:
        if one.kind != "const" and (one, two) not in self.equal:
            self.equal.append((one, two))

    def _shown(self, *wrong: Term) -> bool:
        """Whether neither access can see any of `wrong` hold."""
        solver = self.run.solver
        return all(
            solver.refutes(about_one(self.run, [*known, disj(*wrong)]).formulas, _QUERY_MS) for known in self.known
        )

    def _within(self, one: Term, two: Term, limit: Term) -> bool:
        """Whether 0 <= `one` < `limit` in the first access, and `two` likewise in the second."""
        solver = self.run.solver
        pairs = zip((one, two), self.known, strict=True)
        return all(
            solver.refutes(about_one(self.run, [*known, disj(lt(v, num(0)), ge(v, limit))]).formulas, _QUERY_MS)
            for v, known in pairs
        )

    # ---- the steps

    def _last_part(self, one: Term, two: Term) -> None:
        if one is two:
            open_parts = [part for part, _ in linear_parts(one)[1] if not self._is_agreed(part)]
            if len(open_parts) == 1:
                self._agree(open_parts[0])

    def _digits(self, one: Term, two: Term) -> None:
        for divisor in self._divisors(one):
            if (one, two, divisor) in self.done:
                continue
            (high, low), (other_high, other_low) = split(one, divisor), split(two, divisor)
            if high.kind == "const" and other_high.kind == "const":
                continue
            if self._is_agreed(low) and low is other_low:
                continue
            if self._within(low, other_low, divisor):
                self.done.add((one, two, divisor))
                self._equate(high, other_high)
                self._equate(low, other_low)
                for part, other in ((high, other_high), (low, other_low)):
                    if part is other:
                        self._agree(part)

    def _divisors(self, term: Term) -> Iterator[Term]:
        """Agreed factors of the parts of a sum, the largest products first."""
        for part, weight in linear_parts(term)[1]:
            if self._is_agreed(part):
                continue
            shared = [factor for factor in factors(part)[1] if part.kind == "mul" and self._is_agreed(factor)]
            if shared:
                yield scale(product(shared), abs(weight))
            if abs(weight) > 1:
                yield num(abs(weight))

    def _factor(self, term: Term) -> None:
        """Of an agreed product, the only factor that is not agreed."""
        if term.kind != "mul":
            return
        rest = [factor for factor in term.parts if not self._is_agreed(factor)]
        others = product([factor for factor in term.parts if self._is_agreed(factor)])
        if len(rest) == 1 and self._shown(lt(others, ONE)):
            self._agree(rest[0])

    def _whole_numbers(self) -> None:
        for quotient in self.universe:
            if quotient.kind != "div" or not self._is_agreed(quotient):
                continue
            value, divisor = quotient.parts
            if self._is_agreed(value) or not self._is_agreed(divisor):
                continue
            if self._is_agreed(mod(value, divisor)) and self._shown(lt(divisor, ONE)):
                self._agree(value)
            # The stretch of `divisor` numbers in which `whole` lies, where `value` is what is left of it.
            if value.kind == "mod":
                whole, window = value.parts
                same = (div(whole, window), mod(whole, divisor), window)
                if all(map(self._is_agreed, same)) and self._shown(lt(divisor, ONE), lt(window, ONE)):
                    self._agree(whole)


def inside(access: Access) -> list[Term]:
    """That the element is one of the array."""
    if len(access.index) != len(access.array.extents):
        return []
    return [
        part for x, extent in zip(access.index, access.array.extents, strict=True) for part in (ge0(x), lt(x, extent))
    ]


def band_conditions(run: Run, access: Access) -> Iterator[Condition]:
    """That group sizes are positive, and that the grid has no block beyond the last band of tiles, which would find a
    band of no rows.
    """
    terms = list(subterms(access.index))
    for found in banded(terms):
        band, number = found.band, found.number
        if band.kind == "sym" and (band.low is None or band.low < 1):
            yield at_least(band, ONE)
        grid = run.dims.grid[run.dims.at.index(number)] if number in run.dims.at else ONE
        if grid.kind != "const" and mul(found.rows, found.columns).level is Level.GRID:
            text = f"{words(grid)} <= {counted(found.rows)} * {counted(found.columns)}"
            yield Condition(text, le(grid, mul(found.rows, found.columns)))


def counted(count: Term) -> str:
    """The text of a number of tiles: as a quotient that is rounded up: `(x + d - 1) // d` for `(x - 1) // d + 1`."""
    const, parts = linear_parts(count)
    if const == 1 and len(parts) == 1 and parts[0][1] == 1 and parts[0][0].kind == "div":
        value, divisor = parts[0][0].parts
        if divisor.kind == "const":
            return f"(({words(add(value, divisor))}) // {words(divisor)})"
        return f"(({words(add(value, ONE))} + {words(divisor)} - 1) // {words(divisor)})"
    return words(count) if len(parts) < 2 and const == 0 else f"({words(count)})"
