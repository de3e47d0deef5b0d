"""Launch conditions: the weakest readable fact about a launch that excuses a suspect.

Candidates come from the vocabulary, single ones before pairs. One is accepted only if the suspect cannot happen under it
and launches with several threads and blocks still reach the accesses.

Worked example: `if i < c.size: c[i] = a[i]` leaves a[i] open; `a.size >= c.size` closes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice, product

from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.symbolic.smt_terms import (
    ge,
    mul,
    neg,
    num,
    value_of,
)
from tilecheck.verify.choices import outcomes, plain
from tilecheck.verify.condition import Condition, at_least, unique
from tilecheck.verify.cutile_owner import band_conditions
from tilecheck.verify.pairs import about_one
from tilecheck.verify.run import Run
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.verdict import Property
from tilecheck.verify.vocabulary import cover, for_barriers, for_bounds, for_casts, for_races

_MOST_SINGLE = 60
_PAIRED = 8
_WITH_CASTS = 16
_QUERY_MS = 400


class Conditions:
    """The conditions found so far for one kernel, each once."""

    def __init__(self, given: Sequence[Term] = ()) -> None:
        self.given = tuple(given)
        self.terms: list[Term] = list(given)
        self.found: list[Condition] = []

    def try_on(self, run: Run, suspect: Suspect) -> None:
        """Excuse `suspect` by a condition of the vocabulary, if one does."""
        self.excuse(suspect, find(run, suspect, self.terms))

    def excuse(self, suspect: Suspect, conditions: Sequence[Condition]) -> None:
        """Assume `conditions` from now on, because they excuse `suspect`; none excuse nothing."""
        for condition in conditions:
            suspect.standing = Standing.EXCUSED
            suspect.conditions = (*suspect.conditions, condition.text)
            if condition not in self.found:
                self.terms.append(condition.term)
                self.found.append(condition)

    def settle(self, run: Run, suspect: Suspect, formulas: Sequence[Term]) -> None:
        """Say in `suspect`, which cannot happen under the conditions found, those that are needed for it."""
        suspect.standing = Standing.EXCUSED
        suspect.conditions = tuple(c.text for c in fewest(run, formulas, self.found, self.given))


def full_block(run: Run, suspect: Suspect, found: Sequence[Condition]) -> tuple[Condition, ...]:
    """That the block has a thread for every element of the suspect's array, its last axis along x, or as many as `found`
    lets it have; () if the block is known or the array's extents are not.
    """
    if suspect.array is None:
        return ()
    extents = [value_of(extent) for extent in reversed(suspect.array.extents)]
    pairs = [(block, extent) for block, extent in zip(run.dims.block, extents, strict=False) if block.kind != "const"]
    if len(extents) > len(run.dims.block) or len(pairs) < len(extents):
        return ()
    wanted = [(block, min(extent, _most(block, found) or extent)) for block, extent in pairs if extent is not None]
    return tuple(at_least(block, num(threads)) for block, threads in wanted if threads > 1)


def _most(block: Term, found: Sequence[Condition]) -> int | None:
    """The number in a condition `block <= number`."""
    for condition in found:
        inner = condition.term.parts[0] if condition.term.kind == "ge" else None
        if inner is not None and inner.kind == "lin" and inner.parts == (block,) and inner.weights == (-1,):
            return inner.const
    return None


def _can_be_said(condition: Condition) -> bool:
    """Whether a condition speaks of what a launch shows, not of functions that stand for what is not followed."""
    return all(symbol.applied is None for symbol in condition.term.symbols)


def find(run: Run, suspect: Suspect, assumed: Sequence[Term]) -> tuple[Condition, ...]:
    """One or two conditions that excuse the suspect, () if there are none."""
    assert suspect.question is not None
    vocabulary = {Property.IN_BOUNDS: for_bounds, Property.RACE_FREE: for_races}.get(suspect.property, for_barriers)
    casts = list(unique(for_casts(run, suspect)))
    others = list(islice(filter(_can_be_said, unique(vocabulary(run, suspect))), _MOST_SINGLE))
    clear = [condition for condition in others if plain(condition)]
    formulas = [*suspect.question.formulas, *assumed]
    bands: tuple[Condition, ...] = ()
    if run.kernel.track == "cutile" and suspect.first is not None:
        bands = tuple(c for c in unique(band_conditions(run, suspect.first)) if c.term not in assumed)
    # A cast that may not fit comes first: it would leave only coarser conditions for the rest.
    attempts: Iterator[tuple[Condition, ...]] = chain(
        ((condition,) for condition in casts),
        combinations(casts[:_PAIRED], 2),
        product(casts, clear[:_WITH_CASTS]),
        chain.from_iterable(outcomes(condition) for condition in others),
        combinations(clear[:_PAIRED], 2),
    )
    if bands:
        # Without them a band of tiles may be empty, and nothing is known of a place in it.
        attempts = chain((bands,), ((*bands, condition) for condition in clear))
    for chosen in attempts:
        terms = [condition.term for condition in chosen]
        if run.solver.refutes([*formulas, *terms], _QUERY_MS) and leaves_room(run, suspect, assumed, chosen):
            return fewest(run, suspect.question.formulas, chosen, assumed)
    return ()


def fewest(
    run: Run, formulas: Sequence[Term], conditions: Sequence[Condition], assumed: Sequence[Term] = ()
) -> tuple[Condition, ...]:
    """Those of `conditions`, which refute `formulas` together, that are needed for it."""
    kept = list(conditions)
    for condition in conditions if len(kept) > 1 else ():
        rest = [other for other in kept if other is not condition]
        if run.solver.refutes([*formulas, *assumed, *(other.term for other in rest)], _QUERY_MS):
            kept = rest
    return tuple(kept)


def strongest(run: Run, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """`conditions` without those that follow from the others: of `b <= 64` and `b <= 16` the second."""
    kept = list(conditions)
    for condition in conditions if len(kept) > 1 else ():
        rest = [other for other in kept if other is not condition]
        if run.solver.refutes(about_one(run, [neg(condition.term), *(c.term for c in rest)]).formulas, _QUERY_MS):
            kept = rest
    return tuple(kept)


def barrier_hint(run: Run, suspect: Suspect) -> str | None:
    """The condition under which a divergent barrier would be met by all: part of the advice, never an excuse."""
    assert suspect.question is not None
    try:
        for condition in unique(chain(for_barriers(run, suspect), cover(run, suspect))):
            if run.solver.refutes([*suspect.question.formulas, condition.term], _QUERY_MS):
                return condition.text
    except OutOfBudget:
        return None
    return None


def leaves_room(run: Run, suspect: Suspect, assumed: Sequence[Term], conditions: Sequence[Condition]) -> bool:
    """Whether launches of several threads and blocks still reach the accesses."""
    dims = run.dims
    room: list[Term] = [*assumed, *(c.term for c in conditions)]
    if any(t.kind != "const" for t in dims.block):
        room.append(ge(dims.threads, num(2)))
    if any(t.kind != "const" for t in dims.grid):
        blocks = mul(mul(dims.grid[0], dims.grid[1]), dims.grid[2])
        room.append(ge(blocks, num(2)))
    guards = [access.guard for access in (suspect.first, suspect.second) if access is not None]
    guards = guards or ([suspect.guard] if suspect.guard is not None else [])
    return all(not run.solver.refutes(about_one(run, [*room, guard]).formulas, _QUERY_MS) for guard in guards)
