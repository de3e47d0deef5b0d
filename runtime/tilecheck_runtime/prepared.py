"""Prepared work: a launch or a graph, checked and packed once, then repeated at the cost of the driver's own call.

A prepared launch holds its arguments as a graph does: as long as it exists, what the kernel writes cannot be taken over or
written by anybody else, and nothing it uses can be moved. The first round after the start or after a `wait` takes the
borrows for all rounds up to the next `wait`: it is refused while somebody else holds the arguments, and it comes after what
runs on them. Until that `wait` nobody else, ops included, may read what the kernel writes or write what it reads
(use-in-flight). That is why a round itself looks at nothing and needs no order against other streams.

    again = saxpy(z.partition(1024), x, y, 2.0).prepare()
    for _ in range(1000):
        again()
    again.wait()

`graph.prepare()` is the same for the replays of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Graph, Launch
from tilecheck_runtime.errors import TilecheckError
from tilecheck_runtime.execution import Recording
from tilecheck_runtime.grants import again, become, before, grant, release
from tilecheck_runtime.graph import record
from tilecheck_runtime.ledger import LOCK
from tilecheck_runtime.loans import Loan, State
from tilecheck_runtime.op import DeviceOp
from tilecheck_runtime.stream import Stream, next_stream
from tilecheck_runtime.unique import Unique


class Prepared(Unique):
    """A kernel launch or a graph called `name`, ready to be repeated on one stream.

    `kept` is what the work needs. The loans are captured ones; they end with this object if it is their `owner`.
    """

    def __init__(
        self, name: str, work: Launch | Graph, loans: Sequence[Loan], kept: object, stream: Stream, *, owner: bool
    ) -> None:
        phase.refuse_running("prepare")
        self.stream = stream
        self._name = name
        self._loans = tuple(loans)
        self._owner = owner
        self._flying = False
        try:
            self._repeat = self.stream._queue.repeat(work, kept)
        except BaseException:
            # Whoever keeps the traceback keeps this object.
            if owner:
                release(loans)
            raise

    def __call__(self) -> None:
        """Submit the work once more, behind its earlier rounds.

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
            become(self._loans, State.REPEATING)
            self._flying = True
        try:
            for execution in earlier:
                execution.event().wait()
        except BaseException:
            self._land()
            raise

    def _land(self) -> None:
        self._flying = False
        become(self._loans, State.CAPTURED)

    def __del__(self) -> None:
        loans, owner = getattr(self, "_loans", ()), getattr(self, "_owner", False)

        def over() -> None:
            # Without the lock, which a finaliser must not wait for.
            for loan in loans:
                if owner:
                    loan.state = State.ENDED
                elif loan.state is State.REPEATING:
                    loan.state = State.CAPTURED

        if getattr(self, "_flying", False):
            self._repeat.close(over)
        elif owner:
            over()

    def __repr__(self) -> str:
        return f"<prepared `{self._name}` on {self.stream}>"


def prepare(op: DeviceOp[Any], stream: Stream | None) -> Prepared:
    """`op.prepare(stream)` of a launch, which is used up."""
    phase.refuse_running("prepare")
    recording = Recording(next_stream() if stream is None else stream, allocates=False)
    record(op, recording)
    (work,) = recording.work
    assert isinstance(work, Launch)
    become(recording.loans, State.CAPTURED)
    return Prepared(work.kernel, work, recording.loans, recording.kept, recording.stream, owner=True)
