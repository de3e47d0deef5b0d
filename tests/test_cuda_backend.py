"""The GPU backend on a driver on paper: what is submitted, what is kept, and what is let go of."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import inspect
from collections.abc import Iterator

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import PaperDriver, on_paper
from tilecheck.verify.tile import TileReport
from tilecheck_runtime import kernels
from tilecheck_runtime.backends import cuda, faults
from tilecheck_runtime.backends.numba_cuda import lowering, specialise
from tilecheck_runtime.calls import forget

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def test_a_launch_is_one_call_and_lets_go_when_it_is_over(paper: PaperDriver) -> None:
    x, z = tc.ones(64), tc.zeros(64)
    kernels.add(z.partition(32), x, x).sync()
    assert paper.calls["cuLaunchKernel"] == 1
    kernels.add(z.partition(32), x, x).run()
    before = len(paper.memory)
    del x, z
    tc.zeros(1)
    gc.collect()
    tc.zeros(1)
    gc.collect()
    assert len(paper.memory) < before


def test_what_is_in_flight_is_kept(paper: PaperDriver) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    paper.held = True
    kernels.add(z.partition(32), x, x).run(stream)
    buffers = set(paper.memory)
    del x, z
    gc.collect()
    tc.zeros(1)
    assert buffers <= set(paper.memory)


def test_another_stream_waits_on_the_device(paper: PaperDriver) -> None:
    x, y, z, one, two = tc.ones(64), tc.ones(64), tc.zeros(64), tc.Stream(), tc.Stream()
    kernels.add(z.partition(32), x, x).run(one)
    kernels.add(z.partition(32), x, x).run(one)
    assert paper.waits == []
    kernels.add(y.partition(32), z, x).run(two)
    ((stream, event),) = paper.waits
    assert stream == two._queue.handle and paper.events[event] == (one._queue.handle, 2)


def test_rounds_of_a_graph_are_one_call_each(paper: PaperDriver) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    with tc.CudaGraph.scope(stream) as scope:
        for _ in range(10):
            scope.record(kernels.add(z.partition(32), x, x))
    again = scope.graph.prepare(stream)
    again()
    before, calls = paper.submitted.copy(), paper.calls.total()
    for _ in range(5):
        again()
    assert paper.submitted - before == {stream._queue.handle: 5} and paper.calls.total() == calls
    again.wait()
    del again, scope
    gc.collect()
    assert paper.calls["cuGraphExecDestroy"] == 1


def test_a_graph_brings_values_of_the_host_to_the_device_when_it_captures(paper: PaperDriver) -> None:
    z, values = tc.zeros(64), np.arange(64, dtype=np.float32)
    before = len(paper.memory)
    with tc.CudaGraph.scope() as scope:
        scope.record(tc.memcpy(z, values))
    values[:] = 0
    # Nothing waits for a stream that is captured; the values stay as long as the graph.
    assert len(paper.memory) == before + 1
    scope.graph.launch().sync()
    assert z.numpy().tolist() == list(range(64))
    del scope
    gc.collect()
    assert len(paper.memory) == before


def test_a_graph_of_a_gpu_refuses_copies_with_gaps(paper: PaperDriver) -> None:
    z, x = tc.zeros(8, 8), tc.ones(8, 8)
    for source in (x[:, :4], np.ones((8, 4), np.float32)):
        with pytest.raises(tc.OpError, match="records copies of contiguous tensors") as caught:
            tc.memcpy(z[:, ::2], source).graph()
        assert caught.value.rule == "capture"
    z[0, 0] = 1
    assert paper.calls["cuStreamBeginCapture"] == 0


@pytest.mark.parametrize("how", ["run", "prepared", "graph"])
def test_a_check_that_fails_names_kernel_line_and_block(paper: PaperDriver, how: str) -> None:
    x, stream = tc.ones(64), tc.Stream()
    op = k.peek(x).with_grid(2, 2)
    again = {"prepared": op.prepare, "graph": lambda s: op.graph(s).prepare(s)}.get(how, op.run)(stream)
    if how != "run":
        again()
    event = again._repeat if how != "run" else again._event
    (report,) = event._reports
    assert_line = inspect.getsourcelines(k.peek.fn)[1] + 3
    ctypes.c_uint64.from_address(report.address).value = faults.code(assert_line, 3)
    with pytest.raises(tc.KernelStopped) as caught:
        again.wait()
    assert (caught.value.rule, caught.value.message) == ("device-assert", "assertion failed: not zero")
    assert caught.value.points[0].endswith(f"launch_kernels.py:{assert_line}: in `peek`, block (1, 1, 0)")
    # An index has no words of its own.
    ctypes.c_uint64.from_address(report.address).value = faults.code(assert_line - 1, 0)
    error = report.read()
    assert error is not None and error.rule == "out-of-bounds"
    assert error.message.endswith("of `peek`: `tile = x.partition(D16)[tc.block_id(0)]`")
    assert error.points[0].endswith("block (0, 0, 0)")


def test_a_launcher_lets_go_when_somebody_looks(paper: PaperDriver) -> None:
    gc.collect()
    before, stream = tc.allocated().count, tc.Stream()
    move = k.move.on(stream)
    for _ in range(3):
        z, x = tc.zeros(64), tc.ones(64)
        for _ in range(4):
            move(z.partition(16), x)
        del z, x
    stream.synchronize()
    gc.collect()
    gc.disable()
    try:
        tc.zeros(1)
        assert tc.allocated().count == before
    finally:
        gc.enable()


def test_a_coroutine_is_woken_by_a_thread_that_slept(paper: PaperDriver) -> None:
    x, streams = tc.ones(64), [tc.Stream() for _ in range(3)]
    others = [tc.zeros(64) for _ in streams]

    async def one(n: int) -> object:
        return await kernels.add(others[n].partition(32), x, x).run(streams[n])

    async def main() -> list[object]:
        paper.held = True
        return await asyncio.gather(*(one(n) for n in range(3)))

    before = len(paper.awaited)
    assert len(asyncio.run(main())) == 3
    first: dict[int, int] = {}
    for event in paper.awaited[before:]:
        first.setdefault(paper.events[event][0], event)
    assert set(first) == {stream._queue.handle for stream in streams}
    blocking = paper.CUevent_flags.CU_EVENT_BLOCKING_SYNC.value
    assert all(paper.flags[event] & blocking for event in first.values())
    paper.held = False


def test_another_float_is_written_where_it_belongs(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[float]] = []
    launch = type(paper).cuLaunchKernel

    def seen(self: PaperDriver, *given: int) -> object:
        addresses = (ctypes.c_void_p * 20).from_address(given[9])
        taken.append([ctypes.c_double.from_address(a).value for a in addresses[:10] if a])
        return launch(self, *given)

    monkeypatch.setattr(type(paper), "cuLaunchKernel", seen)
    x, y, z, stream = tc.ones(64), tc.ones(64), tc.zeros(64), tc.Stream()
    saxpy = kernels.saxpy.on(stream)
    for step in range(6):
        saxpy(z.partition(32), x, y, 0.5 + step)
        kernels.saxpy(z.partition(32), x, y, 100.5 + step).run(stream)
    for step in range(6):
        assert 0.5 + step in taken[2 * step] and 100.5 + step in taken[2 * step + 1]
    stream.synchronize()


def test_a_grid_too_long_for_the_hardware_stands_in_a_row(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    z, x, stream = tc.zeros(4, 8), tc.ones(4, 8), tc.Stream()

    def launch() -> None:
        k.move2(z.partition(2, 2), x).run(stream)
        k.move2(z.partition(2, 2), x).prepare(stream)()
        stream.synchronize()

    launch()
    monkeypatch.setattr(specialise, "LONGEST", 3)
    launch()
    launch()
    hardware, row, again = zip(paper.launched[::2], paper.grids[::2], strict=True)
    assert paper.grids == [(2, 4, 1)] * 2 + [(8, 1, 1)] * 4
    assert hardware[0] != row[0] == again[0]


def test_what_the_compiler_does_not_take_is_a_refusal(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(device: object, report: TileReport, key: object) -> object:
        raise lowering.NoLowering("`sort` of 3 axes", report.kernel.body[0])

    forget()
    monkeypatch.setattr(cuda, "load", load)
    z, x = tc.zeros(64), tc.ones(64)
    with pytest.raises(tc.LaunchRefused) as caught:
        k.move(z.partition(16), x).sync()
    assert caught.value.message == "`move`: the numba-cuda backend does not compile `sort` of 3 axes"
    assert caught.value.rule == "unsupported" and "launch_kernels.py:" in caught.value.points[0]


def test_an_error_of_the_device_names_what_was_waited_for(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, z = tc.ones(64), tc.zeros(64)
    running = kernels.add(z.partition(32), x, x).run(tc.Stream())
    lost = paper.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    monkeypatch.setattr(PaperDriver, "cuEventSynchronize", lambda self, event: (lost,))
    for _ in range(2):
        with pytest.raises(tc.TilecheckError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
            running.wait()
        assert caught.value.points == ("noticed while waiting for `add`",)
        assert caught.value.help is not None and "lost to this process" in caught.value.help
