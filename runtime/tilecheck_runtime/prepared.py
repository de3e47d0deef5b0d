"""Prepared launches: everything checked and packed once, then repeated at the cost of the driver's own call.

A prepared launch holds its arguments as a graph does: as long as it exists, what the kernel writes cannot be taken over or
written by anybody else, and nothing it uses can be moved; reading in between is fine once `wait` has returned. That is
why nothing has to be checked again when it is repeated, and why it needs no order against other streams.

    again = saxpy(z.partition(1024), x, y, 2.0).prepare()
    for _ in range(1000):
        again()
    again.wait()
"""

from __future__ import annotations

from typing import Any

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Launch
from tilecheck_runtime.execution import Execution, Recording
from tilecheck_runtime.graph import record
from tilecheck_runtime.ledger import LOCK, State, release
from tilecheck_runtime.stream import Stream, next_stream
from tilecheck_runtime.unique import Unique


class Prepared(Unique):
    """One kernel launch, ready to be repeated on one stream."""

    def __init__(self, op: Any, stream: Stream | None) -> None:
        phase.refuse_running("prepare")
        self.stream = next_stream() if stream is None else stream
        recording = Recording(self.stream, allocates=False)
        record(op, recording)
        self._loans = tuple(recording.loans)
        self._kept = recording.kept
        (work,) = recording.work
        assert isinstance(work, Launch)
        self._name = work.kernel
        with LOCK:
            # What runs on these bytes now comes first.
            earlier = {
                other.owner
                for loan in self._loans
                for other in loan.ledger.live(loan.region)
                if other.state is State.RUNNING and (other.exclusive or loan.exclusive)
            }
            for loan in self._loans:
                loan.state, loan.owner = State.CAPTURED, None
        for execution in earlier:
            if isinstance(execution, Execution):
                execution.event().wait()
        self._repeat = self.stream._queue.repeat(work, self._kept)

    def __call__(self) -> None:
        """Submit the kernel once more, behind its earlier rounds."""
        self._repeat()

    def wait(self) -> None:
        """Block until every round is over. Raises what a round failed with."""
        self._repeat.wait()

    def __del__(self) -> None:
        if hasattr(self, "_repeat"):
            self._repeat.close()
        release(getattr(self, "_loans", ()))

    def __repr__(self) -> str:
        return f"<prepared launch of `{self._name}` on {self.stream}>"
