"""What a program may hand to the run time by mistake: the right result, or an error in our words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import kernels

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

ROW = np.arange(12, dtype=np.float32)
PACKED = np.zeros(4, np.dtype([("tag", "u1"), ("value", "f4")]))


class Sub(np.ndarray[Any, Any]):
    """An array of somebody's own."""


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


# ---- arrays


@pytest.mark.parametrize(
    "array",
    [ROW[::-1], ROW[::2], ROW.reshape(3, 4).T, ROW.view(Sub), ROW > 3, ROW.astype(np.float16), np.array(3.0), ROW[:0],
     np.zeros((3, 0)), np.broadcast_to(ROW[:3], (4, 3)), PACKED["value"], np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32)],
)  # fmt: skip
def test_copied_as_it_is(array: Any) -> None:
    x = tc.asarray(array)
    assert x.shape == array.shape and np.array_equal(x.numpy(), array)
    z = tc.zeros(*array.shape, dtype=array.dtype)
    tc.memcpy(z, array).sync()
    assert np.array_equal(z.numpy(), array)


@pytest.mark.parametrize("array", [ROW[::2], ROW.view(Sub), ROW.copy(), np.zeros(8, "f4,i4")["f0"]])
@pytest.mark.cpu
def test_borrowed_and_written_in_place(array: Any) -> None:
    array = array.copy() if array.base is None else array
    x = tc.from_dlpack(array)
    k.fill(x.partition(4), 7.0).sync()
    assert np.all(array == 7)
    k.move(tc.zeros(array.size).partition(4), x).sync()
    ROW[...] = np.arange(12)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (ROW.astype(">f4"), "in the order of another machine"),
        (np.zeros(2, [("a", "f4")]), "is no dtype of tensors"),
        (ROW.astype(np.complex64), "is no dtype of tensors"),
        (ROW.astype(np.longdouble), "is no dtype of tensors"),
        (np.array(["2020-01-01"], "M8[D]"), "is no dtype of tensors"),
        (np.array([object()]), "is no dtype of tensors"),
        (np.ma.masked_array(ROW, ROW > 3), "an array with a mask is not a plain array"),
    ],
)
@pytest.mark.cpu
def test_neither_copied_nor_borrowed(array: Any, words: str) -> None:
    for take in (tc.asarray, tc.from_dlpack, lambda a: tc.memcpy(tc.zeros(*a.shape), a)):
        assert words in refused(lambda take=take: take(array)).message


@pytest.mark.parametrize("value", [{"a": 1}, {1, 2}, None, "abc", b"abc", Decimal(3), 10**30, [2**70], [[1], [1, 2]], 1j, (i for i in "ab")])  # fmt: skip
def test_no_array_at_all(value: Any) -> None:
    z = tc.zeros(4)
    for take in (tc.asarray, lambda v: tc.memcpy(z, v), lambda v: z.__setitem__(slice(None), v)):
        assert isinstance(refused(lambda take=take: take(value)), tc.UsageError)


@pytest.mark.cpu
def test_what_a_gpu_could_not_read_is_not_borrowed() -> None:
    shifted = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)
    assert "multiples of 4 bytes" in refused(lambda: tc.from_dlpack(shifted)).message
    assert "multiples of 4 bytes" in refused(lambda: tc.from_dlpack(PACKED["value"])).message
    assert "negative strides" in refused(lambda: tc.from_dlpack(ROW[::-1])).message


def test_bytes_are_read_as_another_dtype_where_it_lies() -> None:
    x = tc.zeros(17, dtype=tc.u8)
    assert x[4:16].view(tc.f32).shape == (3,)
    assert "1 bytes behind a multiple of 4" in refused(lambda: x[1:17].view(tc.f32)).message
    assert "no dtype" in refused(lambda: x[0:16].view(None)).message


@pytest.mark.cpu
def test_read_only_memory_is_read() -> None:
    row = ROW.copy()
    row.flags.writeable = False
    x, z = tc.from_dlpack(row), tc.zeros(12)
    k.move(z.partition(4), x).sync()
    assert np.array_equal(z.numpy(), row)
    for write in (lambda: x.partition(4), lambda: x.__setitem__(0, 1), lambda: tc.memcpy(x, ROW), lambda: x.split(4),
                  lambda: x[2:4].partition(1), lambda: k.tally(tc.from_dlpack(row.view(np.int32)), tc.zeros(4, dtype=tc.i32))):  # fmt: skip
        assert refused(write).rule == "write-to-shared"


# ---- numbers


@pytest.mark.parametrize(("value", "dtype"), [(1000, tc.i8), (-1, tc.u8), (2**40, tc.i32), (math.nan, tc.i32), (math.inf, tc.i64), (1e30, tc.i32)])  # fmt: skip
def test_ints_do_not_wrap_around(value: float, dtype: Any) -> None:
    z = tc.zeros(3, dtype=dtype)
    for write in (lambda: z.__setitem__(0, value), lambda: z.__setitem__(slice(None), np.array([0, value, 0])), lambda: tc.full(3, value, dtype)):  # fmt: skip
        error = refused(write)
        assert error.rule == "dtype-mismatch" and f"is no {dtype.name}" in error.message
    assert not z.numpy().any()
    z[...] = np.array([1, 2, 127], np.int64)
    assert z.numpy().tolist() == [1, 2, 127]


def test_a_tensor_of_one_element_is_a_number() -> None:
    assert float(tc.full(1, 2.5)) == 2.5 and int(tc.full((1, 1), 7, tc.i32)) == 7
    for number in (float, int):
        assert "wants one element" in refused(lambda number=number: number(tc.zeros(2))).message


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[np.array([1, 2])], lambda x: x[[1, 2]], lambda x: x[np.array([True] * 4)], lambda x: x[0.0:2], lambda x: x[None],
        lambda x: x["a"], lambda x: x[::0], lambda x: x[math.nan], lambda x: x.split(1, axis="x"), lambda x: x.split(1.5),
        lambda x: x.reshape("2"), lambda x: x.reshape(-1, -1), lambda x: x.astype("florp"), lambda x: x.astype(None),
        lambda x: x.partition(None), lambda x: x.partition("4"), lambda x: x.partition(np.array([4, 4])), lambda x: x.partition(-4),
        lambda x: x.partition(4).map(1.5, blocks=1), lambda x: x.partition(4).map(1, blocks=None),
        lambda x: tc.zeros(None), lambda x: tc.zeros(-1), lambda x: tc.zeros(2**63), lambda x: tc.zeros(2**40, 2**40), lambda x: tc.meta(2**70),
        lambda x: tc.zeros(3, dtype=None), lambda x: tc.zeros(3, dtype=">f4"), lambda x: tc.zeros(3, dtype="q7"),
        lambda x: tc.arange("a"), lambda x: tc.arange(10**15), lambda x: tc.arange(0, 1, math.nan), lambda x: tc.linspace("a", 1, 2),
        lambda x: tc.linspace(0, 1, -2), lambda x: tc.eye(-1), lambda x: tc.eye(2**40), lambda x: tc.rand(3, seed="abc"), lambda x: tc.randn(3, seed=-1),
        lambda x: tc.zeros(0).partition(4), lambda x: tc.zeros().partition(), lambda x: k.peek(x).with_grid(2**40),
        lambda x: k.move(x.partition(4), np.zeros(4, np.float32)), lambda x: k.move(x.partition(4), tc.zeros(0)),
    ],
)  # fmt: skip
def test_slips(call: Callable[[Any], object]) -> None:
    x = tc.zeros(4)
    assert refused(lambda: call(x)).message
    k.fill(x.partition(4), 1.0).sync()
    assert x.numpy().sum() == 4


@pytest.mark.cpu
def test_tiles_that_the_host_cannot_hold() -> None:
    z = tc.zeros(4)
    error = refused(lambda: k.fill(z.partition(2**45), 1.0).sync())
    assert error.rule == "launch-contract" and "cannot hold the tiles of `fill`" in error.message
    k.fill(z.partition(2), 1.0).sync()


def test_more_blocks_than_the_device_takes(paper: PaperDriver) -> None:
    z, x = tc.zeros(70_000), tc.zeros(70_000)
    words = "`add` has 70000 blocks along x, cuda:0 takes 65535"
    for start in (lambda op: op.sync(), lambda op: op.prepare(), lambda op: op.graph()):
        error = refused(lambda start=start: start(kernels.add(z.partition(1), x, x)))
        assert error.rule == "launch-contract" and error.message == words
    assert not paper.launched
    kernels.add(z.partition(2), x, x).sync()
    assert len(paper.launched) == 1
