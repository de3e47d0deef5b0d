"""Streams of the GPU, and the graphs and packed launches that are submitted to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck_runtime.backends import Copy, Download, Event, Graph, Launch, Upload, Work
from tilecheck_runtime.backends.cuda_events import CUDAEvent, CUDAStamp, Report
from tilecheck_runtime.backends.numba_cuda.simt import SimtProgram
from tilecheck_runtime.backends.numba_cuda.specialise import Program
from tilecheck_runtime.backends.tile_ir.specialise import TileProgram
from tilecheck_runtime.errors import DriverError

if TYPE_CHECKING:
    from tilecheck_runtime.backends.cuda import CUDADevice


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

    def order(self, after: tuple[Event, ...]) -> None:
        """Let what is submitted next come behind `after`."""
        device = self._device.device
        device.enter()
        for event in after:
            if not isinstance(event, CUDAEvent):
                event.wait()
            elif event.stream != self.handle:
                device.wait_event(self.handle, event.handle)

    def _event(
        self, keep: object, reports: tuple[Report, ...], after: tuple[Event, ...], work: str = "the stream"
    ) -> CUDAEvent:
        device = self._device.device
        handle = self._device.fresh_event()
        device.record(handle, self.handle)
        event = CUDAEvent(self._device, handle, self.handle, (self, keep), reports, after, work)
        self._device.holds(event)
        return event

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process the driver, or the module that calls it, may be gone before.
        if self._owner is None and not ending():
            with suppress(DriverError):
                self._device.device.free_stream(self.handle)


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
        if any(isinstance(event, CUDAEvent) and event.risky for event in events):
            return False
        self._stream.order(events)
        return True

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
        device = self._device.device
        device.enter()
        try:
            return device.stream_done(self._stream.handle)
        except DriverError:
            # Whoever waits is told.
            return False

    def settled(self) -> None:
        """Rounds that may fail say so in a record that is read once."""

    def wait(self) -> None:
        self._device.device.wait_stream(self._stream.handle)
        for failure in [report.read() for report in self._reports]:
            if failure is not None:
                raise failure

    def close(self, over: Callable[[], None]) -> None:
        self._stream.keep((self._keep, self._reports)).let_go(over)
