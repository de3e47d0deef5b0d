"""Launches of a known class on other memory, and replays of a graph that come again: quick, and with every check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import on_paper
from tilecheck import Mut, Shared, Tensor, f32
from tilecheck_runtime import calls
from tilecheck_runtime.calls import MouldedOp
from tilecheck_runtime.graph import QuickReplay, ReplayOp


@tc.simt(block=32)
def doubled(z: Tensor[Mut, f32], x: Tensor[Shared, f32]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = 2 * x[i]


def fresh(n: int = 32, value: float = 1.0) -> Any:
    return tc.full(n, value)


def warm() -> None:
    """Let the class of `plus` on 32 elements in tiles of 8 be known."""
    k.plus(fresh().partition(8), fresh(), fresh()).sync()


def refused(call: Any) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def test_new_tensors_of_a_known_class_are_filled_into_its_mould() -> None:
    warm()
    for value in (2.0, 3.0, 4.0):
        z = tc.zeros(32)
        op = k.plus(z.partition(8), fresh(value=value), fresh())
        assert isinstance(op, MouldedOp)
        op.sync()
        assert z.numpy().tolist() == [value + 1] * 32
    rows = tc.asarray(np.arange(128, dtype=np.float32).reshape(4, 32))
    for row in range(4):
        z = tc.zeros(32)
        op = k.plus(z.partition(8), rows[row], fresh())
        assert isinstance(op, MouldedOp)
        op.sync()
        assert np.array_equal(z.numpy(), rows.numpy()[row] + 1)


def test_another_class_goes_the_long_way() -> None:
    warm()
    z, x = tc.zeros(64), fresh(64)
    for call in (
        lambda: k.plus(z.partition(8), x, x),
        lambda: k.plus(z[:32].partition(16), x[:32], x[:32]),
        lambda: k.plus(z[:32].partition(8), x[1:33], x[:32]),
    ):
        op = call()
        assert not isinstance(op, MouldedOp)
        op.sync()


def test_what_is_about_these_very_arguments_is_checked_each_time() -> None:
    warm()
    z, x = tc.zeros(32), fresh()
    p = z.partition(8)
    assert refused(lambda: k.plus(p, x, z)).rule == "borrow-conflict"
    z.partition(8)
    assert refused(lambda: k.plus(p, x, x)).rule == "borrow-conflict"
    y = fresh()
    y.into_partition(8)
    error = refused(lambda: k.plus(z.partition(8), x, y))
    assert error.rule == "use-after-move" and "`y` was moved" in error.message
    op = k.plus(z.partition(8), x, x)
    assert isinstance(op, MouldedOp)
    assert refused(z.numpy).rule == "borrow-conflict"
    assert refused(lambda: x.__setitem__(0, 2.0)).rule == "borrow-conflict"
    running = op.run()
    assert refused(z.numpy).rule == "use-in-flight"
    assert refused(lambda: op.run()).rule == "use-after-move"
    running.wait()
    assert z.numpy().tolist() == [2] * 32


def test_an_op_of_a_mould_is_an_op_like_any_other() -> None:
    warm()
    z, x = tc.zeros(32), fresh()
    assert k.plus(z.partition(8), x, x).first().unpartition().then(tc.value).sync().numpy().tolist() == [2] * 32
    graph = k.plus(z.partition(8), x, x).graph()
    graph.launch().sync()
    with pytest.warns(tc.DroppedOpWarning, match="`plus` was built and never run"):
        k.plus(tc.zeros(32).partition(8), x, x)
    k.plus(tc.zeros(32).partition(8), x, x).discard()
    x[0] = 2.0


def test_a_simt_kernel_has_moulds_too() -> None:
    for n in range(3):
        z = tc.zeros(64)
        op = doubled(z.partition(32), fresh(64, float(n)))
        assert isinstance(op, MouldedOp) == (n > 0)
        op.sync()
        assert z.numpy().tolist() == [2.0 * n] * 64
    assert refused(lambda: doubled(tc.zeros(64).partition(32), fresh(32))).rule == "launch-contract"


def test_a_kernel_that_reads_otherwise_has_no_moulds_any_more() -> None:
    warm()
    calls.forget(k.plus)
    op = k.plus(fresh().partition(8), fresh(), fresh())
    assert not isinstance(op, MouldedOp)
    op.sync()


def test_replays_on_one_stream_get_a_seat() -> None:
    stream, other = tc.Stream(), tc.Stream()
    z, x = tc.zeros(32), fresh()
    graph = k.plus(z.partition(8), x, x).graph()
    kinds = []
    for n in range(5):
        x[...] = float(n)
        op = graph.launch()
        kinds.append(type(op))
        op.sync_on(stream)
        assert z.numpy().tolist() == [2.0 * n] * 32
    assert kinds == [ReplayOp, ReplayOp, QuickReplay, QuickReplay, QuickReplay]
    running = graph.launch().run(stream)
    assert refused(z.numpy).rule == "use-in-flight"
    assert refused(lambda: x.__setitem__(0, 1.0)).rule == "use-in-flight"
    running.wait()
    op = graph.launch()
    assert refused(z.numpy).rule == "borrow-conflict"
    op.sync_on(other)
    graph.launch().sync_on(stream)
    assert refused(lambda: k.plus(z.partition(8), x, x)).rule == "borrow-conflict"
    del graph, op
    k.plus(z.partition(8), x, x).sync()


@pytest.mark.cpu
def test_a_replay_of_a_seat_is_one_call_of_the_driver() -> None:
    with on_paper() as driver:
        stream, z, x = tc.Stream(), tc.zeros(32), tc.ones(32)
        graph = k.plus(z.partition(8), x, x).graph()
        for _ in range(3):
            graph.launch().run(stream)
        submitted, before = driver.submitted.total(), driver.calls.copy()
        for _ in range(10):
            graph.launch().run(stream)
        # The call itself was looked up when the seat was made.
        assert driver.submitted.total() == submitted + 10 and driver.calls == before
        stream.synchronize()
