"""Spin locks: what two threads do while they hold one lock never happens at the same time.

A thread takes the lock `(array, index)` where a compare-and-swap from 0, or an exchange with a value that is not 0,
returned 0; it gives the lock back by an exchange with 0. An access is kept by a lock if a fence stands between the taking and the
access, and another between the access and the giving back. A lock counts only if nothing else touches its array.

Worked example: after `while cuda.atomic.cas(m, 0, 0, 1) != 0: pass` and a `threadfence` the update `s[0] += 1` is kept by
the lock `(m, 0)`, if a `threadfence` and `cuda.atomic.exch(m, 0, 0)` follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import ZERO, eq, ne, num, value_of
from tilecheck.verify.run import Run, State, Taking
from tilecheck.verify.values import Access, Array, Held, Value, as_int

# What any integer type holds: more may be 0 to a narrow lock.
_MOST = 128


def note_atomic(run: Run, state: State, access: Access, old: Term, operands: Sequence[Value]) -> None:
    """An exchange or compare-and-swap: the taking of a lock, or its giving back."""
    values = [value_of(term) if (term := as_int(operand)) is not None else None for operand in operands]
    swaps = access.op in ("cas", "compare_and_swap") and values[:1] == [0]
    if values and values[-1] is not None and _MOST > values[-1] > 0 and (swaps or access.op == "exch"):
        run.takings[old] = Taking(access.array, access.index, values[-1])
        run.lock_nodes.add(access.node)
    elif access.op == "exch" and values == [0]:
        mine = [h for h in state.locks if h.array is access.array and h.index == access.index]
        if not mine:
            run.broken_locks.add(access.array)
        run.lock_nodes.add(access.node)
        state.locks -= set(mine)
        # An old value that was drawn before says no more who holds the lock.
        run.takings = {old: taking for old, taking in run.takings.items() if taking.array is not access.array}
        for held in mine:
            for earlier in run.accesses[max(held.at, state.sealed) :]:
                earlier.locks -= {h for h in earlier.locks if h.array is held.array and h.index == held.index}


def taken(run: Run, cond: Term) -> frozenset[Held]:
    """The locks that a thread has taken where `cond` is true."""
    found = set()
    for old, taking in run.takings.items():
        if cond is eq(old, ZERO) or cond is ne(old, num(taking.value)):
            found.add(Held(taking.array, taking.index, len(run.accesses), unlike=cond is not eq(old, ZERO)))
    return frozenset(found)


def fenced(run: Run, state: State, *, device: bool) -> None:
    """A fence: accesses up to here are out before a lock is given back, later ones come after it was taken."""
    near = [h for h in state.locks if device or h.array.space == "shared"]
    if len(near) == len(state.locks):
        state.sealed = len(run.accesses)
    others = state.locks - set(near)
    state.locks = others | {replace(h, fenced=True) for h in near}


def kept_apart(run: Run, first: Access, second: Access, *, one_block: bool) -> list[tuple[Held, Held]]:
    """The pairs of locks that keep two accesses, of `one_block` or of two, apart where their indices are the same."""
    pairs = [(a, b) for a in first.locks for b in second.locks if a.array is b.array]
    spaces = ("global", "shared") if one_block else ("global",)
    return [
        (a, b)
        for a, b in pairs
        if a.array.space in spaces
        and a.fenced
        and b.fenced
        and not (a.unlike or b.unlike)
        and _only_a_lock(run, a.array)
    ]


def _only_a_lock(run: Run, array: Array) -> bool:
    """Whether nothing but takings and givings back touch the lock, once a barrier has passed since it was cleared."""
    uses = [access for access in run.accesses if access.array is array]
    others = [access for access in uses if access.node not in run.lock_nodes]
    atomics = [access for access in uses if access.node in run.lock_nodes]
    return array not in run.broken_locks and all(_clears(access, atomics) for access in others)


def _clears(access: Access, atomics: Sequence[Access]) -> bool:
    if access.kind != "write" or access.array.space != "shared" or access.value is None:
        return False
    apart = all(not access.tags[Level.BLOCK].keys() & other.tags[Level.BLOCK].keys() for other in atomics)
    return as_int(access.value) is ZERO and apart
