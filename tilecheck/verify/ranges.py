"""How large a term can get, said in the extents and scalars of the launch.

`most` puts the last thread and the last block where the term has threads and blocks. It serves conditions: a cast to 32
bits keeps its value in every launch for which `most` of its argument is in range.

Worked example: `blockIdx.x * blockDim.x + threadIdx.x` is at most `gridDim.x * blockDim.x - 1`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_terms import ONE, add, factors, linear_parts, mul, num, scale, sub
from tilecheck.verify.run import Dims
from tilecheck.verify.scalars import HELD


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
