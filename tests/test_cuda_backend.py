"""The GPU backend on a driver on paper: what is submitted, what is kept, and what is let go of."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import tilecheck as tc
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import kernels

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
