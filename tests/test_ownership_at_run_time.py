"""Ownership of host programs at run time, with nothing having checked them: each wrong program and its repaired twin.

The programs reach their tensors through lists and `getattr` where a checker could otherwise have followed them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilecheck as tc
from tests.launch_kernels import both, fill, move, plus
from tilecheck import f64

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def test_one_tensor_as_output_and_input() -> None:
    tensors = [tc.zeros(1024), tc.ones(1024)]
    z, y = tensors
    assert refused(lambda: plus(tensors[0].partition(128), tensors[0], y)).rule == "borrow-conflict"
    assert refused(lambda: plus(z.partition(128), y, z.reshape(32, 32).reshape(1024))).rule == "borrow-conflict"
    plus(z.partition(128), z.copy(), y).sync()
    assert z.numpy().sum() == 1024


def test_use_after_the_tensor_was_given_away() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    again = z
    zp = getattr(z, "into_partition")(128)  # noqa: B009 (what a checker does not follow)
    move(zp, x).sync()
    error = refused(again.numpy)
    assert error.rule == "use-after-move"
    assert "test_ownership_at_run_time.py:" in error.points[0] and "unpartition" in str(error.help)
    assert zp.unpartition().numpy().sum() == 1024


def test_a_view_across_an_exclusive_launch() -> None:
    t, x = tc.zeros(64), tc.ones(64)
    v = t[0:32]
    move(t.partition(8), x).sync()
    error = refused(v.numpy)
    assert error.rule == "borrow-conflict"
    assert "ended when a partition borrowed it exclusively" in error.message
    w = t[0:32]
    assert w.numpy().sum() == 32
    move(t.partition(8), x).sync()


def test_reading_and_partitioning_under_a_built_op() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    op = move(z.partition(128), x)
    assert refused(z.numpy).rule == "borrow-conflict"
    assert refused(lambda: z.partition(64)).rule == "borrow-conflict"
    assert refused(lambda: x.partition(64)).rule == "borrow-conflict"
    assert x.numpy().sum() == 1024
    op.sync()
    assert z.numpy().sum() == 1024


def test_a_partition_used_after_a_newer_one() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    first, second = z.partition(4), z.partition(8)
    error = refused(lambda: move(first, x))
    assert error.rule == "borrow-conflict" and error.message.startswith("`z` was borrowed at ")
    move(second, x).sync()
    move(second, x).sync()
    assert z.numpy().sum() == 64


def test_a_dropped_op_leaves_everything_as_it_was() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    op = move(z.partition(8), x)
    with pytest.warns(tc.DroppedOpWarning, match="`move` was built and never run"):
        del op
    assert z.numpy().sum() == 0
    move(z.partition(8), x).sync()


def test_host_reads_of_what_is_in_flight() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    running = move(z.partition(8), x).run()
    for use in (
        z.numpy,
        lambda: z[3],
        lambda: x.__setitem__(0, 2.0),
        lambda: x.into_partition(8),
        lambda: np.from_dlpack(z),
    ):
        assert refused(use).rule == "use-in-flight"
    running.wait()
    x[0] = 2
    assert z.numpy().sum() == 64


def test_the_next_op_may_use_what_is_in_flight() -> None:
    x, y, z = tc.ones(64), tc.zeros(64), tc.zeros(64)
    first = move(y.partition(8), x).run(tc.Stream())
    second = move(z.partition(8), y).run(tc.Stream())
    third = fill(y.partition(8), 5.0).run(tc.Stream())
    for running in (third, second, first):
        running.wait()
    assert z.numpy().sum() == 64
    assert y.numpy().sum() == 5 * 64


def test_a_task_that_borrows_and_one_that_owns() -> None:
    async def borrowing() -> None:
        z, x = tc.zeros(64), tc.ones(64)
        task = asyncio.ensure_future(move(z.partition(8), x).run())
        assert refused(z.numpy).rule == "use-in-flight"
        await task
        assert z.numpy().sum() == 64

    async def owning() -> float:
        async def work(x: tc.Tensor) -> tc.Tensor:
            z = tc.zeros(64).into_partition(8)
            return await move(z, x).first().unpartition()

        x = tc.ones(64)
        done = await asyncio.gather(*(work(x) for _ in range(4)))
        return float(sum(z.numpy().sum() for z in done))

    asyncio.run(borrowing())
    assert asyncio.run(owning()) == 256


def test_a_refusal_keeps_its_kind_through_await() -> None:
    async def main() -> None:
        a, b, x = tc.zeros(64), tc.zeros(64), tc.ones(64)
        with pytest.raises(tc.LaunchRefused) as caught:
            await both(a.partition(8), b.partition(4), x)
        assert caught.value.rule == "launch-contract"
        await both(a.partition(8), b.partition(8), x)
        assert a.numpy().sum() == b.numpy().sum() == 64

    asyncio.run(main())


def test_a_graph_and_its_tensors() -> None:
    x, h, z, stream = tc.ones(64), tc.zeros(64), tc.zeros(64), tc.Stream()
    with tc.CudaGraph.scope(stream) as scope:
        scope.record(move(h.partition(8), x))
        scope.record(move(z.partition(8), h))
    for value in (1.0, 2.0, 3.0):
        fill(x.partition(8), value).sync()
        scope.graph.launch().sync_on(stream)
        assert z.numpy().tolist() == [value] * 64
    for taken in (lambda: z.into_partition(8), lambda: x.into_partition(8), lambda: fill(z.partition(8), 1.0)):
        assert refused(taken).rule == "use-in-flight"
    del scope
    assert z.into_partition(8).unpartition().numpy().sum() == 192


def test_running_inside_a_capture() -> None:
    stream = tc.Stream()
    z, x = tc.zeros(64), tc.ones(64)
    with tc.CudaGraph.scope(stream):
        for run in (
            lambda: tc.value(42).sync_on(stream),
            lambda: tc.value(42).sync_on(tc.Stream()),
            lambda: move(z.partition(8), x).sync(),
        ):
            assert refused(run).rule == "reentrant-sync"
    assert move(z.partition(8), x).first().unpartition().to_host().sync_on(stream).sum() == 64


def test_a_wrong_dtype_that_no_checker_saw() -> None:
    x = [tc.ones(64, dtype=f64)]
    z = tc.zeros(64)
    assert refused(lambda: move(z.partition(8), x[0])).rule == "dtype-mismatch"
    move(z.partition(8), x[0].astype(tc.f32)).sync()


def test_threads_that_meet_in_one_tensor() -> None:
    z = tc.zeros(64)
    xs = [tc.full(64, float(i + 1)) for i in range(6)]

    def work(i: int) -> int:
        granted = 0
        for _ in range(10):
            try:
                move(z.partition(8), xs[i]).sync()
            except tc.BorrowError as error:
                assert error.rule == "borrow-conflict"
            else:
                granted += 1
        return granted

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(work, range(6))) > 0
    assert len(set(z.numpy().tolist())) == 1
