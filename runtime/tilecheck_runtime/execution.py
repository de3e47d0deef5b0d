"""One run of an op: where its work goes, what it waits for, what it holds until somebody waits for it.

An execution submits to one stream. Before each piece of work it turns the loans of that piece into running ones and
learns which other executions must be over first; the work then waits for their events on the device, never the host.
Within one execution order is that of submission, and a piece after a failed one does not run.

Two executions may not wait for each other: a function inside op A that touches what op B holds, while B waits for A,
is refused with the borrow rule instead of hanging.

A `Recording` is an execution that runs nothing: the work goes into a graph.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tilecheck_runtime.backends import Copy, Download, Event, Graph, Launch, Upload, Work
from tilecheck_runtime.errors import BorrowError, OpError
from tilecheck_runtime.grants import before, release
from tilecheck_runtime.ledger import LOCK
from tilecheck_runtime.loans import CONFLICT, Loan, Runner, State
from tilecheck_runtime.stream import Stream

# Told whenever an execution has been submitted whole while somebody waits for one: one for all, since hardly ever anybody
# does. The list has an entry for each that waits.
_FINISHED = threading.Condition()
_WAITING: list[Execution] = []


class Execution:
    """One run of an op on `stream`; `records` if it runs nothing."""

    records = False
    # It is alone on its stream as far as failures are concerned.
    flow: object = None

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.loans: list[Loan] = []
        # Executions that the submitting thread waits for right now, until they are submitted whole.
        self.waits_for: set[Execution] = set()
        self._pending: list[Event] = []
        self._host_copies: list[Event] = []
        self._last: Event | None = None
        self._whole = False
        stream._enter(self)

    def hold(self, loans: Sequence[Loan]) -> None:
        """Take the loans of a piece of work that is about to be submitted, behind all that conflicts with them.

        Raises BorrowError if one of those waits for this execution itself.
        """
        with LOCK:
            for other in _unfinished(before(loans, self)):
                if self in _all_waited_for(other):
                    raise BorrowError(
                        "this op would wait for an op that waits for it",
                        "run what the inner function needs before the outer op",
                        rule=CONFLICT,
                    )
            earlier = self.begin(loans)
        self.wait_for(earlier)

    def begin(self, loans: Sequence[Loan]) -> set[Runner]:
        """Take the loans of a first piece of work, when nobody knows of this execution yet: what it has to `wait_for`."""
        with LOCK:
            earlier: set[Runner] = set()
            for loan in loans:
                earlier |= loan.ledger.ahead(loan, self)
                loan.ledger.start(loan, self, self.stream._number)
            # What was submitted whole waits for nothing that has yet to be.
            self.waits_for |= _unfinished(earlier)
            self.loans += loans
        return earlier

    def wait_for(self, earlier: set[Runner]) -> None:
        """Let what comes next come behind these."""
        if earlier:
            self._pending += [other.event() for other in earlier]
            self.waits_for.difference_update(earlier)

    def follow(self, other: Execution) -> None:
        """Let what comes next wait for `other`, from whichever stream it is."""
        if other is not self:
            with LOCK:
                self.waits_for.add(other)
            self._pending.append(other.event())
            self.waits_for.discard(other)

    def submit(self, work: Work | Graph, keep: object) -> None:
        """Queue one piece of work."""
        after = (*self._pending, *(() if self._last is None else (self._last,)))
        self._pending.clear()
        self._last = self.stream._queue.submit(work, after, keep)
        if isinstance(work, Download):
            self._host_copies.append(self._last)

    def reach(self) -> None:
        """Wait until everything is over that the next piece of work comes after. Raises what failed there."""
        after = (*self._pending, *(() if self._last is None else (self._last,)))
        self.stream._queue.mark(after).wait()

    def settle(self) -> None:
        """Wait until arrays on their way to the host have arrived: a user's function is going to see them."""
        for event in self._host_copies:
            event.wait()
        self._host_copies.clear()

    def finish(self) -> Event:
        """The end of everything submitted; nothing can be added any more."""
        if self._last is None or self._pending:
            after = (*self._pending, *(() if self._last is None else (self._last,)))
            self._last = self.stream._queue.mark(after)
        self._whole = True
        # Whoever comes to wait after this look sees that it is whole.
        if _WAITING:
            with _FINISHED:
                _FINISHED.notify_all()
        return self._last

    @property
    def submitted(self) -> bool:
        """Whether everything was queued: `finish` was called."""
        return self._whole

    def event(self) -> Event:
        """The end of the whole execution, once another thread has submitted all of it."""
        if not self._whole:
            with _FINISHED:
                _WAITING.append(self)
                try:
                    _FINISHED.wait_for(lambda: self._whole)
                finally:
                    _WAITING.remove(self)
        if self._last is None:
            raise OpError("the op that this one follows was not submitted")
        return self._last

    def over(self) -> bool:
        """Whether everything was submitted and is over."""
        return self._whole and self._last is not None and self._last.done()

    def release(self) -> None:
        """End the loans: the host knows that the work is over."""
        _end(self.loans)

    def abandon(self) -> None:
        """Nobody will wait: the loans end with the work."""
        loans = self.loans
        if loans:
            self.event().let_go(lambda: _end(loans))


class Recording(Execution):
    """Collects work for a graph; `allocates` says whether ops that make memory may take part."""

    records = True

    def __init__(self, stream: Stream, *, allocates: bool) -> None:
        super().__init__(stream)
        self.allocates = allocates
        self.work: list[Work] = []
        self.kept: list[object] = []

    def hold(self, loans: Sequence[Loan]) -> None:
        """Recording runs nothing, so there is nothing to wait for; the loans go to the graph."""
        with LOCK:
            for loan in loans:
                loan.state, loan.owner = State.RECORDED, self
            self.loans += loans

    def follow(self, other: Execution) -> None:
        """A shared op that ran before is over or ordered by its data at each replay."""

    def submit(self, work: Work | Graph, keep: object) -> None:
        """Record one piece of work. Raises OpError (capture) for copies to the host and for other graphs."""
        match work:
            case Launch() | Copy() | Upload():
                self.work.append(work)
                self.kept.append(keep)
            case Download():
                raise OpError(
                    "a graph cannot record a copy to the host",
                    "launch it, then read the output: `graph.launch().sync()`, `z.numpy()`",
                    rule="capture",
                )
            case _:
                raise OpError(
                    "a graph cannot record the launch of another graph",
                    "launch them one after the other: `first.launch().then(lambda _: second.launch())`",
                    rule="capture",
                )


def _end(loans: list[Loan]) -> None:
    release(loans)
    loans.clear()


def _unfinished(earlier: set[Runner]) -> set[Execution]:
    return {other for other in earlier if isinstance(other, Execution) and not other.submitted}


def _all_waited_for(execution: Execution) -> set[Execution]:
    found: set[Execution] = set()
    stack = [execution]
    while stack:
        for other in stack.pop().waits_for - found:
            found.add(other)
            stack.append(other)
    return found
