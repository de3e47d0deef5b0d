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

`CONFLICTS` is the whole table. A loan belongs to its holder (view, partition, op, graph) and ends with it: the ledger
refers to loans weakly, and holders of held ones release them in their finalisers. Ancestors are kept as numbers, never as references, so that a dead owner keeps nothing
alive. Checks come first and changes after them, under one process-wide lock: an access happens whole or not at all,
from any thread.

Two decisions that the rules leave open: an idle partition does not hinder a move, which ends it like any exclusive
borrow, while another live *tensor* on the allocation (a view, a reshape) does; and what `Running` has counts as in use
until someone waits for it, even when the work itself is over, so that programs do not depend on timing.

Worked example: `p = z.partition(4)`, `q = z.partition(8)`: taking `q` ends `p`, and a launch with `p` says so and names
the line of `q`.
"""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tilecheck_runtime.errors import BorrowError
from tilecheck_runtime.regions import Region, overlaps
from tilecheck_runtime.sites import Site, here, subject

if TYPE_CHECKING:
    from tilecheck_runtime.backends import Event

# Guards every ledger. Held for bookkeeping only, never while a kernel runs or a user's function is called.
LOCK = threading.RLock()

_numbers = itertools.count(1)

# The running loans of a ledger are looked through for ended ones when there are this many more than the last time.
SWEEP = 64


class State(Enum):
    # Members are looked up at every access, and exist once.
    __hash__ = object.__hash__

    IDLE = "idle"
    BUILT = "built"
    RUNNING = "running"
    RECORDED = "recorded"
    CAPTURED = "captured"
    REPEATING = "repeating"
    LENT = "lent"
    ENDED = "ended"


class Access(Enum):
    """What somebody is about to do; the value completes `cannot ...` around the tensor's name."""

    __hash__ = object.__hash__

    READ = "read {}"  # by the host, now
    WRITE = "write {}"  # by the host, now
    SHARE = "share {}"  # a view, or an op that only reads
    EXCLUDE = "borrow {} exclusively"  # a partition, or an op that writes
    MOVE = "move {}"  # given away for good


# States in which a loan is no longer one of those that stand still.
PASSED = frozenset({State.RUNNING, State.ENDED})
# Ops may come after running work, by an event; only the host has to look at it.
BY_HOST = frozenset({Access.READ, Access.WRITE, Access.MOVE})

CONFLICT, IN_FLIGHT = "borrow-conflict", "use-in-flight"

# (state, exclusive) of somebody else's loan on the same bytes -> the rule that each access breaks.
CONFLICTS: dict[tuple[State, bool], dict[Access, str]] = {
    (State.BUILT, False): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: CONFLICT},
    (State.BUILT, True): dict.fromkeys(Access, CONFLICT),
    (State.LENT, False): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: CONFLICT},
    (State.LENT, True): dict.fromkeys(Access, CONFLICT),
    (State.RUNNING, False): {Access.WRITE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.RUNNING, True): {Access.READ: IN_FLIGHT, Access.WRITE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.REPEATING, False): {Access.WRITE: IN_FLIGHT, Access.EXCLUDE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.REPEATING, True): dict.fromkeys(Access, IN_FLIGHT),
    (State.RECORDED, False): {Access.MOVE: IN_FLIGHT},
    (State.RECORDED, True): {Access.MOVE: IN_FLIGHT},
    (State.CAPTURED, False): {Access.MOVE: IN_FLIGHT},
    (State.CAPTURED, True): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: IN_FLIGHT},
}
# The accesses that end idle loans on the same bytes, and how their message says it.
VERBS = {Access.EXCLUDE: "borrowed it exclusively", Access.MOVE: "took it over"}
ENDING = frozenset(VERBS)

# What the holder is doing, and the way out.
STORY: dict[State, tuple[str, str]] = {
    State.BUILT: ("built here and not run yet", "run the op first (`sync()`), or drop it"),
    State.LENT: ("made here from this memory and is alive", "drop that array first, or lend a copy"),
    State.RUNNING: ("started here, and nobody has waited for it", "`wait()` for it first"),
    State.REPEATING: ("prepared here, and rounds of it are in flight", "`wait()` for them first"),
    State.RECORDED: ("recorded here", "drop the graph first, or give it a tensor of its own"),
    State.CAPTURED: ("captured here, and the graph is alive", "drop the graph first, or give it a tensor of its own"),
}


class Runner(Protocol):
    """An execution, as far as the ledger knows it."""

    @property
    def submitted(self) -> bool:
        """Whether all of its work has been queued."""
        ...

    def event(self) -> Event:
        """The end of all of it, once it was submitted."""
        ...

    def over(self) -> bool:
        """Whether all of it is over. An execution that nobody will wait for then ends its loans."""
        ...


@dataclass(eq=False, slots=True, weakref_slot=True)
class Loan:
    """A borrow of `region`, made at `site` for `holder` (words such as "a partition" or "`saxpy`").

    `lineage` holds the numbers of the loans it was derived from. `ended` says what invalidated it. `owner` is the
    execution or recording that has it once it runs.
    """

    ledger: Ledger
    region: Region
    exclusive: bool
    holder: str
    site: Site
    lineage: frozenset[int] = frozenset()
    state: State = State.IDLE
    ended: tuple[str, Site] | None = None
    owner: Runner | None = None
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def ancestry(self) -> frozenset[int]:
        """Itself and everything it was derived from."""
        return self.lineage | {self.number}

    def check(self, name: str | None) -> None:
        """Raise BorrowError (borrow-conflict) if something has invalidated it; `name` as in `Request`."""
        if self.ended is not None:
            what, where = self.ended
            raise BorrowError(
                f"{name or subject()} was borrowed at {self.site} and ended when {what} at {where}",
                "take it again after that line, or finish with it before",
                rule=CONFLICT,
                points=(f"{self.site}: borrowed here", f"{where}: {what}"),
            )


class Request(NamedTuple):
    """One access that is about to happen: `actor` is the loan of the handle it goes through, `name` what to call it, in
    backticks; None is what the running line of the user calls it.

    `execution` exempts loans of the same execution (a chain on one stream is in order by itself); `exempt` names
    further loans, those of the graph that is being replayed, unless rounds of it are in flight.
    """

    ledger: Ledger
    region: Region
    access: Access
    name: str | None = None
    actor: Loan | None = None
    execution: object = None
    exempt: frozenset[int] = frozenset()


class Standing:
    """Leave to submit the same work again and again on one stream: it `stands` as long as nobody has been granted
    anything on these bytes that the next round would have to look at.
    """

    def __init__(self, stream: int) -> None:
        self.number = stream
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

    def __init__(self) -> None:
        self._still: list[weakref.ref[Loan]] = []
        self._running: list[weakref.ref[Loan]] = []
        self._sweep_at = SWEEP
        self._lanes: dict[int, list[weakref.ref[Loan]]] = {}
        self._standing: list[tuple[Region, Standing]] = []

    def still(self) -> list[Loan]:
        """The loans that have not ended and are not running."""
        with LOCK:
            found: list[Loan] = []
            for ref in self._still:
                loan = ref()
                if loan is not None and loan.ended is None and loan.state not in PASSED:
                    found.append(loan)
            if len(found) < len(self._still):
                self._still = [weakref.ref(loan) for loan in found]
            return found

    def running(self) -> list[Loan]:
        """The loans of executions that nobody has waited for."""
        with LOCK:
            found = [loan for ref in self._running if (loan := ref()) is not None and loan.state is State.RUNNING]
            if len(found) < len(self._running):
                self._running = [weakref.ref(loan) for loan in found]
            self._sweep_at = 2 * len(found) + SWEEP
            return found

    def live(self, region: Region) -> list[Loan]:
        """The loans that overlap `region` and have not ended."""
        return [loan for loan in (*self.still(), *self.running()) if overlaps(loan.region, region)]

    def add(self, loan: Loan) -> None:
        """Enter a loan that was granted."""
        with LOCK:
            self._still.append(weakref.ref(loan))

    def stand(self, region: Region, standing: Standing) -> None:
        """Enter a leave that was granted."""
        with LOCK:
            others = [entry for entry in self._standing if entry[1] is not standing and entry[1].stands]
            self._standing = [*others, (region, standing)]

    def unsettle(self, region: Region, stream: int = 0) -> None:
        """Take back the leaves on bytes of `region`, but those on `stream`, whose order is by itself."""
        with LOCK:
            if not self._standing:
                return
            kept: list[tuple[Region, Standing]] = []
            for other, standing in self._standing:
                if standing.number != stream and other.offset < region.end and region.offset < other.end:
                    standing.stands = standing.ready = False
                if standing.stands:
                    kept.append((other, standing))
            self._standing = kept

    def start(self, loan: Loan, execution: Runner, stream: int) -> None:
        """Let `loan` run for `execution`, on the stream with number `stream`."""
        with LOCK:
            loan.state, loan.owner = State.RUNNING, execution
            ref = weakref.ref(loan)
            self._running.append(ref)
            if len(self._running) > self._sweep_at:
                self.running()
            lane = [ref]
            for earlier in self._lanes.get(stream, ()):
                other = earlier()
                if other is None or other.state is not State.RUNNING:
                    continue
                # What was submitted whole comes before `loan` on this stream, so whoever waits for `loan` waits for it.
                same = other.exclusive == loan.exclusive and other.region == loan.region
                if not (same and other.owner is not None and other.owner.submitted):
                    lane.append(earlier)
            self._lanes[stream] = lane

    def ahead(self, loan: Loan, execution: object) -> set[Runner]:
        """The executions, other than `execution`, that what `loan` is about to do must come after."""
        with LOCK:
            return {
                other.owner
                for lane in self._lanes.values()
                for ref in lane
                if (other := ref()) is not None and other.state is State.RUNNING and other.owner is not execution
                if other.owner is not None and (other.exclusive or loan.exclusive)
                if overlaps(loan.region, other.region)
            }


def check(requests: Sequence[Request], by: str, *, in_order: bool = False) -> None:
    """Raise BorrowError for the first of `requests` that conflicts; they are made by one party, `by` says who ("`saxpy`").

    They must not conflict with each other either, unless they happen one after the other (`in_order`). Garbage that still
    has a loan, and work that nobody waits for and that is over, let go of it before anything is refused.
    """
    with LOCK:
        try:
            _check(requests, by, in_order)
        except BorrowError:
            refused = True
        else:
            refused = False
        # Outside the handler, whose traceback would keep the garbage alive.
        if refused:
            for loan in (loan for request in requests for loan in request.ledger.running()):
                if loan.owner is not None:
                    loan.owner.over()
            gc.collect()
            _check(requests, by, in_order)


def grant(requests: Sequence[Request], by: str, *, in_order: bool = False) -> None:
    """`check` all requests, then end the idle loans that they exclude. Nothing has changed if one is refused."""
    with LOCK:
        check(requests, by, in_order=in_order)
        for request in requests:
            if request.access in ENDING:
                _end_idle(request, by)
            if request.access is not Access.READ and request.access is not Access.WRITE:
                request.ledger.unsettle(request.region)


def repeat(
    requests: Sequence[Request], by: str, standing: Standing, owner: Runner
) -> tuple[tuple[Loan, ...], set[Runner]]:
    """Grant work that is to be submitted any number of times on one stream, as long as `standing` stands: its loans, which
    run for `owner`, and the executions that the first round comes after.

    Leaves on the same stream go on beside this one, unless it ends a loan that they rest on.
    """
    with LOCK:
        check(requests, by)
        ended = [_end_idle(request, by) for request in requests if request.access in ENDING]
        site = here()
        loans = tuple(_loan(request, by, State.RUNNING, site) for request in requests)
        earlier = before(loans, owner)
        for loan in loans:
            loan.ledger.unsettle(loan.region, 0 if any(ended) else standing.number)
            loan.ledger.start(loan, owner, standing.number)
        standing.stands = True
        for loan in loans:
            loan.ledger.stand(loan.region, standing)
        return loans, earlier


def borrow(request: Request, holder: str) -> Loan:
    """Grant one view or partition: a new idle loan."""
    return hold((request,), holder, State.IDLE)[0]


def hold(
    requests: Sequence[Request], holder: str, state: State = State.BUILT, *, in_order: bool = False
) -> tuple[Loan, ...]:
    """Grant what an op needs, all or nothing: one held loan per request."""
    with LOCK:
        grant(requests, holder, in_order=in_order)
        site = here()
        return tuple(_enter(request, holder, state, site) for request in requests)


def become(loans: Iterable[Loan], state: State) -> None:
    """Let loans that nobody runs go on as `state`."""
    with LOCK:
        for loan in loans:
            loan.state, loan.owner = state, None
            loan.ledger.unsettle(loan.region)


def merged(loans: Sequence[Loan]) -> tuple[Loan, ...]:
    """The loans of one party with one for all that say the same: bytes and exclusiveness. The others end.

    A graph of a thousand launches on three tensors has three, whatever handles the launches went through.
    """
    with LOCK:
        kept: dict[tuple[int, Region, bool], Loan] = {}
        for loan in loans:
            first = kept.setdefault((id(loan.ledger), loan.region, loan.exclusive), loan)
            if first is not loan:
                first.lineage |= loan.ancestry
                loan.state = State.ENDED
        return tuple(kept.values())


def resume(requests: Sequence[Request], by: str, standing: Standing, owner: Runner) -> tuple[Loan, ...] | None:
    """Loans as `repeat` gives them after the earlier ones have ended, if the leave still stands: nothing that it looks at
    has changed, and what the first round came after the next one does too. None if it was taken back.
    """
    with LOCK:
        if not standing.stands:
            return None
        site = here()
        loans = tuple(_loan(request, by, State.RUNNING, site) for request in requests)
        for loan in loans:
            loan.ledger.start(loan, owner, standing.number)
        return loans


def again(loans: Sequence[Loan]) -> tuple[Request, ...]:
    """The accesses of one more round of captured work, to be granted `in_order`."""
    mine = frozenset(loan.number for loan in loans)
    return tuple(
        Request(
            loan.ledger,
            loan.region,
            Access.EXCLUDE if loan.exclusive else Access.SHARE,
            f"what {loan.holder} captured",
            loan,
            exempt=mine,
        )
        for loan in loans
    )


def before(loans: Sequence[Loan], execution: object) -> set[Runner]:
    """The other executions whose running loans conflict with `loans`: what those are about to do comes after them."""
    with LOCK:
        return {other for loan in loans for other in loan.ledger.ahead(loan, execution)}


def release(loans: Iterable[Loan]) -> None:
    """End loans for good: their holder is done with them. Safe from finalisers, takes no lock."""
    for loan in loans:
        loan.state = State.ENDED


def _enter(request: Request, holder: str, state: State, site: Site) -> Loan:
    loan = _loan(request, holder, state, site)
    request.ledger.add(loan)
    return loan


def _loan(request: Request, holder: str, state: State, site: Site) -> Loan:
    lineage = frozenset() if request.actor is None else request.actor.ancestry
    exclusive = request.access is Access.EXCLUDE
    return Loan(request.ledger, request.region, exclusive, holder, site, lineage, state)


def _check(requests: Sequence[Request], by: str, in_order: bool) -> None:
    for request in requests:
        if request.actor is not None:
            request.actor.check(request.name)
    if not in_order:
        for i, first in enumerate(requests):
            for second in requests[i + 1 :]:
                _check_pair(first, second, by)
    for request in requests:
        ledger = request.ledger
        loans = ledger.still()
        if request.access in BY_HOST:
            loans += ledger.running()
        broken: list[tuple[Loan, str]] = []
        for loan in loans:
            # Most are idle ones, which never stop anybody.
            if loan.state is State.IDLE:
                continue
            rule = CONFLICTS.get((loan.state, loan.exclusive), {}).get(request.access)
            if (
                rule is not None
                and (loan.number not in request.exempt or loan.state is State.REPEATING)
                and (request.execution is None or loan.owner is not request.execution)
                and overlaps(loan.region, request.region)
            ):
                broken.append((loan, rule))
        if broken:
            # Of several, what does not go away by waiting, and then the oldest.
            loan, rule = min(broken, key=lambda found: (found[0].state is State.RUNNING, found[0].number))
            raise _conflict(request, loan, rule)


def _check_pair(first: Request, second: Request, by: str) -> None:
    exclusive = [r for r in (first, second) if r.access in ENDING]
    if not exclusive or first.ledger is not second.ledger or not overlaps(first.region, second.region):
        return
    one, other = (first, second) if first.access in ENDING else (second, first)
    verb = "writes" if other.access in ENDING else "reads"
    raise BorrowError(
        f"{one.name} and {other.name} share memory in one launch of {by}, which writes {one.name}",
        f"pass a copy for {other.name}, or write to a tensor of its own",
        rule=CONFLICT,
        points=(f"bytes {one.region.offset} to {one.region.end} are written through {one.name}",
                f"bytes {other.region.offset} to {other.region.end}: {by} {verb} them through {other.name}"),
    )  # fmt: skip


def _conflict(request: Request, loan: Loan, rule: str) -> BorrowError:
    verb = "writing" if loan.exclusive else "reading"
    doing = {
        State.RUNNING: f"is {verb} it",
        State.REPEATING: f"is {verb} it",
        State.LENT: f"is {verb} it",
        State.BUILT: "has it exclusively" if loan.exclusive else "reads it",
    }.get(loan.state, "holds it")
    what, way_out = STORY[loan.state]
    return BorrowError(
        f"cannot {request.access.value.format(request.name or subject())} while {loan.holder} {doing}",
        way_out,
        rule=rule,
        points=(f"{loan.site}: {loan.holder} was {what}",),
    )


def _end_idle(request: Request, by: str) -> bool:
    """End the idle loans that `request` excludes; whether there were any."""
    kept = frozenset() if request.actor is None else request.actor.ancestry
    found = False
    for loan in request.ledger.still():
        if loan.state is State.IDLE and loan.number not in kept and overlaps(loan.region, request.region):
            loan.ended = (f"{by} {VERBS[request.access]}", here())
            found = True
    return found
