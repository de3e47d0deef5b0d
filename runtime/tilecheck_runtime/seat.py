"""Seats: launches that come again with the same handles on the same stream.

Everything that the handles, the kernel and what that refers to say about a launch is decided once for its seat, because none
of it changes without being seen: handles never do, names are compared object by object (`surroundings.py`), and the ledgers
take back the leave of a seat (`ledger.Standing`) as soon as they grant anybody anything on its bytes that a next round would
have to look at. Arguments are packed, so a round is one call of the driver.

The borrows of all rounds are one set of running loans. Rounds follow one another on one stream and write the same bytes, so
whoever waits for one has waited for those before it. A launch on another stream, with an int of another value, or through the handle
of another tensor takes no seat, and is checked from the start. Partitions of one tensor into the same tiles, one after the
other, are the same to it, and so are floats, unless `requires` reads them.

Locks: `lock` is held around each submission, so that what is put behind a round, by another thread after it took back the
leave, finds it submitted or never submitted. It may be held when the ledgers' is taken, never the other way round, and
nobody else's event is asked for meanwhile.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from operator import is_
from typing import Any

from tilecheck_runtime.backends import Event, Repeat
from tilecheck_runtime.errors import BorrowError, TilecheckError
from tilecheck_runtime.grants import release, resume, stand
from tilecheck_runtime.launch import Plan, requests_of
from tilecheck_runtime.ledger import LOCK, Standing
from tilecheck_runtime.loans import Loan, Request, Runner
from tilecheck_runtime.partition import Form, OwnedPartition, Partition
from tilecheck_runtime.sites import Site, here
from tilecheck_runtime.specialise import CheckedKernel
from tilecheck_runtime.stream import Stream
from tilecheck_runtime.tensor import Tensor
from tilecheck_runtime.views import Seen

# What makes two calls the same: the serial numbers of tensors, of the borrows of views and of the forms of partitions, which
# nothing else ever has, and the values of ints; floats are looked at apart.
Key = tuple[Hashable, ...]

# Combinations of handles that have a seat, and that get one when they come again.
SEATS = 256
RECENT = 256


class Seat(Standing):
    """One launch, or the replay of a graph, on `stream`, whose rounds are submitted as long as it is `ready`.

    `names` are those of the parameters of a launch, `free` says whether its floats decide nothing, and may be others each
    time; the accesses of a graph happen `in_order`.
    """

    def __init__(
        self,
        name: str,
        requests: tuple[Request, ...],
        stream: Stream,
        rounds: Repeat,
        lock: threading.Lock,
        names: tuple[str, ...] = (),
        *,
        free: bool = True,
        all_tensors: bool = False,
        in_order: bool = False,
    ) -> None:
        super().__init__(stream._number)
        self.stream = stream
        self.flow: object = stream._flow
        self.rounds = rounds
        self.submit: Callable[[], None] = rounds.__call__
        self.lock = lock
        self.loans: tuple[Loan, ...] = ()
        # Those that ended last, which go on if nobody has looked.
        self._before: tuple[Loan, ...] = ()
        self.requests = requests
        self.name = f"`{name}`"
        self._names = names
        # The parameters that got floats, with their places, and those that the next round submits.
        self._floats: tuple[tuple[int, str], ...] = ()
        self._now: tuple[float, ...] = ()
        self._free = free
        # Whether the value of the launch is its arguments as they are.
        self.all_tensors = all_tensors
        self._in_order = in_order
        # Weak references to tensors and forms of partitions, and the scalars themselves.
        self._handles: tuple[Any, ...] = ()
        self.earlier: set[Runner] = set()
        self._sitting = False
        # What is held until the last round is over, after the seat was closed.
        self._leaving: tuple[Loan, ...] = ()
        # How many rounds ops have submitted, and which of them somebody may still wait for.
        self.count = 0
        self.awaited: set[int] = set()

    # ---- as the ledger knows it

    @property
    def submitted(self) -> bool:
        """Each round is submitted whole before anybody else can ask."""
        return True

    def over(self) -> bool:
        """Whether all is over and nobody is going to wait for it; the borrows have ended then."""
        if self._leaving:
            if self.rounds.idle():
                _part(self._leaving)
            return not self.loans
        if self.awaited or not self.count or not self.rounds.idle():
            return False
        self.land()
        self.rounds.settled()
        return True

    def event(self) -> Event:
        """The end of the rounds so far."""
        with self.lock:
            return self.rounds.end()

    # ---- taking it

    def ask(self) -> None:
        """Get leave for rounds to come. Raises BorrowError for a conflict."""
        earlier = stand(self.requests, self.name, self, self, in_order=self._in_order)
        mine, number = self.flow, self.number
        self.earlier |= {
            o
            for o in earlier
            if not (isinstance(o, Seat) and o.number == number) and (mine is None or o.flow is not mine)
        }

    def order(self) -> bool:
        """Put the rounds to come behind what was there first. False if some of that may fail unnoticed by them; the leave is
        given back then.
        """
        earlier, self.earlier = self.earlier, set()
        if not earlier or self.rounds.after(tuple(other.event() for other in earlier)):
            return True
        self.stands = self.ready = False
        return False

    def take(self, site: Site) -> bool:
        """Hold what the rounds need, from `site` on; the caller holds both locks. False if the leave was taken back."""
        loans = resume(self.requests, self.name, self, self, self.loans or self._before, site)
        if loans is None:
            return False
        if loans is not self.loans:
            release(self.loans)
            self.loans = loans
        self.ready = True
        return True

    def sit(self, args: tuple[Any, ...]) -> bool:
        """Get leave, and submit a round. False, and nothing done, if it must go the long way. Raises as `ask`."""
        if not self.takes(args):
            return False
        with self.lock:
            if self._sitting or self.ready:
                return False
            self._sitting = True
        try:
            if not self.stands:
                self.ask()
            if not self.order():
                return False
            with self.lock:
                with LOCK:
                    if not self.take(here()):
                        return False
                self.go(args)
                return True
        finally:
            self._sitting = False

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether a call with the key of the seat is one of its rounds."""
        if not self._floats or self._free:
            return True
        return all(args[at] is value for (at, _), value in zip(self._floats, self._now, strict=True))

    def go(self, args: tuple[Any, ...]) -> None:
        """Submit a round of a call that it `takes`. The caller holds the lock."""
        if self._floats:
            floats = tuple([args[at] for at, _ in self._floats])
            if not all(map(is_, floats, self._now)):
                self.rounds.fill({name: value for (_, name), value in zip(self._floats, floats, strict=True)})
                self._now = floats
        self.submit()

    # ---- leaving it

    def wait(self) -> None:
        """Block until every round is over and end the borrows, also if one failed. Raises the error of that one. The caller
        holds the lock.
        """
        try:
            self.rounds.wait()
        except TilecheckError:
            self.land()
            raise
        self.land()

    def land(self) -> None:
        """End the borrows: everything is over. The leave stands."""
        self.ready = False
        if self.loans:
            self._before, self.loans = self.loans, ()
            release(self._before)

    def landed(self, number: int) -> None:
        """Round `number` is over: if it was the last one, so are the borrows."""
        with self.lock:
            self.awaited.discard(number)
            if number == self.count:
                self.land()
                self.rounds.settled()

    def settle(self) -> None:
        """End the borrows after everything that was submitted is over."""
        with self.lock:
            if self.loans:
                self.stream._queue.mark(()).wait()
            self.land()
            self.rounds.settled()

    def close(self) -> None:
        """No more rounds: the borrows end with the last one. Safe from finalisers."""
        self.stands = self.ready = False
        loans, self.loans, self._before = self.loans, (), ()
        if loans:
            self._leaving = loans
            self.rounds.close(lambda: _part(loans))

    def keep_in(self, seats: dict[Key, Seat], key: Key, args: tuple[Any, ...]) -> None:
        """Be found under `key` as long as all of `args` live."""

        def gone(_: object) -> None:
            left = seats.pop(key, None)
            if left is not None:
                left.close()

        self._handles = tuple(weakref.ref(lasting(a), gone) if isinstance(a, Tensor | Partition) else a for a in args)
        self._floats = tuple((at, self._names[at]) for at, a in enumerate(args) if a.__class__ is float)
        self._now = tuple(args[at] for at, _ in self._floats)
        while len(seats) >= SEATS:
            seats.pop(next(iter(seats))).close()
        seats[key] = self


def _part(loans: tuple[Loan, ...]) -> None:
    """End the loans of a closed seat, which lives no longer than the others need it. Safe from finalisers."""
    release(loans)
    for loan in loans:
        loan.owner = None


def seat_of(plan: Plan, stream: Stream, lock: threading.Lock) -> Seat | None:
    """A seat for launches like this one; None for one that must be checked from the start each time: without a grid, without
    data, that writes nothing, that looks at elements, or whose rounds would not know which of them failed.
    """
    if plan.grid is None or plan.meta or plan.kernel.facts or not any(a.exclusive for a in plan.tensors):
        return None
    # Of a kernel in which checks remain, rounds on a GPU share one record.
    if stream._queue.shares and plan.compile().checks:
        return None
    kept = tuple(a.elements.allocation for a in plan.tensors)
    return Seat(
        plan.name,
        requests_of(plan.tensors),
        stream,
        stream._queue.repeat(plan.work(plan.grid), kept),
        lock,
        tuple(a.param.name for a in plan.arguments),
        free=isinstance(plan.kernel, CheckedKernel) and not plan.kernel.floats_matter,
        all_tensors=len(plan.tensors) == len(plan.arguments),
    )


def close_all(seats: dict[Key, Seat]) -> None:
    """Close every seat, since the kernel is to be read again or is gone."""
    for seat in list(seats.values()):
        seat.close()
    seats.clear()


class Recent:
    """Which combinations of arguments came by not long ago, and on which stream: the last ones, and those before them."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._before: dict[Key, int] = {}

    def again(self, key: Key, stream: Stream, *, anywhere: bool = False) -> bool:
        """Whether this key did, the last time on `stream` or, as far as it matters, `anywhere`; it has now."""
        number = stream._number
        known = self._known
        last = known.get(key)
        if last is None:
            last = self._before.get(key)
            if len(known) >= RECENT:
                self._before, self._known = known, {}
                known = self._known
        known[key] = number
        return last is not None and (anywhere or last == number)


def key_of(args: tuple[Any, ...]) -> Key:
    """The key of a call with these arguments."""
    key: list[Hashable] = []
    for a in args:
        kind = a.__class__
        if kind is Partition or kind is OwnedPartition:
            key.append(a._form.serial)
        elif kind is float:
            key.append(float)
        elif kind is int or kind is bool:
            key.append((kind, a))
        elif kind is Tensor:
            key.append((a._seen or a)._serial)
        else:
            key.append(_Object(a))
    return tuple(key)


class _Object:
    """An argument of another kind, the same as itself."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def lasting(handle: Tensor | Partition) -> Tensor | Seen | Form:
    """What a handle is told from others by: partitions of one tensor into the same tiles, one after the other, are one, and
    so are its views.
    """
    return handle._form if isinstance(handle, Partition) else handle._seen or handle


def usable(value: Any) -> bool:
    """Whether an argument was not given away; a scalar never is."""
    try:
        if isinstance(value, Tensor | Partition):
            value._usable("")
    except BorrowError:
        return False
    return True
