"""What this thread or task is in the middle of: nothing, a function of a `then` or `map`, or the recording of a graph.

Running an op waits for, or changes the order of, work that the enclosing operation is just putting together, so inside
any of these `run`, `sync` and `await` are refused (rule reentrant-sync); inside a scope so is making memory (rule
capture), because a replay would not make it again. Other threads and other asyncio tasks are not concerned. A task that was
started inside of a phase is in it until it ends, not longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum

from tilecheck_runtime.errors import OpError


class Phase(Enum):
    """The value completes `inside ...`."""

    NONE = "nothing"
    FUNCTION = "a function that another op calls (`then`, `map`, `inspect`)"
    CAPTURE = "the capture of a graph"
    SCOPE = "a graph scope"


@dataclass(slots=True)
class _Entry:
    """One phase that was entered; contexts copied meanwhile keep referring to it, so it says itself when it is over."""

    phase: Phase
    outer: _Entry | None
    execution: object = None
    over: bool = False


_current: ContextVar[_Entry | None] = ContextVar("phase", default=None)
# The innermost phase that was entered, over or not; None where none was.
entered = _current.get


def _standing() -> _Entry | None:
    entry = _current.get()
    while entry is not None and entry.over:
        entry = entry.outer
    return entry


def _phase() -> Phase:
    entry = _standing()
    return Phase.NONE if entry is None else entry.phase


def execution() -> object:
    """The execution whose function this thread is in, None outside of one: what is queued next comes after all of it."""
    entry = _standing()
    return None if entry is None else entry.execution


@contextmanager
def inside(phase: Phase, execution: object = None) -> Iterator[None]:
    """Enter `phase`, of `execution`; the one before comes back at the end, whatever happens."""
    entry = _Entry(phase, _current.get(), execution)
    token = _current.set(entry)
    try:
        yield
    finally:
        entry.over = True
        _current.reset(token)


@contextmanager
def calling(execution: object) -> Iterator[None]:
    """Enter a user's function that `execution` calls; a capture around it stays one."""
    now = _phase()
    with inside(Phase.FUNCTION if now is Phase.NONE else now, execution):
        yield


def refuse_running(what: str) -> None:
    """Raise OpError (reentrant-sync) unless this thread is free to run an op."""
    now = _phase()
    if now is not Phase.NONE:
        way_out = {
            Phase.FUNCTION: "return the op instead: `then` runs it on the same stream",
            Phase.CAPTURE: "return the op instead: it is recorded with the others",
            Phase.SCOPE: "record it with `scope.record(op)`, or run it before the scope",
        }
        raise OpError(f"`{what}` inside {now.value}", way_out.get(now), rule="reentrant-sync")


def refuse_memory() -> None:
    """Raise OpError (capture) inside a graph scope."""
    if _phase() is Phase.SCOPE:
        raise OpError(
            "memory is made inside a graph scope, and a replay would not make it again",
            "make the tensor before the scope; the graph then owns it",
            rule="capture",
        )
