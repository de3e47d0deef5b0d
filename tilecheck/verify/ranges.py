"""How large a term can get, said in the extents and scalars of the launch.

`most` puts the last thread and the last block where the term has threads and blocks. It serves conditions: a cast to 32
bits keeps its value in every launch for which `most` of its argument is in range.

`modest` says whether a term fits into 64 bits whatever the launch, as far as constant bounds show.

Worked example: `blockIdx.x * blockDim.x + threadIdx.x` is at most `gridDim.x * blockDim.x - 1`, below 2**41.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import ONE, add, factors, linear_parts, mul, num, scale, sub, variable
from tilecheck.verify.run import Dims
from tilecheck.verify.scalars import HELD

# Integers in arrays, rounds of loops and what the walk lost are taken to be below this.
MODEST = 2**60
# How the names of symbols for elements end.
ELEMENT = "[..]"


Ranges = Mapping[Symbol, tuple[int, int]]


def fits(term: Term, ranges: Ranges = MappingProxyType({}), limits: tuple[int, int] = INT64) -> bool:
    """Whether `term` is in `limits` for any launch in which the symbols of `ranges` are in theirs."""
    if term.kind == "div" and term.parts[1].low is not None and term.parts[1].low >= 0 and limits == INT64:
        # No more than what is divided; by zero, which has no value, some number of 64 bits comes out.
        term = term.parts[0]
    low, high = _span(term, ranges, {})
    return low >= limits[0] and high <= limits[1]


def modest(term: Term) -> set[str] | None:
    """The scalars, and the one element that others are added to, which have to be below 2**60 for `term` to fit into 64
    bits; None if that is not enough.
    """
    large = [s for s in term.symbols if _is_large(s) or s in _shifted_elements(term)]
    ranges = {s: (-MODEST if s.low is None else max(-MODEST, s.low), MODEST) for s in large}
    if not fits(term, ranges):
        return None
    # The rounds of a loop are as many as the scalars in its bounds say.
    named = {s for s in closure(variable(s) for s in large) if s.taint is Taint.INPUT and _is_large(s)}
    return {s.name for s in (*named, *_shifted_elements(term))}


def unbounded_elements(term: Term) -> set[str]:
    """The elements of arrays of no known dtype that `fits` takes to be below 2**60 in `term`."""
    return {s.name for s in term.symbols if is_element(s.name) and (s.low is None or s.high is None)}


def is_element(name: str) -> bool:
    """Whether a symbol of this name stands for an element of an array."""
    return name.endswith(ELEMENT)


def _shifted_elements(term: Term) -> list[Symbol]:
    """The element of 64 bits in a sum in which no other is, and which is taken once."""
    const, parts = linear_parts(term)
    wide = [s for s in term.symbols if is_element(s.name) and s.high is not None and s.high > MODEST]
    once = [part.symbol for part, weight in parts if part.symbol in wide and abs(weight) == 1]
    return wide if len(wide) == len(once) == 1 and abs(const) < MODEST else []


def _is_large(symbol: Symbol) -> bool:
    counts = symbol.taint is Taint.INPUT or symbol.name.startswith("round")
    return counts and symbol.high is not None and symbol.high > MODEST


def _span(term: Term, ranges: Ranges, known: dict[Term, tuple[int, int]]) -> tuple[int, int]:
    """Constant bounds of `term`; what has none is below `MODEST`."""
    found = known.get(term)
    if found is None:
        found = known[term] = _bounds(term, ranges, known)
    return found


def _bounds(term: Term, ranges: Ranges, known: dict[Term, tuple[int, int]]) -> tuple[int, int]:
    low, high = term.low, term.high
    if term.symbol is not None and term.symbol in ranges:
        return ranges[term.symbol]
    if term.kind == "lin":
        below = above = term.const
        for part, weight in zip(term.parts, term.weights, strict=True):
            ends = [weight * end for end in _span(part, ranges, known)]
            below, above = below + min(ends), above + max(ends)
    elif term.kind == "mul":
        below, above = 1, 1
        for part in term.parts:
            small, large = _span(part, ranges, known)
            ends = [a * b for a in (below, above) for b in (small, large)]
            below, above = min(ends), max(ends)
    elif term.kind == "div":
        small, large = _span(term.parts[0], ranges, known)
        least = term.parts[1].low
        below, above = min(small, 0), max(large, 0)
        if least is None or least < 1:
            below, above = min(below, -above), max(above, -below)
    elif term.kind == "mod":
        small, large = _span(term.parts[1], ranges, known)
        below, above = min(small, 0), max(large, 0)
    elif term.kind == "ite":
        ends = [end for part in term.parts[1:] for end in _span(part, ranges, known)]
        below, above = min(ends), max(ends)
    else:
        below, above = -MODEST, MODEST
        return below if low is None else low, above if high is None else high
    return below if low is None else max(low, below), above if high is None else min(high, above)


def wrapped_arguments(symbols: Iterator[Symbol]) -> Iterator[tuple[Term, int, int]]:
    """The arguments of casts among `symbols` that may not fit, each with the range that they should fit in."""
    for symbol in symbols:
        applied = symbol.applied
        if applied is not None and applied.function.startswith(HELD) and symbol.low is not None and symbol.high:
            yield applied.arguments[0], symbol.low, symbol.high


def most(dims: Dims, term: Term) -> Term | None:
    """An upper bound of `term` over all threads, as a term of the launch; None if there is none to see.

    What is taken away from it and is never negative is left out, which makes the bound larger and easier to read. A cast
    inside counts as its argument, so the bound is a guess until the solver confirms what is made of it.
    """
    if term.kind == "ite":
        bounds = [most(dims, part) for part in term.parts[1:]]
        return bounds[0] if bounds[0] is bounds[1] else None
    const, parts = linear_parts(term)
    total = num(const)
    for part, weight in parts:
        if weight > 0:
            bound = _most_product(dims, part)
            if bound is None:
                return None
            total = add(total, scale(bound, weight))
        elif part.low is None:
            return None
        else:
            total = add(total, num(weight * part.low))
    const, parts = linear_parts(total)
    kept = [(part, weight) for part, weight in parts if weight > 0 or part.low is None or part.low < 0]
    total = num(const)
    for part, weight in kept:
        total = add(total, scale(part, weight))
    return total


def _most_product(dims: Dims, part: Term) -> Term | None:
    result = ONE
    for factor in factors(part)[1]:
        bound = _most_factor(dims, factor)
        if bound is None or (len(factors(part)[1]) > 1 and (factor.low is None or factor.low < 0)):
            return None
        result = _expanded(result, bound)
    return result


def _most_factor(dims: Dims, factor: Term) -> Term | None:
    if factor.symbol is None:
        return most(dims, factor) if factor.kind in ("lin", "mul") else _constant(factor)
    for position, extent in zip((*dims.thread, *dims.at), (*dims.block, *dims.grid), strict=True):
        if position is factor:
            return sub(extent, ONE)
    applied = factor.symbol.applied
    if applied is not None and applied.function.startswith(HELD):
        return most(dims, applied.arguments[0])
    if factor.symbol.level is Level.GRID and factor.symbol.taint is Taint.INPUT:
        return factor
    return _constant(factor)


def _constant(term: Term) -> Term | None:
    return num(term.high) if term.high is not None else None


def _expanded(left: Term, right: Term) -> Term:
    """`left * right` as a sum of products."""
    const, parts = linear_parts(left)
    total = scale(right, const)
    more, others = linear_parts(right)
    for part, weight in parts:
        total = add(total, scale(part, weight * more))
        for other, factor in others:
            total = add(total, scale(mul(part, other), weight * factor))
    return total
