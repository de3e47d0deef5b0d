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
    assert caught.value.rule == "use-in-flight"
    del again
    gc.collect()
    k.move(z.partition(8), x).sync()


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
