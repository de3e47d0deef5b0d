"""Which running ops are over once the host has waited for one of them.

An op ends after those that were put on its stream before it, and after those that touch the same elements, one of the
two writing: the run time orders device work by its data, whatever the streams. Waiting for a stream ends what is on it.

Invariant: an op that a variable still leads to is over only once it was waited for itself, or its stream was; a run time
counts it as running until then.

Silence: a stream that the function did not make may be any, so waiting for it counts as waiting for all, and an op on
such a stream counts as waited for with every other one.

Worked example. After `f(z.partition(8)).run(s); b = g(y.partition(8)).run(s)`, `b.wait()` ends both: `z` can be read.
With `.run()` twice it ends `b` alone, for the run time picks a stream for each.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilecheck.borrow.facts import Obj, Phase, State
from tilecheck.borrow.loans import LASTING, by_name, meets
from tilecheck.ir.instructions import Hold, Kind


def started(state: State, running: Obj, stream: Obj | None) -> None:
    """`running`, which holds what it uses already, was put on `stream`, None for one that the run time picks."""
    ahead = _ahead(state, running, stream)
    if ahead:
        state.behind[running] = state.behind.get(running, frozenset()) | ahead
    if stream is not None:
        state.on[running] = stream


def waited_for(state: State, ops: Iterable[Obj], stream: Obj | None = None) -> None:
    """The host has waited for `ops`; one that did not run yet was put on `stream` for that."""
    over: set[Obj] = set()
    for op in ops:
        phase = state.phase.get(op)
        if phase is None or phase in LASTING:
            continue
        ahead = _ahead(state, op, stream) if phase is Phase.BUILT else _before(state, op)
        over |= {op, *(ahead - by_name(state))}
    _end(state, over)


def waited_stream(state: State, stream: Obj) -> None:
    """The host has waited for what was put on `stream`."""
    over: set[Obj] = set()
    for op in _running(state):
        on = state.on.get(op)
        known = _apart(stream[0].kind, on[0].kind if on is not None else Kind.STREAM)
        if not known or on == stream:
            over |= {op, *(_before(state, op) - by_name(state))}
    _end(state, over)


def _apart(one: Kind, other: Kind) -> bool:
    """Whether different objects of these kinds are different streams: one made here is none that the caller has."""
    return {one, other} <= {Kind.STREAM, Kind.GIVEN_STREAM} and Kind.STREAM in (one, other)


def _running(state: State) -> list[Obj]:
    return [op for op, phase in state.phase.items() if phase is Phase.RUNNING]


def _before(state: State, op: Obj) -> frozenset[Obj]:
    return state.behind.get(op, frozenset())


def _ahead(state: State, op: Obj, stream: Obj | None) -> frozenset[Obj]:
    """The running ops that end before `op` if it is put on `stream` now."""
    running = frozenset(_running(state)) - {op}
    direct = _sharing(state, op, running)
    if stream is not None:
        direct |= {other for other in running if state.on.get(other) == stream}
    if direct == running:
        return running
    return direct.union(*(_before(state, other) for other in direct)) - {op}


def _sharing(state: State, op: Obj, others: frozenset[Obj]) -> frozenset[Obj]:
    """Those of `others` that are known to touch an element that `op` touches, one of the two writing."""
    if not others:
        return others
    mine = [(target, use.hold) for holder, target, use in state.held if holder == op]
    return frozenset(
        holder
        for holder, their, use in state.held
        if holder in others
        and any(Hold.EXCLUSIVE in (hold, use.hold) and meets(state, target, their) for target, hold in mine)
    )


def _end(state: State, over: set[Obj]) -> None:
    if not over:
        return
    state.phase = {op: phase for op, phase in state.phase.items() if op not in over}
    state.held = {entry for entry in state.held if entry[0] not in over}
    state.on = {op: stream for op, stream in state.on.items() if op not in over}
    state.behind = {op: rest for op, ahead in state.behind.items() if op not in over and (rest := ahead - over)}
