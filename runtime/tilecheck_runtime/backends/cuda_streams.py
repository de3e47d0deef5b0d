"""Streams of the GPU, and the graphs and packed launches that are submitted to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tilecheck_runtime.backends import Copy, Download, Event, Graph, Launch, Looks, Operand, Upload, Work
from tilecheck_runtime.backends.cuda_events import CUDAEvent, CUDAStamp, Report
from tilecheck_runtime.backends.numba_cuda.simt import SimtProgram
from tilecheck_runtime.backends.numba_cuda.specialise import Program
from tilecheck_runtime.backends.tile_ir.specialise import TileProgram
from tilecheck_runtime.errors import DriverError

if TYPE_CHECKING:
    from tilecheck_runtime.backends.cuda import CUDADevice


# An address that nothing has, aligned as any, and no extent is like it.
MARK, ALIGNED = 0x3C5A_96E1_0000_0000, 256


class CUDAGraph:
    """Captured work: `handle` is the executable graph, `keep` what it refers to, `reports` the fault records of its
    kernels, which its replays share.
    """

    def __init__(self, device: CUDADevice, handle: int, keep: object, reports: tuple[Report, ...]) -> None:
        self.handle = handle
        self.reports = reports
        self._keep = keep
        self._device = device

    def __del__(self) -> None:
        # At the end of the process the driver may be gone before.
        with suppress(DriverError):
            self._device.device.free_graph(self.handle)


class CUDAStream:
    """One CUDA stream: ours, which ends with this object, or that of another library, whose `owner` is kept alive.

    Every event keeps the stream that it was recorded on until it is over. So no handle comes again, for another stream, while
    an event still tells streams apart by it.
    """

    shares = True

    def __init__(self, device: CUDADevice, handle: int, owner: object = None) -> None:
        self._device = device
        self.handle = handle
        self._owner = owner

    def submit(self, work: Work | Graph, after: tuple[Event, ...], keep: object) -> CUDAEvent:
        """Queue work behind everything submitted to this stream and behind `after`."""
        device = self._device
        self.order(after)
        reports: tuple[Report, ...] = ()
        match work:
            case CUDAGraph():
                device.device.launch_graph(work.handle, self.handle)
                reports = work.reports
            case Launch():
                reports = device.launch(work, self.handle)
            case Copy():
                device.copy(work, self.handle)
            case Upload():
                device.write(work, self.handle)
            case Download():
                device.read(work, self.handle)
            case _:
                raise TypeError(f"{work!r} is no work of the GPU")
        name = (
            f"`{work.kernel}`" if isinstance(work, Launch) else "a graph" if isinstance(work, CUDAGraph) else "a copy"
        )
        return self._event((keep, work), reports, after, name)

    def repeat(self, work: Launch | Graph, keep: object) -> CUDARepeat:
        return CUDARepeat(self._device, self, work, keep)

    def mark(self, after: tuple[Event, ...]) -> CUDAEvent:
        """The end of everything submitted so far and of `after`."""
        self.order(after)
        return self._event(None, (), after)

    def stamp(self) -> CUDAStamp:
        return CUDAStamp(self._device, self.handle)

    def flush(self) -> None:
        self._device.flush(self.handle)

    def keep(self, needed: object) -> CUDAEvent:
        """Hold on to `needed` until everything submitted so far is over: the end of that."""
        return self._event(needed, (), ())

    def order(self, after: Sequence[Event]) -> None:
        """Let what is submitted next come behind `after`."""
        device = self._device.device
        device.enter()
        for event in after:
            if not isinstance(event, CUDAEvent):
                event.wait()
            elif event.stream != self.handle:
                device.wait_event(self.handle, event.handle)

    # ---- launches without an end of their own

    def line(self) -> CUDAStream:
        return self

    def cast(self, work: Launch, varying: Sequence[str]) -> CUDACast | None:
        return None if work.program.checks else CUDACast(self._device, self.handle, work, varying)

    def after(self, events: Sequence[Event]) -> bool:
        if any(isinstance(event, CUDAEvent) and event.risky for event in events):
            return False
        self.order(events)
        return True

    def point(self) -> CUDAEvent:
        self._device.device.enter()
        return self._recorded(None, (), (), "the stream")

    def idle(self) -> bool:
        device = self._device.device
        device.enter()
        try:
            return device.stream_done(self.handle)
        except DriverError:
            # Whoever waits is told.
            return False

    def drain(self) -> None:
        self._device.device.wait_stream(self.handle)

    def look(self) -> None:
        self._device.look()

    def attend(self, keeper: Looks) -> None:
        self._device.attend(keeper)

    def _event(
        self, keep: object, reports: tuple[Report, ...], after: tuple[Event, ...], work: str = "the stream"
    ) -> CUDAEvent:
        event = self._recorded(keep, reports, after, work)
        self._device.holds(event)
        return event

    def _recorded(self, keep: object, reports: tuple[Report, ...], after: tuple[Event, ...], work: str) -> CUDAEvent:
        handle = self._device.fresh_event()
        self._device.device.record(handle, self.handle)
        return CUDAEvent(self._device, handle, self.handle, (self, keep), reports, after, work)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process the driver, or the module that calls it, may be gone before.
        if self._owner is None and not ending():
            with suppress(DriverError):
                self._device.device.free_stream(self.handle)


class CUDACast:
    """A launch whose arguments are packed but for some addresses and floats, which are others each time."""

    def __init__(self, device: CUDADevice, stream: int, work: Launch, varying: Sequence[str]) -> None:
        self._device = device
        # Its handle alone: a stream ends when nobody has it any more.
        self._stream = stream
        self._work = work
        self._varying = varying
        program: Program | SimtProgram | TileProgram = work.program
        device.fits(work, program.grid(work))
        packed, self._launch = program.bound(work, stream, 0)
        self._cells = tuple([packed.cell(at) for at in self._places()])
        self._busy = False

    def _places(self) -> list[int]:
        """Which of the packed arguments those that vary are."""
        marks: dict[str, int | float] = {}
        arguments = dict(self._work.arguments)
        for name in self._varying:
            value = arguments[name]
            if isinstance(value, Operand):
                mark = MARK + ALIGNED * len(marks)
                array = replace(value.array, buffer=Marked(mark), offset=0)
                arguments[name], marks[name] = value._replace(array=array), mark
            else:
                # Told by identity.
                arguments[name] = marks[name] = float("nan")
        values = self._work.program.values(replace(self._work, arguments=arguments), 0)
        return [
            next(at for at, value in enumerate(values) if value is mark or value == mark) for mark in marks.values()
        ]

    def __call__(self, numbers: Sequence[int | float]) -> None:
        if self._busy:
            # A finaliser that launches, between the arguments and their launch.
            return CUDACast(self._device, self._stream, self._work, self._varying)(numbers)
        self._busy = True
        try:
            for cell, number in zip(self._cells, numbers, strict=True):
                cell.value = number
            self._launch()
        except DriverError as error:
            # A thread that has not used the device before; cheaper than to ask each time.
            if error.code != "CUDA_ERROR_INVALID_CONTEXT":
                raise
            self._device.device.enter()
            self._launch()
        finally:
            self._busy = False


class Marked(NamedTuple):
    """No buffer: an address by which its place is found."""

    address: int
    nbytes: int = 0


class CUDARepeat:
    """A launch whose arguments are packed, or a graph: a call is one call of the driver."""

    def __init__(self, device: CUDADevice, stream: CUDAStream, work: Launch | Graph, keep: object) -> None:
        device.device.enter()
        self._device = device
        self._stream = stream
        self._keep = keep
        self._reports: tuple[Report, ...] = ()
        if isinstance(work, CUDAGraph):
            self._reports = work.reports
            self._launch = device.device.graph_launch(work.handle, stream.handle)
            return
        assert isinstance(work, Launch)
        self._work = work
        program: Program | SimtProgram | TileProgram = work.program
        if program.checks:
            self._reports = (Report(device, program.kernel, work.grid),)
        device.fits(work, program.grid(work))
        self._record = self._reports[0].address if self._reports else 0
        self._packed, self._launch = program.bound(work, stream.handle, self._record)
        # By parameter name, what writes a float among the packed arguments.
        self._slots: dict[str, Callable[[float], None]] = {}

    def after(self, events: tuple[Event, ...]) -> bool:
        return self._stream.after(events)

    def fill(self, scalars: Mapping[str, float]) -> None:
        slots = self._slots
        for name, value in scalars.items():
            slot = slots.get(name)
            if slot is None:
                slot = slots[name] = self._packed.slot(self._place(name))
            slot(value)

    def _place(self, name: str) -> int:
        """Which of the packed arguments the scalar `name` is."""
        mark = float("nan")
        marked = replace(self._work, arguments={**self._work.arguments, name: mark})
        return next(at for at, value in enumerate(marked.program.values(marked, self._record)) if value is mark)

    def __call__(self) -> None:
        try:
            self._launch()
        except DriverError as error:
            # A thread that has not used the device before; cheaper than to ask each time.
            if error.code != "CUDA_ERROR_INVALID_CONTEXT":
                raise
            self._device.device.enter()
            self._launch()

    def end(self) -> CUDAEvent:
        return self._stream.mark(())

    last = None

    def idle(self) -> bool:
        return self._stream.idle()

    def settled(self) -> None:
        """Rounds that may fail say so in a record that is read once."""

    def wait(self) -> None:
        self._device.device.wait_stream(self._stream.handle)
        for failure in [report.read() for report in self._reports]:
            if failure is not None:
                raise failure

    def close(self, over: Callable[[], None]) -> None:
        self._stream.keep((self._keep, self._reports)).let_go(over)
