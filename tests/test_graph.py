"""Graphs: capture, scopes, replay, and what they own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import tilecheck_runtime as tc
from tilecheck.surface.dtypes import i32
from tilecheck.surface.errors import TilecheckError

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> TilecheckError:
    with pytest.raises(TilecheckError) as caught:
        call()
    return caught.value


def test_capture_runs_nothing_and_launch_replays() -> None:
    x, z = tc.ones(4), tc.zeros(4)
    graph = tc.memcpy(z, x).graph()
    assert z.numpy().sum() == 0
    graph.launch().sync()
    assert z.numpy().sum() == 4
    x[...] = 2
    graph.launch().sync()
    assert z.numpy().sum() == 8


def test_recorded_ops_run_in_order_at_each_launch() -> None:
    x, h, z, w, stream = tc.ones(4), tc.zeros(4), tc.zeros(4), tc.zeros(4), tc.Stream()
    with tc.CudaGraph.scope(stream) as scope:
        assert scope.record(tc.memcpy(h, x)) is h
        scope.record(tc.memcpy(z, h).then(lambda z: tc.memcpy(w, z)))
    for value in range(3):
        x[...] = value
        scope.graph.launch().sync_on(stream)
        assert z.numpy().tolist() == w.numpy().tolist() == [value] * 4


def test_what_a_scope_refuses() -> None:
    x, stream = tc.ones(4), tc.Stream()
    with tc.CudaGraph.scope(stream) as scope:
        for run in (lambda: tc.value(1).sync_on(stream), lambda: tc.value(1).sync_on(tc.Stream()),
                    lambda: tc.value(1).sync(), lambda: tc.value(1).graph(), stream.synchronize):  # fmt: skip
            assert refused(run).rule == "reentrant-sync"
        for made in (lambda: tc.zeros(4), lambda: x.copy(), lambda: scope.record(tc.dup(x)),
                     lambda: scope.record(tc.value(x).to_host()), lambda: scope.graph):  # fmt: skip
            assert refused(made).rule == "capture"
    assert tc.value(42).sync_on(stream) == 42
    scope.graph.launch().sync()
    assert refused(lambda: scope.record(tc.value(1))).rule == "capture"


def test_a_scope_concerns_its_own_task_alone() -> None:
    async def main() -> None:
        x, z = tc.ones(4), tc.zeros(4)
        inside, leave = asyncio.Event(), asyncio.Event()

        async def capture() -> tc.CudaGraph[None]:
            with tc.CudaGraph.scope() as scope:
                inside.set()
                await leave.wait()
                scope.record(tc.memcpy(z, x))
                started = asyncio.create_task(later())
                await asyncio.sleep(0)
            await started
            return scope.graph

        async def later() -> None:
            with pytest.raises(tc.OpError):
                await tc.value(1)
            await asyncio.sleep(0.01)
            await tc.value(1)

        task = asyncio.create_task(capture())
        await inside.wait()
        assert await tc.memcpy(x, np.full(4, 2, np.float32)) is x
        leave.set()
        await (await task).launch()
        assert z.numpy().sum() == 8

    asyncio.run(main())


def test_a_refused_record_leaves_the_graph_as_it_was() -> None:
    x, z, w = tc.ones(4), tc.zeros(4), tc.zeros(4)
    with tc.CudaGraph.scope() as scope:
        scope.record(tc.memcpy(z, x))
        assert refused(lambda: scope.record(tc.memcpy(w, x).to_host())).rule == "capture"
    scope.graph.launch().sync()
    assert (z.numpy().sum(), w.numpy().sum()) == (4, 0)
    w.into_partition(4)


def test_an_error_in_a_scope_lets_go_of_everything() -> None:
    x, z, stream = tc.ones(4), tc.zeros(4), tc.Stream()
    with pytest.raises(ValueError, match="mine"), tc.CudaGraph.scope(stream) as scope:
        scope.record(tc.memcpy(z, x))
        raise ValueError("mine")
    assert refused(lambda: scope.graph).rule == "capture"
    z.into_partition(4)
    assert tc.value(1).sync_on(stream) == 1


def test_a_graph_owns_what_it_captured() -> None:
    x, z = tc.ones(4), tc.zeros(4)
    graph = tc.memcpy(z, x).graph()
    graph.launch().sync()
    assert z.numpy().sum() == x.numpy().sum() == 4
    for taken, rule in (
        (lambda: z.into_partition(2), "use-in-flight"),
        (lambda: x.into_partition(2), "use-in-flight"),
        (lambda: z.partition(2), "borrow-conflict"),
        (lambda: z.__setitem__(0, 1), "borrow-conflict"),
    ):
        error = refused(taken)
        assert error.rule == rule
        assert "captured here, and the graph or the prepared launch is alive" in error.points[0]
    x.partition(2)
    del graph
    z.into_partition(2)


def test_captured_memory_outlives_its_names() -> None:
    z = tc.zeros(4)
    graph = tc.memcpy(z, tc.ones(4)).graph()
    graph.launch().sync()
    assert z.numpy().sum() == 4


def test_a_launch_in_flight_is_like_any_running_op() -> None:
    x, z = tc.ones(4), tc.zeros(4)
    graph = tc.memcpy(z, x).graph()
    op = graph.launch()
    assert refused(z.numpy).rule == "borrow-conflict"
    running = op.run()
    for use in (z.numpy, lambda: x.__setitem__(0, 1)):
        assert refused(use).rule == "use-in-flight"
    again = graph.launch().run()
    running.wait()
    again.wait()
    assert z.numpy().sum() == 4


def test_update_comes_before_the_next_launch() -> None:
    x, z = tc.ones(4), tc.zeros(4)
    graph = tc.memcpy(z, x).graph()
    graph.update(tc.memcpy(x, np.full(4, 5, np.float32)))
    graph.launch().sync_on(graph.stream)
    assert z.numpy().tolist() == [5] * 4


def test_the_output_is_taken_once() -> None:
    x = tc.arange(4)
    graph = tc.dup(x).graph()
    y = graph.take_output()
    assert "taken already" in refused(graph.take_output).message
    graph.launch().sync()
    assert y.numpy().tolist() == [0, 1, 2, 3]
    assert y.dtype is i32


def test_a_graph_records_no_host_copies_and_no_graphs() -> None:
    x, z = tc.ones(4), tc.zeros(4)
    assert refused(tc.dup(x).to_host().graph).rule == "capture"
    inner = tc.memcpy(z, x).graph()
    assert refused(inner.launch().graph).rule == "capture"


def test_a_shared_op_is_captured_or_run() -> None:
    x, y = tc.ones(4), tc.zeros(4)
    shared = tc.memcpy(y, x).shared()
    graph = tc.zip(shared, shared.map(str)).graph()
    assert refused(shared.sync).rule == "capture"
    graph.launch().sync()
    assert y.numpy().sum() == 4
    ran = tc.memcpy(x, y).shared()
    ran.sync()
    ran.graph().launch().sync()
    assert x.numpy().sum() == 4


def test_two_threads_capture_and_replay_at_once() -> None:
    def work(value: int) -> float:
        x, z, stream = tc.full(64, value), tc.zeros(64), tc.Stream()
        with tc.CudaGraph.scope(stream) as scope:
            scope.record(tc.memcpy(z, x))
        for _ in range(20):
            scope.graph.launch().sync_on(stream)
        return float(z.numpy().sum())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(8))) == [64.0 * value for value in range(8)]


def test_a_graph_of_many_launches_on_one_tensor_adds_up() -> None:
    z, one = tc.zeros(8), tc.ones(8)
    op = tc.memcpy(z, one)
    for _ in range(99):
        op = op.then(lambda done: tc.memcpy(done, one))
    graph = op.graph()
    for _ in range(3):
        graph.launch().sync()
    assert z.numpy().tolist() == [1.0] * 8
    assert refused(lambda: z.partition(8)).rule == "borrow-conflict"
    del graph
    z.partition(8)


@pytest.mark.parametrize("fails", [False, True])
def test_a_scope_is_entered_once(fails: bool) -> None:
    x, z = tc.ones(8), tc.zeros(8)
    scope = tc.CudaGraph.scope()
    with suppress(ValueError), scope:
        scope.record(tc.memcpy(z, x))
        if fails:
            raise ValueError
    error = refused(scope.__enter__)
    assert error.rule == "capture" and "entered before" in error.message
    if fails:
        # What was recorded is in no graph, and holds nothing.
        z.into_partition(4)
    else:
        scope.graph.launch().sync()
        assert z.numpy().sum() == 8
