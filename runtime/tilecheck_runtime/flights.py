"""Flights: launches on other memory each time, one after the other on one stream of a GPU, at little more than the driver's call.

A launch that a mould describes (`moulds.py`) and that nothing is in the way of needs neither an event nor an execution nor
loans of its own. It is one flight: submitted under the lock of the ledgers, noted in those of its arguments, and turned into
running loans only when somebody looks (`Ledger.running`, `Ledger.ahead`). What it needs is kept until the stream is seen to be
past it: the flow of the stream has a mark behind every few flights, and asks the driver when memory is asked for.

Invariants. What a ledger notes was submitted, so any later point of the stream is an end of it. A flight is not over for the
borrow rules before somebody has waited for it or, if nobody is going to, before the stream is past it. The flights that a
ledger notes are all of one flow, in the order of that stream; those of another one are entered as loans first. None of them
can fail without the device: kernels in which checks remain do not fly, nor does what follows work that may fail.

    for batch in batches:
        step(tc.empty(n).partition(1024), batch).run(stream)     # from the second round on: a flight each
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tilecheck_runtime.backends import Event, Line
from tilecheck_runtime.loans import Loan, Runner, State, Use
from tilecheck_runtime.regions import Region
from tilecheck_runtime.sites import Site

# Flights, and bytes of their arguments, between two marks: what is kept longer than it is needed.
FLIGHTS, BYTES = 16, 64 << 20


class Bare(NamedTuple):
    """Bytes without the memory."""

    region: Region


class Flight:
    """One launch of `holder`, made at `site`; `ticket` counts those of its flow."""

    __slots__ = ("_loans", "_uses", "awaited", "ended", "flow", "holder", "past", "site", "ticket")

    submitted = True

    def __init__(self, flow: Flow, uses: Sequence[Use], holder: str, site: Site) -> None:
        self.flow = flow
        self.holder = holder
        self.site = site
        self.ticket = flow.count + 1
        # Whether somebody may still wait for it, whether the stream is past it, and whether its borrows have ended.
        self.awaited = True
        self.past = False
        self.ended = False
        self._uses = uses
        self._loans: tuple[Loan, ...] = ()

    # ---- as the ledgers know it

    def loans(self) -> tuple[Loan, ...]:
        """Its loans, made at the first look. The lock of the ledgers is held."""
        if not self._loans and not self.ended:
            self._loans = tuple(
                Loan(
                    ledger,
                    used.region,
                    exclusive,
                    self.holder,
                    self.site,
                    lineage | {number} if number else lineage,
                    State.RUNNING,
                    owner=self,
                )
                for used, ledger, exclusive, number, lineage in self._uses
            )
            # It may have ended meanwhile, which takes no lock.
            if self.ended:
                self._part()
        return self._loans

    def event(self) -> Event:
        """A point of the stream behind it."""
        return self.flow.queue.mark(())

    def over(self) -> bool:
        """Whether the stream is past it; its borrows have ended then, unless somebody is going to wait."""
        if not self.past:
            self.flow.look()
        return self.past

    # ---- as its `Running` knows it

    def release(self) -> None:
        """End the borrows: it is over."""
        if not self.past:
            self.flow.passed(self.ticket)
        self.end()

    def abandon(self) -> None:
        """Nobody will wait: the borrows end with the work. Safe from finalisers."""
        self.awaited = False
        if self.past:
            self.end()

    def end(self) -> None:
        """End the borrows. Safe from finalisers."""
        self.ended = True
        self.flow.waiting.pop(self.ticket, None)
        if self.past:
            self._uses = ()
        self._part()

    def leave(self) -> None:
        """The stream is past it, so it keeps no memory any more; what its borrows are about is still known."""
        if self.awaited and not self.ended:
            self._uses = [(Bare(used.region), *rest) for used, *rest in self._uses]  # type: ignore[misc]
            self.flow.waiting[self.ticket] = self
        else:
            self._uses = ()
        self.past = True
        # Whoever let go, or waited, meanwhile left the rest to this.
        if self.ended or not self.awaited:
            self.end()

    def _part(self) -> None:
        loans, self._loans = self._loans, ()
        for loan in loans:
            loan.state = State.ENDED


class Flow:
    """The flights of the stream with this number, whose work goes to `queue`. `count` is that of those that were submitted,
    `waiting` has those that the stream is past and somebody may still wait for, by ticket.
    """

    def __init__(self, number: int, queue: Line) -> None:
        self.number = number
        self.queue = queue
        self.count = 0
        self.waiting: dict[int, Flight] = {}
        # Executions that everything to come on the stream is behind, and that cannot have failed.
        self.behind: weakref.WeakSet[Runner] = weakref.WeakSet()
        # Those that the stream was not seen to be past, and points of it: how many had been submitted, and the event.
        self._kept: deque[Flight] = deque()
        self._marks: deque[tuple[int, Event]] = deque()
        self._marked = 0
        self._bytes = 0
        # Whether it is time for a mark.
        self.due = False
        # Held while it is worked out how many are past, never while another lock is taken.
        self._lock = threading.Lock()

    def submitted(self, flight: Flight, nbytes: int) -> None:
        """Keep what was just submitted, whose arguments have `nbytes`; a `mark` may be due. The lock of the ledgers is held."""
        self.count = count = flight.ticket
        kept = self._kept
        kept.append(flight)
        if len(kept) == 1:
            self.queue.attend(self)
        self._bytes += nbytes
        self.due = count - self._marked >= FLIGHTS or self._bytes > BYTES

    def look(self) -> None:
        """Let go of what is over."""
        if not self._kept:
            return
        count = self.count
        if self.queue.idle():
            self.passed(count)
            return
        self._seen()
        if not self._marks and self._kept:
            self._note()

    def passed(self, count: int) -> None:
        """The stream is past the first `count` flights."""
        over: list[Flight] = []
        with self._lock:
            while self._kept and self._kept[0].ticket <= count:
                over.append(self._kept.popleft())
            while self._marks and self._marks[0][0] <= count:
                self._marks.popleft()
        # Outside, since the last reference to a buffer may go with them.
        for flight in over:
            flight.leave()

    def drain(self) -> int:
        """Block until the flights so far are over: how many they are."""
        count = self.count
        self.queue.drain()
        self.passed(count)
        return count

    def settle(self) -> None:
        """End the borrows of everything that is over by now; waits for the rest."""
        count = self.drain()
        for ticket, flight in list(self.waiting.items()):
            if ticket <= count:
                flight.end()

    @property
    def empty(self) -> bool:
        """Whether nothing is kept."""
        return not self._kept

    def mark(self) -> None:
        """Let go of what is over, of others too, and note how far the stream has to come for the rest."""
        self._marked, self._bytes, self.due = self.count, 0, False
        self.queue.look()
        if self._kept:
            self._note()

    def _note(self) -> None:
        count = self.count
        self._marks.append((count, self.queue.point()))

    def _seen(self) -> None:
        """Let go of what lies before the last mark that the stream is past."""
        count = 0
        for before, event in tuple(self._marks):
            if not event.done():
                break
            count = before
        if count:
            self.passed(count)
