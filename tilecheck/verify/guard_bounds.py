"""The exact bound that a guard gives a position, as a launch condition.

Where a guard keeps what a position adds up below something of the launch, the length of the array must exceed what the
position comes to there, and no more: a condition that asks for more would refuse launches that are fine.

Invariant: every candidate speaks of the launch alone. Whether it is enough is for the solver to say.

Worked example: `y[i]` under `i < x.size // 2` gives `y.size >= x.size // 2`; `x[i // 2]` under `i < y.size` gives
`2 * x.size >= y.size`; `w[k + w.size // 2]` for `k` up to `w.size // 2` needs `w.size % 2 == 1`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_read import subterms
from tilecheck.symbolic.smt_terms import ONE, add, conjuncts, eq, linear_parts, mod, num, scale, total
from tilecheck.verify.condition import Condition, at_least, words

# The largest divisor whose remainders are told apart.
_MOST_PARTS = 4


def by_guard(length: Term, position: Term, guard: Term) -> Iterator[Condition]:
    """That `length` exceeds the most that `position` comes to under one part of `guard`."""
    for most, divisor in _most(position, guard):
        yield at_least(scale(length, divisor), add(most, ONE))
    for term in subterms([position]):
        parts = term.parts[1].const if term.kind == "div" and term.parts[1].kind == "const" else 0
        if parts > 1 and term.level is Level.GRID and term.parts[0].symbol is not None:
            yield at_least(scale(length, parts), term.parts[0])


def by_remainder(length: Term, position: Term, guard: Term) -> Iterator[Condition]:
    """That `length` leaves a certain remainder, where a part of it is taken to find the place."""
    for term in subterms([position, guard]):
        if term.kind != "div" or term.parts[0] is not length or term.parts[1].kind != "const":
            continue
        parts = term.parts[1].const
        if 2 <= parts <= _MOST_PARTS:
            for rest in (*range(1, parts), 0):
                yield Condition(f"{words(length)} % {parts} == {rest}", eq(mod(length, num(parts)), num(rest)))


def _most(position: Term, guard: Term) -> Iterator[tuple[Term, int]]:
    """Bounds of `position`, each as what it times a divisor is at most."""
    position, divisor = _undivided(position)
    moving, still = _split(position)
    if not moving:
        return
    for part in conjuncts(guard):
        if part.kind != "ge":
            continue
        kept, room = _split(part.parts[0])
        # `room >= sum(-kept)`, and the position moves with a multiple of that sum.
        times = _multiple(moving, kept)
        if times is not None:
            yield add(scale(room, times), still), divisor


def _undivided(position: Term) -> tuple[Term, int]:
    """What `position` times a divisor is at most: its one quotient by a constant, multiplied out."""
    const, parts = linear_parts(position)
    quotients = [part for part, weight in parts if part.kind == "div" and weight == 1 and part.level is not Level.GRID]
    if len(quotients) != 1 or quotients[0].parts[1].kind != "const" or quotients[0].parts[1].const <= 1:
        return position, 1
    inner, divisor = quotients[0].parts[0], quotients[0].parts[1].const
    rest = [num(const), *(scale(part, weight) for part, weight in parts if part is not quotients[0])]
    return add(scale(total(rest), divisor), inner), divisor


def _split(term: Term) -> tuple[dict[Term, int], Term]:
    """The summands that differ between threads, with their weights, and the sum of the rest."""
    const, parts = linear_parts(term)
    moving = {part: weight for part, weight in parts if part.level is not Level.GRID}
    return moving, total([num(const), *(scale(part, w) for part, w in parts if part.level is Level.GRID)])


def _multiple(moving: dict[Term, int], kept: dict[Term, int]) -> int | None:
    """How many times `-kept` is `moving`, None if it is no whole number of times."""
    if moving.keys() != kept.keys():
        return None
    times = {divmod(weight, -kept[part]) for part, weight in moving.items()}
    if len(times) != 1:
        return None
    ((quotient, rest),) = times
    return quotient if rest == 0 and quotient > 0 else None
