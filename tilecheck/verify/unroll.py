"""Unrolling of loops whose control is constant.

Exact, and therefore preferred where a barrier in the body makes rounds meet. A `while` is tried round by round and
given up (with everything it noted) when its condition does not become a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilecheck.ir.kernel import For, Node, While
from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_terms import FALSE, TRUE, disj, num, value_of
from tilecheck.verify import phases, told
from tilecheck.verify.expressions import truth_at
from tilecheck.verify.run import Frame, Leave, Run, State
from tilecheck.verify.values import Scalar, Value, merge

MOST_ROUNDS = 70
MOST_ACCESSES = 900

Execute = Callable[[Run, State, Sequence[Node]], None]


def unrolled(run: Run, state: State, node: For | While, bounds: tuple[Term, Term, Term], execute: Execute) -> bool:
    """Walk the loop round by round if that is possible; False leaves everything as it was."""
    kept, start = run.snapshot(), state.fork()
    path = state.path
    frame = Frame(len(path), True)
    positions = _positions(bounds) if isinstance(node, For) else None
    if isinstance(node, For) and positions is None:
        return False
    run.frames.append(frame)
    done = False
    for count in range(MOST_ROUNDS + 1):
        if state.dead or (positions is not None and count == len(positions)):
            done = True
            break
        if len(run.accesses) - kept.noted[0] > MOST_ACCESSES or count == MOST_ROUNDS:
            break
        if isinstance(node, While):
            cond = truth_at(run, state, node.cond)
            if cond is FALSE:
                done = True
                break
            if cond is not TRUE:
                break
        elif positions is not None:
            state.env[node.target] = Scalar(num(positions[count]))
        execute(run, state, node.body)
        state.path = path
        rejoin(run, state, frame.continues)
        frame.continues = []
    run.frames.pop()
    if not done:
        run.restore(kept)
        state.become(start)
        return False
    rejoin(run, state, frame.breaks)
    return True


def _positions(bounds: tuple[Term, Term, Term]) -> range | None:
    values = [value_of(bound) for bound in bounds]
    if values[0] is None or values[1] is None or not values[2]:
        return None
    positions = range(values[0], values[1], values[2])
    return positions if len(positions) <= MOST_ROUNDS else None


def rejoin(run: Run, state: State, leaves: Sequence[Leave]) -> None:
    """Merge the paths that jumped here into `state`."""
    if leaves:
        gather(run, state, leaves, fell=not state.dead)
        told.forget_all(state)
    for leave in reversed(leaves):
        if state.dead:
            state.env, state.live, state.tags = dict(leave.env), leave.cond, leave.tags
            continue
        names = {**leave.env, **state.env}
        merged: dict[str, Value] = {}
        for name in names:
            value = merge(leave.cond, leave.env.get(name), state.env.get(name))
            if value is not None:
                merged[name] = value
        state.env = merged
        state.tags = phases.merged(leave.cond, leave.tags, state.tags)
        state.live = disj(state.live, leave.cond)


def gather(run: Run, state: State, leaves: Sequence[Leave], *, fell: bool) -> None:
    """What is known of memory and locks where all who returned go on, with those who came to the end if any `fell`."""
    ends: list[State | Leave] = [*leaves, *([state] if fell else [])]
    versions = {end.version for end in ends}
    state.dirty = frozenset().union(*(end.dirty for end in ends))
    state.locks = frozenset.intersection(*(end.locks for end in ends))
    state.sealed = min(end.sealed for end in ends)
    state.version = ends[0].version if len(versions) == 1 else run.new_version()
