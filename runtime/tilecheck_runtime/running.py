"""`Running`: work that was submitted and holds what it borrowed until somebody waits for it.

`wait()` or `await` ends the borrows and gives the value, or raises the error of the work, every time it is asked. A
`Running` that is dropped keeps its buffers until the work is over and then lets go of them. Waiting never spins: `wait`
blocks on the event, `await` is woken by it. It may be waited for from any thread, and from several.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Event
from tilecheck_runtime.stream import Stream
from tilecheck_runtime.unique import Unique

R = TypeVar("R", covariant=True)


class Flight(Protocol):
    """What was submitted: an execution, or a flight."""

    def event(self) -> Event:
        """The end of it."""
        ...

    def release(self) -> None:
        """End the borrows: it is over."""
        ...

    def abandon(self) -> None:
        """Nobody will wait: the borrows end with the work. Safe from finalisers."""
        ...


class Running(Unique, Generic[R]):
    """Work on a stream. Made by `op.run()`."""

    def __init__(self, flight: Flight, value: R, stream: Stream) -> None:
        self._flight = flight
        self._where = stream
        self._end: Event | None = None
        self._value = value

    @property
    def _event(self) -> Event:
        if self._end is None:
            self._end = self._flight.event()
        return self._end

    @property
    def stream(self) -> Stream:
        """Where it runs."""
        return self._where

    def done(self) -> bool:
        """Whether the work is over. The borrows end with `wait()`, not with the work."""
        return self._event.done()

    def _seen(self) -> bool:
        """Whether it is over, as far as can be told without much ado."""
        return self.done()

    def wait(self) -> R:
        """Block until the work is over and end its borrows.

        Raises KernelStopped if a check inside a kernel failed, and whatever else went wrong in the work.
        """
        phase.refuse_running("wait")
        return self._collect()

    def _collect(self) -> R:
        try:
            self._event.wait()
        finally:
            # An interrupted wait says nothing about the work.
            if self._event.done():
                self._release()
        return self._value

    def _release(self) -> None:
        self._flight.release()

    def __await__(self) -> Generator[Any, None, R]:
        phase.refuse_running("await")
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def over() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self._event.then(over)
        yield from woken
        return self._collect()

    def __del__(self) -> None:
        # The constructor may have failed before there was an execution.
        flight = getattr(self, "_flight", None)
        if flight is not None:
            flight.abandon()

    def __repr__(self) -> str:
        return f"<Running on {self.stream}: {'over' if self.done() else 'in flight'}>"
