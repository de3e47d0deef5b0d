"""Specialisation: what is in the key, single flight, and when a kernel is read again."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32, i32
from tilecheck_runtime.launch import LaunchOp
from tilecheck_runtime.specialise import Key, Once, checked_kernel, key_of

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


class D8(Dim, size=8): ...


def key(op: Any) -> Key:
    assert isinstance(op, LaunchOp)
    plan = op.plan
    return key_of(tc.zeros(1)._elements.memory.backend, plan.arguments, plan.dims)


def test_what_changes_no_code_is_not_in_the_key() -> None:
    one = key(k.fill(tc.zeros(1024).partition(128), 1.0))
    assert key(k.fill(tc.ones(1024).partition(128), 2.0)) == one
    assert key(k.fill(tc.zeros(2048).partition(128), 1.0)) == one
    assert key(k.fill(tc.zeros(2048).partition(128).prefix(), 1.0).with_grid(2)) == one
    a = key(k.walk(tc.zeros(64).partition(8).map(1, blocks=2), tc.ones(64)))
    assert key(k.walk(tc.zeros(64).partition(8).map(1, blocks=3), tc.ones(64))) == a


def test_what_changes_code_is_in_the_key() -> None:
    x = tc.zeros(1024)
    base = key(k.move(tc.zeros(1024).partition(128), x))
    others = [
        key(k.move(tc.zeros(1024).partition(64), x)),
        key(k.move(tc.zeros(1023).partition(128), x)),
        key(k.move(tc.zeros(1024)[1:1024].partition(128), x)),
        key(k.move(tc.zeros(2048)[::2].partition(128), x)),
        key(k.move(tc.zeros(1000).partition(128), x[24:])),
    ]
    assert len({base, *others}) == 6
    a = key(k.walk(tc.zeros(64).partition(8).map(1, blocks=2), tc.ones(64)))
    assert key(k.walk(tc.zeros(64).partition(8).map(2, blocks=2), tc.ones(64))) != a


def test_whether_a_loop_has_one_round_is_in_the_key() -> None:
    @tc.kernel
    def row_sums(z: Tensor[Mut, f32, k.BM], x: Tensor[Shared, f32, Dyn, Dyn]) -> None:
        xs = x.partition(k.BM, D8, pad=0)
        t = tc.zeros(k.BM, D8, dtype=f32)
        for j in range(xs.num_tiles(-1)):
            t = t + xs[tc.block_id(0), j]
        z.store(tc.sum(t, axis=1))

    programs = checked_kernel(row_sums.fn, row_sums.options).programs
    known: list[int] = []
    for length in (3, 5, 11, 13, 7, 0):
        x = tc.ones(4, length)
        z = tc.zeros(4)
        row_sums(z.partition(2), x).sync()
        assert z.numpy().tolist() == [length] * 4
        known.append(len(programs))
    # No row at all divides by every tile, so it has a key of its own.
    assert known == [1, 1, 2, 2, 2, 3]


def test_alignment_facts_are_true_of_the_very_view() -> None:
    z = tc.zeros(1024)
    x = tc.arange(1 << 12).astype(f32)
    for offset in range(9):
        (_, fact) = key(k.move(z.partition(128), x[offset : offset + 1024])).arguments
        assert fact is not None
        address = x._elements.strided().address + 4 * offset
        assert address % fact.address == 0
        assert fact.address == (16 if offset % 4 == 0 else 4 * (offset & -offset))
    k.move(z.partition(128), x[0:1024]).sync()
    k.move(z.partition(128), x[1:1025]).sync()
    assert z.numpy()[0] == 1


def test_a_view_of_a_view_keeps_its_offset() -> None:
    x = tc.zeros(64, dtype=f32)
    z = tc.zeros(16)
    (_, fact) = key(k.move(z.partition(16), x[4:][1:17])).arguments
    assert fact is not None and fact.address == 4


def test_a_warm_up_meets_the_real_call() -> None:
    @tc.kernel
    def fresh(z: Tensor[Mut, f32, k.BM], x: Tensor[Shared, f32, k.BM]) -> None:
        z.store(x.load())

    m = tc.meta(1024)
    fresh(m.partition(128), tc.meta(128)).compile()
    programs = checked_kernel(fresh.fn, fresh.options).programs
    assert len(programs) == 1
    z = tc.zeros(1024)
    fresh(z.partition(128), tc.ones(128)).sync()
    fresh(tc.zeros(2048)[1024:].partition(128), tc.ones(128)).sync()
    assert len(programs) == 1
    fresh(tc.zeros(1025)[1:].partition(128), tc.ones(128)).sync()
    assert len(programs) == 2
    with pytest.raises(tc.UsageError, match="`fresh` has a meta argument, which has no data"):
        fresh(m.partition(128), tc.meta(128)).sync()
    with pytest.raises(tc.LaunchRefused, match="the extent of `x` is 64 on axis 0, expected 128"):
        fresh(m.partition(128), tc.meta(64))


def test_each_key_is_made_once_and_failures_are_forgotten() -> None:
    once: Once[int, int] = Once()
    made: list[int] = []
    barrier = threading.Barrier(4)

    def make() -> int:
        made.append(1)
        return 7

    def ask(_: int) -> int:
        barrier.wait()
        return once.get(0, make)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == [7] * 4
    assert made == [1]

    def fail() -> int:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        once.get(1, fail)
    assert once.get(1, make) == 7


def test_threads_compile_one_program() -> None:
    @tc.kernel
    def raced(z: Tensor[Mut, f32, k.BM]) -> None:
        z.store(tc.ones(k.BM))

    def work(_: int) -> float:
        z = tc.zeros(64)
        raced(z.partition(8)).sync()
        return float(z.numpy().sum())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(12))) == [64.0] * 12
    assert len(checked_kernel(raced.fn, raced.options).programs) == 1


FACTOR = 2


def scaled(tile: Any) -> Any:
    return tile * FACTOR


@tc.kernel
def times(z: Tensor[Mut, f32, k.BM]) -> None:
    z.store(scaled(tc.ones(k.BM)))


def test_a_changed_constant_is_read_again() -> None:
    global FACTOR
    z = tc.zeros(8)
    for factor in (2, 3, 2.5, 2):
        FACTOR = factor
        times(z.partition(8)).sync()
        assert z.numpy()[0] == factor


def test_closures_make_different_kernels() -> None:
    def make(n: float) -> Any:
        @tc.kernel
        def filled(z: Tensor[Mut, f32, k.BM]) -> None:
            z.store(tc.full(k.BM, n))

        return filled

    z = tc.zeros(8)
    for n in (1.0, 2.0, 3.0):
        make(n)(z.partition(8)).sync()
        assert z.numpy()[0] == n


def test_open_annotations_take_what_the_argument_is() -> None:
    @tc.kernel
    def double(z: Tensor[Mut], x: Tensor[Shared]) -> None:
        tile = tc.load_like(x, z)
        z.store(tile + tile)

    for dtype in (f32, i32):
        z, x = tc.zeros(6, 10, dtype=dtype), tc.ones(6, 10, dtype=dtype)
        double(z.partition(4, 4), x).sync()
        assert np.array_equal(z.numpy(), 2 * x.numpy())
        v = tc.zeros(10, dtype=dtype)
        double(v.partition(4), tc.ones(10, dtype=dtype)).sync()
        assert v.numpy().sum() == 20


def test_two_dims_of_one_name_are_two() -> None:
    def make() -> Any:
        class BM(Dim): ...

        @tc.kernel
        def mine(z: Tensor[Mut, f32, BM], w: Tensor[Shared, f32, k.BM]) -> None:
            z.store(tc.full(BM, 1.0))

        return mine

    make()(tc.zeros(8).partition(4), tc.ones(16)).sync()


def test_one_function_makes_kernels_of_different_options() -> None:
    plain, strict = k.move, tc.kernel(k.move.fn, requires="x.shape[0] >= 1000")
    z, x = tc.zeros(8), tc.ones(8)
    for _ in range(2):
        plain(z.partition(8), x).sync()
        with pytest.raises(tc.LaunchRefused, match="1000"):
            strict(z.partition(8), x)
