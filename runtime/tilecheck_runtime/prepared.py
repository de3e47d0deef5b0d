"""Prepared launches: everything checked and packed once, then repeated at the cost of the driver's own call.

A prepared launch holds its arguments as a graph does: as long as it exists, what the kernel writes cannot be taken over or
written by anybody else, and nothing it uses can be moved. The first round after the start or after a `wait` takes the
borrows for all rounds up to the next `wait`: it is refused while somebody else holds the arguments, and it comes after what
runs on them. Until that `wait` nobody else, ops included, may read what the kernel writes or write what it reads
(use-in-flight). That is why a round itself looks at nothing and needs no order against other streams.

    again = saxpy(z.partition(1024), x, y, 2.0).prepare()
    for _ in range(1000):
        again()
    again.wait()
"""

from __future__ import annotations

from typing import Any

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Launch
from tilecheck_runtime.errors import TilecheckError
from tilecheck_runtime.execution import Execution, Recording
from tilecheck_runtime.graph import record
from tilecheck_runtime.ledger import LOCK, State, again, before, grant, release
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
        self._set(State.CAPTURED)
        self._flying = False
        self._repeat = self.stream._queue.repeat(work, self._kept)

    def __call__(self) -> None:
        """Submit the kernel once more, behind its earlier rounds.

        Raises BorrowError for the first round since a `wait`, if somebody holds the arguments.
        """
        if not self._flying:
            self._take_off()
        self._repeat()

    def wait(self) -> None:
        """Block until every round is over, and let others use the arguments. Raises what a round failed with."""
        phase.refuse_running("wait")
        try:
            self._repeat.wait()
        except TilecheckError:
            # The rounds are over, whatever came of them; an interrupted wait says nothing about them.
            self._land()
            raise
        self._land()

    def _take_off(self) -> None:
        phase.refuse_running("a prepared launch")
        with LOCK:
            grant(again(self._loans), f"`{self._name}`", in_order=True)
            earlier = before(self._loans, self)
            self._set(State.REPEATING)
            self._flying = True
        try:
            for execution in earlier:
                if isinstance(execution, Execution):
                    execution.event().wait()
        except BaseException:
            self._land()
            raise

    def _land(self) -> None:
        self._flying = False
        self._set(State.CAPTURED)

    def _set(self, state: State) -> None:
        with LOCK:
            for loan in self._loans:
                loan.state, loan.owner = state, None

    def __del__(self) -> None:
        loans = getattr(self, "_loans", ())
        if getattr(self, "_flying", False):
            self._repeat.close(lambda: release(loans))
        else:
            release(loans)

    def __repr__(self) -> str:
        return f"<prepared launch of `{self._name}` on {self.stream}>"
