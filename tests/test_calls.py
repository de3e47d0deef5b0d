"""Kernel calls that come again: their ops hold, refuse, combine and fail as the first ones did."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import kernels
from tilecheck_runtime.calls import QuickOp
from tilecheck_runtime.seated_ops import Round

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


class Again:
    """A launch that was here before: `z`, cut into `pieces`, gets `x`."""

    def __init__(self) -> None:
        self.z, self.x, self.stream = tc.zeros(64), tc.ones(64), tc.Stream()
        self.pieces = self.z.partition(16)
        for _ in range(3):
            self.op().run(self.stream).wait()
        assert self.z.numpy().sum() == 64

    def op(self) -> Any:
        return k.move(self.pieces, self.x)


def quick(op: Any) -> Any:
    assert isinstance(op, QuickOp)
    return op


def test_it_runs_and_its_running_ends_the_borrows() -> None:
    a = Again()
    for value in (2.0, 3.0):
        a.x[...] = value
        running = quick(a.op()).run(a.stream)
        assert isinstance(running, Round) and running.stream is a.stream
        assert refused(a.z.numpy).rule == refused(lambda: a.x.__setitem__(0, 1)).rule == "use-in-flight"
        assert running.wait() == (a.pieces, a.x)
        assert a.z.numpy().tolist() == [value] * 64
        assert running.done()


def test_while_it_is_built_it_holds_what_it_needs() -> None:
    a, w = Again(), tc.zeros(64)
    op = quick(a.op())
    for use in (a.z.numpy, lambda: a.x.__setitem__(0, 1), lambda: a.z.partition(8), lambda: a.x.into_partition(8), a.op,
                lambda: k.fill(a.x.partition(8), 1.0), lambda: k.move(w.partition(8), a.z)):  # fmt: skip
        error = refused(use)
        assert error.rule == "borrow-conflict"
    assert "`move` was built here and not run yet" in error.points[0] and "test_calls.py" in error.points[0]
    assert k.move(w.partition(8), a.x).sync() is not None
    op.run(a.stream).wait()
    assert a.z.numpy().sum() == 64


def test_dropped_it_warns_and_lets_go() -> None:
    a = Again()
    for looked in (False, True):
        op = quick(a.op())
        if looked:
            refused(a.z.numpy)
        line = op._site
        with pytest.warns(tc.DroppedOpWarning, match="`move` was built and never run") as caught:
            op = None
            gc.collect()
        assert caught[0].filename == line.path == __file__ and caught[0].lineno == line.line
        a.z[0] = 1
        a.op().sync_on(a.stream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(a.op()).discard()
    a.z.partition(8)


def test_it_combines_like_any_other() -> None:
    a, w = Again(), tc.zeros(64)
    total = quick(a.op()).then(lambda value: k.move(w.partition(16), value[1])).first().to_host().sync()
    assert total.sum() == 64
    graph = quick(a.op()).graph()
    a.x[...] = 5
    graph.launch().sync()
    assert a.z.numpy().sum() == 5 * 64
    del graph
    gc.collect()
    a.op().sync_on(a.stream)
    again = quick(a.op()).prepare(a.stream)
    again()
    assert refused(a.op).rule == "use-in-flight"
    again.wait()
    del again
    gc.collect()
    a.op().sync_on(a.stream)
    op = quick(a.op())
    assert op.grid == (4, 1, 1)
    op.sync_on(tc.Stream())
    for _ in range(2):
        op = a.op()
        op.run(a.stream).wait()
        assert refused(op.sync).message.startswith("cannot run `move`, which has run already")


def test_what_happened_in_between_is_looked_at() -> None:
    a = Again()
    view = a.z[0:8]
    a.op().run(a.stream).wait()
    assert "ended when" in refused(view.numpy).message
    held = k.move(tc.zeros(64).partition(8), a.z)
    assert refused(a.op).message == "cannot borrow `z` exclusively while `move` reads it"
    held.sync()
    a.op().run(a.stream).wait()
    moved = a.x.into_partition(8)
    assert refused(a.op).rule == "use-after-move"
    del moved
    a.z.partition(4)
    a.x = tc.ones(64)
    assert "ended when" in refused(a.op).message


def test_a_launch_that_goes_from_stream_to_stream_has_no_seat() -> None:
    a, streams = Again(), [tc.Stream(), tc.Stream()]
    for n in range(6):
        a.x[...] = n
        op = a.op()
        assert isinstance(op, QuickOp) == (n == 0)
        op.run(streams[n % 2]).wait()
        assert a.z.numpy().tolist() == [n] * 64


def test_a_dropped_running_keeps_its_borrows_until_the_work_is_over(paper: PaperDriver) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    pieces = z.partition(32)
    for _ in range(4):
        kernels.add(pieces, x, x).run(stream).wait()
    paper.held = True
    kernels.add(pieces, x, x).run(stream)
    assert refused(z.numpy).rule == "use-in-flight"
    paper.held = False
    z.numpy()
    kept = kernels.add(pieces, x, x).run(stream)
    assert refused(z.numpy).rule == "use-in-flight"
    stream.synchronize()
    z.numpy()
    kept.wait()


def test_built_and_run_it_is_one_call_of_the_driver(paper: PaperDriver) -> None:
    x, y, z, stream = tc.ones(64), tc.ones(64), tc.zeros(64), tc.Stream()
    pieces, others = z.partition(32), y.partition(32)

    def both() -> None:
        kernels.add(pieces, x, x).run(stream)
        kernels.add(others, z, x).run(stream)

    for _ in range(4):
        both()
    calls, launched = paper.calls.copy(), len(paper.launched)
    for _ in range(10):
        both()
    assert paper.calls == calls and len(paper.launched) == launched + 20
    w = tc.zeros(64)
    kernels.add(w.partition(32), y, x).run(tc.Stream())
    ((_, event),) = paper.waits
    assert paper.events[event] == (stream._queue.handle, paper.submitted[stream._queue.handle])


def test_a_failing_round_is_told_by_its_running_alone() -> None:
    x, z, stream = tc.ones(64), tc.zeros(16), tc.Stream()
    pieces = z.partition(16)
    for _ in range(3):
        k.move(pieces, x).run(stream).wait()
    bad = k.peek(x).with_grid(4).run(stream)
    after = k.move(pieces, x).run(stream)
    with pytest.raises(tc.KernelStopped):
        bad.wait()
    after.wait()
    assert z.numpy().sum() == 16


def test_nothing_leaks() -> None:
    gc.collect()
    before = tc.allocated().count
    for _ in range(3):
        a = Again()
        a.op().run(a.stream)
        stream = a.stream
        del a
        stream.synchronize()
    gc.collect()
    assert tc.allocated().count == before


def test_eight_threads_call_the_same_kernel() -> None:
    shared, common = tc.ones(32), tc.zeros(32)
    contested = common.partition(8)

    def work(number: int) -> list[str]:
        z, stream, rules = tc.zeros(32), tc.Stream(), []
        pieces = z.partition(8)
        for n in range(40):
            k.plus(pieces, shared, shared).run(stream)
            if n % 5 == number % 5:
                try:
                    k.plus(contested, shared, shared).run(stream)
                except tc.BorrowError as error:
                    rules.append(error.rule)
        stream.synchronize()
        assert z.numpy().tolist() == [2.0] * 32
        return rules

    with ThreadPoolExecutor(8) as threads:
        rules = [rule for found in threads.map(work, range(8)) for rule in found]
    assert set(rules) <= {"borrow-conflict"}
    assert k.move(tc.zeros(32).partition(8), common).first().to_host().sync().tolist() == [2.0] * 32
