"""SIMT kernels through our launch, on the CPU: grid from the partition, block from the contract, conditions enforced."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilecheck as tc
from tests import simt_kernels as k

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def test_grid_from_the_partition_and_block_from_the_contract() -> None:
    x, z = tc.arange(100).astype(tc.f32), tc.zeros(100)
    op = k.double(z.partition(64), x)
    assert op.grid == (2, 1, 1)
    op.sync()
    assert np.array_equal(z.numpy(), 2 * np.arange(100))


def test_shared_memory_and_barriers_run() -> None:
    out = tc.zeros(4)
    k.block_sums(out.partition(1), tc.ones(100)).sync()
    assert out.numpy().tolist() == [32, 32, 32, 4]


def test_a_dim_of_the_partition_is_a_value() -> None:
    z = tc.zeros(16)
    k.tile_width(z.partition(8)).sync()
    assert set(z.numpy().tolist()) == {8.0}


def test_conditions_of_the_proof_are_enforced() -> None:
    error = refused(lambda: k.double(tc.zeros(100).partition(64), tc.ones(99)))
    assert isinstance(error, tc.LaunchRefused) and "x.size" in str(error) and "99" in str(error)


@pytest.mark.parametrize(("n", "text"), [(3, "n % 2"), (6, "blockDim.x")])
def test_requires_is_enforced(n: int, text: str) -> None:
    assert text in str(refused(lambda: k.even(tc.zeros(4).partition(4), n)))


def test_requires_that_holds_runs() -> None:
    z = tc.zeros(4)
    k.even(z.partition(4), 2).sync()
    assert z.numpy().tolist() == [2, 2, 2, 2]


def test_an_empty_array_is_refused_where_the_proof_rests_on_an_element() -> None:
    assert "x.size >= 1" in str(refused(lambda: k.first_of(tc.zeros(4).partition(4), tc.zeros(0))))


@pytest.mark.parametrize(("start", "text"), [(-3, "`count >= 0`"), (2**31 - 2, "`count <= 1073741824`")])
def test_a_counter_starts_where_the_proof_lets_it(start: int, text: str) -> None:
    count = tc.asarray(np.array([start], np.int32))
    error = refused(lambda: k.by_turns(tc.zeros(8).partition(4), count).sync())
    assert isinstance(error, tc.LaunchRefused) and text in str(error) and str(start) in str(error)


def test_turns_that_are_left_are_taken() -> None:
    z, count = tc.full(8, -1.0), tc.asarray(np.array([2], np.int32))
    k.by_turns(z.partition(4), count).sync()
    first, second, *taken = z.numpy().tolist()
    assert first == second == -1 and len(set(taken)) == 6 and set(taken) <= set(range(8))
    assert count.numpy().tolist() == [10]


def test_a_racing_kernel_is_refused_before_it_runs() -> None:
    error = refused(lambda: k.all_on_one(tc.zeros(8).partition(4)))
    assert isinstance(error, tc.KernelRejected) and error.rule == "data-race"
    assert "\N{REPLACEMENT CHARACTER}" not in str(error)


@pytest.mark.cpu
def test_a_kernel_that_opted_out_is_watched() -> None:
    z = tc.zeros(8)
    k.scatter(z.partition(8), tc.asarray(np.array([3, 1, 2, 0], np.int32))).sync()
    assert z.numpy().tolist()[:4] == [3, 1, 2, 0]
    op = k.scatter(z.partition(8), tc.asarray(np.array([3, 1, 3, 0], np.int32)))
    error = refused(op.sync)
    assert isinstance(error, tc.KernelStopped) and error.rule == "data-race" and "`z` at 3" in str(error)


def test_adopted_kernels_take_partitions_and_whole_tensors() -> None:
    plain = tc.adopt(k.plain, block=32)
    z, x = tc.zeros(50), tc.ones(50)
    op = plain(z.partition(32), x, 2)
    assert op.grid == (2, 1, 1)
    op.sync()
    assert set(z.numpy().tolist()) == {3.0}
    plain(z, x, 4).with_grid(2).sync()
    assert set(z.numpy().tolist()) == {5.0}


def test_adopted_kernels_borrow_what_they_write() -> None:
    plain = tc.adopt(k.plain, block=32)
    z = tc.zeros(50)
    error = refused(lambda: plain(z.partition(32), z, 2))
    assert isinstance(error, tc.BorrowError)


def test_without_a_partition_there_is_no_grid() -> None:
    plain = tc.adopt(k.plain, block=32)
    op = plain(tc.zeros(50), tc.ones(50), 2)
    assert "no grid" in str(refused(op.sync))


def test_a_whole_output_is_told_the_tile_of_a_block() -> None:
    error = refused(lambda: k.double(tc.zeros(100), tc.ones(100)))
    assert isinstance(error, tc.LaunchRefused) and "`z.partition(64)`" in str(error)


def test_tiles_larger_than_the_block_are_refused_unless_a_part_is_meant() -> None:
    z, x = tc.zeros(256), tc.ones(256)
    error = refused(lambda: k.double(z.partition(128), x))
    assert (
        isinstance(error, tc.LaunchRefused) and error.rule == "partial-coverage" and "128 threads for 256" in str(error)
    )
    k.double(z.partition(128).prefix(), x).with_grid(2).sync()
    assert z.numpy().sum() == 2 * 128
    k.double(z.partition(64), x).sync()
    assert z.numpy().sum() == 2 * 256
