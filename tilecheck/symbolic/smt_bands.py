"""Tiles numbered in bands, the order in which matrix products visit their output so that blocks share what they load.

A band is `band` rows of tiles, the last one may have fewer. Number p of `rows * columns` tiles is

    q = p // (band * columns)             the band
    size = min(rows - q * band, band)     its rows
    row = q * band + p % size             (or (p % (band * columns)) % size)
    column = p % (band * columns) // size

What the general lemmas do not show, and this module states: with band, columns >= 1 and 0 <= p < rows * columns, a band
has a row (size >= 1) and the column exists (column < columns). Proof: q * band * columns <= p < rows * columns, so
q * band < rows; and p % (band * columns) < size * columns, since it is below band * columns and below
(rows - q * band) * columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_terms import (
    ONE,
    ZERO,
    add,
    conj,
    div,
    ge,
    ge0,
    implies,
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


@dataclass(frozen=True, slots=True)
class Banded:
    """A numbering in bands: the number, the rows of a full band and of this one, and all rows and columns."""

    number: Term
    band: Term
    size: Term
    rows: Term
    columns: Term
    which: Term


def banded(terms: Iterable[Term]) -> Iterator[Banded]:
    """The numberings in bands that `terms`, with their subterms, make use of."""
    found = list(terms)
    quotients = {t for t in found if t.kind == "div"}
    for size in found:
        if size.kind != "ite":
            continue
        for branch, band in (size.parts[1:], size.parts[:0:-1]):
            for which, factor in _taken_away(branch):
                if factor is not band or which not in quotients:
                    continue
                rows = add(branch, mul(band, which))
                columns, rest = split(which.parts[1], band)
                if rest is ZERO and which not in _parts(rows):
                    yield Banded(which.parts[0], band, size, rows, columns, which)


def lemmas_of(terms: Iterable[Term]) -> list[Term]:
    """What is true of every numbering in bands among `terms`."""
    made: list[Term] = []
    for found in banded(terms):
        left = add(found.rows, scale(mul(found.band, found.which), -1))
        column = div(mod(found.number, mul(found.band, found.columns)), found.size)
        premise = conj(
            ge(found.band, ONE),
            ge(found.columns, ONE),
            ge0(found.number),
            lt(found.number, mul(found.rows, found.columns)),
            le(found.size, found.band),
            le(found.size, left),
        )
        smallest = conj(ge(found.size, ONE), lt(column, found.columns))
        made.append(implies(premise, smallest))
    return made


def _taken_away(branch: Term) -> Iterator[tuple[Term, Term]]:
    """The quotients that are taken from the sum `branch`, each with what it is multiplied with there."""
    for part, weight in linear_parts(branch)[1] if branch.kind == "lin" else ():
        if weight < 0 and part.kind == "div":
            yield part, num(-weight)
        for which in part.parts if weight < 0 and part.kind == "mul" else ():
            if which.kind == "div":
                others = list(part.parts)
                others.remove(which)
                yield which, scale(product(others), -weight)


def _parts(term: Term) -> list[Term]:
    return [part for part, _ in linear_parts(term)[1]]
