"""The GPU: the driver for bytes, streams and events, numba-cuda or Tile IR for kernels.

Work is submitted at once (`cuda_streams.py`); the order of a stream is CUDA's, waits between streams are device-side events
(`cuda_events.py`), and the host waits only where someone asks.

What a submission needs stays referenced until its event has been seen done, which the device looks at on later
submissions, a few at a time, and whenever memory is asked for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import prod
from types import FunctionType

import numpy as np

from tilecheck.ir.compilers import preference
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Array, Buffer, Copy, Download, Grid, Launch, Looks, Strided, Upload, Work
from tilecheck_runtime.backends.cuda_cpp import CppProgram
from tilecheck_runtime.backends.cuda_cpp import load as load_cpp
from tilecheck_runtime.backends.cuda_cpp import match as match_cpp
from tilecheck_runtime.backends.cuda_events import CUDAEvent, Report
from tilecheck_runtime.backends.cuda_foreign import wrapped
from tilecheck_runtime.backends.cuda_streams import CUDAGraph, CUDAStream
from tilecheck_runtime.backends.numba_cuda import lowering
from tilecheck_runtime.backends.numba_cuda.simt import SimtProgram
from tilecheck_runtime.backends.numba_cuda.specialise import Program, load
from tilecheck_runtime.backends.tile_ir.compile import NotInstalled
from tilecheck_runtime.backends.tile_ir.specialise import TileProgram, refused
from tilecheck_runtime.backends.tile_ir.specialise import load as tile_ir
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.driver import Device
from tilecheck_runtime.errors import DriverError, LaunchRefused, OpError, UsageError
from tilecheck_runtime.layout import dense
from tilecheck_runtime.sites import place
from tilecheck_runtime.specialise import Key, Once

# Submissions between two looks at which of them are over.
LOOK = 16
# Threads that sleep until what a coroutine waits for is over; one more waits for one of them.
WATCHERS = 32


@dataclass(frozen=True, slots=True)
class CUDABuffer:
    """Bytes of the stream-ordered pool at `address`."""

    address: int
    nbytes: int


class Held:
    """A buffer that is freed with the last reference to it."""

    def __init__(self, device: CUDADevice, buffer: CUDABuffer) -> None:
        self._device = device
        self._buffer = buffer
        self.address = buffer.address
        self.nbytes = buffer.nbytes

    def __del__(self) -> None:
        self._device.free(self._buffer)


class CUDADevice:
    """One GPU as a backend. Thread safe: the driver is, and what this keeps is under one lock."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name = f"cuda:{device.ordinal}"
        self.model = f"{device.name}, sm_{device.capability[0]}{device.capability[1]}"
        self._lock = threading.RLock()
        # Held while an event works out how it ended.
        self.settling = threading.RLock()
        self.memory = device.new_stream()
        self._events: deque[int] = deque()
        self._records: deque[int] = deque()
        self._pending: deque[CUDAEvent] = deque()
        self._look_at = LOOK
        # Those who keep what is not pending here.
        self._keepers: set[Looks] = set()
        self._watcher: ThreadPoolExecutor | None = None
        self._scratch: CUDABuffer | None = None
        self._capture = 0
        self._capturing = threading.Lock()

    # ---- bytes

    def allocate(self, nbytes: int) -> CUDABuffer:
        """Bytes that every stream may use at once: the host waits until the pool has handed them out."""
        self.look()
        try:
            address = self.device.allocate(max(nbytes, 1), self.memory)
        except (DriverError, OverflowError) as error:
            if isinstance(error, DriverError) and error.code != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
            raise UsageError(
                f"{self.device.name} cannot allocate {nbytes} bytes", "make the tensor smaller, or let go of others"
            ) from None
        self.device.wait_stream(self.memory)
        return CUDABuffer(address, nbytes)

    def free(self, buffer: Buffer) -> None:
        self.device.free(buffer.address, self.memory)

    def upload(self, target: Strided, source: Array) -> None:
        if 0 in target.shape:
            return
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
        if 0 in source.shape:
            return np.empty(source.shape, source.dtype.numpy())
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

    def wrap(self, foreign: object) -> CUDAStream:
        return wrapped(self, foreign)

    def graph(self, work: tuple[Work, ...]) -> CUDAGraph:
        """Capture the work on a stream that serves for nothing else; it runs when the graph is submitted."""
        reports: list[Report] = []
        work = tuple(map(self._captured, work))
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
            finally:
                handle = self.device.end_capture(stream)
        return CUDAGraph(self, handle, work, tuple(reports))

    def _captured(self, work: Work) -> Work:
        """What a capture can record: values of the host are brought to the device now. Raises OpError for a copy that goes by
        way of the host.
        """
        if isinstance(work, Upload):
            shape, dtype = work.target.shape, work.target.dtype
            width = dtype.numpy().itemsize
            buffer = Held(self, self.allocate(prod(shape) * width))
            staged = Strided(buffer, 0, shape, dense(shape, width), dtype)
            self.upload(staged, work.source)
            work = Copy(work.target, staged)
        if isinstance(work, Copy) and not (_contiguous(work.target) and _contiguous(work.source)):
            raise OpError(
                "a graph on a GPU records copies of contiguous tensors, and one of these is a view with gaps",
                "copy with a kernel, or record a copy of the whole tensor",
                rule="capture",
            )
        return work

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
        try:
            return load(self.device, report, key)
        except lowering.NoLowering as reason:
            where = f"{place(report.kernel.path, reason.span.line)}: in `{report.kernel.name}`"
            raise LaunchRefused(f"`{report.kernel.name}`: {reason}", rule="unsupported", points=(where,)) from None

    def compile_simt(
        self, report: SimtReport, block: Grid, shared: int, dims: Mapping[str, int], function: FunctionType
    ) -> SimtProgram:
        """A SIMT kernel; it is compiled when its first launch shows the dtypes."""
        return SimtProgram(self.device, report.kernel, function, dict(dims), block, shared, Once())

    def compile_cpp(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        block: Grid,
        shared: int,
        formats: str,
        given: Sequence[tuple[str, int]],
    ) -> CppProgram:
        """A kernel in CUDA C++ for arguments of these formats."""
        self.device.enter()
        function = load_cpp(self.device, source, name, options, block, shared)
        match_cpp(name, function, given)
        return CppProgram(function, formats, block, shared)

    def launch(self, work: Launch, stream: int) -> tuple[Report, ...]:
        """Submit a kernel; its fault record if it has checks."""
        program: Program | SimtProgram | TileProgram | CppProgram = work.program
        self.fits(work, program.grid(work))
        if isinstance(program, CppProgram) or not program.checks:
            program.launch(work, stream, 0)
            return ()
        report = Report(self, program.kernel, work.grid)
        program.launch(work, stream, report.address)
        return (report,)

    def fits(self, work: Launch, grid: Grid) -> None:
        """Raise LaunchRefused for more blocks than the device takes."""
        for axis, count, limit in zip("xyz", grid, self.device.limits.grid, strict=True):
            if count > limit:
                told = "" if grid == work.grid else f": {' x '.join(map(str, work.grid))} in one row"
                raise LaunchRefused(
                    f"`{work.kernel}` has {count} blocks along {axis}, {self.name} takes {limit}{told}",
                    "use larger tiles, or let fewer blocks walk over them: `.map(...)`",
                )

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
            pending, self._pending = self._pending, deque()
            # A stream that is busy does not hold up the others.
            for event in pending:
                (finished if event.done() else self._pending).append(event)
            self._look_at = len(self._pending) + LOOK
        # Dropped outside the lock: the last reference to a buffer may go with them.
        finished.clear()
        for keeper in self._keepers.copy():
            keeper.look()
            # In this order: what another thread gives it to keep meanwhile is not forgotten.
            self._keepers.discard(keeper)
            if not keeper.empty:
                self._keepers.add(keeper)

    def attend(self, keeper: Looks) -> None:
        """Let `keeper` look whenever this does, until it is empty."""
        self._keepers.add(keeper)

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
        """Call when `event` is over. A thread sleeps until then, on an event behind it, since its own makes threads spin."""
        with self._lock:
            if self._watcher is None:
                self._watcher = ThreadPoolExecutor(WATCHERS, "tilecheck-watch")
        asleep = self.device.new_event(asleep=True)
        self.device.record(asleep, event.stream)

        def wait() -> None:
            self.device.enter()
            try:
                self.device.wait_event_host(asleep)
                self.device.free_event(asleep)
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
    """The GPU. Raises `NoDevice` with the reason if there is none."""
    return CUDADevice(Device.open(ordinal))
