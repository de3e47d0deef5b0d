"""The CUDA driver on paper: what `cuda.bindings.driver` offers, for tests of the GPU backend without a GPU.

Memory is the host's, copies are real, kernels compute nothing. A stream is a list of what was submitted; whatever waits for
an event or a stream makes everything before it done. While `held` is set nothing gets done on its own, so that events can
be seen pending. `calls` counts the calls by name.

    with on_paper() as driver:
        saxpy(z.partition(128), x, y, 2.0).sync()
        assert driver.calls["cuLaunchKernel"] == 1
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from cuda.bindings import driver as real

from tilecheck_runtime import backends, driver
from tilecheck_runtime.backends import cuda
from tilecheck_runtime.stream import Single, streams

OK = real.CUresult.CUDA_SUCCESS
NOT_READY = real.CUresult.CUDA_ERROR_NOT_READY
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
    "MULTIPROCESSOR_COUNT": 132,
    "L2_CACHE_SIZE": 50 << 20,
}


class PaperDriver:
    """The functions of the driver that the runtime calls, with the answers as cuda.bindings gives them."""

    CUresult = real.CUresult
    CUstream = CUgraphExec = int
    CUdevice_attribute = real.CUdevice_attribute
    CUfunction_attribute = real.CUfunction_attribute
    CUstream_flags = real.CUstream_flags
    CUevent_flags = real.CUevent_flags
    CUstreamCaptureMode = real.CUstreamCaptureMode

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.held = False
        self.memory: dict[int, Any] = {}
        # By stream: how much was submitted, how much is done, and what a capture has collected.
        self.submitted: Counter[int] = Counter()
        self.over: Counter[int] = Counter()
        self.capturing: dict[int, int] = {}
        # By event: the stream and how much of it comes before; and which waits were ordered, (stream, event).
        self.events: dict[int, tuple[int, int]] = {}
        self.waits: list[tuple[int, int]] = []
        # Events by the flags they were made with, and those that a thread of the host has waited for.
        self.flags: dict[int, int] = {}
        self.awaited: list[int] = []
        # What was launched: function and stream, and the grid.
        self.launched: list[tuple[int, int]] = []
        self.grids: list[tuple[int, int, int]] = []
        # Its block, and bytes of dynamic shared memory.
        self.blocks: list[tuple[tuple[int, int, int], int]] = []
        # What every kernel takes, by the name of the attribute, and the bytes of its parameters, None if nobody knows.
        self.attributes: dict[str, int] = {}
        self.parameters: list[int] | None = None
        self.destroyed: list[int] = []
        # The context of a stream of another library, 1 (ours) if it is not here.
        self.contexts: dict[int, int] = {}
        self._handles = count(1 << 20)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu"):
            object.__getattribute__(self, "calls")[name] += 1
        return object.__getattribute__(self, name)

    def _new(self) -> int:
        return next(self._handles)

    # ---- device

    def cuInit(self, flags: int) -> Any:
        return (OK,)

    def cuGetErrorString(self, status: Any) -> Any:
        return OK, b"on paper"

    def cuDeviceGetCount(self) -> Any:
        return OK, 1

    def cuDeviceGet(self, ordinal: int) -> Any:
        return OK, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, 1

    def cuCtxSetCurrent(self, context: int) -> Any:
        return (OK,)

    def cuDeviceGetName(self, length: int, device: int) -> Any:
        return OK, b"paper\0"

    def cuDeviceGetAttribute(self, which: Any, device: int) -> Any:
        return OK, ATTRIBUTES.get(which.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 65535)

    # ---- kernels

    def cuModuleLoadData(self, image: bytes) -> Any:
        return OK, self._new()

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return OK, self._new()

    def cuFuncGetAttribute(self, which: Any, function: int) -> Any:
        return OK, self.attributes.get(which.name.removeprefix("CU_FUNC_ATTRIBUTE_"), 0)

    def cuFuncGetParamInfo(self, function: int, index: int) -> Any:
        if self.parameters is None:
            return real.CUresult.CUDA_ERROR_NOT_SUPPORTED, 0, 0
        if index >= len(self.parameters):
            return real.CUresult.CUDA_ERROR_INVALID_VALUE, 0, 0
        return OK, sum(self.parameters[:index]), self.parameters[index]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: int, threads: int, shared: int) -> Any:
        return OK, 2048 // threads

    def cuFuncSetAttribute(self, function: int, which: Any, value: int) -> Any:
        return (OK,)

    def cuLaunchKernel(
        self, function: int, x: int, y: int, z: int, bx: int, by: int, bz: int, shared: int, stream: int, *rest: Any
    ) -> Any:
        self.submitted[stream] += 1
        self.launched.append((function, stream))
        self.grids.append((x, y, z))
        self.blocks.append(((bx, by, bz), shared))
        return (OK,)

    def cuLaunchCooperativeKernel(self, function: int, *rest: Any) -> Any:
        return self.cuLaunchKernel(function, *rest)

    # ---- memory

    def cuMemAllocAsync(self, size: int, stream: int) -> Any:
        block = ctypes.create_string_buffer(size + 256)
        address = ctypes.addressof(block)
        address += -address % 256
        self.memory[address] = block
        return OK, address

    def cuMemFreeAsync(self, address: int, stream: int) -> Any:
        del self.memory[address]
        return (OK,)

    def cuMemHostAlloc(self, size: int, flags: int) -> Any:
        return self.cuMemAllocAsync(size, 0)

    def _copy(self, to: int, source: int, size: int, stream: int) -> Any:
        ctypes.memmove(to, source, size)
        self.submitted[stream] += 1
        return (OK,)

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    def cuMemsetD8Async(self, address: int, byte: int, size: int, stream: int) -> Any:
        ctypes.memset(address, byte, size)
        return (OK,)

    # ---- streams and events

    def cuStreamCreate(self, flags: Any) -> Any:
        return OK, self._new()

    def cuStreamDestroy(self, stream: int) -> Any:
        self.destroyed.append(stream)
        return (OK,)

    def cuStreamGetCtx(self, stream: int) -> Any:
        return OK, self.contexts.get(stream, 1)

    def cuStreamSynchronize(self, stream: int) -> Any:
        self.over[stream] = self.submitted[stream]
        return (OK,)

    def cuStreamQuery(self, stream: int) -> Any:
        return (OK if not self.held or self.over[stream] >= self.submitted[stream] else NOT_READY,)

    def cuEventCreate(self, flags: int) -> Any:
        event = self._new()
        self.flags[event] = flags
        return OK, event

    def cuEventDestroy(self, event: int) -> Any:
        return (OK,)

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.events[event] = (stream, self.submitted[stream])
        return (OK,)

    def cuEventQuery(self, event: int) -> Any:
        stream, before = self.events[event]
        return (OK if not self.held or self.over[stream] >= before else NOT_READY,)

    def cuEventSynchronize(self, event: int) -> Any:
        self.awaited.append(event)
        stream, before = self.events[event]
        self.over[stream] = max(self.over[stream], before)
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        self.waits.append((stream, event))
        return (OK,)

    # ---- graphs

    def cuStreamBeginCapture(self, stream: int, mode: Any) -> Any:
        self.capturing[stream] = self.submitted[stream]
        return (OK,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        self.submitted[stream] = self.capturing.pop(stream)
        return OK, self._new()

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        return OK, self._new()

    def cuGraphDestroy(self, graph: int) -> Any:
        return (OK,)

    def cuGraphExecDestroy(self, graph: int) -> Any:
        return (OK,)

    def cuGraphLaunch(self, graph: int, stream: int) -> Any:
        self.submitted[stream] += 1
        return (OK,)


@contextmanager
def on_paper() -> Iterator[PaperDriver]:
    """Let the runtime of this process use a GPU that exists on paper."""
    paper = PaperDriver()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_bindings", lambda: paper)
        device = cuda.CUDADevice(driver.Device(0))
        patch.setattr(backends, "_cuda", lambda: device)
        patch.setenv("TILECHECK_DEVICE", "cuda")
        backends.default.cache_clear()
        try:
            with streams(Single()):
                yield paper
        finally:
            gc.collect()
            backends.default.cache_clear()
            # Whatever dies later has no driver to say so to.
            for late in ("free", "free_event", "free_graph", "free_stream", "new_event", "record"):
                setattr(device.device, late, lambda *given: None)
