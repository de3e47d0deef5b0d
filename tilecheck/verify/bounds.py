"""Bounds: is every position within its extent, for every thread that gets there?

A literal negative index counts from the end and must reach the array; any other negative index is a fault, although
numba wraps it once: it reads somebody else's element.

Worked example: `if i < n: c[i] = 0` leaves `n <= c.size` open, which `conditions.py` turns into a launch condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilecheck.ir.kernel import Node
from tilecheck.symbolic.smt_nodes import Taint, Term
from tilecheck.symbolic.smt_terms import FALSE, conj, disj, ge0, lt, neg
from tilecheck.verify.pairs import Question, about_one
from tilecheck.verify.races import launch_symbols
from tilecheck.verify.run import Run
from tilecheck.verify.suspects import Excuses, Standing, Suspect, classify
from tilecheck.verify.values import Access, Array, Check
from tilecheck.verify.verdict import Property

_BATCH = 12


@dataclass(frozen=True, slots=True)
class Position:
    """One position of one access that has to be within its extent."""

    array: Array
    check: Check
    guard: Term
    node: Node
    access: Access | None

    @property
    def outside(self) -> Term:
        return neg(conj(ge0(self.check.position), lt(self.check.position, self.check.length)))

    @property
    def violated(self) -> Term:
        return conj(self.guard, self.outside)


def positions(run: Run) -> Iterator[Position]:
    """Every position to check that constants do not clear, each once."""
    seen: set[tuple[object, ...]] = set()
    found = [(a.array, c, a.guard, a.node, a) for a in run.accesses if not a.again for c in a.checks]
    views = [(array, c, guard, node, None) for array, checks, guard, node in run.view_checks for c in checks]
    for array, check, guard, node, access in [*found, *views]:
        key = (array, check.position, check.length, guard)
        position = Position(array, check, guard, node, access)
        if key not in seen and position.violated is not FALSE:
            seen.add(key)
            yield position


def suspects(run: Run, excuses: Excuses) -> Iterator[Suspect]:
    """The positions that could not be cleared."""
    everything = list(positions(run))
    for start in range(0, len(everything), _BATCH):
        chunk = everything[start : start + _BATCH]
        together = about_one(run, [*excuses.terms, disj(*(p.violated for p in chunk))])
        if run.solver.refutes(together.formulas):
            continue
        for position in chunk:
            suspect = judge(run, position, excuses)
            if suspect is not None:
                yield suspect


def question_of(run: Run, position: Position, assumed: Sequence[Term]) -> Question:
    return about_one(run, [*assumed, position.guard, position.outside])


def judge(run: Run, position: Position, excuses: Excuses) -> Suspect | None:
    question = question_of(run, position, excuses.terms)
    if run.solver.refutes(question.formulas, exact_bits=True):
        return None
    suspect = Suspect(
        Property.IN_BOUNDS,
        "out-of-bounds",
        Standing.UNKNOWN,
        position.node,
        "",
        position.array,
        position.access,
        question=question,
    )
    suspect.check = position.check
    suspect.guard = position.guard
    suspect.model = run.solver.model(question.formulas, launch_symbols(run))
    if suspect.model is None:
        suspect.reason = "the solver gave up on this index"
        return suspect
    accesses = (position.access,) if position.access is not None else ()
    suspect.standing, suspect.reason = classify(run, accesses, question)
    if suspect.standing is not Standing.UNKNOWN or Taint.HAVOC in question.taints():
        excuses.try_on(run, suspect)
    return suspect
