"""Launches at once: a kernel and a stream, each call checked like any other and submitted before it returns.

`saxpy.on(stream)(z.partition(128), x, y, 2.0)` is `saxpy(z.partition(128), x, y, 2.0).run(stream)` without the op and the
`Running` in between: what the launches use is in flight until `wait()` or `stream.synchronize()`; of many different ones
the launcher lets go of those that it finds over. If it is dropped, the borrows end with the work.

Nothing is skipped, but what cannot have changed is not looked at again. A launch that is repeated with the same handles has
a seat: everything that its handles, the kernel and what that refers to say is decided, because none of these changes
without being seen: handles never do, names are compared object by object (`surroundings.py`), and the ledgers take back
the leave of a seat as soon as they grant anybody anything on its bytes that a next round would have to look at. Then the
launch goes the long way once more.

    add = kernels.add.on(stream)
    for _ in range(1000):
        add(pieces, x, y)
    add.wait()
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from tilecheck.surface.kernel import Kernel as KernelObject
from tilecheck_runtime import phase
from tilecheck_runtime.backends import Event, Repeat
from tilecheck_runtime.errors import BorrowError, TilecheckError, UsageError
from tilecheck_runtime.launch import LaunchOp, build, requests_of
from tilecheck_runtime.ledger import LOCK, Loan, Request, Runner, Standing, release, repeat, resume
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.running import Running
from tilecheck_runtime.specialise import listeners
from tilecheck_runtime.stream import Stream
from tilecheck_runtime.surroundings import watch
from tilecheck_runtime.tensor import Tensor
from tilecheck_runtime.unique import Unique

Key = tuple[int, ...]

# Combinations of handles that have a seat, and that may get one when they come again.
SEATS = 256
RECENT = 64
# Runs that went the long way, before the launcher looks which are over.
RUNS = 32


class Launcher(Unique):
    """`kernel.on(stream)`. Launches may come from any thread; those of one launcher are submitted one after the other."""

    def __init__(self, kernel: KernelObject, stream: Stream) -> None:
        if not isinstance(stream, Stream):
            raise UsageError(
                f"a kernel runs on a stream, this is a `{type(stream).__name__}`", "make one: `tc.Stream()`"
            )
        self.stream = stream
        self._kernel = kernel
        self._seats: dict[Key, Seat] = {}
        self._recent: dict[Key, tuple[Callable[[], Any], ...]] = {}
        self._runs: list[Running[Any]] = []
        self._unchanged: Callable[[], bool] = watch(kernel.fn)
        # Held around each submission: what follows the work of this launcher finds all or nothing of it.
        self._lock = threading.Lock()
        stream._settles(self)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Check and submit one launch. Raises what building and running the op would raise."""
        seat = self._seats.get(tuple(map(id, args)))
        if seat is None or kwargs or listeners or phase.entered() is not None or not self._unchanged():
            return self._long_way(args, kwargs)
        with self._lock:
            if seat.ready:
                return seat.submit()
        return self._long_way(args, kwargs)

    def wait(self) -> None:
        """Block until every launch is over, and let others use the arguments. Raises the error of one that failed."""
        phase.refuse_running("wait")
        failed: TilecheckError | None = None
        with self._lock:
            while self._runs:
                try:
                    self._runs[0]._collect()
                except TilecheckError as error:
                    failed = failed or error
                del self._runs[0]
            for seat in list(self._seats.values()):
                try:
                    seat.wait()
                except TilecheckError as error:
                    failed = failed or error
        if failed is not None:
            raise failed

    def settle(self) -> None:
        """End the borrows after everything on the stream is over; errors are left for `wait`."""
        with self._lock:
            if any(seat.loans for seat in self._seats.values()):
                self.stream._queue.mark(()).wait()
            for seat in list(self._seats.values()):
                seat.land()
            self._runs = list(filter(_going, self._runs))

    def _long_way(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        phase.refuse_running("a launch")
        if not self._unchanged():
            # The kernel is read again, and so every seat is void.
            for other in list(self._seats.values()):
                other.close()
            self._seats.clear()
            self._unchanged = watch(self._kernel.fn)
        plain = not kwargs and not listeners
        key = tuple(map(id, args))
        seat = self._seats.get(key)
        if plain and seat is not None and all(map(_usable, args)) and seat.sit():
            return
        op = build(self._kernel, args, kwargs)
        if plain and seat is None and self._seen(key, args):
            self._seat(key, args, op)
        running: Running[Any] = op.run(self.stream)
        # Nobody asks for the value, which would keep the handles alive.
        running._value = None
        with self._lock:
            if len(self._runs) >= RUNS:
                self._runs = list(filter(_going, self._runs))
            self._runs.append(running)

    def _seen(self, key: Key, args: tuple[Any, ...]) -> bool:
        """Whether these very arguments were here not long ago; they have been now."""
        known = self._recent.pop(key, ())
        while len(self._recent) >= RECENT:
            self._recent.pop(next(iter(self._recent)), None)
        self._recent[key] = tuple(map(_reference, args))
        return len(known) == len(args) and all(a is earlier() for a, earlier in zip(args, known, strict=True))

    def _seat(self, key: Key, args: tuple[Any, ...], op: LaunchOp) -> None:
        """Give this combination of handles a seat, which it has as long as all of them live."""
        plan = op.plan
        if plan.grid is None or plan.meta or not any(a.exclusive for a in plan.tensors):
            return
        kept = tuple(a.elements.allocation for a in plan.tensors)
        rounds = self.stream._queue.repeat(plan.work(plan.grid), kept)
        if rounds.shares:
            return
        seat = Seat(plan.name, requests_of(plan), rounds, self)
        me = weakref.ref(self)

        def gone(_: object) -> None:
            launcher = me()
            left = None if launcher is None else launcher._seats.pop(key, None)
            if left is not None:
                left.close()

        seat.handles = tuple(weakref.ref(a, gone) if isinstance(a, Tensor | Partition) else a for a in args)
        while len(self._seats) >= SEATS:
            self._seats.pop(next(iter(self._seats))).close()
        self._seats[key] = seat

    def __del__(self) -> None:
        for seat in getattr(self, "_seats", {}).values():
            seat.close()

    def __repr__(self) -> str:
        return f"<{self._kernel!r} on {self.stream}>"


class Seat(Standing):
    """One combination of handles, whose launch is submitted as long as it `stands`.

    `handles` are references to tensors and partitions, and the scalars themselves, so that nothing else can have their id.
    """

    def __init__(self, name: str, requests: tuple[Request, ...], rounds: Repeat, launcher: Launcher) -> None:
        super().__init__(launcher.stream._number)
        self.rounds = rounds
        self.submit: Callable[[], None] = rounds.__call__
        self.loans: tuple[Loan, ...] = ()
        self.handles: tuple[Any, ...] = ()
        self._name = f"`{name}`"
        self._requests = requests
        self._lock = launcher._lock
        self._sitting = False

    # ---- as the ledger knows it

    @property
    def submitted(self) -> bool:
        """Each round is submitted whole before anybody else can ask."""
        return True

    def over(self) -> bool:
        """Never before somebody waits."""
        return False

    def event(self) -> Event:
        """The end of the rounds so far."""
        with self._lock:
            return self.rounds.end()

    # ---- for the launcher

    def sit(self) -> bool:
        """Take the borrows and submit a round. False, and nothing done, if it must go the long way.

        Raises BorrowError for a conflict.
        """
        with self._lock:
            if self._sitting or self.ready:
                return False
            self._sitting = True
        try:
            events: tuple[Event, ...] = ()
            loans = None if self.loans else resume(self._requests, self._name, self, self)
            if loans is None:
                loans, earlier = repeat(self._requests, self._name, self, self)
                # Without our lock: another launcher may be asking for the end of our rounds.
                events = tuple(other.event() for other in earlier if not self._beside(other))
            with self._lock:
                in_order = self.rounds.after(events)
                with LOCK:
                    self.ready = self.stands and in_order
                if not self.ready:
                    release(loans)
                    return False
                before, self.loans = self.loans, loans
                release(before)
                self.submit()
                return True
        finally:
            self._sitting = False

    def _beside(self, other: Runner) -> bool:
        return isinstance(other, Seat) and other.number == self.number

    def wait(self) -> None:
        """Block until every round is over and end the borrows, also if one failed. Raises the error of that one."""
        try:
            self.rounds.wait()
        except TilecheckError:
            self.land()
            raise
        self.land()

    def land(self) -> None:
        """End the borrows: everything is over."""
        self.ready = False
        loans, self.loans = self.loans, ()
        release(loans)

    def close(self) -> None:
        """No more rounds: the borrows end with the last one. Safe from finalisers."""
        self.stands = self.ready = False
        loans, self.loans = self.loans, ()
        if loans:
            self.rounds.close(lambda: release(loans))


def _going(running: Running[Any]) -> bool:
    """Whether it is not over, or has an error to tell; else its borrows have ended."""
    if not running.done():
        return True
    try:
        running._collect()
    except TilecheckError:
        return True
    return False


def _usable(value: Any) -> bool:
    """Whether it was not given away; a scalar never is."""
    try:
        if isinstance(value, Tensor | Partition):
            value._usable("")
    except BorrowError:
        return False
    return True


def _reference(value: Any) -> Callable[[], Any]:
    return weakref.ref(value) if isinstance(value, Tensor | Partition) else lambda: value
