"""Granting accesses: what is asked is checked against the ledgers, and entered, all or nothing.

Checks come first and changes after them, under the one lock of the ledgers. `hold` is what building an op does; `repeat`
and `resume` are for work that is submitted again and again on one stream; `merged` and `again` for graphs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from tilecheck_runtime.backends import default
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import BorrowError
from tilecheck_runtime.ledger import LOCK, OPEN, Standing, enter_open
from tilecheck_runtime.loans import (
    BY_HOST,
    CONFLICT,
    CONFLICTS,
    ENDING,
    STORY,
    UNRELATED,
    VERBS,
    Access,
    Loan,
    Request,
    Runner,
    State,
)
from tilecheck_runtime.regions import Region, overlaps
from tilecheck_runtime.sites import Site, caller, here, subject


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
            default().look()
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


def admit(requests: Sequence[Request], by: str) -> None:
    """Grant a launch that is entered, or runs, later. Unless it ends a loan that they rest on, the leaves for borrows
    stand, which launches do not disturb, but for those of views that it writes through another handle.
    """
    with LOCK:
        check(requests, by)
        ended = [_end_idle(request, by) for request in requests if request.access in ENDING]
        borrows = any(ended)
        for request in requests:
            ledger, region = request.ledger, request.region
            ledger.unsettle(region, borrows=borrows)
            if request.access in ENDING:
                ledger.unsettle_views(region, frozenset() if request.actor is None else request.actor.ancestry)


def running(requests: Sequence[Request], holder: str, site: Site) -> tuple[Loan, ...]:
    """The loans of a launch that was admitted and runs now; its execution starts them."""
    return tuple(_loan(request, holder, State.RUNNING, site) for request in requests)


def enter(requests: Sequence[Request], holder: str, site: Site) -> tuple[Loan, ...]:
    """The loans of a built op whose requests were granted when it was built."""
    with LOCK:
        loans = tuple(_enter(request, holder, State.BUILT, site) for request in requests)
        for loan in loans:
            loan.ledger.unsettle(loan.region)
        return loans


def stand(
    requests: Sequence[Request], by: str, standing: Standing, owner: Runner, *, in_order: bool = False
) -> set[Runner]:
    """Grant what is to be repeated on one stream, without a loan: as long as `standing` stands, `resume` makes loans. What
    comes back are the executions that the first round comes after.

    Leaves on the same stream go on beside this one, unless it ends a loan that they rest on.
    """
    with LOCK:
        check(requests, by, in_order=in_order)
        ended = [_end_idle(request, by) for request in requests if request.access in ENDING]
        site = here()
        loans = [_loan(request, by, State.RUNNING, site) for request in requests]
        for loan in loans:
            if any(ended):
                loan.ledger.unsettle(loan.region)
            else:
                loan.ledger.unsettle(loan.region, standing.number or 0, borrows=False)
            if loan.exclusive:
                # A view that comes again later has to be ended by the rounds after it, unless they are its own.
                loan.ledger.unsettle_views(loan.region, loan.lineage)
        standing.stands = True
        for loan in loans:
            loan.ledger.stand(loan.region, standing)
        return before(loans, owner)


def renew(request: Request, by: str, loan: Loan, view: Standing | None = None) -> bool:
    """Grant `request` as a new exclusive borrow that goes on as `loan`, since those who had that have ended or are about to.
    False, and nothing done, if somebody else has ended it. Raises BorrowError for a conflict.

    Nothing is entered, so the leaves of launches stand unless it ends what they may rest on, and so does that of the `view`
    that is borrowed.
    """
    with LOCK:
        if loan.ended is not None:
            return False
        check((request,), by)
        ended = _end_idle(request, by, spared=loan)
        request.ledger.unsettle(request.region, launches=ended, spared=view)
        loan.site = here()
        return True


def borrow(elements: Elements, access: Access, actor: Loan | None, holder: str, execution: object = None) -> Loan:
    """Grant one view (SHARE) or partition (EXCLUDE) of these elements through a handle with the loan `actor`: a new idle loan."""
    memory, region, exclusive = elements.memory, elements.region, access is Access.EXCLUDE
    ledger = memory.ledger
    number, lineage = (0, UNRELATED) if actor is None else (actor.number, actor.lineage)
    with LOCK:
        if OPEN:
            enter_open()
        # Mostly there is nothing to look at.
        alone = actor is None or actor.ended is None
        if alone and not ledger.bare():
            alone = ledger.quiet(region, exclusive, number, lineage)
            if alone:
                ledger.unsettle(region)
        if not alone:
            grant((elements.request(access, actor, execution=execution),), holder)
        # Above are whoever asks and what asked this.
        loan = Loan(ledger, region, exclusive, holder, caller(2), lineage | {number} if number else lineage)
        ledger.add(loan)
        return loan


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


def resume(
    requests: Sequence[Request], by: str, standing: Standing, owner: Runner, before: Sequence[Loan], site: Site
) -> tuple[Loan, ...] | None:
    """Running loans for the rounds to come, if the leave still stands: nothing that it was granted on has changed. None if it
    was taken back. Those from `before` run on if the ledgers still list them.
    """
    with LOCK:
        if not standing.stands:
            return None
        if before and all(loan.listed for loan in before):
            for loan in before:
                loan.state, loan.site = State.RUNNING, site
            return tuple(before)
        assert standing.number is not None
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
        if request.actor is not None and request.actor.ended is not None:
            request.actor.check(request.name)
    if not in_order:
        for i, first in enumerate(requests):
            for second in requests[i + 1 :]:
                if first.ledger is second.ledger:
                    _check_pair(first, second, by)
    for request in requests:
        ledger = request.ledger
        loans = ledger.still(request.region)
        if request.access in BY_HOST:
            loans += ledger.running()
        elif not loans:
            continue
        broken: list[tuple[Loan, str]] = []
        for loan in loans:
            # Most are idle ones, which never stop anybody.
            if loan.state is State.IDLE:
                continue
            rule = CONFLICTS.get((loan.state, loan.exclusive), {}).get(request.access)
            if (
                rule is not None
                and (loan.number not in request.exempt or loan.state is State.REPEATING)
                and not _in_order(loan, request)
                and overlaps(loan.region, request.region)
            ):
                broken.append((loan, rule))
        if broken:
            # Of several, what does not go away by waiting, and then the oldest.
            loan, rule = min(broken, key=lambda found: (found[0].state is State.RUNNING, found[0].number))
            raise _conflict(request, loan, rule)


def _in_order(loan: Loan, request: Request) -> bool:
    """Whether both belong to one execution, whose work is in order by itself. What is moved away in its midst must have been
    used through its owner: a partition that somebody may still have is not.
    """
    if request.execution is None or loan.owner is not request.execution:
        return False
    mine = frozenset() if request.actor is None else request.actor.ancestry
    return request.access is not Access.MOVE or loan.lineage <= mine


def _check_pair(first: Request, second: Request, by: str) -> None:
    exclusive = [r for r in (first, second) if r.access in ENDING]
    if not exclusive or not overlaps(first.region, second.region):
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


def _end_idle(request: Request, by: str, spared: Loan | None = None) -> bool:
    """End the idle loans that `request` excludes, but for `spared` and those that nobody has; whether there were any."""
    kept = frozenset() if request.actor is None else request.actor.ancestry
    found = False
    for loan in request.ledger.still(request.region):
        if loan.state is not State.IDLE or loan is spared or loan.number in kept or loan.vacant:
            continue
        if overlaps(loan.region, request.region):
            loan.ended = (f"{by} {VERBS[request.access]}", here())
            found = True
    return found
