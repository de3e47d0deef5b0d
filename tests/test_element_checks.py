"""What `requires` says of array elements, checked when the launch runs: refused by element, vouched for, never skipped."""

from __future__ import annotations

import numpy as np
import pytest

import tilecheck as tc
from tests import simt_kernels as k
from tests.test_simt_launch import refused

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def ints(*values: int) -> tc.Tensor:
    return tc.asarray(np.array(values, np.int32))


def test_elements_that_keep_the_facts_run() -> None:
    z = tc.zeros(8)
    k.permute(z.partition(4), tc.arange(4).astype(tc.f32), ints(5, 0, 7, 2)).sync()
    assert z.numpy().tolist() == [1, 0, 3, 0, 0, 0, 0, 2]
    k.rows(z.partition(8), ints(0, 3, 3, 8)).sync()
    assert z.numpy().tolist() == [0, 0, 0, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("perm", "words"),
    [
        ((1, 2, 7, 2), "`permute` needs `distinct(perm)`: elements 1 and 3 of `perm` are both 2"),
        ((1, 2, 8, 3), "`permute` needs `perm < z.size`: element 2 of `perm` is 8, and `z.size` is 8"),
        ((1, 2, -1, 3), "`permute` needs `0 <= perm`: element 2 of `perm` is -1"),
    ],
)
def test_a_broken_fact_names_the_element(perm: tuple[int, ...], words: str) -> None:
    z = tc.ones(8)
    op = k.permute(z.partition(4), tc.zeros(4), ints(*perm))
    error = refused(op.sync)
    assert isinstance(error, tc.LaunchRefused) and error.rule == "launch-contract" and words in str(error)
    assert z.numpy().tolist() == [1] * 8, "nothing ran, and the borrow is over"


def test_order_is_checked() -> None:
    error = refused(k.rows(tc.zeros(8).partition(8), ints(0, 5, 3, 8)).sync)
    assert "needs `nondecreasing(ptr)`: element 1 of `ptr` is 5, element 2 is 3" in str(error)


def test_elements_are_looked_at_when_the_op_runs() -> None:
    """What the elements are when the op is built says nothing: here they are made by the op before."""
    z, perm = tc.zeros(8), ints(0, 0, 0, 0)
    ready = tc.memcpy(perm, np.array([3, 2, 1, 0], np.int32)).then(
        lambda done: k.permute(z.partition(4), tc.ones(4), done)
    )
    ready.sync()
    assert z.numpy().tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    spoilt = tc.memcpy(perm, np.array([3, 3, 1, 0], np.int32)).then(
        lambda done: k.permute(z.partition(4), tc.ones(4), done)
    )
    assert "elements 0 and 1 of `perm` are both 3" in str(refused(spoilt.sync))


def test_a_launch_waits_for_what_it_follows_on_another_stream() -> None:
    one, other = tc.Stream(), tc.Stream()
    z, perm = tc.zeros(8), ints(0, 0, 0, 0)
    first = tc.memcpy(perm, np.array([3, 2, 1, 0], np.int32)).run(one)
    second = k.permute(z.partition(4), tc.ones(4), perm).run(other)
    first.wait()
    second.wait()
    assert z.numpy().tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_who_vouches_for_the_elements_is_not_checked() -> None:
    z = tc.zeros(8)
    with tc.unsafe("the elements come from a sort"):
        op = k.rows(z.partition(8), ints(0, 2, 1, 8))
    op.sync()
    refused(k.rows(z.partition(8), ints(0, 2, 1, 8)).sync)


def test_the_grid_may_come_later() -> None:
    z = tc.zeros(8)
    adopted = tc.adopt(k.spread, block=4, requires="0 <= perm < z.size and distinct(perm)")
    adopted(z, ints(2, 5, 1)).with_grid(1).sync()
    assert z.numpy().tolist() == [0, 2, 0, 0, 0, 1, 0, 0]
    error = refused(adopted(z, ints(2, 2, 1)).with_grid(1).sync)
    assert "`spread` needs `distinct(perm)`: elements 0 and 1 of `perm` are both 2" in str(error)


def test_launches_at_once_look_each_time() -> None:
    z, x, perm = tc.zeros(8), tc.ones(4), ints(3, 2, 1, 0)
    launch, pieces = k.permute.on(tc.Stream()), z.partition(4)
    for _ in range(4):
        launch(pieces, x, perm)
    launch.wait()
    tc.memcpy(perm, np.array([3, 3, 1, 0], np.int32)).sync()
    assert "are both 3" in str(refused(lambda: launch(pieces, x, perm)))


def test_graphs_cannot_look_before_each_replay() -> None:
    z, x, perm = tc.zeros(8), tc.ones(4), ints(3, 2, 1, 0)
    error = refused(lambda: k.permute(z.partition(4), x, perm).graph())
    assert error.rule == "capture" and "`permute` needs `0 <= perm`, which a graph cannot check" in str(error)
    refused(lambda: k.permute(z.partition(4), x, perm).prepare())
    with tc.unsafe("nobody writes `perm` after it was checked"):
        op = k.permute(z.partition(4), x, perm)
    graph = op.graph()
    graph.launch().sync()
    del graph
    assert z.numpy().tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_tile_kernels_are_checked_too() -> None:
    z, x = tc.zeros(4), tc.arange(5).astype(tc.f32)
    k.pick(z.partition(4), x, ints(4, 3, 0, 0)).sync()
    assert z.numpy().tolist() == [4, 3, 0, 0]
    error = refused(k.pick(z.partition(4), x, ints(4, 3, 5, 0)).sync)
    assert "`pick` needs `where < x.size`: element 2 of `where` is 5, and `x.size` is 5" in str(error)
