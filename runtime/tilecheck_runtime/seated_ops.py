"""Ops that are rounds of a seat, and their `Running`.

The leave of the seat (`seat.py`) says that nothing has to be looked at: run at once, such an op is one submission, without an
event, an execution or a loan of its own. Run on another stream, or made part of something else, it is entered first and goes
the way of every op.

    for _ in range(1000):
        graph.launch().run(stream)        # rounds of one seat, from the third one on
"""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Event
from tilecheck_runtime.ledger import LOCK, Pending
from tilecheck_runtime.op import Life
from tilecheck_runtime.open_ops import OpenOp, taken_back
from tilecheck_runtime.running import Running
from tilecheck_runtime.seat import Seat
from tilecheck_runtime.sites import Site
from tilecheck_runtime.stream import Stream, next_stream, stays

R = TypeVar("R", covariant=True)

# Quicker than the members by name.
_BUILT, _STARTED = Life.BUILT, Life.STARTED


class Round(Running[R]):
    """One round of a seat, submitted and not yet waited for."""

    def __init__(self, seat: Seat, value: R) -> None:
        self._seat = seat
        self._number = seat.count
        self._end = seat.rounds.last
        self._value = value
        seat.awaited.add(seat.count)

    @property
    def stream(self) -> Stream:
        """Where it runs."""
        return self._seat.stream

    @property
    def _event(self) -> Event:
        # Of the last round so far, where the device does not tell them apart.
        if self._end is None:
            self._end = self._seat.event()
        return self._end

    def _collect(self) -> R:
        if self._end is not None:
            return super()._collect()
        over = False
        try:
            self._seat.rounds.wait()
            over = True
        finally:
            # An interrupted wait says nothing about the work.
            if over or self._event.done():
                self._release()
        return self._value

    def _release(self) -> None:
        self._seat.landed(self._number)

    def __del__(self) -> None:
        self._seat.awaited.discard(self._number)


class SeatedOp(OpenOp[R]):
    """An op whose seat has leave; `args` are those of the round."""

    def __init__(self, seat: Seat, args: tuple[Any, ...], site: Site) -> None:
        self._seat = seat
        self._args = args
        self._site = site
        self._ref: weakref.ref[Pending] = weakref.ref(self)

    def __getattr__(self, name: str) -> Any:
        if name == "_requests":
            return self._seat.requests
        if name == "_name":
            return self._seat.name
        return super().__getattr__(name)

    def _result(self) -> R:
        """The value."""
        raise AssertionError("each kind of op has one")

    def _give_up_seat(self) -> None:
        """It goes from stream to stream: a seat on one of them would cost more than it saves."""

    def run(self, stream: Stream | None = None) -> Running[R]:
        """As of every op."""
        if stream is None:
            self._attempted = True
            phase.refuse_running("run")
            stream = self._seat.stream if stays(self._seat.stream) else next_stream()
        seat = self._seat
        if stream is seat.stream and phase.entered() is None and (not seat.earlier or seat.order()):
            with seat.lock:
                # From built to running at once, for everybody who looks.
                with LOCK:
                    started = self._life is _BUILT and taken_back(self._ref)
                    if started and not seat.ready and not seat.take(self._site):
                        self.enter()
                        started = False
                    if started:
                        self._life = _STARTED
                        seat.count += 1
                if started:
                    seat.go(self._args)
                    return Round(seat, self._result())
        if stream is not seat.stream:
            self._give_up_seat()
        return super().run(stream)
