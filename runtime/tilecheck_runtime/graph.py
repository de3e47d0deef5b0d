"""Graphs: work captured once and launched again and again.

Capturing runs nothing. `op.graph()` captures an op whole; ops that make memory take part, and the memory belongs to the
graph. `CudaGraph.scope(stream)` records ops one by one: the borrow of a recorded op ends with `record`, so that the next
one may write the same tensor, and they run in recorded order at each launch. A scope records launches, copies and values
and what is combined of them, no new memory. Copies to the host cannot be captured at all.

A graph owns what it captured: as long as it exists, what it writes cannot be taken over by anybody else, and nothing it
uses can be moved. Between launches everything may be read, and what the graph only reads may be written. While a launch
is in flight the rules of every `Running` hold.

    with tc.CudaGraph.scope(s) as scope:
        scope.record(copy(h.partition(8), x))
        scope.record(copy(z.partition(8), h))
    scope.graph.launch().sync_on(s)

Replays that follow one another on one stream are rounds of a seat (`seat.py`) from the third one on, as launches are. Those
whose results nobody wants in between are cheaper still as rounds of `graph.prepare()`.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilecheck.surface.elsewhere import missing
from tilecheck_runtime import phase
from tilecheck_runtime.backends import Launch, default
from tilecheck_runtime.errors import OpError
from tilecheck_runtime.execution import Execution, Recording
from tilecheck_runtime.grants import again, become, hold, merged, release
from tilecheck_runtime.ledger import LOCK, OPEN
from tilecheck_runtime.loans import Loan, State
from tilecheck_runtime.nodes import Replay
from tilecheck_runtime.op import DeviceOp, Life
from tilecheck_runtime.phase import Phase
from tilecheck_runtime.running import Running
from tilecheck_runtime.seat import Seat
from tilecheck_runtime.seated_ops import SeatedOp
from tilecheck_runtime.sites import Site, caller
from tilecheck_runtime.stream import Stream, next_stream
from tilecheck_runtime.unique import Unique

if TYPE_CHECKING:
    from tilecheck_runtime.prepared import Prepared

R = TypeVar("R", covariant=True)
S = TypeVar("S")

_TAKEN = object()


class CudaGraph(Unique, Generic[R]):
    """Captured work on `stream`."""

    def __init__(self, recording: Recording, value: R) -> None:
        self.stream = recording.stream
        self._loans = merged(recording.loans)
        self._kept = recording.kept
        try:
            self._graph = default().graph(tuple(recording.work))
        except BaseException:
            # Whoever keeps the traceback keeps this object.
            release(self._loans)
            raise
        self._value: Any = value
        self._nodes = len(recording.work)
        become(self._loans, State.CAPTURED)
        self._accesses = again(self._loans)
        # Rounds on a GPU share one record of the checks that remain in kernels.
        checks = self.stream._queue.shares and any(w.program.checks for w in recording.work if isinstance(w, Launch))
        self._seatable = not checks and any(loan.exclusive for loan in self._loans)
        self._seat: Seat | None = None
        self._last: Stream | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            help = "a replay is an op: `graph.launch().sync()`" if name in ("sync", "run", "wait", "replay") else None
            raise missing("`CudaGraph`", name, help, self)

    def launch(self) -> DeviceOp[None]:
        """An op that replays the graph. Run it on any stream; replays are in order through their data."""
        if self._seat is not None:
            op = _quick(self, self._seat)
            if op is not None:
                return op
        return ReplayOp(self)

    def _ran_on(self, stream: Stream) -> None:
        """A replay went the long way: the second one in a row on a stream gets a seat there."""
        last, self._last = self._last, stream
        if self._seatable and self._seat is None and last is stream:
            rounds = stream._queue.repeat(self._graph, (self._graph, self._kept))
            self._seat = Seat("graph.launch", self._accesses, stream, rounds, threading.Lock(), in_order=True)
            stream._settles(self._seat)

    def _leave_seat(self) -> None:
        """Replays go from stream to stream."""
        seat, self._seat, self._last = self._seat, None, None
        if seat is not None:
            seat.close()

    def prepare(self, stream: Stream | None = None) -> Prepared:
        """The graph, ready to be replayed on `stream`, else on its own, at the cost of the driver's call. See `prepared.py`."""
        from tilecheck_runtime.prepared import Prepared

        here = self.stream if stream is None else stream
        return Prepared("graph", self._graph, self._loans, self, here, owner=False)

    def update(self, op: DeviceOp[S]) -> Running[S]:
        """Run `op` on the graph's stream, before whatever is launched there next; does not wait."""
        return op.run(self.stream)

    def take_output(self) -> R:
        """The value of the captured op, once. Its tensors change with each launch."""
        if self._value is _TAKEN:
            raise OpError("the output of the graph was taken already")
        value, self._value = self._value, _TAKEN
        return value  # type: ignore[no-any-return]

    @staticmethod
    def scope(stream: Stream | None = None) -> Scope:
        """A `with` block whose `record(op)` fills a graph."""
        return Scope(next_stream() if stream is None else stream)

    def _replay(self, execution: Execution) -> None:
        execution.submit(self._graph, self)

    def __del__(self) -> None:
        # Not left to the loans' own end: an error's traceback may still refer to one.
        release(getattr(self, "_loans", ()))
        seat = getattr(self, "_seat", None)
        if seat is not None:
            seat.close()

    def __repr__(self) -> str:
        return f"<CudaGraph of {self._nodes} nodes on {self.stream}>"


class ReplayOp(DeviceOp[None]):
    """One replay of a graph, which goes the long way."""

    def __init__(self, graph: CudaGraph[Any]) -> None:
        super().__init__("`graph.launch`", Replay(graph), hold(graph._accesses, "`graph.launch`", in_order=True))
        self._replayed = graph

    def run(self, stream: Stream | None = None) -> Running[None]:
        """As of every op."""
        running = super().run(stream)
        self._replayed._ran_on(running.stream)
        return running


class QuickReplay(SeatedOp[None]):
    """One replay of a graph whose seat has leave."""

    def __init__(self, graph: CudaGraph[Any], seat: Seat, site: Site) -> None:
        super().__init__(seat, (), site)
        self._replayed = graph

    def __getattr__(self, name: str) -> Any:
        if name == "_node":
            value = self._node = Replay(self._replayed)
            return value
        return super().__getattr__(name)

    def _result(self) -> None:
        return None

    def _give_up_seat(self) -> None:
        self._replayed._leave_seat()


def _quick(graph: CudaGraph[Any], seat: Seat) -> QuickReplay | None:
    """The op of a replay whose seat has leave; None if it must go the long way. Raises BorrowError for a conflict."""
    if not seat.stands:
        if OPEN:
            return None
        seat.ask()
    # Above are `launch` and whoever called it.
    op = QuickReplay(graph, seat, caller(2))
    with LOCK:
        if OPEN or not seat.stands:
            op._life = Life.CLOSED
            return None
        OPEN.append(op._ref)
    return op


class Scope:
    """The recording of a graph, op by op. `graph` is there after the block."""

    def __init__(self, stream: Stream) -> None:
        self._recording = Recording(stream, allocates=False)
        self._phase: Any = None
        self._entered = False
        self._graph: CudaGraph[None] | None = None

    @property
    def graph(self) -> CudaGraph[None]:
        """The finished graph. Raises OpError (capture) before the block ends, or if it ended with an error."""
        if self._graph is None:
            raise OpError("the graph is there when its scope has ended without an error", rule="capture")
        return self._graph

    def record(self, op: DeviceOp[S]) -> S:
        """Add an op: its value, whose tensors hold nothing before the first launch.

        Raises OpError (capture) for what a graph cannot record; the graph is then as before.
        """
        if self._phase is None:
            raise OpError("`record` outside the `with` block of its scope", rule="capture")
        return record(op, self._recording)

    def __enter__(self) -> Scope:
        phase.refuse_running("scope")
        if self._entered:
            raise OpError(
                "a scope records one graph, and this one has been entered before",
                "begin another: `tc.CudaGraph.scope()`",
                rule="capture",
            )
        self._entered = True
        self._phase = phase.inside(Phase.SCOPE)
        self._phase.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._phase.__exit__(kind, error, trace)
        self._phase = None
        if error is None:
            self._graph = CudaGraph(self._recording, None)
        else:
            self._recording.release()


def capture(op: DeviceOp[S], stream: Stream | None) -> CudaGraph[S]:
    """`op.graph(stream)`."""
    phase.refuse_running("graph")
    recording = Recording(next_stream() if stream is None else stream, allocates=True)
    with phase.inside(Phase.CAPTURE):
        value = record(op, recording)
    return CudaGraph(recording, value)


def record(op: DeviceOp[S], recording: Recording) -> S:
    """Take `op` and put its work into `recording`, all or nothing."""
    op._attempted = True
    op._take("record", Life.STARTED)
    work, loans = len(recording.work), len(recording.loans)
    try:
        with op._all_or_nothing():
            value: S = op._evaluate(recording)
    except BaseException:
        undone: list[Loan] = recording.loans[loans:]
        del recording.work[work:], recording.kept[work:], recording.loans[loans:]
        for loan in undone:
            loan.state = State.ENDED
        raise
    return value
