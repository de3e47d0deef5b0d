"""Ops of launches that were granted and are not entered: most are run at once, and then nobody has looked.

What an op holds is entered into the ledgers when somebody looks at one before the op runs (`ledger.OPEN`), or when anything
else is done with it than running it (`then`, a graph). Run before that, it goes from built to running at once.

    op = saxpy(z.partition(128), x, y, 2.0)     # granted
    z.numpy()                                   # looks: the op is entered, and in the way
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Cast
from tilecheck_runtime.errors import DriverError, DroppedOpWarning
from tilecheck_runtime.execution import Execution
from tilecheck_runtime.flights import Flight, Flow
from tilecheck_runtime.grants import admit, enter, release, running
from tilecheck_runtime.launch import LaunchOp, Tensors, requests_of
from tilecheck_runtime.ledger import LOCK, OPEN, Pending, ahead_of, note
from tilecheck_runtime.loans import Request, Runner, Use
from tilecheck_runtime.moulds import Mould, Told, told
from tilecheck_runtime.nodes import Value
from tilecheck_runtime.op import DeviceOp, Life
from tilecheck_runtime.running import Running
from tilecheck_runtime.sites import Site, in_del
from tilecheck_runtime.stream import Stream, next_stream

R = TypeVar("R", covariant=True)

# Quicker than the members by name.
_BUILT, _STARTED = Life.BUILT, Life.STARTED


class OpenOp(DeviceOp[R]):
    """An op whose borrows are granted. Whoever makes it sets what it holds and lists it in `OPEN`."""

    _life = Life.BUILT
    _attempted = False
    _lock = LOCK

    _requests: tuple[Request, ...]
    _site: Site
    _ref: weakref.ref[Pending]

    def __getattr__(self, name: str) -> Any:
        if name == "_loans":
            self._pull()
            return self.__dict__[name]
        return super().__getattr__(name)

    def enter(self) -> None:
        """Enter the loans: somebody looks. The lock of the ledgers is held."""
        self._loans = enter(self._requests, self._name, self._site)

    def _pull(self) -> None:
        with LOCK:
            if "_loans" not in self.__dict__:
                self._loans = ()
                if taken_back(self._ref):
                    self.enter()

    def __del__(self) -> None:
        # The constructor may have failed before there was anything to give back.
        if self._life is _STARTED or "_ref" not in self.__dict__:
            return
        taken_back(self._ref)
        release(self.__dict__.get("_loans", ()))
        if self._pending() and not in_del():
            warnings.warn_explicit(
                f"{self._name} was built and never run; run it with `sync()`, or do not build it",
                DroppedOpWarning,
                self._site.path,
                self._site.line,
            )


class InFlight(Running[R]):
    """The `Running` of a flight."""

    _flight: Flight

    def __del__(self) -> None:
        self._flight.abandon()

    def done(self) -> bool:
        """As of every `Running`."""
        return self._flight.past or super().done()

    def _seen(self) -> bool:
        # The flow looks now and then.
        return self._flight.past

    def _collect(self) -> R:
        flight = self._flight
        if not flight.past:
            if self._end is not None:
                return super()._collect()
            try:
                flight.flow.drain()
            except DriverError as error:
                flight.end()
                raise error.noticed(flight.holder) from None
        flight.release()
        return self._value


class PlannedOp(OpenOp[Tensors], LaunchOp):
    """The op of a launch with `args` that has a mould, of which a look has `seen` what it says. Making it raises BorrowError for
    a conflict. The lock of the ledgers is held.
    """

    def __init__(self, mould: Mould, args: tuple[Any, ...], seen: Told, site: Site) -> None:
        self._mould = mould
        self._args = args
        self._site = site
        # What it uses, as long as nobody looks.
        self._told = seen if mould.plain else told(args, False, mould.writes)
        if self._told.uses is None:
            admit(self._requests, self._name)
        self._ref: weakref.ref[Pending] = weakref.ref(self)
        OPEN.append(self._ref)

    def __getattr__(self, name: str) -> Any:
        match name:
            case "plan":
                value: Any = self._mould.plan(self._args)
            case "_tensors":
                value = self.plan.tensors
            case "_requests":
                value = requests_of(self._tensors)
            case "_node":
                value = Value(self._mould.value(self._args))
            case "_name":
                value = self._mould.title
            case _:
                return super().__getattr__(name)
        self.__dict__[name] = value
        return value

    def run(self, stream: Stream | None = None) -> Running[Tensors]:
        """As of every op."""
        if phase.entered() is not None or not (stream is None or isinstance(stream, Stream)):
            return super().run(stream)
        self._attempted = True
        stream = next_stream() if stream is None else stream
        flight = self._fly(stream)
        if flight is not None:
            return InFlight(flight, self._mould.value(self._args), stream)
        plan = self.plan
        if plan.decision is None or plan.decision.program is None or plan.grid is None:
            return super().run(stream)
        execution = Execution(stream)
        with LOCK:
            # From built to running at once, for everybody who looks.
            started = self._life is _BUILT and taken_back(self._ref)
            if started:
                self._life = _STARTED
                self._loans = ()
                if self._told.uses is not None:
                    for request in self._requests:
                        request.ledger.unsettle(request.region, borrows=False)
                earlier = execution.begin(running(self._requests, self._name, self._site))
        if not started:
            return super().run(stream)
        try:
            execution.wait_for(earlier)
            execution.submit(plan.work(plan.grid), tuple([a.elements.allocation for a in self._tensors]))
        except BaseException:
            # What was queued before the error still uses its buffers; the host gets them back before it hears of it.
            try:
                execution.finish().wait()
            finally:
                execution.abandon()
            raise
        execution.finish()
        return Running(execution, self._mould.value(self._args), stream)

    def _fly(self, stream: Stream) -> Flight | None:
        """Submit it as a flight; None, and nothing done, if it needs an execution."""
        flow, mould = stream._flow, self._mould
        seen = self._told
        uses = seen.uses
        if uses is None or flow is None:
            return None
        cast = mould.cast(flow, self._args)
        if cast is None:
            return None
        behind: set[Runner] = set()
        while True:
            with LOCK:
                # Whoever was granted anything since it was built has looked, and entered it.
                if self._life is not _BUILT or self._ref not in OPEN:
                    return None
                earlier = _ahead(uses, flow)
                if not earlier or earlier <= behind:
                    flight = _submitted(mould, uses, seen.numbers, flow, cast, self._site)
                    self._life = _STARTED
                    if not taken_back(self._ref):
                        # A finaliser has looked meanwhile.
                        release(self.__dict__.get("_loans", ()))
                    break
            # Without the lock: another thread may have to submit what this one comes behind.
            if not flow.queue.after([other.event() for other in earlier - behind]):
                return None
            behind |= earlier
            flow.behind.update(other for other in earlier if other.flow is None)
        if flow.due:
            flow.mark()
        return flight


def at_once(mould: Mould, seen: Told, stream: Stream, site: Site) -> Running[None] | None:
    """Submit a launch without an op; None, and nothing done, for one that is not free, comes behind others or needs an
    execution. The lock of the ledgers is held, and has been since it was looked at.
    """
    flow = stream._flow
    if flow is None or seen.uses is None or not mould.plain:
        return None
    cast = mould.casts.get(flow.number)
    if cast is None or _ahead(seen.uses, flow):
        return None
    return InFlight(_submitted(mould, seen.uses, seen.numbers, flow, cast, site), None, stream)


def _ahead(uses: Sequence[Use], flow: Flow) -> set[Runner] | None:
    """What a flight must be put behind, if anything."""
    earlier = ahead_of(uses, flow)
    return {other for other in earlier if other not in flow.behind} if earlier else None


def _submitted(
    mould: Mould, uses: Sequence[Use], numbers: Sequence[int | float], flow: Flow, cast: Cast, site: Site
) -> Flight:
    cast(numbers)
    flight = Flight(flow, uses, mould.title, site)
    note(uses, flight)
    flow.submitted(flight, mould.nbytes)
    return flight


def taken_back(ref: weakref.ref[Pending]) -> bool:
    """Take an op out of those that are pending; whether it was there. Safe from finalisers."""
    try:
        OPEN.remove(ref)
    except ValueError:
        return False
    return True
