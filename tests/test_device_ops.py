"""Lazy operations: what they hold, when they run, how they combine, and what goes wrong."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilecheck_runtime as tc
from tilecheck.surface.dtypes import f32, i32
from tilecheck.surface.errors import TilecheckError, UsageError
from tilecheck_runtime import BorrowError, DeviceOp, OpError
from tilecheck_runtime.backends import default

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> TilecheckError:
    with pytest.raises(TilecheckError) as caught:
        call()
    return caught.value


class Gate:
    """A stream whose work waits until the gate is opened: in flight for as long as a test wants."""

    def __init__(self) -> None:
        self.stream = tc.Stream()
        self._open = threading.Event()
        self.stream._queue._worker.submit(self._open.wait)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Gate:
    if default().name != "cpu":
        pytest.skip("the gate holds up a stream of the CPU")
    return Gate()


# ---- life


def test_building_does_nothing_and_dropping_warns() -> None:
    z = tc.zeros(4)
    ops = [tc.memcpy(z, tc.ones(4))]
    with pytest.warns(tc.DroppedOpWarning, match="`memcpy` was built and never run"):
        ops.clear()
        gc.collect()
    assert z.numpy().sum() == 0
    z[0] = 1


def test_an_op_runs_once() -> None:
    op = tc.value(1)
    assert op.sync() == 1
    error = refused(op.sync)
    assert isinstance(error, OpError)
    assert error.message == "cannot run `value`, which has run already"
    inner = tc.value(2)
    outer = inner.map(str)
    assert "is part of another op already" in refused(inner.run).message
    assert outer.sync() == "2"


def test_two_threads_cannot_both_run_it() -> None:
    for _ in range(50):
        hits: list[int] = []
        op = tc.value(1).map(hits.append)
        with ThreadPoolExecutor(2) as threads:
            outcomes = [f.exception() for f in [threads.submit(op.sync) for _ in range(2)]]
        assert len(hits) == 1
        assert sorted(type(o).__name__ for o in outcomes) == ["NoneType", "OpError"]


# ---- what a built and a running op hold


def test_a_built_op_holds_what_it_needs() -> None:
    z, x = tc.zeros(4), tc.ones(4)
    op = tc.memcpy(z, x)
    error = refused(z.numpy)
    assert (error.rule, error.message) == (
        "borrow-conflict",
        "cannot read the tensor while `memcpy` has it exclusively",
    )
    assert "test_device_ops.py:" in error.points[0]
    for conflict in (lambda: z.partition(2), lambda: z[0:2], lambda: z.into_partition(2), lambda: tc.dup(z),
                     lambda: x.partition(2), lambda: x.into_partition(2), lambda: tc.memcpy(x, z)):  # fmt: skip
        assert refused(conflict).rule == "borrow-conflict"
    assert x.numpy().sum() == 4
    op.sync()
    assert z.numpy().sum() == 4


def test_what_is_in_flight_is_not_touched_by_the_host(gate: Gate) -> None:
    z, x = tc.zeros(4), tc.ones(4)
    running = tc.memcpy(z, x).run(gate.stream)
    for conflict in (z.numpy, lambda: z[0], lambda: z.__setitem__(0, 1), lambda: z.into_partition(2),
                     lambda: x.__setitem__(0, 1), lambda: x.into_partition(2), z.__dlpack__):  # fmt: skip
        assert refused(conflict).rule == "use-in-flight"
    assert x.numpy().sum() == 4
    assert not running.done()
    gate.open()
    running.wait()
    assert z.numpy().sum() == 4


def test_in_flight_ends_with_the_wait_and_not_with_the_work() -> None:
    z = tc.zeros(4)
    running = tc.memcpy(z, np.ones(4, np.float32)).run()
    running._event.wait()
    assert running.done()
    assert refused(z.numpy).rule == "use-in-flight"
    assert running.wait() is z
    assert running.wait() is z
    assert z.numpy().sum() == 4


def test_synchronising_a_stream_waits_for_everything_on_it() -> None:
    z, stream = tc.zeros(4), tc.Stream()
    running = tc.memcpy(z, np.ones(4, np.float32)).run(stream)
    stream.synchronize()
    assert z.numpy().sum() == 4
    assert running.done()


def test_a_dropped_running_keeps_its_memory_and_then_lets_go(gate: Gate) -> None:
    gc.collect()
    before = tc.allocated()
    z = tc.zeros(4)
    x = tc.ones(4)
    running = tc.memcpy(z, x).run(gate.stream)
    del running, x
    assert refused(z.numpy).rule == "use-in-flight"
    gate.open()
    gate.stream.synchronize()
    assert z.numpy().sum() == 4
    del z
    gc.collect()
    assert tc.allocated() == before


def test_data_orders_ops_across_streams(gate: Gate) -> None:
    a, b, c = tc.zeros(1000), tc.zeros(1000), tc.zeros(1000)
    first = tc.memcpy(a, np.full(1000, 7, np.float32)).run(gate.stream)
    second = tc.memcpy(b, a).run(tc.Stream())
    third = tc.memcpy(a, c).run(tc.Stream())
    assert not second.done() and not third.done()
    gate.open()
    for running in (third, second, first):
        running.wait()
    assert b.numpy().sum() == 7000
    assert a.numpy().sum() == 0


def test_independent_ops_overlap(gate: Gate) -> None:
    a, b = tc.zeros(4), tc.zeros(4)
    first = tc.memcpy(a, np.ones(4, np.float32)).run(gate.stream)
    tc.memcpy(b, np.ones(4, np.float32)).run(tc.Stream()).wait()
    assert not first.done()
    gate.open()
    first.wait()


def test_two_readers_do_not_wait_for_each_other(gate: Gate) -> None:
    x, a, b = tc.ones(4), tc.zeros(4), tc.zeros(4)
    first = tc.memcpy(a, x).run(gate.stream)
    tc.memcpy(b, x).run(tc.Stream()).wait()
    gate.open()
    first.wait()


# ---- combining


def test_combinators() -> None:
    x = tc.arange(4)
    assert tc.value(3).map(lambda v: v + 1).sync() == 4
    assert tc.zip(tc.value(1), tc.value("b")).sync() == (1, "b")
    assert tc.zip(tc.value(1), tc.value("b")).first().sync() == 1
    assert tc.zip(tc.value(1), tc.value("b")).last().sync() == "b"
    seen: list[int] = []
    assert tc.value(5).inspect(seen.append).sync() == 5
    assert seen == [5]
    assert tc.dup(x).to_host().sync().tolist() == [0, 1, 2, 3]
    assert tc.dup(x).to_host().map(lambda a: int(a.sum())).sync() == 6
    z = tc.zeros(4, dtype=i32)
    assert tc.dup(x).then(lambda y: tc.memcpy(z, y)).sync() is z
    assert z.numpy().tolist() == [0, 1, 2, 3]
    assert tc.value(x.partition(2)).unpartition().sync().shape == (4,)


def test_a_function_that_builds_on_data_in_flight(gate: Gate) -> None:
    x, y, z = tc.ones(4), tc.zeros(4), tc.zeros(4)
    op = tc.memcpy(y, x).then(lambda y: tc.memcpy(z, y)).then(lambda z: tc.memcpy(x, z))
    running = op.run(gate.stream)
    assert refused(z.numpy).rule == "use-in-flight"
    gate.open()
    running.wait()
    assert z.numpy().sum() == 4


def test_owned_partitions_travel_through_ops() -> None:
    zp = tc.ones(4).into_partition(2)
    z = tc.value(zp).unpartition().sync()
    assert z.numpy().sum() == 4
    assert refused(zp.unpartition).rule == "use-after-move"


def test_parts_of_a_run_that_happens_are_not_dropped(recwarn: pytest.WarningsRecorder) -> None:
    tc.value((1, 2)).unzip()[0].sync()
    one, _ = tc.value((1, 2)).unzip()
    del _
    one.map(str).run().wait()
    given_up, _ = tc.value((1, 2)).unzip()
    given_up.discard()
    del one, _, given_up
    gc.collect()
    assert not recwarn.list


def test_parts_that_nobody_runs_are_told_once() -> None:
    with pytest.warns(tc.DroppedOpWarning, match="`unzip` was built and never run") as told:
        tc.value((1, 2)).unzip()
        gc.collect()
    assert len(told) == 1


def test_shared_and_unzipped_ops_run_their_source_once() -> None:
    hits: list[int] = []
    source = tc.value(1).map(lambda v: hits.append(v) or v).shared()
    assert tc.zip(source.map(str), source.map(float), source).sync() == ("1", 1.0, 1)
    assert source.sync() == 1
    assert hits == [1]
    a, b = tc.zip(tc.value(1), tc.value(2).map(lambda v: hits.append(v) or v)).unzip()
    assert (b.sync(), a.sync()) == (2, 1)
    assert hits == [1, 2]
    c, d = tc.value((1, 2)).map(lambda pair: pair).unzip(2)
    assert tc.zip(d, c).sync() == (2, 1)


def test_consumers_of_a_shared_op_follow_its_run(gate: Gate) -> None:
    x, y, z = tc.ones(4), tc.zeros(4), tc.zeros(4)
    shared = tc.memcpy(y, x).shared()
    first = shared.run(gate.stream)
    second = shared.then(lambda y: tc.memcpy(z, y)).run(tc.Stream())
    assert not second.done()
    gate.open()
    second.wait()
    assert z.numpy().sum() == 4
    first.wait()


def test_a_shared_op_that_failed_does_not_run_again() -> None:
    hits: list[int] = []

    def fail(value: int) -> int:
        hits.append(value)
        raise ValueError("mine")

    source = tc.value(1).map(fail).shared()
    one, two = source.map(str), source.map(str)
    with pytest.raises(ValueError, match="mine"):
        one.sync()
    assert "the shared op has no value" in refused(two.sync).message
    assert hits == [1]


def test_a_shared_op_that_asks_for_itself() -> None:
    source: DeviceOp[object] = tc.value(1).then(lambda v: source.map(str)).shared()
    assert "asks for itself" in refused(source.sync).message


def test_an_interrupted_wait_keeps_the_borrows(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    z = tc.zeros(4)
    running = tc.memcpy(z, np.ones(4, np.float32)).run(gate.stream)

    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(running._event), "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            running.wait()
    assert refused(z.numpy).rule == "use-in-flight"
    gate.open()
    running.wait()
    assert z.numpy().sum() == 4


def test_what_does_not_combine() -> None:
    assert "returned a `int`, not an op" in refused(tc.value(1).then(lambda v: v).sync).message
    assert "`to_host` wants a tensor" in refused(tc.value(1).to_host().sync).message
    assert "`first` wants a tuple" in refused(tc.value(1).first().sync).message
    assert "`unpartition` wants a partition" in refused(tc.value(1).unpartition().sync).message
    assert "`zip` takes ops" in refused(lambda: tc.zip(1)).message  # type: ignore[arg-type]
    for call in (lambda: tc.value(1).unzip(), lambda: tc.value(1).grid, lambda: tc.value(1).with_grid(1)):
        assert isinstance(refused(call), OpError)


def test_copies_fit_or_are_refused() -> None:
    z = tc.zeros(4)
    assert refused(lambda: tc.memcpy(z, np.zeros(5, np.float32))).rule == "shape-mismatch"
    assert refused(lambda: tc.memcpy(z, tc.zeros(4, dtype=i32))).rule == "dtype-mismatch"
    assert refused(lambda: tc.memcpy(z, z)).rule == "borrow-conflict"
    host = np.ones(4, np.float32)
    op = tc.memcpy(z, host)
    host[:] = 9
    op.sync()
    assert z.numpy().sum() == 4


# ---- errors on the way


def test_an_error_in_a_function_leaves_nothing_held() -> None:
    x, y = tc.ones(4), tc.zeros(4)

    def fail(value: object) -> DeviceOp[int]:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tc.memcpy(y, x).then(fail).sync()
    y[0] = x[0]
    assert y.into_partition(2).unpartition().numpy().tolist() == [1, 1, 1, 1]


def test_failed_work_fails_what_depends_on_it_and_nothing_else(gate: Gate) -> None:
    a, b, c = tc.zeros(4), tc.zeros(4), tc.ones(4)
    broken = tc.memcpy(a, np.ones(4, np.float32))
    object.__setattr__(broken._node.work, "source", np.ones(3, np.float32))
    first = broken.run(gate.stream)
    second = tc.memcpy(b, a).run(tc.Stream())
    third = tc.memcpy(c, np.zeros(4, np.float32)).run(gate.stream)
    gate.open()
    with pytest.raises(ValueError, match="broadcast"):
        second.wait()
    with pytest.raises(ValueError, match="broadcast"):
        first.wait()
    third.wait()
    assert b.numpy().sum() == c.numpy().sum() == 0
    tc.memcpy(b, a).sync()


def test_running_inside_a_function_is_refused() -> None:
    for inner in (lambda: tc.value(1).sync(), lambda: tc.value(1).run(), lambda: tc.Stream().synchronize(),
                  lambda: tc.value(1).graph(), lambda: tc.CudaGraph.scope().__enter__()):  # fmt: skip
        for outer in (tc.value(0).map, tc.value(0).then, tc.value(0).inspect):
            op = outer(lambda _, inner=inner: inner())
            assert refused(op.sync).rule == "reentrant-sync"
    assert tc.value(1).sync() == 1


def test_two_ops_that_would_wait_for_each_other_are_refused() -> None:
    a, b = tc.zeros(4), tc.zeros(4)
    others: list[tc.Running[object]] = []
    threads: list[threading.Thread] = []

    def inner(value: object) -> DeviceOp[object]:
        # Another thread starts an op that must follow this one; then this one asks for what that holds.
        def other() -> None:
            others.append(tc.zip(tc.memcpy(b, np.ones(4, np.float32)), tc.memcpy(a, np.ones(4, np.float32))).run())

        threads.append(threading.Thread(target=other))
        threads[0].start()
        while not any(loan.state.value == "running" for loan in b._elements.memory.ledger.live(b._elements.region)):
            pass
        while not any(
            loan.state.value == "running" and loan.owner is not None
            for loan in a._elements.memory.ledger.live(a._elements.region)
            if "memcpy" in loan.holder and loan.owner not in seen
        ):
            pass
        return tc.memcpy(b, np.zeros(4, np.float32))

    seen: list[object] = []
    first = tc.memcpy(a, np.zeros(4, np.float32))

    def note(value: object) -> object:
        seen.extend(loan.owner for loan in a._elements.memory.ledger.live(a._elements.region))
        return value

    error = refused(first.inspect(note).then(inner).sync)
    assert (error.rule, error.message) == ("borrow-conflict", "this op would wait for an op that waits for it")
    threads[0].join()
    others[0].wait()
    assert a.numpy().sum() == b.numpy().sum() == 4


# ---- await


def test_await_gives_the_value_and_ends_the_borrows() -> None:
    async def main() -> float:
        x, z = tc.ones(4), tc.zeros(4)
        assert await tc.memcpy(z, x) is z
        running = tc.memcpy(x, z).run()
        assert refused(lambda: z.into_partition(4)).rule == "use-in-flight"
        await running
        assert await running is x
        return float(z.numpy().sum())

    assert asyncio.run(main()) == 4


def test_awaiting_does_not_block_the_loop(gate: Gate) -> None:
    async def main() -> list[str]:
        order: list[str] = []
        z = tc.zeros(4)

        async def work() -> None:
            await tc.memcpy(z, np.ones(4, np.float32)).run(gate.stream)
            order.append("work")

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.01)
        order.append("loop")
        gate.open()
        await task
        return order

    assert asyncio.run(main()) == ["loop", "work"]


@pytest.mark.cpu
def test_a_failed_running_raises_at_every_wait() -> None:
    broken = tc.memcpy(tc.zeros(4), np.ones(4, np.float32))
    object.__setattr__(broken._node.work, "source", np.ones(3, np.float32))
    running = broken.run()

    async def main() -> None:
        await running

    for _ in range(2):
        with pytest.raises(ValueError, match="broadcast"):
            asyncio.run(main())
        with pytest.raises(ValueError, match="broadcast"):
            running.wait()


def test_a_cancelled_await_leaves_the_work_alone(gate: Gate) -> None:
    z = tc.zeros(4)
    running = tc.memcpy(z, np.ones(4, np.float32)).run(gate.stream)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(running), 0.01)

    asyncio.run(main())
    assert refused(z.numpy).rule == "use-in-flight"
    gate.open()
    running.wait()
    assert z.numpy().sum() == 4


# ---- streams


def test_policies_pick_streams() -> None:
    streams = [tc.value(0).run().stream for _ in range(8)]
    assert len(set(map(id, streams))) == 4
    assert streams[:4] == streams[4:]
    with tc.streams(tc.Single()):
        assert tc.value(0).run().stream is tc.value(0).run().stream

    class Mine:
        def __init__(self) -> None:
            self.stream = tc.Stream()

        def next_stream(self) -> tc.Stream:
            return self.stream

    mine = Mine()
    with tc.streams(mine):
        assert tc.value(0).run().stream is mine.stream
    assert tc.value(0).run().stream is not mine.stream
    with pytest.raises(UsageError, match="has no `next_stream"), tc.streams(object()):  # type: ignore[arg-type]
        pass
    with pytest.raises(UsageError):
        tc.RoundRobin(0)


def test_many_threads_share_tensors_without_losing_an_update() -> None:
    x = tc.zeros(64, dtype=f32)
    tensors = [tc.full(64, float(i)) for i in range(8)]

    def work(i: int) -> int:
        done = 0
        for _ in range(20):
            try:
                tc.memcpy(x, tensors[i]).sync()
                done += 1
            except BorrowError:
                continue
        return done

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(work, range(8))) > 0
    values = x.numpy()
    assert len(set(values.tolist())) == 1


def test_an_op_given_up_says_nothing_and_holds_nothing() -> None:
    z, x = tc.zeros(8), tc.ones(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op = tc.memcpy(z, x)
        del op
        z[0] = 1.0
        op = tc.memcpy(z, x).then(lambda done: tc.memcpy(done, x))
        op.discard()
        z[0] = 1.0
        assert refused(op.sync).rule == "use-after-move"
    with pytest.warns(tc.DroppedOpWarning):
        op = tc.memcpy(z, x)
        op = tc.value(None)
    op.sync()
