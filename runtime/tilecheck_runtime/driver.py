"""The CUDA driver, and the only module that touches cuda-python.

Every driver call goes through `_ok`, which turns a code into one sentence and raises `DriverError`; nothing above this
module sees a raw handle type other than `int`. The module imports without cuda-python: `Device.open` is where a missing
package, driver or GPU is reported, each in its own words.

A launch is packed once and repeated: `Function.pack` lays the argument values out in one buffer and their addresses in
another, `Packed.launch` is a single `cuLaunchKernel` on those. Changing an argument writes into the buffer in place, so
a repeated launch allocates nothing.

Alternatives that lost (host cost of a small launch on one H200): `cuda.core.launch` 6.6 us and packing a tuple each
time 8.2 us against 5.1 us for the packed buffer.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from tilecheck_runtime.errors import DriverError, NoDevice, UsageError

# Whether this process was forked from one that uses the GPU, whose driver does not come along.
_left_behind = False


def leave_behind() -> None:
    """Refuse all further use of a device that was opened by now; what is freed is left to the parent process."""
    global _left_behind
    if _open.cache_info().currsize:
        _left_behind = True
        _bindings.cache_clear()


@cache
def _bindings() -> Any:
    if _left_behind:
        raise UsageError(
            "the GPU was in use before this process was forked, and cannot be used here",
            'start processes anew: `multiprocessing.get_context("spawn")`, or fork before the first tensor',
        )
    try:
        from cuda.bindings import driver
    except ImportError:
        raise NoDevice("cuda-python is not installed; `pip install 'tilecheck[cuda]'` brings it") from None
    return driver


def _ok(call: str, result: Any) -> Any:
    """The value of a driver call, without its status; raises `DriverError` unless it succeeded."""
    status, *values = result
    if status.value != 0:
        driver = _bindings()
        _, text = driver.cuGetErrorString(status)
        said = text.decode() if isinstance(text, bytes) else "the driver gives no reason"
        raise DriverError(call, status.name, said)
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can hold; bytes where a size is meant."""

    threads_per_block: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_per_block: int
    shared_opt_in: int
    registers_per_block: int
    multiprocessors: int
    l2_bytes: int


class Packed:
    """The arguments of launches, laid out once: one format letter each, `P` pointer, `q`/`i` integers, `d`/`f` floats.

    The driver copies them when a kernel is submitted, so one layout serves launch after launch. Not safe to change while
    another thread launches it.
    """

    __slots__ = ("_addresses", "_buffer", "_function", "_layout", "_offsets", "_raw", "formats")

    def __init__(self, function: Function, formats: str, values: Sequence[int | float]) -> None:
        import ctypes

        # Native sizes and alignment are those of kernel parameters.
        self.formats = formats
        self._function = function
        self._layout = struct.Struct(f"@{formats}")
        self._buffer = ctypes.create_string_buffer(max(self._layout.size, 8))
        base = ctypes.addressof(self._buffer)
        sizes = (struct.calcsize(f"@{letter}") for letter in formats)
        ends = (struct.calcsize(f"@{formats[: n + 1]}") for n in range(len(formats)))
        self._offsets = offsets = [end - size for end, size in zip(ends, sizes, strict=True)]
        self._addresses = (ctypes.c_void_p * max(len(offsets), 1))(*(base + o for o in offsets))
        self._raw = ctypes.addressof(self._addresses)
        self.fill(values)

    def fill(self, values: Sequence[int | float]) -> None:
        """Write all arguments."""
        self._layout.pack_into(self._buffer, 0, *values)

    def cell(self, at: int) -> Any:
        """The argument with this number, an address or a float, as something with a `value`."""
        import ctypes

        kind: Any = {"P": ctypes.c_size_t, "d": ctypes.c_double, "f": ctypes.c_float}[self.formats[at]]
        return kind.from_buffer(self._buffer, self._offsets[at])

    def slot(self, at: int) -> Callable[[int | float], None]:
        """Writes the argument with this number alone."""
        return partial(struct.Struct(f"@{self.formats[at]}").pack_into, self._buffer, self._offsets[at])

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        *,
        together: bool = False,
    ) -> None:
        """Submit the kernel on `stream`, `together` if all blocks must be on the device at once. Raises `DriverError` if the
        driver refuses the configuration.
        """
        driver = _bindings()
        if together:
            (status,) = driver.cuLaunchCooperativeKernel(
                self._function.handle, *grid, *block, shared, stream, self._raw
            )
        else:
            (status,) = driver.cuLaunchKernel(self._function.handle, *grid, *block, shared, stream, self._raw, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            _ok(f"launch of `{self._function.name}`", (status,))

    def bound(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        *,
        together: bool = False,
    ) -> Callable[[], None]:
        """`launch` with everything but the call done; it keeps the arguments alive."""
        if together:
            return partial(self.launch, grid, block, shared, stream, together=True)
        driver = _bindings()
        submit, handle, raw = driver.cuLaunchKernel, self._function.handle, self._raw
        success, queue = driver.CUresult.CUDA_SUCCESS, driver.CUstream(stream)
        x, y, z = grid
        bx, by, bz = block

        def launch(keep: Packed = self) -> None:
            (status,) = submit(handle, x, y, z, bx, by, bz, shared, queue, raw, 0)
            if status is not success and status != success:
                _ok(f"launch of `{keep._function.name}`", (status,))

        return launch


# Arguments that were packed, and a call that submits a kernel with them.
Bound = tuple[Packed, Callable[[], None]]


class Function:
    """A kernel of a loaded module. Keeps the module alive."""

    __slots__ = ("_lock", "_packed", "handle", "local_bytes", "module", "name", "registers", "shared_bytes")

    def __init__(self, module: Any, name: str) -> None:
        driver = _bindings()
        self._lock = threading.Lock()
        self._packed: dict[str, Packed] = {}
        self.module = module
        self.name = name
        self.handle: Any = _ok("cuModuleGetFunction", driver.cuModuleGetFunction(module, name.encode()))
        attribute = driver.CUfunction_attribute
        self.registers: int = self._attribute(attribute.CU_FUNC_ATTRIBUTE_NUM_REGS)
        self.shared_bytes: int = self._attribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        self.local_bytes: int = self._attribute(attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)

    def _attribute(self, which: Any) -> int:
        return int(_ok("cuFuncGetAttribute", _bindings().cuFuncGetAttribute(which, self.handle)))

    def allow_shared(self, size: int) -> None:
        """Opt in to `size` bytes of dynamic shared memory a block."""
        driver = _bindings()
        which = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _ok("cuFuncSetAttribute", driver.cuFuncSetAttribute(self.handle, which, size))

    def resident(self, threads: int, shared: int) -> int:
        """How many blocks of `threads` threads and `shared` dynamic bytes a multiprocessor holds at once."""
        driver = _bindings()
        found = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.handle, threads, shared)
        return int(_ok("cuOccupancyMaxActiveBlocksPerMultiprocessor", found))

    def parameters(self) -> tuple[int, ...] | None:
        """The bytes of each parameter, None if the driver does not tell."""
        driver = _bindings()
        sizes: list[int] = []
        while True:
            status, *told = driver.cuFuncGetParamInfo(self.handle, len(sizes))
            if status == driver.CUresult.CUDA_ERROR_INVALID_VALUE:
                return tuple(sizes)
            if status != driver.CUresult.CUDA_SUCCESS:
                return None
            sizes.append(int(told[1]))

    def pack(self, formats: str, values: Sequence[int | float]) -> Packed:
        """Lay out the arguments: one format letter each, `P` pointer, `q`/`i` integers, `d`/`f` floats."""
        return Packed(self, formats, values)

    def submit(
        self,
        formats: str,
        values: Sequence[int | float],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        *,
        together: bool = False,
    ) -> None:
        """Launch once with these arguments, see `Packed.launch`."""
        with self._lock:
            packed = self._packed.get(formats)
            if packed is None:
                packed = self._packed[formats] = Packed(self, formats, values)
            else:
                packed.fill(values)
            packed.launch(grid, block, shared, stream, together=together)


class Device:
    """One CUDA device and its primary context, shared with torch, CuPy and numba-cuda."""

    def __init__(self, ordinal: int) -> None:
        driver = _bindings()
        self.ordinal = ordinal
        self._device = _ok("cuDeviceGet", driver.cuDeviceGet(ordinal))
        self._context = _ok("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(self._device))
        self._local = threading.local()
        self.enter()
        name = _ok("cuDeviceGetName", driver.cuDeviceGetName(128, self._device))
        self.name: str = name.decode().split("\x00")[0]
        get = self._attribute
        self.capability: tuple[int, int] = (get("COMPUTE_CAPABILITY_MAJOR"), get("COMPUTE_CAPABILITY_MINOR"))
        self.limits = Limits(
            threads_per_block=get("MAX_THREADS_PER_BLOCK"),
            block=(get("MAX_BLOCK_DIM_X"), get("MAX_BLOCK_DIM_Y"), get("MAX_BLOCK_DIM_Z")),
            grid=(get("MAX_GRID_DIM_X"), get("MAX_GRID_DIM_Y"), get("MAX_GRID_DIM_Z")),
            shared_per_block=get("MAX_SHARED_MEMORY_PER_BLOCK"),
            shared_opt_in=get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            registers_per_block=get("MAX_REGISTERS_PER_BLOCK"),
            multiprocessors=get("MULTIPROCESSOR_COUNT"),
            l2_bytes=get("L2_CACHE_SIZE"),
        )

    def _attribute(self, name: str) -> int:
        driver = _bindings()
        which = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_ok("cuDeviceGetAttribute", driver.cuDeviceGetAttribute(which, self._device)))

    @staticmethod
    def open(ordinal: int = 0) -> Device:
        """The device, ready for use. Raises `NoDevice` with the reason if there is none."""
        return _open(ordinal)

    def enter(self) -> None:
        """Make the context current on this thread, once per thread."""
        if not getattr(self._local, "entered", False):
            _ok("cuCtxSetCurrent", _bindings().cuCtxSetCurrent(self._context))
            self._local.entered = True

    def driver_version(self) -> tuple[int, int]:
        """The CUDA version that the driver supports."""
        version = int(_ok("cuDriverGetVersion", _bindings().cuDriverGetVersion()))
        return version // 1000, version % 1000 // 10

    def load(self, image: bytes, name: str) -> Function:
        """Load a cubin or PTX image and look up kernel `name` in it."""
        self.enter()
        driver = _bindings()
        return Function(_ok("cuModuleLoadData", driver.cuModuleLoadData(image)), name)

    # ---- memory, in stream order

    def allocate(self, size: int, stream: int) -> int:
        """`size` bytes from the stream-ordered pool; the address."""
        self.enter()
        return int(_ok("cuMemAllocAsync", _bindings().cuMemAllocAsync(size, stream)))

    def free(self, address: int, stream: int) -> None:
        if _left_behind:
            return
        self.enter()
        _ok("cuMemFreeAsync", _bindings().cuMemFreeAsync(address, stream))

    def allocate_pinned(self, size: int) -> int:
        """`size` bytes of page-locked host memory; the address."""
        self.enter()
        return int(_ok("cuMemHostAlloc", _bindings().cuMemHostAlloc(size, 0)))

    def free_pinned(self, address: int) -> None:
        self.enter()
        _ok("cuMemFreeHost", _bindings().cuMemFreeHost(address))

    def copy_in(self, device: int, host: int, size: int, stream: int) -> None:
        """Host to device, `size` bytes."""
        _ok("cuMemcpyHtoDAsync", _bindings().cuMemcpyHtoDAsync(device, host, size, stream))

    def copy_out(self, host: int, device: int, size: int, stream: int) -> None:
        """Device to host, `size` bytes."""
        _ok("cuMemcpyDtoHAsync", _bindings().cuMemcpyDtoHAsync(host, device, size, stream))

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        """Device to device, `size` bytes."""
        _ok("cuMemcpyDtoDAsync", _bindings().cuMemcpyDtoDAsync(to, source, size, stream))

    def fill8(self, address: int, byte: int, size: int, stream: int) -> None:
        """Set `size` bytes to `byte`."""
        _ok("cuMemsetD8Async", _bindings().cuMemsetD8Async(address, byte, size, stream))

    # ---- streams and events

    def new_stream(self) -> int:
        """A stream that does not synchronise with the legacy default stream."""
        self.enter()
        driver = _bindings()
        return int(_ok("cuStreamCreate", driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))

    def free_stream(self, stream: int) -> None:
        """Give up a stream; what was submitted to it still runs."""
        if _left_behind:
            return
        _ok("cuStreamDestroy", _bindings().cuStreamDestroy(stream))

    def owns_stream(self, stream: int) -> bool:
        """Whether `stream`, which somebody else made, belongs to this device's primary context. Raises `DriverError` for
        what is no stream.
        """
        self.enter()
        return int(_ok("cuStreamGetCtx", _bindings().cuStreamGetCtx(stream))) == int(self._context)

    def wait_stream(self, stream: int) -> None:
        """Block the host until everything submitted to `stream` is done."""
        self.enter()
        _ok("cuStreamSynchronize", _bindings().cuStreamSynchronize(stream))

    def stream_done(self, stream: int) -> bool:
        """Whether everything submitted to `stream` is done. A kernel fault there raises `DriverError`."""
        driver = _bindings()
        (status,) = driver.cuStreamQuery(stream)
        if status == driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        _ok("cuStreamQuery", (status,))
        return True

    def new_event(self, timing: bool = False, asleep: bool = False) -> int:
        """An event; a thread that waits for it on the host spins, or is `asleep`, which takes longer to notice."""
        self.enter()
        driver = _bindings()
        flags = driver.CUevent_flags
        kind = flags.CU_EVENT_DEFAULT.value if timing else flags.CU_EVENT_DISABLE_TIMING.value
        if asleep:
            kind |= flags.CU_EVENT_BLOCKING_SYNC.value
        return int(_ok("cuEventCreate", driver.cuEventCreate(kind)))

    def free_event(self, event: int) -> None:
        if _left_behind:
            return
        _ok("cuEventDestroy", _bindings().cuEventDestroy(event))

    def record(self, event: int, stream: int) -> None:
        _ok("cuEventRecord", _bindings().cuEventRecord(event, stream))

    def wait_event(self, stream: int, event: int) -> None:
        """Make later work of `stream` wait for `event`, on the device."""
        _ok("cuStreamWaitEvent", _bindings().cuStreamWaitEvent(stream, event, 0))

    def event_done(self, event: int) -> bool:
        """Whether `event` has been reached. A kernel fault on its stream raises `DriverError` here."""
        driver = _bindings()
        (status,) = driver.cuEventQuery(event)
        if status == driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        _ok("cuEventQuery", (status,))
        return True

    def wait_event_host(self, event: int) -> None:
        """Block the host until `event`."""
        _ok("cuEventSynchronize", _bindings().cuEventSynchronize(event))

    def elapsed_ms(self, first: int, second: int) -> float:
        """Milliseconds between two timing events, both reached."""
        return float(_ok("cuEventElapsedTime", _bindings().cuEventElapsedTime(first, second)))

    # ---- graphs

    def begin_capture(self, stream: int) -> None:
        driver = _bindings()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _ok("cuStreamBeginCapture", driver.cuStreamBeginCapture(stream, mode))

    def end_capture(self, stream: int) -> int:
        """The captured graph, ready to launch."""
        driver = _bindings()
        graph = _ok("cuStreamEndCapture", driver.cuStreamEndCapture(stream))
        try:
            return int(_ok("cuGraphInstantiate", driver.cuGraphInstantiate(graph, 0)))
        finally:
            _ok("cuGraphDestroy", driver.cuGraphDestroy(graph))

    def launch_graph(self, graph: int, stream: int) -> None:
        _ok("cuGraphLaunch", _bindings().cuGraphLaunch(graph, stream))

    def graph_launch(self, graph: int, stream: int) -> Callable[[], None]:
        """`launch_graph` with everything but the call done."""
        driver = _bindings()
        submit, success = driver.cuGraphLaunch, driver.CUresult.CUDA_SUCCESS
        executable, queue = driver.CUgraphExec(graph), driver.CUstream(stream)

        def launch() -> None:
            (status,) = submit(executable, queue)
            if status is not success and status != success:
                _ok("cuGraphLaunch", (status,))

        return launch

    def free_graph(self, graph: int) -> None:
        if _left_behind:
            return
        _ok("cuGraphExecDestroy", _bindings().cuGraphExecDestroy(graph))


@cache
def _open(ordinal: int) -> Device:
    driver = _bindings()
    try:
        _ok("cuInit", driver.cuInit(0))
        count = int(_ok("cuDeviceGetCount", driver.cuDeviceGetCount()))
    except (DriverError, RuntimeError) as error:
        raise NoDevice(f"no CUDA driver answers: {error}") from None
    if ordinal >= count:
        raise NoDevice(f"there is no GPU {ordinal}: the driver lists {count}")
    return Device(ordinal)
