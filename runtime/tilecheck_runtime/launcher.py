"""Launches at once: a kernel and a stream, each call checked like any other and submitted before it returns.

`saxpy.on(stream)(z.partition(128), x, y, 2.0)` is `saxpy(z.partition(128), x, y, 2.0).run(stream)` without the op and the
`Running` in between: what the launches use is in flight until `wait()` or `stream.synchronize()`; of many different ones
the launcher lets go of those that it finds over. If it is dropped, the borrows end with the work.

Nothing is skipped, but what cannot have changed is not looked at again: see `seat.py`.

    add = kernels.add.on(stream)
    for _ in range(1000):
        add(pieces, x, y)
    add.wait()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tilecheck.surface.kernel import Kernel as KernelObject
from tilecheck_runtime import phase
from tilecheck_runtime.calls import build, launched
from tilecheck_runtime.errors import TilecheckError, UsageError
from tilecheck_runtime.ledger import OPEN
from tilecheck_runtime.running import Running
from tilecheck_runtime.seat import Key, Recent, Seat, close_all, key_of, seat_of, usable
from tilecheck_runtime.specialise import listeners
from tilecheck_runtime.stream import Stream
from tilecheck_runtime.surroundings import watch
from tilecheck_runtime.unique import Unique

# Runs that have no seat, before the launcher looks which are over: when there are this many more than twice what it found.
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
        self._recent = Recent()
        self._runs: list[Running[Any]] = []
        self._sweep_at = RUNS
        self._unchanged: Callable[[], bool] = watch(kernel.fn)
        # That of the seats, too.
        self._lock = threading.Lock()
        stream._settles(self)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Check and submit one launch. Raises what building and running the op would raise."""
        seats = self._seats
        seat = seats.get(key_of(args)) if seats else None
        if seat is None or kwargs or OPEN or listeners or phase.entered() is not None or not self._unchanged():
            return self._long_way(args, kwargs)
        with self._lock:
            if seat.ready and seat.takes(args):
                return seat.go(args)
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
        """End the borrows after everything that was submitted is over; errors are left for `wait`."""
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
            close_all(self._seats)
            self._unchanged = watch(self._kernel.fn)
        plain = not kwargs and not listeners
        running: Running[Any] | None = None
        seat = self._seats.get(key_of(args)) if plain and self._seats else None
        again = False
        if plain and seat is None:
            running, again = launched(self._kernel, args, self.stream, self._recent)
        elif seat is not None and all(map(usable, args)) and seat.sit(args):
            return
        if running is None:
            op = build(self._kernel, args, kwargs)
            if again:
                seat = seat_of(op.plan, self.stream, self._lock)
                if seat is not None:
                    seat.keep_in(self._seats, key_of(args), args)
            submitted: Running[Any] = op.run(self.stream)
            # Nobody asks for the value, which would keep the handles alive.
            submitted._value = None
            running = submitted
        with self._lock:
            self._runs.append(running)
            if len(self._runs) > self._sweep_at:
                self._runs = list(filter(_going, self._runs))
                self._sweep_at = 2 * len(self._runs) + RUNS

    def __del__(self) -> None:
        close_all(getattr(self, "_seats", {}))

    def __repr__(self) -> str:
        return f"<{self._kernel!r} on {self.stream}>"


def _going(running: Running[Any]) -> bool:
    """Whether it is not over, or has an error to tell; else its borrows have ended."""
    if not running._seen():
        return True
    try:
        running._collect()
    except TilecheckError:
        return True
    return False
