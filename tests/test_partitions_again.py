"""Partitions that are made anew for each launch: each is a new borrow, and costs next to nothing if nobody came between."""

from __future__ import annotations

import enum
import gc
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import PaperDriver, on_paper
from tilecheck import Dim, Mut, Tensor, f32
from tilecheck_runtime import kernels
from tilecheck_runtime.calls import QuickOp

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


class BM(Dim): ...


@tc.kernel(requires="n >= 1")
def at_least_one(z: Tensor[Mut, f32, BM], v: float, n: int) -> None:
    z.store(tc.zeros(BM) + v)


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def warm(call: Callable[[], object]) -> None:
    for _ in range(4):
        call()


# ---- cost


@pytest.mark.parametrize("wait", [False, True])
def test_a_launch_on_a_new_partition_is_one_call_of_the_driver(paper: PaperDriver, wait: bool) -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()

    def one(a: float = 2.0) -> None:
        running = kernels.saxpy(z.partition(32), x, x, a).run(stream)
        if wait:
            running.wait()

    warm(one)
    stream.synchronize()
    warm(one)
    before = paper.calls.copy()
    for n in range(10):
        one(float(n))
    paper.calls.subtract(before)
    spent = {name: count for name, count in paper.calls.items() if count}
    assert spent == ({"cuStreamSynchronize": 10} if wait else {})
    assert len(paper.launched) >= 18


def test_tiles_by_turns_keep_their_seats() -> None:
    x, z, stream = tc.ones(64), tc.zeros(64), tc.Stream()
    for n in range(12):
        op = k.move(z.partition(16 if n % 2 else 8), x)
        assert isinstance(op, QuickOp) == (n >= 4)
        assert op.grid == ((4, 1, 1) if n % 2 else (8, 1, 1))
        op.run(stream).wait()


def test_a_new_map_is_the_same_map() -> None:
    x, z = tc.arange(62).astype(f32), tc.zeros(62)
    for n in range(6):
        x[0] = n
        op = k.walk(z.partition(8).map(1, blocks=3), x)
        assert isinstance(op, QuickOp) == (n >= 2)
        op.sync()
        assert np.array_equal(z.numpy(), x.numpy())


def test_handles_that_are_gone_are_forgotten() -> None:
    x, z, w = tc.ones(64), tc.zeros(64), tc.zeros(64)
    p = z.partition(8)
    kept = [p.map(1, blocks=2) for _ in range(20)]
    for n in range(200):
        k.walk(p.map(1, blocks=1 + n % 3), x).sync()
        k.move(w.partition(1 + n % 64), x).sync()
    assert z._slot is not None and w._slot is not None
    assert len(z._slot.live) <= 2 * len(kept) + 20 and len(w._slot.live) <= 1 and len(w._slot.forms) <= 64
    z.partition(8)
    for mapped in kept:
        assert refused(lambda mapped=mapped: k.walk(mapped, x)).rule == "borrow-conflict"


def test_without_a_stream_it_stays_where_it_was() -> None:
    x, z, w = tc.ones(64), tc.zeros(64), tc.zeros(64)
    seen = set()
    for n in range(8):
        for target in (z, w):
            running = k.move(target.partition(16), x).run()
            seen.add(id(running.stream)) if n > 1 else None
            running.wait()
    assert len(seen) == 2
    chosen = [tc.Stream(), tc.Stream()]

    class Turns:
        def next_stream(self) -> tc.Stream:
            chosen.reverse()
            return chosen[0]

    with tc.streams(Turns()):
        assert len({id(k.move(z.partition(16), x).run().stream) for _ in range(4)}) == 2


# ---- borrows


def test_the_one_before_has_ended() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    for _ in range(4):
        first = z.partition(16)
        mapped = first.map(1, blocks=2)
        second = z.partition(16)
        for dead, launch in ((first, lambda p: k.move(p, x)), (mapped, lambda p: k.walk(p, x))):
            error = refused(lambda dead=dead, launch=launch: launch(dead))
            assert error.rule == "borrow-conflict" and "test_partitions_again.py" in error.points[1]
            assert "ended" in repr(dead)
        k.move(second, x).sync()
        assert refused(first.unpartition).rule == "borrow-conflict"
        assert second.unpartition().numpy().sum() == 64


def test_a_held_tensor_is_not_partitioned() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    warm(lambda: k.move(z.partition(16), x).sync())
    op = k.move(z.partition(16), x)
    assert refused(lambda: z.partition(16)).rule == "borrow-conflict"
    op.sync()
    reader = k.move(x.partition(16), z)
    assert refused(lambda: z.partition(16)).rule == "borrow-conflict"
    reader.discard()
    z.partition(16)
    lent = np.from_dlpack(z) if tc.zeros(1).device == "cpu" else None
    if lent is not None:
        assert refused(lambda: z.partition(16)).rule == "borrow-conflict"


def test_views_end_each_time() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    for _ in range(4):
        view = z[0:8]
        p = z.partition(16)
        assert "ended when" in refused(view.numpy).message
        own = p.unpartition()
        z.partition(16)
        assert "ended when" in refused(own.numpy).message
    for _ in range(4):
        other = z[32:64]
        half = other.partition(8)
        k.move(z.partition(16), x).sync()
        assert "ended when" in refused(lambda half=half: k.fill(half, 1.0)).message
        whole = z.partition(16)
        k.fill(z[32:64].partition(8), 1.0).sync()
        assert "ended when" in refused(lambda whole=whole: k.move(whole, x)).message


def test_a_moved_tensor_has_none() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    warm(lambda: k.move(z.partition(16), x).sync())
    owned = z.into_partition(16)
    assert refused(lambda: z.partition(16)).rule == "use-after-move"
    k.move(owned, x).sync()


def test_an_ended_view_has_none() -> None:
    z = tc.zeros(64)
    view = z[0:32]
    warm(lambda: k.fill(view.partition(8), 1.0).sync())
    z.partition(16)
    assert "ended when" in refused(lambda: view.partition(8)).message


def test_the_tensor_says_so_only_while_there_is_one() -> None:
    z = tc.zeros(64)
    p = z.partition(16)
    assert "exclusive, idle: a partition" in repr(z)
    del p
    assert repr(z).endswith("owner>")


def test_memory_goes_with_the_tensor() -> None:
    def program() -> None:
        z, x, stream = tc.zeros(64), tc.ones(64), tc.Stream()
        warm(lambda: k.move(z.partition(16), x).run(stream))
        warm(lambda: k.walk(z.partition(16).map(1, blocks=2), x).run(stream))
        stream.synchronize()

    gc.collect()
    before = tc.allocated().count
    program()
    gc.collect()
    tc.zeros(1)
    assert tc.allocated().count == before


@pytest.mark.parametrize("tile", [(16.0,), (True,), (8, 8), ([16, 2],), ("16",), ()])
def test_what_is_no_tile_stays_none(tile: tuple[Any, ...]) -> None:
    z = tc.zeros(64)
    warm(lambda: z.partition(16))
    warm(lambda: z.partition(1))
    with pytest.raises(tc.UsageError):
        z.partition(*tile)
    for same in ((np.int64(16),), ((16,),), ([16],)):
        assert z.partition(*same).grid == (4, 1, 1)


# ---- scalars


def test_floats_may_change_and_are_the_ones_of_the_call() -> None:
    z, stream = tc.zeros(8), tc.Stream()
    for value in (1.0, 1.0, 1.0, 2.5, -0.0, 0.0, math.inf, 2, np.float32(3.5), 7.0, math.nan, 1e-300):
        k.fill(z.partition(8), value).run(stream).wait()
        got, want = z.numpy()[0], np.float32(value)
        assert got.tobytes() == want.tobytes() or (math.isnan(want) and math.isnan(got))


def test_floats_of_ops_that_run_in_another_order() -> None:
    a, b, stream = tc.zeros(8), tc.zeros(8), tc.Stream()
    launch = k.fill.on(stream)
    for n in range(5):
        k.fill(a.partition(8), float(n)).run(stream)
        launch(b.partition(8), float(-n))
    first = k.fill(a.partition(8), 10.0)
    second = k.fill(b.partition(8), 20.0)
    second.run(stream)
    first.run(stream)
    launch.wait()
    stream.synchronize()
    assert (a.numpy()[0], b.numpy()[0]) == (10, 20)


def test_conditions_are_looked_at_each_time() -> None:
    z = tc.zeros(8)
    for value in (1.0, 1.0, 1.0, 1.0, 5.0):
        at_least_one(z.partition(8), value, 1).sync()
        assert z.numpy()[0] == value
        assert refused(lambda: at_least_one(z.partition(8), 9.0, 0)).rule == "launch-contract"


def test_ints_that_look_alike_are_told_apart() -> None:
    class Three(enum.IntEnum):
        X = 3

    z, x = tc.zeros(8), tc.arange(64).astype(f32)
    for index in (1, 1, 1, 0, 1, np.int64(2), Three.X, 5 + 10**0, 1):
        k.pick(z.partition(8), x, index).sync()
        assert z.numpy()[0] == 8 * int(index)
    for wrong in (True, 1.0, 8):
        with pytest.raises(tc.TilecheckError):
            k.pick(z.partition(8), x, wrong).sync()


# ---- threads


def test_threads_that_partition_one_tensor_get_it_one_after_the_other() -> None:
    z, x, streams = tc.zeros(64), tc.ones(64), [tc.Stream() for _ in range(4)]
    start, done = threading.Barrier(4), []

    def work(n: int) -> set[str]:
        start.wait()
        rules: set[str] = set()
        for _ in range(60):
            try:
                k.move(z.partition(16), x).run(streams[n]).wait()
                done.append(n)
            except tc.BorrowError as error:
                rules.add(error.rule)
        return rules

    with ThreadPoolExecutor(4) as threads:
        rules = set().union(*threads.map(work, range(4)))
    assert rules <= {"borrow-conflict", "use-in-flight"} and done
    assert z.numpy().sum() == 64
    k.move(z.partition(16), x).sync()
