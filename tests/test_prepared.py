"""Prepared launches: repeated without checks, because their arguments stay borrowed."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k


def test_each_call_runs_the_kernel_once_more() -> None:
    z, x = tc.zeros(64), tc.arange(64).astype(tc.f32)
    again = k.plus(z.partition(16), x, x).prepare()
    assert np.array_equal(z.numpy(), np.zeros(64))
    again()
    again.wait()
    assert np.array_equal(z.numpy(), 2 * np.arange(64))
    assert "plus" in repr(again)


def test_inputs_may_change_between_rounds() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    again = k.move(z.partition(16), x).prepare()
    again()
    again.wait()
    k.fill(x.partition(16), 5.0).sync()
    again()
    again.wait()
    assert np.array_equal(z.numpy(), np.full(64, 5.0))


def test_what_it_writes_cannot_be_taken_over_while_it_exists() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    again = k.move(z.partition(16), x).prepare()
    with pytest.raises(tc.BorrowError) as caught:
        z.partition(8)
    assert caught.value.rule == "borrow-conflict"
    del again
    gc.collect()
    k.move(z.partition(8), x).sync()


def test_rounds_in_flight_are_nobody_elses_business() -> None:
    x, y, z, w = tc.ones(64), tc.zeros(64), tc.zeros(64), tc.zeros(64)
    again = k.move(z.partition(16), x).prepare()
    again()
    for use in (z.numpy, lambda: k.move(w.partition(16), z), lambda: k.fill(x.partition(16), 2.0), lambda: z[0:4]):
        with pytest.raises(tc.BorrowError) as caught:
            use()
        assert caught.value.rule == "use-in-flight"
        assert "rounds of it are in flight" in caught.value.points[0]
    k.move(y.partition(16), x).sync()
    again()
    again.wait()
    k.move(w.partition(16), z).sync()
    assert w.numpy().sum() == y.numpy().sum() == 64


def test_the_first_round_waits_its_turn() -> None:
    x, z, w = tc.ones(64), tc.zeros(64), tc.zeros(64)
    again = k.move(z.partition(16), x).prepare()
    op = k.fill(x.partition(16), 3.0)
    with pytest.raises(tc.BorrowError) as caught:
        again()
    assert caught.value.rule == "borrow-conflict"
    running = op.run()
    again()
    again.wait()
    running.wait()
    assert z.numpy().sum() == 3 * 64
    reading = k.move(w.partition(16), z).run()
    k.fill(x.partition(16), 4.0).sync()
    again()
    again.wait()
    reading.wait()
    assert (w.numpy().sum(), z.numpy().sum()) == (3 * 64, 4 * 64)


def test_rounds_outlive_their_handle() -> None:
    x, z = tc.ones(64), tc.zeros(64)
    again = k.move(z.partition(16), x).prepare()
    for _ in range(20):
        again()
    stream = again.stream
    del again
    stream.synchronize()
    k.fill(z.partition(16), 9.0).sync()
    assert z.numpy().sum() == 9 * 64


def test_a_round_that_stops_is_reported_and_lets_go() -> None:
    x = tc.ones(64)
    again = k.peek(x).with_grid(4).prepare()
    again()
    with pytest.raises(tc.KernelStopped):
        again.wait()
    x[...] = 0
    again()
    again.wait()


def test_a_prepared_op_cannot_run_as_well() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    op = k.move(z.partition(16), x)
    again = op.prepare()
    with pytest.raises(tc.OpError):
        op.sync()
    again()
    again.wait()


def test_nothing_leaks() -> None:
    gc.collect()
    before = tc.allocated().count
    z, x = tc.zeros(64), tc.ones(64)
    again = k.move(z.partition(16), x).prepare()
    again()
    again.wait()
    del again, z, x
    gc.collect()
    assert tc.allocated().count == before


# ---- graphs


def test_a_prepared_graph_replays_its_work() -> None:
    x, h, z = tc.ones(64), tc.zeros(64), tc.zeros(64)
    with tc.CudaGraph.scope() as scope:
        scope.record(k.plus(h.partition(16), x, x))
        scope.record(k.plus(z.partition(16), h, x))
    again = scope.graph.prepare()
    assert again.stream is scope.graph.stream
    for value in (1.0, 2.0):
        x[...] = value
        again()
        again()
        again.wait()
        assert z.numpy().sum() == 3 * 64 * value
    assert "graph" in repr(again)


def test_rounds_of_a_graph_are_nobody_elses_business_either() -> None:
    x, z, w = tc.ones(64), tc.zeros(64), tc.zeros(64)
    graph = tc.memcpy(z, x).graph()
    again, other = graph.prepare(), graph.prepare(tc.Stream())
    again()
    for use in (z.numpy, lambda: k.move(w.partition(16), z), lambda: k.fill(x.partition(16), 2.0), graph.launch, other):
        with pytest.raises(tc.BorrowError) as caught:
            use()
        assert caught.value.rule == "use-in-flight"
        assert "rounds of it are in flight" in caught.value.points[0]
    again.wait()
    graph.launch().sync()
    other()
    other.wait()
    assert z.numpy().sum() == 64


def test_a_graph_goes_on_when_rounds_were_dropped() -> None:
    x, z = tc.ones(64), tc.zeros(64)
    graph = tc.memcpy(z, x).graph()
    again = graph.prepare()
    for _ in range(20):
        again()
    del again
    graph.stream.synchronize()
    graph.launch().sync()
    assert z.numpy().sum() == 64
    with pytest.raises(tc.BorrowError):
        z.partition(16)
    del graph
    gc.collect()
    z.into_partition(16)
