"""Ops of launches that were granted and are not entered: most are run at once, and then nobody has looked.

What an op holds is entered into the ledgers when somebody looks at one before the op runs (`ledger.OPEN`), or when anything
else is done with it than running it (`then`, a graph). Run before that, it goes from built to running at once.

    op = saxpy(z.partition(128), x, y, 2.0)     # granted
    z.numpy()                                   # looks: the op is entered, and in the way
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any, TypeVar

from tilecheck_runtime import phase
from tilecheck_runtime.errors import DroppedOpWarning
from tilecheck_runtime.execution import Execution
from tilecheck_runtime.grants import admit, enter, release, running
from tilecheck_runtime.launch import LaunchOp, Plan, Tensors, requests_of
from tilecheck_runtime.ledger import LOCK, OPEN, Pending, Request
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


class PlannedOp(OpenOp[Tensors], LaunchOp):
    """The op of a launch like one that was there before. Making it raises BorrowError for a conflict."""

    def __init__(self, plan: Plan, site: Site) -> None:
        self.plan = plan
        self._tensors = plan.tensors
        self._requests = requests_of(self._tensors)
        self._site = site
        with LOCK:
            admit(self._requests, f"`{plan.name}`")
            self._ref: weakref.ref[Pending] = weakref.ref(self)
            OPEN.append(self._ref)

    def __getattr__(self, name: str) -> Any:
        match name:
            case "_node":
                value: Any = Value(tuple(a.value for a in self._tensors))
            case "_name":
                value = f"`{self.plan.name}`"
            case _:
                return super().__getattr__(name)
        self.__dict__[name] = value
        return value

    def run(self, stream: Stream | None = None) -> Running[Tensors]:
        """As of every op."""
        plan = self.plan
        known = plan.decision is not None and plan.decision.program is not None and plan.grid is not None
        if not known or phase.entered() is not None or not isinstance(stream, Stream | None):
            return super().run(stream)
        self._attempted = True
        stream = next_stream() if stream is None else stream
        execution = Execution(stream)
        with LOCK:
            # From built to running at once, for everybody who looks.
            started = self._life is _BUILT and taken_back(self._ref)
            if started:
                self._life = _STARTED
                self._loans = ()
                earlier = execution.begin(running(self._requests, self._name, self._site))
        if not started:
            return super().run(stream)
        assert plan.grid is not None
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
        return Running(execution, tuple([a.value for a in self._tensors]))


def taken_back(ref: weakref.ref[Pending]) -> bool:
    """Take an op out of those that are pending; whether it was there. Safe from finalisers."""
    try:
        OPEN.remove(ref)
    except ValueError:
        return False
    return True
