"""Who holds which bytes of an allocation: the run-time half of the borrow rules.

Each allocation has one ledger; memory of other libraries shares one ledger by absolute address, so that two imports of
one array meet in it. A loan is a byte region, shared or exclusive, in one of these states:

- IDLE: only a view or a partition object has it. It never stops anybody. An exclusive borrow of its bytes (a partition,
  an op that writes) through anything else than itself or what was derived from it ends it, and its next use raises and
  names that line. A write by the host is over when it returns and ends nothing: views see it, as in NumPy.
- BUILT: an op that has not run has it. Conflicting accesses raise.
- LENT: an array of another library has it; treated as BUILT until that array is gone.
- RUNNING: submitted and not yet waited for. The host must not touch it; further ops may, because the runtime orders
  them behind it by an event, on any stream.
- REPEATING: rounds of a prepared launch or graph are in flight. They are queued without looking at the ledger, so everybody else
  keeps off what they write, and leaves alone what they read, until somebody waits.
- RECORDED, CAPTURED: a graph has it, while it is being recorded and afterwards. Reads between replays are fine, so are
  writes to what the graph only reads; taking over what it writes, or moving anything it holds, is not.

`loans.CONFLICTS` is the whole table. The ledger refers to loans weakly, and holders of held ones release them in their
finalisers. Checks come first and changes after them, under one process-wide lock: an access happens whole or not at all,
from any thread.

Two decisions that the rules leave open: an idle partition does not hinder a move, which ends it like any exclusive
borrow, while another live *tensor* on the allocation (a view, a reshape) does; and what `Running` has counts as in use
until someone waits for it, even when the work itself is over, so that programs do not depend on timing.

Worked example: `p = z.partition(4)`, `q = z.partition(8)`: taking `q` ends `p`, and a launch with `p` says so and names
the line of `q`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from tilecheck_runtime.loans import CONFLICTS, PASSED, Access, Loan, Noted, Numbered, Runner, State, Use
from tilecheck_runtime.regions import Region, overlaps
from tilecheck_runtime.spans import Spans

# Guards every ledger. Held for bookkeeping and while the driver takes a flight, never while a kernel runs or a user's function
# is called.
LOCK = threading.RLock()


class Pending(Protocol):
    """A built op whose loans are granted and not yet entered, since nobody has looked."""

    def enter(self) -> None:
        """Enter them."""
        ...


# Ops that are pending; whoever looks at a ledger enters them first. Weakly, since an op that is gone holds nothing.
OPEN: list[weakref.ref[Pending]] = []


def enter_open() -> None:
    """Enter the ops that are pending. The lock of the ledgers is held."""
    while OPEN:
        op = OPEN.pop()()
        if op is not None:
            op.enter()


# No stream has this number.
SEVERAL = 0
# The running loans of a ledger are looked through for ended ones when there are this many more than the last time.
SWEEP = 64


class Standing:
    """Leave to do the same again and again: it `stands` as long as nobody has been granted anything on these bytes that the
    next time would have to look at.

    What is done again is a launch on the stream with this number, or, without one, the exclusive borrow of a partition,
    which launches do not disturb, or the shared one of a `view`, which launches do not that write through it.
    """

    def __init__(self, stream: int | None, view: Loan | None = None) -> None:
        self.number = stream
        self.view = view
        self.stands = False
        # Set by whoever submits once the first round may go, under the lock; ends with `stands`.
        self.ready = False


class Ledger:
    """The loans of one allocation.

    Loans are referred to weakly and dropped from the lists once they have ended. Running ones, of which a loop that does
    not wait makes thousands, are kept apart: ops pass them by, only what the host is about to do looks at them. For the
    order between executions each stream keeps its last loan of a kind (bytes and exclusiveness), since a stream is in
    order by itself.
    """

    __slots__ = ("_flights", "_fly_at", "_lanes", "_launches_on", "_running", "_standing", "_still", "_sweep_at")

    def __init__(self) -> None:
        self._still: Spans[Loan] = Spans()
        self._running: list[weakref.ref[Loan]] = []
        self._sweep_at = SWEEP
        self._lanes: dict[int, Spans[Loan]] = {}
        self._standing: Spans[Standing] = Spans()
        # Flights of one flow whose loans are not entered, since nobody has looked.
        self._flights: list[Noted] = []
        self._fly_at = SWEEP
        # The number of the stream that all leaves for launches have been on, SEVERAL of them, None without any.
        self._launches_on: int | None = None

    def bare(self) -> bool:
        """Whether there is nothing but running work."""
        return not self._still._count and not self._standing._count

    def still(self, region: Region) -> list[Loan]:
        """The loans that have not ended, are not running, and may overlap `region`."""
        with LOCK:
            if OPEN:
                enter_open()
            return self._still.near(region.offset, region.end, _passed)

    def running(self) -> list[Loan]:
        """The loans of executions that nobody has waited for."""
        with LOCK:
            if self._flights:
                self._enter_flights()
            found: list[Loan] = []
            for ref in self._running:
                loan = ref()
                if loan is None:
                    continue
                if loan.state is State.RUNNING:
                    found.append(loan)
                else:
                    loan.listed = False
            if len(found) < len(self._running):
                self._running = [weakref.ref(loan) for loan in found]
            self._sweep_at = 2 * len(found) + SWEEP
            return found

    def live(self, region: Region) -> list[Loan]:
        """The loans that overlap `region` and have not ended."""
        return [loan for loan in (*self.still(region), *self.running()) if overlaps(loan.region, region)]

    def add(self, loan: Loan) -> None:
        """Enter a loan that was granted."""
        with LOCK:
            self._still.add(loan.region.offset, loan.region.end, weakref.ref(loan), _passed)

    def stand(self, region: Region, standing: Standing) -> None:
        """Enter a leave that was granted."""
        with LOCK:
            leaves = self._standing
            if standing.number is not None:
                one = not leaves._count or self._launches_on in (None, standing.number)
                self._launches_on = standing.number if one else SEVERAL
            if not leaves._count or standing not in leaves.near(region.offset, region.end, _taken_back):
                leaves.add(region.offset, region.end, weakref.ref(standing), _taken_back)

    def quiet(self, region: Region, exclusive: bool, number: int, lineage: frozenset[int]) -> bool:
        """Whether a launch with this access, through a handle whose loan has `number` and `lineage`, conflicts with nothing,
        ends nothing and takes back the leaves of launches at most.
        """
        for loan in self._still.near(region.offset, region.end, _passed):
            if loan.number == number:
                continue
            if loan.state is not State.IDLE:
                if (Access.EXCLUDE if exclusive else Access.SHARE) in CONFLICTS[loan.state, loan.exclusive]:
                    return False
            elif exclusive and loan.number not in lineage and not loan.vacant:
                return False
        if exclusive:
            for standing in self._standing.near(region.offset, region.end, _taken_back):
                view = standing.view
                if view is not None and view.number != number and view.number not in lineage:
                    return False
        return True

    def unsettle(
        self,
        region: Region,
        stream: int = 0,
        *,
        borrows: bool = True,
        launches: bool = True,
        spared: Standing | None = None,
    ) -> None:
        """Take back the leaves for borrows and launches on bytes of `region`, but not for launches on `stream`, whose order
        is by itself, nor the one that is `spared`.
        """
        with LOCK:
            for standing in self._standing.near(region.offset, region.end, _taken_back):
                meant = borrows if standing.number is None else launches and standing.number != stream
                if meant and standing is not spared:
                    standing.stands = standing.ready = False

    def unsettle_views(self, region: Region, spared: frozenset[int]) -> None:
        """Take back the leaves for views of bytes of `region`, but not of those whose loans have numbers in `spared`."""
        with LOCK:
            for standing in self._standing.near(region.offset, region.end, _taken_back):
                if standing.view is not None and standing.view.number not in spared:
                    standing.stands = standing.ready = False

    def start(self, loan: Loan, execution: Runner, stream: int) -> None:
        """Let `loan` run for `execution`, on the stream with number `stream`."""
        with LOCK:
            if self._flights:
                self._enter_flights()
            loan.state, loan.owner = State.RUNNING, execution

            def behind(other: Loan) -> bool:
                # What was submitted whole comes before `loan` on this stream, so whoever waits for `loan` waits for it.
                return other.owner is not None and other.owner.submitted

            self._list(loan, stream, behind)

    def _enter_flights(self) -> None:
        flights, self._flights, self._fly_at = self._flights, [], SWEEP
        for flight in flights:

            def behind(other: Loan, flow: object = flight.flow) -> bool:
                # A seat on the stream may have gone on behind the flight.
                owner = other.owner
                return owner is not None and owner.flow is flow and not isinstance(owner, Standing)

            for loan in flight.loans():
                if loan.ledger is self:
                    self._list(loan, flight.flow.number, behind)

    def _list(self, loan: Loan, stream: int, behind: Callable[[Loan], bool]) -> None:
        """Enter a running loan; of those on the same bytes it makes those needless that it comes `behind`."""
        loan.listed = True
        ref = weakref.ref(loan)
        self._running.append(ref)
        if len(self._running) > self._sweep_at:
            self.running()
        region, exclusive = loan.region, loan.exclusive
        lane = self._lanes.get(stream)
        if lane is None:
            lane = self._lanes[stream] = Spans()

        def needless(other: Loan) -> bool:
            same = other.exclusive == exclusive and other.region == region
            if other.state is State.RUNNING and not (same and behind(other)):
                return False
            other.listed = False
            return True

        lane.put(region.offset, region.end, ref, needless)

    def ahead(self, loan: Loan, execution: object) -> set[Runner]:
        """The executions, other than `execution`, that what `loan` is about to do must come after."""
        with LOCK:
            if self._flights:
                self._enter_flights()
            return self._ahead(loan.region, loan.exclusive, execution, None)

    def _ahead(self, region: Region, exclusive: bool, execution: object, flow: object) -> set[Runner]:
        with LOCK:
            found: set[Runner] = set()
            for number, lane in tuple(self._lanes.items()):
                near = lane.near(region.offset, region.end, _keep)
                if not lane._count:
                    del self._lanes[number]
                for other in near:
                    owner = other.owner
                    if (
                        owner is not None
                        and owner is not execution
                        and (flow is None or owner.flow is not flow)
                        and (exclusive or other.exclusive)
                        and other.state is State.RUNNING
                        and overlaps(region, other.region)
                    ):
                        found.add(owner)
            return found


def ahead_of(uses: Sequence[Use], flow: Numbered) -> set[Runner] | None:
    """The executions that a flight of `flow` that uses this must come after, but for what is on its stream anyway. It takes back
    the leaves of launches on other streams. The lock of the ledgers is held.
    """
    found: set[Runner] | None = None
    for used, ledger, exclusive, _, _ in uses:
        if ledger._launches_on is not None and ledger._launches_on != flow.number:
            # First: a seat that goes on meanwhile, on another thread, is one of those to come behind.
            ledger.unsettle(used.region, flow.number, borrows=False)
        flights = ledger._flights
        if flights and flights[-1].flow is not flow:
            ledger._enter_flights()
        if ledger._lanes:
            found = (found or set()) | ledger._ahead(used.region, exclusive, None, flow)
    return found


def note(uses: Sequence[Use], flight: Noted) -> None:
    """Know of a flight that was submitted, after a look at what is `ahead_of` it. The lock of the ledgers is held."""
    for _, ledger, _, _, _ in uses:
        flights = ledger._flights
        flights.append(flight)
        if len(flights) > ledger._fly_at:
            ledger._flights = [there for there in flights if not there.ended]
            ledger._fly_at = 2 * len(ledger._flights) + SWEEP


def _passed(loan: Loan) -> bool:
    return loan.ended is not None or loan.state in PASSED


def _taken_back(standing: Standing) -> bool:
    return not standing.stands


def _keep(loan: Loan) -> bool:
    return False
