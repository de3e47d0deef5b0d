"""Streams: queues of the device, and the policy that picks one for an op that names none.

By default four streams take turns, so that independent ops overlap. Dependent ones are ordered through their data
whatever stream they are on, so the policy never decides whether a program is right. A policy is any object with
`next_stream()`; it may be called from several threads at once.

    with tc.streams(tc.Single()):
        ...                          # everything in here on one stream, in order
    with tc.streams(tc.Single(tc.Stream(torch.cuda.current_stream()))):
        ...                          # in order with what torch does
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Protocol

from tilecheck_runtime import phase
from tilecheck_runtime.backends import default
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.flights import Flow

if TYPE_CHECKING:
    from tilecheck_runtime.execution import Execution

_numbers = count(1)
# A stream looks through its executions for dead ones when there are this many more than twice what it found alive.
SWEEP = 64


class Settles(Protocol):
    """Work on a stream that is no execution."""

    def settle(self) -> None:
        """End the borrows of everything that is over by now; waits for the rest."""
        ...


class Stream:
    """Work submitted to one stream runs in order. Any number may exist, at little cost.

    `Stream(other)` is the stream `other` of torch, CuPy, numba or anything else that has `__cuda_stream__`, or the driver's
    handle as an int: our work and that of the other library run in the order in which they were submitted. The other
    library's use of our memory is not seen. Raises UsageError for what is no stream of this GPU.
    """

    def __init__(self, other: object = None) -> None:
        self._queue = default().stream() if other is None else default().wrap(other)
        self._number = next(_numbers)
        self._executions: list[weakref.ref[Execution]] = []
        self._sweep_at = SWEEP
        self._settling: weakref.WeakSet[Settles] = weakref.WeakSet()
        self._lock = threading.Lock()
        line = self._queue.line()
        # That of the launches that go without an execution, where the device lets them.
        self._flow = None if line is None else Flow(self._number, line)
        if self._flow is not None:
            self._settling.add(self._flow)

    def _enter(self, execution: Execution) -> None:
        """Let `synchronize` end the borrows of `execution` too."""
        with self._lock:
            self._executions.append(weakref.ref(execution))
            if len(self._executions) > self._sweep_at:
                self._executions = [ref for ref in self._executions if ref() is not None]
                self._sweep_at = 2 * len(self._executions) + SWEEP

    def _settles(self, other: Settles) -> None:
        """Let `synchronize` end the borrows of `other` too."""
        with self._lock:
            self._settling.add(other)

    def synchronize(self) -> None:
        """Wait for everything submitted so far, as if each `Running` of it had been waited for. Errors stay with theirs."""
        phase.refuse_running("synchronize")
        with self._lock:
            executions = [execution for ref in self._executions if (execution := ref()) is not None]
            others = list(self._settling)
        self._queue.mark(()).wait()
        for execution in executions:
            if execution.over():
                execution.release()
        for other in others:
            other.settle()

    def __repr__(self) -> str:
        return f"<Stream {self._number}>"


class Policy(Protocol):
    """Who picks streams."""

    def next_stream(self) -> Stream: ...


class RoundRobin:
    """`size` streams take turns. A launch that comes again stays where it was: it could not overlap with itself."""

    def __init__(self, size: int = 4) -> None:
        if size < 1:
            raise UsageError(f"a round robin of {size} streams", "at least 1")
        self._streams = [Stream() for _ in range(size)]
        self._turns = count()

    def next_stream(self) -> Stream:
        """The next one in turn."""
        return self._streams[next(self._turns) % len(self._streams)]


class Single:
    """One stream for everything."""

    def __init__(self, stream: Stream | None = None) -> None:
        self._stream = Stream() if stream is None else stream

    def next_stream(self) -> Stream:
        """The one."""
        return self._stream


_standard = RoundRobin()
_policy: ContextVar[Policy] = ContextVar("policy", default=_standard)


@contextmanager
def streams(policy: Policy) -> Iterator[Policy]:
    """Let `policy` pick the streams within the block, in this thread or task."""
    if not callable(getattr(policy, "next_stream", None)):
        raise UsageError(f"a `{type(policy).__name__}` has no `next_stream()`", "see `tc.RoundRobin`")
    token = _policy.set(policy)
    try:
        yield policy
    finally:
        _policy.reset(token)


def next_stream() -> Stream:
    """The stream for an op that names none."""
    return _policy.get().next_stream()


def stays(stream: Stream) -> bool:
    """Whether the policy leaves a launch that was on `stream` and comes again there."""
    policy = _policy.get()
    return type(policy) is RoundRobin and stream in policy._streams
