"""Kernel calls: `kernel(p, x)` builds the op of a launch, and what comes again takes less time.

The first call of a class goes the long way: `launch.plan_of` checks everything, the borrows are taken, and running the op
submits it. Later ones are filled into its mould (`moulds.py`). A call with handles that were here before on one stream gets a
seat (`seat.py`). The ops of both are like any other, but what they hold is entered into the ledgers only when somebody looks at
one before they run (`open_ops.py`). Of a launch with a seat that is run at once, the leave of the seat says that there is
nothing to check, and a round is submitted. Whatever else is done with it (`then`, a graph, another stream) makes it a plain
launch first.

The `Running` of a round ends the borrows unless a later round was submitted; they end with that one then.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tilecheck.surface.kernel import Kernel as KernelObject
from tilecheck_runtime import specialise
from tilecheck_runtime.launch import LaunchOp, Plan, Tensors, plan_of, take
from tilecheck_runtime.ledger import LOCK, OPEN, enter_open
from tilecheck_runtime.loans import Loan
from tilecheck_runtime.moulds import Mould, Told, keep, told
from tilecheck_runtime.nodes import Value
from tilecheck_runtime.op import Life
from tilecheck_runtime.open_ops import PlannedOp, at_once
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.running import Running
from tilecheck_runtime.seat import Key, Recent, Seat, close_all, key_of, seat_of, usable
from tilecheck_runtime.seated_ops import SeatedOp
from tilecheck_runtime.sites import Site, caller
from tilecheck_runtime.specialise import CheckedKernel, checked_kernel, listeners
from tilecheck_runtime.stream import Stream, stays
from tilecheck_runtime.surroundings import watch
from tilecheck_runtime.tensor import Tensor

# A kernel, the key of the call and its arguments.
Call = tuple[KernelObject, Key, tuple[Any, ...]]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Memory:
    """What was learned about a kernel: how it reads while its names are `unchanged`, None for a SIMT kernel, whose
    parameters may be others at each call, and the seats and the moulds of its launches.
    """

    unchanged: Callable[[], bool]
    checked: CheckedKernel | None
    # Whether the value of a float may decide anything but what is computed.
    floats_matter: bool
    seats: dict[Key, Seat] = field(default_factory=dict)
    recent: Recent = field(default_factory=Recent)
    moulds: dict[Hashable, Mould] = field(default_factory=dict)


_memories: weakref.WeakSet[Memory] = weakref.WeakSet()


def forget(kernel: KernelObject | None = None) -> None:
    """Let `kernel`, or every kernel, be read and compiled again at its next call."""
    if kernel is None:
        specialise._kernels.clear()
    else:
        specialise._kernels.pop(kernel.fn, None)
    for memory in list(_memories) if kernel is None else [kernel._memory]:
        if memory is not None:
            memory.unchanged = lambda: False


def build(kernel: KernelObject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LaunchOp:
    """The op of `kernel(*args, **kwargs)`.

    Raises KernelRejected for a kernel that fails the checks, LaunchRefused or UsageError for arguments that do not fit,
    BorrowError for a conflict; nothing is held then.
    """
    memory: Memory | None = kernel._memory
    if memory is not None and not kwargs and not listeners and memory.unchanged():
        seat = memory.seats.get(key_of(args)) if memory.seats else None
        if seat is not None:
            op = _quick(kernel, seat, args)
            if op is not None:
                return op
        with LOCK:
            if OPEN:
                enter_open()
            seen = told(args, memory.floats_matter)
            mould = _mould(memory, seen)
            if mould is not None:
                # Above is whoever called.
                return MouldedOp(mould, args, seen, caller(1), kernel)
    memory = _remembered(kernel)
    plan = plan_of(kernel, memory.checked, args, kwargs)
    loans = take(plan)
    if kwargs or listeners:
        return LaunchOp(plan, loans)
    with LOCK:
        keep(memory.moulds, told(args, memory.floats_matter).sort, plan, args)
    return CalledOp(plan, loans, kernel, args)


def launched(
    kernel: KernelObject, args: tuple[Any, ...], stream: Stream, recent: Recent
) -> tuple[Running[Any] | None, bool]:
    """A call of `kernel` that is submitted to `stream` before anybody can look; None, and nothing done, if it needs an op. And
    whether these very arguments came by before, as `recent` knows: they get a seat then, and need an op.
    """
    memory: Memory | None = kernel._memory
    if memory is None or not memory.unchanged():
        return None, recent.again(key_of(args), stream)
    with LOCK:
        if OPEN:
            enter_open()
        seen = told(args, memory.floats_matter)
        again = recent.again(seen.key or key_of(args), stream)
        mould = None if again else _mould(memory, seen)
        # Above are the launcher's way here and whoever called it.
        running = None if mould is None else at_once(mould, seen, stream, caller(3))
    flow = stream._flow
    if flow is not None and flow.due:
        flow.mark()
    return running, again


def _mould(memory: Memory, seen: Told) -> Mould | None:
    """What a call with arguments of this class was decided to be."""
    return memory.moulds.get(seen.sort)


def _remembered(kernel: KernelObject) -> Memory:
    """The kernel, read again if what it refers to has changed; what was learned about its calls is forgotten then."""
    memory: Memory | None = kernel._memory
    if memory is None or not memory.unchanged():
        if memory is not None:
            close_all(memory.seats)
        unchanged = watch(kernel.fn)
        checked = checked_kernel(kernel.fn, kernel.options) if kernel.track == "tile" else None
        memory = kernel._memory = Memory(unchanged, checked, checked is None or checked.floats_matter)
        _memories.add(memory)
    return memory


def _quick(kernel: KernelObject, seat: Seat, args: tuple[Any, ...]) -> QuickOp | None:
    """The op of a launch that has a seat; None if it must go the long way. Raises BorrowError for a conflict."""
    if not seat.takes(args):
        return None
    if not seat.stands:
        if OPEN or not all(map(usable, args)):
            return None
        seat.ask()
    # Above are `build` and whoever called it.
    op = QuickOp(seat, kernel, args, caller(2))
    with LOCK:
        if OPEN or not seat.stands:
            op._life = Life.CLOSED
            return None
        OPEN.append(op._ref)
    return op


class CalledOp(LaunchOp):
    """The op of a call that went the long way; running it gives the launch a seat if it was here before."""

    def __init__(self, plan: Plan, loans: tuple[Loan, ...], kernel: KernelObject, args: tuple[Any, ...]) -> None:
        super().__init__(plan, loans)
        self._call: Call | None = (kernel, key_of(args), args)

    def run(self, stream: Stream | None = None) -> Running[Tensors]:
        """As of every op."""
        running = super().run(stream)
        call, self._call = self._call, None
        _came_by(call, self, running.stream, free=stream is None and stays(running.stream))
        return running


class MouldedOp(PlannedOp):
    """The op of a call of a known class; running it gives the launch a seat if it was here before."""

    def __init__(self, mould: Mould, args: tuple[Any, ...], seen: Told, site: Site, kernel: KernelObject) -> None:
        super().__init__(mould, args, seen, site)
        self._kernel: KernelObject | None = kernel

    def run(self, stream: Stream | None = None) -> Running[Tensors]:
        """As of every op."""
        running = super().run(stream)
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            call = (kernel, self._told.key, self._args)
            _came_by(call, self, running.stream, free=stream is None and stays(running.stream))
        return running


def _came_by(call: Call | None, op: LaunchOp, where: Stream, *, free: bool) -> None:
    """The launch of `op` ran on `where`, or as far as it matters anywhere if it was `free` to: if it was here before, it gets a seat."""
    if call is None:
        return
    kernel, key, args = call
    memory: Memory = kernel._memory
    if key not in memory.seats and memory.recent.again(key, where, anywhere=free):
        seat = seat_of(op.plan, where, threading.Lock())
        if seat is not None:
            seat.keep_in(memory.seats, key, args)
            where._settles(seat)


class QuickOp(SeatedOp[Tensors], LaunchOp):
    """The op of a launch whose seat has leave. Its name, plan, node and loans are made when they are asked for."""

    def __init__(self, seat: Seat, kernel: KernelObject, args: tuple[Any, ...], site: Site) -> None:
        super().__init__(seat, args, site)
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        match name:
            case "plan":
                value: Any = plan_of(self._kernel, _remembered(self._kernel).checked, self._args, {})
            case "_node":
                value = Value(_tensors(self._args))
            case _:
                return super().__getattr__(name)
        self.__dict__[name] = value
        return value

    def _result(self) -> Tensors:
        return self._args if self._seat.all_tensors else _tensors(self._args)

    def _give_up_seat(self) -> None:
        """The launch goes from stream to stream: a seat on one of them would cost more than it saves."""
        seats = self._kernel._memory.seats
        key = key_of(self._args)
        if seats.get(key) is self._seat:
            del seats[key]
            self._seat.close()


def _tensors(args: tuple[Any, ...]) -> Tensors:
    return tuple(a for a in args if isinstance(a, Tensor | Partition))
