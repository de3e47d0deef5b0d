"""The GPU: the driver for bytes, streams and events, numba-cuda or Tile IR for kernels.

Work is submitted at once; the order of a stream is CUDA's, waits between streams are device-side events, and the host
waits only where someone asks. A kernel whose checks stay in place notes a failure in a page-locked record, which the
wait reads: no extra synchronisation, and the context survives.

What a submission needs stays referenced until its event has been seen done, which the device looks at on later
submissions, a few at a time, and whenever memory is asked for.
"""

from __future__ import annotations

import ctypes
import linecache
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import FunctionType

import numpy as np

from tilecheck.ir.compilers import preference
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Array, Buffer, Copy, Download, Event, Graph, Grid, Launch, Strided, Upload, Work
from tilecheck_runtime.backends.numba_cuda.simt import SimtProgram
from tilecheck_runtime.backends.numba_cuda.specialise import Program, load
from tilecheck_runtime.backends.tile_ir.compile import NotInstalled
from tilecheck_runtime.backends.tile_ir.specialise import TileProgram, refused
from tilecheck_runtime.backends.tile_ir.specialise import load as tile_ir
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.driver import Device, DriverError
from tilecheck_runtime.errors import KernelStopped
from tilecheck_runtime.specialise import Key, Once

# Submissions between two looks at which of them are over.
LOOK = 16


@dataclass(frozen=True, slots=True)
class CUDABuffer:
    """Bytes of the stream-ordered pool at `address`."""

    address: int
    nbytes: int


class CUDAEvent:
    """The end of one submission: what it needs (`keep`), what it waited for (`before`), its fault records (`reports`).

    The device holds every event until it has been seen done, so that what a submission needs outlives the submission even
    when nobody waits for it.
    """

    __slots__ = ("_before", "_calls", "_device", "_failure", "_keep", "_over", "_reports", "handle", "risky", "stream")

    def __init__(
        self,
        device: CUDADevice,
        handle: int,
        stream: int,
        keep: object,
        reports: tuple[Report, ...],
        before: tuple[Event, ...],
    ) -> None:
        self.handle = handle
        self.stream = stream
        self._device = device
        self._keep = keep
        self._reports = reports
        self._before = before
        # Whether it may fail, or has failed, with the error of a kernel's check.
        self.risky: bool = bool(reports) or any(isinstance(event, CUDAEvent) and event.risky for event in before)
        self._over = False
        self._failure: Exception | None = None
        self._calls: list[Callable[[], None]] = []

    def wait(self) -> None:
        """Block until the work is over. Raises what it failed with."""
        if not self._over:
            try:
                self._device.device.wait_event_host(self.handle)
            except DriverError as error:
                self._failure = error
            self._finish()
        if self._failure is not None:
            raise self._failure

    def done(self) -> bool:
        """Whether the work is over, without waiting."""
        if not self._over:
            try:
                if not self._device.device.event_done(self.handle):
                    return False
            except DriverError as error:
                self._failure = error
            self._finish()
        return True

    def then(self, call: Callable[[], None]) -> None:
        """Call once the work is over, on a thread of the device that sleeps until then."""
        self._device.watch(self, call)

    def let_go(self, call: Callable[[], None]) -> None:
        """Call once the work is over and somebody looks."""
        with self._device.settling:
            if not self._over:
                self._calls.append(call)
                return
        call()

    def _finish(self) -> None:
        # What it came after is over as well. Earliest first and without recursion: a loop that does not wait makes a chain
        # of thousands.
        with self._device.settling:
            open_events = [self]
            while open_events:
                event = open_events[-1]
                earlier = [e for e in event._before if isinstance(e, CUDAEvent) and not e._over]
                if earlier:
                    open_events += earlier
                else:
                    open_events.pop()._settle()

    def _settle(self) -> None:
        if self._over:
            return
        before, self._before = self._before, ()
        reports, self._reports = self._reports, ()
        # Work behind failed work fails with the same error, as on the CPU.
        for event in before:
            if isinstance(event, CUDAEvent):
                self._failure = self._failure or event._failure
        for report in reports:
            self._failure = self._failure or report.read()
        self.risky = self._failure is not None
        self._over = True
        self._keep = None
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def __del__(self) -> None:
        self._device.retire(self.handle)


class Report:
    """A fault record of one launch: 8 page-locked bytes, (line << 32) + block + 1, 0 while all is well."""

    def __init__(self, device: CUDADevice, kernel: str, path: str) -> None:
        self._device = device
        self._kernel = kernel
        self._path = path
        self.address = device.record()
        ctypes.c_uint64.from_address(self.address).value = 0

    def read(self) -> KernelStopped | None:
        """The error of the check that failed since the last reading."""
        word = ctypes.c_uint64.from_address(self.address)
        code, word.value = word.value, 0
        if code == 0:
            return None
        line, block = code >> 32, (code & 0xFFFFFFFF) - 1
        source = linecache.getline(self._path, line).strip()
        return KernelStopped(
            f"`{self._kernel}` stopped at line {line} in block {block}: a check that remains in the kernel failed",
            points=(f"{self._path}:{line}: `{source}`" if source else f"{self._path}:{line}: the check stands here",),
        )

    def __del__(self) -> None:
        # The constructor may have failed before there was a record.
        address = getattr(self, "address", None)
        if address is not None:
            self._device.give_record(address)


class CUDAStamp:
    """A timing event."""

    def __init__(self, device: CUDADevice, stream: int) -> None:
        self._device = device.device
        self._handle = self._device.new_event(timing=True)
        self._device.record(self._handle, stream)

    def since(self, earlier: CUDAStamp) -> float:
        self._device.wait_event_host(self._handle)
        return self._device.elapsed_ms(earlier._handle, self._handle) / 1e3

    def __del__(self) -> None:
        # The constructor may have failed before there was an event.
        handle = getattr(self, "_handle", None)
        if handle is not None:
            self._device.free_event(handle)


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
    """One CUDA stream."""

    shares = True

    def __init__(self, device: CUDADevice, handle: int) -> None:
        self._device = device
        self.handle = handle

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
        return self._event((keep, work), reports, after)

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

    def _event(self, keep: object, reports: tuple[Report, ...], after: tuple[Event, ...]) -> CUDAEvent:
        device = self._device.device
        handle = self._device.fresh_event()
        device.record(handle, self.handle)
        event = CUDAEvent(self._device, handle, self.handle, keep, reports, after)
        self._device.holds(event)
        return event


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
        program: Program | SimtProgram | TileProgram = work.program
        if program.checks:
            self._reports = (Report(device, work.kernel, program.kernel.path),)
        record = self._reports[0].address if self._reports else 0
        self._launch = program.bound(work, stream.handle, record)

    def after(self, events: tuple[Event, ...]) -> bool:
        if any(isinstance(event, CUDAEvent) and event.risky for event in events):
            return False
        self._stream.order(events)
        return True

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


class CUDADevice:
    """One GPU as a backend. Thread safe: the driver is, and what this keeps is under one lock."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name = f"cuda:{device.ordinal}"
        self._lock = threading.RLock()
        # Held while an event works out how it ended.
        self.settling = threading.RLock()
        self.memory = device.new_stream()
        self._events: deque[int] = deque()
        self._records: deque[int] = deque()
        self._pending: deque[CUDAEvent] = deque()
        self._look_at = LOOK
        self._watcher: ThreadPoolExecutor | None = None
        self._scratch: CUDABuffer | None = None
        self._capture = 0
        self._capturing = threading.Lock()

    # ---- bytes

    def allocate(self, nbytes: int) -> CUDABuffer:
        """Bytes that every stream may use at once: the host waits until the pool has handed them out."""
        self.look()
        address = self.device.allocate(max(nbytes, 1), self.memory)
        self.device.wait_stream(self.memory)
        return CUDABuffer(address, nbytes)

    def free(self, buffer: Buffer) -> None:
        self.device.free(buffer.address, self.memory)

    def upload(self, target: Strided, source: Array) -> None:
        host = np.ascontiguousarray(np.broadcast_to(source, target.shape), target.dtype.numpy())
        if _contiguous(target):
            self.device.copy_in(target.address, host.ctypes.data, host.nbytes, self.memory)
            self.device.wait_stream(self.memory)
            return
        whole, view = self._window(target)
        view[...] = host
        self.device.copy_in(target.address, whole.ctypes.data, whole.nbytes, self.memory)
        self.device.wait_stream(self.memory)

    def download(self, source: Strided) -> Array:
        if _contiguous(source):
            host = np.empty(source.shape, source.dtype.numpy())
            self.device.copy_out(host.ctypes.data, source.address, host.nbytes, self.memory)
            self.device.wait_stream(self.memory)
            return host
        return self._window(source)[1].copy()

    def _window(self, strided: Strided) -> tuple[Array, Array]:
        """The bytes from the first to the last element on the host, and the elements as a view of them."""
        reach = sum((n - 1) * s for n, s in zip(strided.shape, strided.strides, strict=True))
        whole = np.empty(reach + strided.dtype.numpy().itemsize, np.uint8)
        self.device.copy_out(whole.ctypes.data, strided.address, whole.nbytes, self.memory)
        self.device.wait_stream(self.memory)
        view = np.ndarray(strided.shape, strided.dtype.numpy(), whole.data, 0, strided.strides)
        return whole, view

    # ---- streams

    def stream(self) -> CUDAStream:
        return CUDAStream(self, self.device.new_stream())

    def graph(self, work: tuple[Work, ...]) -> CUDAGraph:
        """Capture the work on a stream that serves for nothing else; it runs when the graph is submitted."""
        reports: list[Report] = []
        launches = [item for item in work if isinstance(item, Launch)]
        with self._capturing:
            # Nothing may be loaded or allocated while a stream is captured.
            for launch in launches:
                launch.program.bound(launch, self.memory, 0)
            self.stock(len(launches))
            stream = self._capture = self._capture or self.device.new_stream()
            self.device.begin_capture(stream)
            try:
                for item in work:
                    match item:
                        case Launch():
                            reports += self.launch(item, stream)
                        case Copy():
                            self.copy(item, stream)
                        case Upload():
                            self.write(item, stream)
                        case Download():
                            self.read(item, stream)
            finally:
                handle = self.device.end_capture(stream)
        return CUDAGraph(self, handle, work, tuple(reports))

    # ---- work

    def compile(self, report: TileReport, key: Key, dims: Mapping[str, int]) -> Program | TileProgram:
        """The loaded kernel for one specialisation, by the compiler it wants (`tilecheck.ir.compilers`).

        A kernel that did not ask for Tile IR by name goes to numba-cuda where Tile IR is not installed, does not take the
        kernel, or makes what this driver does not load.
        """
        self.device.enter()
        wish = preference(report.kernel, report.types)
        if wish.compiler == "tile-ir":
            try:
                return tile_ir(self.device, report, key)
            except (NoLowering, NotInstalled, DriverError) as reason:
                if wish.asked:
                    raise refused(report.kernel.name, reason) from None
        return load(self.device, report, key)

    def compile_simt(
        self, report: SimtReport, block: Grid, shared: int, dims: Mapping[str, int], function: FunctionType
    ) -> SimtProgram:
        """A SIMT kernel; it is compiled when its first launch shows the dtypes."""
        return SimtProgram(self.device, report.kernel, function, block, shared, Once())

    def launch(self, work: Launch, stream: int) -> tuple[Report, ...]:
        """Submit a kernel; its fault record if it has checks."""
        program: Program | SimtProgram | TileProgram = work.program
        if not program.checks:
            program.launch(work, stream, 0)
            return ()
        report = Report(self, work.kernel, program.kernel.path)
        program.launch(work, stream, report.address)
        return (report,)

    def copy(self, work: Copy, stream: int) -> None:
        if _contiguous(work.target) and _contiguous(work.source):
            size = work.source.dtype.numpy().itemsize * int(np.prod(work.source.shape))
            self.device.copy(work.target.address, work.source.address, size, stream)
            return
        self.device.wait_stream(stream)
        self.upload(work.target, self.download(work.source))

    def write(self, work: Upload, stream: int) -> None:
        """From the host, behind what the stream did before."""
        self.device.wait_stream(stream)
        self.upload(work.target, work.source)

    def read(self, work: Download, stream: int) -> None:
        self.device.wait_stream(stream)
        work.target[...] = self.download(work.source)

    def flush(self, stream: int) -> None:
        """Overwrite twice the second-level cache."""
        with self._lock:
            if self._scratch is None:
                self._scratch = self.allocate(2 * self.device.limits.l2_bytes)
        self.device.fill8(self._scratch.address, 0, self._scratch.nbytes, stream)

    # ---- what submissions share

    def fresh_event(self) -> int:
        with self._lock:
            if self._events:
                return self._events.popleft()
        return self.device.new_event()

    def holds(self, event: CUDAEvent) -> None:
        """Keep `event` until it is done; now and then let go of those that are."""
        with self._lock:
            self._pending.append(event)
            due = len(self._pending) >= self._look_at
        if due:
            self.look()

    def look(self) -> None:
        """Let go of what the events that are done kept."""
        finished: list[CUDAEvent] = []
        with self._lock:
            while self._pending and self._pending[0].done():
                finished.append(self._pending.popleft())
            self._look_at = len(self._pending) + LOOK
        # Dropped outside the lock: the last reference to a buffer may go with them.
        finished.clear()

    def retire(self, handle: int) -> None:
        """An event that nobody waits for any more."""
        self._events.append(handle)

    def record(self) -> int:
        with self._lock:
            self.stock(1)
            return self._records.popleft()

    def stock(self, count: int) -> None:
        """Have this many fault records at hand."""
        with self._lock:
            while len(self._records) < count:
                base = self.device.allocate_pinned(4096)
                self._records.extend(range(base, base + 4096, 8))

    def give_record(self, address: int) -> None:
        self._records.append(address)

    def watch(self, event: CUDAEvent, call: Callable[[], None]) -> None:
        with self._lock:
            if self._watcher is None:
                self._watcher = ThreadPoolExecutor(2, "tilecheck-watch")

        def wait() -> None:
            self.device.enter()
            try:
                event.wait()
            finally:
                # Whoever waits for the op gets its error; the call is due either way.
                call()

        self._watcher.submit(wait)


def _contiguous(strided: Strided) -> bool:
    expected = strided.dtype.numpy().itemsize
    for extent, stride in zip(reversed(strided.shape), reversed(strided.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


@cache
def device(ordinal: int = 0) -> CUDADevice:
    """The GPU. Raises `driver.NoDevice` with the reason if there is none."""
    return CUDADevice(Device.open(ordinal))
