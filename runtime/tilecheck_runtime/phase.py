"""What this thread is in the middle of: nothing, a function of a `then` or `map`, or the recording of a graph.

Running an op waits for, or changes the order of, work that the enclosing operation is just putting together, so inside
any of these `run`, `sync` and `await` are refused (rule reentrant-sync); inside a scope so is making memory (rule
capture), because a replay would not make it again. Other threads are not concerned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from tilecheck_runtime.errors import OpError


class Phase(Enum):
    """The value completes `inside ...`."""

    NONE = "nothing"
    FUNCTION = "a function that another op calls (`then`, `map`, `inspect`)"
    CAPTURE = "the capture of a graph"
    SCOPE = "a graph scope"


class _Current(threading.local):
    phase: Phase = Phase.NONE


_current = _Current()


@contextmanager
def inside(phase: Phase) -> Iterator[None]:
    """Enter `phase`; the one before comes back at the end, whatever happens."""
    before, _current.phase = _current.phase, phase
    try:
        yield
    finally:
        _current.phase = before


@contextmanager
def calling() -> Iterator[None]:
    """Enter a user's function; a capture around it stays one."""
    with inside(Phase.FUNCTION if _current.phase is Phase.NONE else _current.phase):
        yield


def refuse_running(what: str) -> None:
    """Raise OpError (reentrant-sync) unless this thread is free to run an op."""
    if _current.phase is not Phase.NONE:
        way_out = {
            Phase.FUNCTION: "return the op instead: `then` runs it on the same stream",
            Phase.CAPTURE: "return the op instead: it is recorded with the others",
            Phase.SCOPE: "record it with `scope.record(op)`, or run it before the scope",
        }
        raise OpError(f"`{what}` inside {_current.phase.value}", way_out.get(_current.phase), rule="reentrant-sync")


def refuse_memory() -> None:
    """Raise OpError (capture) inside a graph scope."""
    if _current.phase is Phase.SCOPE:
        raise OpError(
            "memory is made inside a graph scope, and a replay would not make it again",
            "make the tensor before the scope; the graph then owns it",
            rule="capture",
        )
