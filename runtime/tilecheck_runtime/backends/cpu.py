"""The CPU: NumPy for bytes, the interpreter for kernels, a one-thread executor per stream.

Streams are real queues, so that work is in flight between `run` and `wait` exactly as on a GPU, and a missing order
between two streams is a missing order here too. An event of another stream is waited for by the worker, never by the
submitting thread. Work waits only for events that existed when it was submitted, so workers cannot wait in a circle.

Failed work fails everything that waits for its event with the same error, and nothing else. At exit the interpreter
waits for what was submitted, as `concurrent.futures` does.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import numpy as np

from tilecheck.interp.arguments import TensorArgument, Trap
from tilecheck.interp.compile import Program, compile_kernel
from tilecheck.interp.tile import execute
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import (
    Array,
    Buffer,
    Copy,
    Download,
    Event,
    Graph,
    Grid,
    Launch,
    Operand,
    Strided,
    Upload,
    Work,
    cpu_simt,
)
from tilecheck_runtime.errors import KernelStopped, LaunchRefused, UsageError
from tilecheck_runtime.sites import place

# As CUDA's allocator: what is aligned there is aligned here.
ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class CPUBuffer:
    """Bytes at `address`; `block` owns them when they are ours."""

    address: int
    nbytes: int
    block: Array | None = None


@dataclass(frozen=True, slots=True)
class CPUEvent:
    """The end of one item of a stream."""

    future: Future[None]

    def wait(self) -> None:
        self.future.result()

    def done(self) -> bool:
        return self.future.done()

    def then(self, call: Callable[[], None]) -> None:
        self.future.add_done_callback(lambda _: call())

    def let_go(self, call: Callable[[], None]) -> None:
        self.then(call)


@dataclass(frozen=True, slots=True)
class CPUStamp:
    """When the worker of a stream came to this point, in seconds of the host's clock."""

    future: Future[float]

    def since(self, earlier: CPUStamp) -> float:
        return self.future.result() - earlier.future.result()


@dataclass(frozen=True, slots=True)
class CPUGraph:
    """Work in the order of its recording."""

    work: tuple[Work, ...]


class _Item:
    """One call of a stream's worker. It lets go of everything before its event is set, so that whoever waited for the
    event finds the buffers free.
    """

    __slots__ = ("after", "keep", "work")

    def __init__(self, work: tuple[Work, ...], after: tuple[Event, ...], keep: object) -> None:
        self.work = work
        self.after = after
        self.keep = keep

    def __call__(self) -> None:
        try:
            for earlier in self.after:
                earlier.wait()
            for work in self.work:
                _perform(work)
                del work
        finally:
            self.work, self.after, self.keep = (), (), None


class CPUStream:
    """A queue with one worker, which ends with the stream."""

    shares = False

    def __init__(self) -> None:
        self.restart()
        _streams.add(self)

    def restart(self) -> None:
        """Begin with a new worker."""
        self._worker = ThreadPoolExecutor(1, "tilecheck-stream")

    def submit(self, work: Work | Graph, after: tuple[Event, ...], keep: object) -> CPUEvent:
        match work:
            case CPUGraph(items):
                return self._put(_Item(items, after, keep))
            case Launch() | Copy() | Upload() | Download():
                return self._put(_Item((work,), after, keep))
            case _:
                raise TypeError(f"{work!r} is no work of the CPU")

    def line(self) -> None:
        """Each item has an end of its own."""

    def repeat(self, work: Launch | Graph, keep: object) -> CPURepeat:
        return CPURepeat(self, work, keep)

    def mark(self, after: tuple[Event, ...]) -> CPUEvent:
        return self._put(_Item((), after, None))

    def stamp(self) -> CPUStamp:
        return CPUStamp(self._worker.submit(time.perf_counter))

    def flush(self) -> None:
        """The interpreter is too slow for caches to show."""

    def _put(self, item: _Item) -> CPUEvent:
        return CPUEvent(self._worker.submit(item))


_streams: weakref.WeakSet[CPUStream] = weakref.WeakSet()


def settle() -> None:
    """Wait until everything that was submitted is over; errors stay with theirs."""
    for stream in list(_streams):
        stream.mark(()).wait()


def restart() -> None:
    """Give every stream a new worker, in a process that inherited streams without theirs."""
    for stream in list(_streams):
        stream.restart()


class CPURepeat:
    """A launch or graph that is queued again at each call."""

    def __init__(self, stream: CPUStream, work: Launch | Graph, keep: object) -> None:
        self._stream = stream
        self._work = work
        self._keep = keep
        # What the next round waits for: the last one, which fails if one before it did.
        self._after: tuple[Event, ...] = ()

    def after(self, events: tuple[Event, ...]) -> bool:
        self._after += events
        return True

    def fill(self, scalars: Mapping[str, float]) -> None:
        assert isinstance(self._work, Launch)
        self._work = replace(self._work, arguments={**self._work.arguments, **scalars})

    def __call__(self) -> None:
        self._after = (self._stream.submit(self._work, self._after, self._keep),)

    def end(self) -> CPUEvent:
        return self._stream.mark(self._after)

    @property
    def last(self) -> Event | None:
        return self._after[-1] if self._after else None

    def idle(self) -> bool:
        return all(event.done() for event in self._after)

    def settled(self) -> None:
        self._after = ()

    def wait(self) -> None:
        after = self._after
        try:
            for event in after:
                event.wait()
        finally:
            # An interrupted wait says nothing about the work.
            if all(event.done() for event in after):
                self._after = ()

    def close(self, over: Callable[[], None]) -> None:
        if self._after:
            self._after[-1].then(over)
        else:
            over()


def _perform(work: Work) -> None:
    match work:
        case Launch():
            _launch(work)
        case Copy():
            array(work.target)[...] = array(work.source)
        case Upload():
            array(work.target)[...] = work.source
        case Download():
            work.target[...] = array(work.source)


def _launch(launch: Launch) -> None:
    if isinstance(launch.program, cpu_simt.SimtProgram):
        plain = {n: array(a.array) if isinstance(a, Operand) else a for n, a in launch.arguments.items()}
        cpu_simt.execute(launch.kernel, launch.program, plain, launch.grid)
        return
    arguments = {
        name: TensorArgument(array(a.array), a.tile, a.mapping) if isinstance(a, Operand) else a
        for name, a in launch.arguments.items()
    }
    try:
        execute(launch.program, arguments, launch.grid)
    except Trap as trap:
        where = f"{place(trap.path or '', trap.line or 0)}: in `{launch.kernel}`, block {trap.block}"
        raise KernelStopped(trap.message, trap.help, rule=trap.rule, points=(where,)) from None
    except MemoryError as error:
        raise LaunchRefused(
            f"the host cannot hold the tiles of `{launch.kernel}`: {error}", "use smaller tiles"
        ) from None


class _Bytes:
    """All bytes of a buffer, as NumPy takes them in; the array keeps the buffer alive."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        data = (buffer.address, False)
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (buffer.nbytes,), "data": data}


def array(strided: Strided) -> Array:
    """The NumPy array on the bytes themselves."""
    flat = np.asarray(_Bytes(strided.buffer))
    return np.ndarray(strided.shape, strided.dtype.numpy(), flat.data, strided.offset, strided.strides)


class _CPU:
    name = model = "cpu"

    def look(self) -> None:
        """Work lets go of everything itself when it ends."""

    def allocate(self, nbytes: int) -> Buffer:
        try:
            block = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, OverflowError, ValueError):
            raise UsageError(f"the cpu cannot allocate {nbytes} bytes", "make the tensor smaller") from None
        start = block.ctypes.data
        return CPUBuffer(start + -start % ALIGNMENT, nbytes, block)

    def free(self, buffer: Buffer) -> None:
        """NumPy frees the block with its last reference, which is the buffer's."""

    def upload(self, target: Strided, source: Array) -> None:
        array(target)[...] = source

    def download(self, source: Strided) -> Array:
        return array(source).copy(order="C")

    def compile(self, report: TileReport, key: Any, dims: Mapping[str, int]) -> Program:
        return compile_kernel(report.kernel, report.types, dims)

    def compile_simt(
        self, report: SimtReport, block: Grid, shared: int, dims: Mapping[str, int], function: FunctionType
    ) -> cpu_simt.SimtProgram:
        return cpu_simt.compile_simt(report, block, shared, dims)

    def compile_cpp(self, source: str, name: str, *rest: object) -> Any:
        raise LaunchRefused(
            f"`{name}` is CUDA C++, which runs on a GPU alone; this process computes on the cpu",
            "write it as a `@tc.kernel` or `@tc.simt` to run it everywhere",
            rule="unsupported",
        )

    def stream(self) -> CPUStream:
        return CPUStream()

    def wrap(self, foreign: object) -> CPUStream:
        raise UsageError(
            "this process computes on the cpu, where there are no streams of other libraries", "make one: `tc.Stream()`"
        )

    def graph(self, work: tuple[Work, ...]) -> CPUGraph:
        return CPUGraph(work)


CPU = _CPU()
