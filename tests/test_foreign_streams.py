"""Streams of other libraries under ours, on a driver on paper; and streams that nobody has any more."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import tilecheck as tc
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import kernels


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


class Protocol:
    """As CUDA Python and numba have it."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 41


class Property:
    __cuda_stream__ = (0, 42)


class Torch:
    cuda_stream = 43


class CuPy:
    ptr = 44


@pytest.mark.parametrize(
    ("foreign", "handle"), [(Protocol(), 41), (Property(), 42), (Torch(), 43), (CuPy(), 44), (45, 45), (0, 0)]
)
def test_work_goes_to_the_stream_of_the_library(paper: PaperDriver, foreign: Any, handle: int) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream(foreign)
    kernels.add(z.partition(32), x, x).sync_on(stream)
    ((_, on),) = paper.launched
    assert on == handle
    with tc.streams(tc.Single(stream)):
        kernels.add(z.partition(32), x, x).sync()
    assert paper.launched[-1][1] == handle
    stream.synchronize()


def test_data_orders_it_with_our_streams(paper: PaperDriver) -> None:
    x, z, y, ours, theirs = tc.zeros(64), tc.zeros(64), tc.zeros(64), tc.Stream(), tc.Stream(Torch())
    kernels.add(z.partition(32), z2 := tc.ones(64), z2).run(ours)
    kernels.add(y.partition(32), z, z).run(theirs)
    ((stream, event),) = paper.waits
    assert stream == 43 and paper.events[event][0] == ours._queue.handle  # type: ignore[attr-defined]
    # Two of ours on one of theirs are in order as they are.
    kernels.add(x.partition(32), y, y).run(tc.Stream(43))
    assert len(paper.waits) == 1


def test_the_library_keeps_its_stream_and_we_keep_it_alive(paper: PaperDriver) -> None:
    foreign = Torch()
    seen = weakref.ref(foreign)
    stream = tc.Stream(foreign)
    del foreign
    gc.collect()
    assert seen() is not None
    del stream
    gc.collect()
    assert seen() is None
    assert 43 not in paper.destroyed


@pytest.mark.parametrize("foreign", ["main", object(), True, -1, 1.5, None.__class__, ("cuda", 1)])
def test_what_is_no_stream_is_refused(paper: PaperDriver, foreign: Any) -> None:
    with pytest.raises(tc.UsageError, match="is no stream of another library"):
        tc.Stream(foreign)


def test_a_stream_of_another_device_is_refused(paper: PaperDriver) -> None:
    paper.contexts[43] = 2
    with pytest.raises(tc.UsageError, match="the stream 43 is not one of cuda:0"):
        tc.Stream(Torch())


def test_the_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilecheck_runtime.backends import default

    if default().name != "cpu":
        pytest.skip("this process computes on a GPU")
    with pytest.raises(tc.UsageError, match="computes on the cpu, where there are no streams of other libraries"):
        tc.Stream(Torch())


def test_streams_end_once_their_work_is_over(paper: PaperDriver) -> None:
    x, z = tc.ones(64), tc.zeros(64)
    stream = tc.Stream()
    handle = stream._queue.handle  # type: ignore[attr-defined]
    paper.held = True
    tc.memcpy(z, x).run(stream)
    del stream
    gc.collect()
    # Events tell streams apart by their handles, so that one does not come again while work is in flight.
    assert handle not in paper.destroyed
    paper.held = False
    del x, z
    tc.zeros(1)
    gc.collect()
    assert paper.destroyed.count(handle) == 1


def test_many_streams_leave_nothing_behind(paper: PaperDriver) -> None:
    made = paper.calls["cuStreamCreate"]
    for _ in range(20):
        tc.Stream()
    gc.collect()
    assert paper.calls["cuStreamCreate"] - made == 20 == len(set(paper.destroyed))
