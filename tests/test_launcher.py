"""`kernel.on(stream)`: launches at once, each checked; what has not changed is not looked at again, what has is."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import PaperDriver, on_paper
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck_runtime import kernels

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

FACTOR = 2.0


class W(Dim): ...


@tc.kernel
def scaled(z: Tensor[Mut, f32, W], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(FACTOR * tc.load_like(x, z))


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def test_each_call_is_a_launch() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    pieces = z.partition(16)
    plus, move = k.plus.on(tc.Stream()), k.move.on(tc.Stream())
    for _ in range(5):
        plus(pieces, x, x)
        move(x.partition(16), z)
    plus.wait()
    move.wait()
    assert x.numpy().tolist() == [32.0] * 64
    assert "plus" in repr(plus)


def test_scalars_count_by_value() -> None:
    z = tc.zeros(8)
    pieces, fill = z.partition(8), k.fill.on(tc.Stream())
    for value in (1, 1.0, 2.0, 2.0, 2.0, 1, 1, 1, -0.0, 0.0):
        fill(pieces, value)
        fill.wait()
        assert z.numpy().tolist() == [value] * 8
    for _ in range(3):
        assert refused(lambda: fill(pieces, True)).rule == "dtype-mismatch"


def test_what_it_uses_is_in_flight_until_somebody_waits() -> None:
    z, x, stream = tc.zeros(64), tc.ones(64), tc.Stream()
    pieces, move = z.partition(16), k.move.on(stream)
    for wait in (move.wait, stream.synchronize) * 2:
        for _ in range(4):
            move(pieces, x)
        for use in (z.numpy, lambda: x.__setitem__(0, 1), lambda: x.into_partition(8)):
            error = refused(use)
            assert error.rule == "use-in-flight"
        assert "`move`" in error.points[0] and "test_launcher.py" in error.points[0]
        wait()
        assert z.numpy().sum() == 64
        x[0] = 1


@pytest.mark.parametrize("rounds", [1, 5])
def test_others_are_refused_and_refuse_as_ever(rounds: int) -> None:
    z, x, w = tc.zeros(64), tc.ones(64), tc.zeros(64)
    pieces, move = z.partition(16), k.move.on(tc.Stream())
    for _ in range(rounds):
        move(pieces, x)
    op = k.move(w.partition(16), z)
    error = refused(lambda: move(pieces, x))
    assert error.rule == "borrow-conflict"
    assert error.message == "cannot borrow `z` exclusively while `move` reads it"
    op.sync()
    for _ in range(rounds):
        move(pieces, x)
    view = z[0:8]
    move(pieces, x)
    move.wait()
    assert "ended when" in refused(view.numpy).message
    other = z.partition(8)
    assert "ended when" in refused(lambda: move(pieces, x)).message
    for _ in range(rounds):
        move(other, x)
    move.wait()
    gone = x.into_partition(8)
    assert refused(lambda: move(other, x)).rule == "use-after-move"
    del gone
    k.move(z.partition(16), w).sync()


def test_a_graph_that_was_captured_is_seen() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    pieces, move = z.partition(16), k.move.on(tc.Stream())
    for _ in range(4):
        move(pieces, x)
    graph = k.move(pieces, x).graph()
    assert "captured here" in refused(lambda: move(pieces, x)).points[0]
    del graph
    gc.collect()
    again = k.move(z.partition(16), x).prepare()
    assert refused(lambda: move(z, x)).rule == "unpartitioned-output"
    again()
    assert refused(lambda: move(pieces, x)).rule in ("use-in-flight", "borrow-conflict")
    again.wait()


def test_reading_rounds_of_a_prepared_launch_keep_writers_off() -> None:
    z, x, w = tc.zeros(64), tc.ones(64), tc.zeros(64)
    pieces, fill = x.partition(16), k.fill.on(tc.Stream())
    again = k.move(z.partition(16), x).prepare()
    for _ in range(4):
        fill(pieces, 3.0)
    again()
    assert refused(lambda: fill(pieces, 3.0)).rule == "use-in-flight"
    again.wait()
    fill(pieces, 4.0)
    fill.wait()
    k.move(w.partition(16), z).sync()
    assert (w.numpy().sum(), x.numpy().sum()) == (3 * 64, 4 * 64)


def test_what_the_kernel_refers_to_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    z, x = tc.zeros(8), tc.ones(8)
    pieces, launch = z.partition(8), scaled.on(tc.Stream())
    for factor in (2.0, 3.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(4):
            launch(pieces, x)
        launch.wait()
        assert z.numpy().tolist() == [factor] * 8


def test_work_is_ordered_against_other_streams() -> None:
    z, x, out = tc.zeros(256), tc.zeros(256), tc.zeros(256)
    one, two, three = tc.Stream(), tc.Stream(), tc.Stream()
    up, over = k.plus.on(one), k.move.on(two)
    ones, zs, outs, xs = tc.ones(256), z.partition(64), out.partition(64), x.partition(64)
    for n in range(20):
        up(zs, x, ones)
        over(xs, z)
        if n % 3 == 0:
            k.move(outs, z).run(three)
    up.wait()
    over.wait()
    three.synchronize()
    assert x.numpy().tolist() == [20.0] * 256
    assert out.numpy().tolist() == [19.0] * 256


def test_a_launch_that_stops_is_told_by_wait() -> None:
    x, z, stream = tc.ones(64), tc.zeros(16), tc.Stream()
    move, pick = k.move.on(stream), k.by_block.on(stream)
    pieces = z.partition(16)
    for _ in range(3):
        move(pieces, x)
    failing, pieces = k.peek(x).with_grid(4).run(stream), z.partition(16)
    with pytest.raises(tc.KernelStopped):
        failing.wait()
    pick(pieces, x)
    pick.wait()
    move.wait()
    assert z.numpy().sum() == 16


def test_inside_a_function_of_an_op_it_is_refused() -> None:
    z, x = tc.zeros(8), tc.ones(8)
    pieces, move = z.partition(8), k.move.on(tc.Stream())
    for _ in range(3):
        move(pieces, x)
    move.wait()
    assert refused(tc.value(1).map(lambda _: move(pieces, x)).sync).rule == "reentrant-sync"


def test_it_wants_a_stream() -> None:
    assert "runs on a stream" in refused(lambda: k.move.on(3)).message  # type: ignore[arg-type]


def test_nothing_leaks() -> None:
    gc.collect()
    tc.zeros(1)
    before, stream = tc.allocated().count, tc.Stream()
    move = k.move.on(stream)
    for _ in range(3):
        z, x = tc.zeros(64), tc.ones(64)
        pieces = z.partition(16)
        for _ in range(4):
            move(pieces, x)
        del pieces, z, x
    stream.synchronize()
    move.wait()
    gc.collect()
    tc.zeros(1)
    assert tc.allocated().count == before
    z, x = tc.zeros(64), tc.ones(64)
    pieces = z.partition(16)
    for _ in range(4):
        move(pieces, x)
    del move
    stream.synchronize()
    k.move(x.partition(16), z).sync()
    assert x.numpy().sum() == 64


def test_a_repeated_launch_is_one_call_of_the_driver(paper: PaperDriver) -> None:
    x, y, z, stream = tc.ones(64), tc.ones(64), tc.zeros(64), tc.Stream()
    add, pieces, others = kernels.add.on(stream), z.partition(32), y.partition(32)
    for _ in range(3):
        add(pieces, x, x)
        add(others, z, x)
    calls = paper.calls.copy()
    for _ in range(10):
        add(pieces, x, x)
        add(others, z, x)
    assert paper.calls == calls
    assert paper.launched[-20:] == [(paper.launched[0][0], stream._queue.handle)] * 20


def test_on_the_device_another_stream_waits_for_the_last_round(paper: PaperDriver) -> None:
    x, y, z, one, two = tc.ones(64), tc.ones(64), tc.zeros(64), tc.Stream(), tc.Stream()
    add, pieces = kernels.add.on(one), z.partition(32)
    for _ in range(7):
        add(pieces, x, x)
    kernels.add(y.partition(32), z, x).run(two)
    ((stream, event),) = paper.waits
    assert stream == two._queue.handle and paper.events[event] == (one._queue.handle, 7)
    add(pieces, x, x)
    ((_, _), (stream, event)) = paper.waits
    assert stream == one._queue.handle and paper.events[event] == (two._queue.handle, 1)


def test_a_kernel_with_checks_has_no_seat_on_the_device(paper: PaperDriver) -> None:
    x, stream = tc.ones(64), tc.Stream()
    pick, pieces = k.pick.on(stream), tc.zeros(16).partition(16)
    for _ in range(4):
        pick(pieces, x, 1)
    assert not pick._seats
    pick.wait()


def test_a_dropped_launcher_lets_go_when_its_work_is_over(paper: PaperDriver) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    add, pieces = kernels.add.on(stream), z.partition(32)
    for _ in range(4):
        add(pieces, x, x)
    stream.synchronize()
    paper.held = True
    add(pieces, x, x)
    del add
    gc.collect()
    assert refused(z.numpy).rule == "use-in-flight"
    paper.held = False
    z.numpy()


def test_memory_goes_when_the_handles_do(paper: PaperDriver) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    add, pieces = kernels.add.on(stream), z.partition(32)
    for _ in range(4):
        add(pieces, x, x)
    stream.synchronize()
    before = len(paper.memory)
    paper.held = True
    add(pieces, x, x)
    del pieces, x, z
    gc.collect()
    tc.zeros(1)
    assert len(paper.memory) >= before
    stream.synchronize()
    paper.held = False
    tc.zeros(1)
    gc.collect()
    assert len(paper.memory) < before


# ---- threads


def test_eight_threads_on_their_own_and_on_shared_tensors() -> None:
    shared, total = tc.ones(32), tc.zeros(32)
    stream, problems = tc.Stream(), []
    common = k.plus.on(stream)

    def work(number: int) -> float:
        z, stream = tc.zeros(32), tc.Stream()
        mine, pieces = k.plus.on(stream), z.partition(8)
        for n in range(30):
            mine(pieces, shared, shared)
            if n % 7 == 0:
                common(pieces, shared, shared)
            if n % 10 == number:
                try:
                    k.plus(total.partition(8), shared, z).run(stream).wait()
                except tc.BorrowError as error:
                    problems.append(error.rule)
        mine.wait()
        common.wait()
        return float(z.numpy().sum())

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [64.0] * 8
    assert set(problems) <= {"borrow-conflict", "use-in-flight"}
    assert shared.numpy().sum() == 32


def test_two_threads_launch_through_one_launcher() -> None:
    z, one, stream = tc.zeros(32), tc.ones(32), tc.Stream()
    pieces, launch = z.partition(8), k.plus.on(stream)
    h, more = tc.zeros(32), k.move.on(tc.Stream())
    hs = h.partition(8)
    start = threading.Barrier(2)
    taken = [0, 0]

    def count() -> None:
        start.wait()
        while taken[0] < 50:
            # The other thread may be in the way, and is not for long.
            with suppress(tc.BorrowError):
                launch(pieces, one, one)
                taken[0] += 1
            launch.wait()

    def copies() -> None:
        start.wait()
        while taken[1] < 50:
            with suppress(tc.BorrowError):
                more(hs, z)
                taken[1] += 1
            more.wait()

    workers: list[Any] = [threading.Thread(target=target) for target in (count, copies)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    launch.wait()
    more.wait()
    assert np.array_equal(z.numpy(), np.full(32, 2.0)) and set(h.numpy()) <= {0.0, 2.0}
