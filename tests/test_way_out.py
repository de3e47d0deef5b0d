"""The way out that a refusal names is one: taken as it is written, the call goes through."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck import kernels


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


def followed(error: tc.TilecheckError, **names: object) -> object:
    """What the first expression of the help gives, for the user's names."""
    found = re.search(r"`([^`]+)`", error.help or "")
    assert found is not None, error
    return eval(found[1], {"tc": tc}, names)


def half(*shape: int) -> tc.Tensor:
    return tc.ones(*shape, dtype=tc.f16)


def test_the_tile_that_is_suggested_is_one_that_the_kernel_takes() -> None:
    z, q = tc.zeros(8, 64, 32, dtype=tc.f16), half(8, 64, 32)
    attention = kernels.attention.where(BN=32)
    error = refused(lambda: attention(z, q, q, q, 0.1))
    assert error.rule == "unpartitioned-output"
    attention(followed(error, z=z), q, q, q, 0.1).sync()

    rows, x = tc.zeros(16, 100), tc.ones(16, 100)
    error = refused(lambda: kernels.softmax(rows, x))
    kernels.softmax(followed(error, z=rows), x).sync()
    assert np.allclose(rows.numpy(), 0.01)


def test_a_tensor_with_too_few_axes_is_told_how_to_get_them() -> None:
    sums, x = tc.zeros(64), tc.ones(64, 32)
    row_sum = kernels.row_sum.where(BN=32)
    row_sum(followed(refused(lambda: row_sum(sums, x)), z=sums), x).sync()
    assert (sums.numpy() == 32).all()
    error = refused(lambda: row_sum(sums.partition(8), x))
    assert error.message == "`z` has 1 axis, shape (64,); `row_sum` wants 2"
    assert followed(error, z=sums).shape == (64, 1)  # type: ignore[attr-defined]


def test_the_map_that_is_suggested_is_one() -> None:
    z, x, y = tc.zeros(64, 64), half(64, 64), half(64, 64)
    gemm = kernels.persistent_gemm.where(BK=16)
    gemm(followed(refused(lambda: gemm(z, x, y)), z=z), x, y).sync()
    assert (z.numpy() == 64).all()


def test_an_output_of_another_dtype_is_made_anew_an_input_is_converted() -> None:
    z, x = tc.zeros(32), tc.ones(32)
    error = refused(lambda: k.move(tc.zeros(32, dtype=tc.f16).partition(8), x))
    assert error.help is not None
    assert error.help.startswith("make it with `dtype=tc.f32`: the kernel writes into it")
    converted = followed(refused(lambda: k.move(z.partition(8), half(32))), x=half(32))
    k.move(z.partition(8), converted).sync()
    assert (z.numpy() == 1).all()


def test_what_an_op_does_not_have_is_said_in_words() -> None:
    op = k.move(tc.zeros(32).partition(8), tc.ones(32))
    for name, words in (
        ("wait", "an op has no `wait` before it runs"),
        ("done", "an op has no `done` before it runs"),
        ("numpy", "an op has no `numpy`, its tensor has"),
        ("launch", "an op has no `launch`"),
    ):
        assert not hasattr(op, name)
        assert refused(lambda name=name: getattr(op, name)).message == words  # type: ignore[misc]
    op.sync()


def test_an_op_that_is_over_says_what_became_of_it() -> None:
    z, x = tc.zeros(32), tc.ones(32)
    op = k.move(z.partition(8), x)
    op.discard()
    assert refused(op.sync).message == "cannot run `move`, which was given up already"
    again = k.move(z.partition(8), x)
    again.sync()
    assert refused(lambda: again.then(tc.value)).message == "cannot use `move` for `then`, which has run already"


def test_an_op_in_the_place_of_a_tensor_is_told_to_be_chained() -> None:
    z, x = tc.zeros(32), tc.ones(32)
    op = k.move(z.partition(8), x)
    assert "op.then(" in str(refused(lambda: k.move(tc.zeros(32).partition(8), op)))
    op.sync()


def test_borrowed_memory_is_not_called_our_own() -> None:
    array = np.ones(4, np.float32)
    assert repr(tc.from_dlpack(array)) == "<Tensor f32 (4,) on cpu: borrowed memory>"
    assert repr(tc.ones(4)) == "<Tensor f32 (4,) on cpu: owner>"
