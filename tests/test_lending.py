"""`tc.lend`: the array interfaces, for libraries that know no DLPack, on the CPU and on a driver on paper."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests.paper_driver import PaperDriver, on_paper

host = pytest.mark.cpu


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


@host
def test_numpy_writes_our_memory() -> None:
    z = tc.zeros(8)
    a = np.asarray(tc.lend(z))
    a[3] = 5
    with pytest.raises(tc.BorrowError, match="cannot read `z` while another library's array is writing it"):
        z.numpy()
    part = a[2:]
    del a
    gc.collect()
    with pytest.raises(tc.BorrowError, match="cannot write `z`"):
        z[0] = 1
    del part
    assert z.numpy().tolist() == [0, 0, 0, 5, 0, 0, 0, 0]


@host
def test_reading_is_shared() -> None:
    z = tc.ones(8)
    a = np.asarray(tc.lend(z, read_only=True))
    assert not a.flags.writeable and a.sum() == z.numpy().sum() == 8
    with pytest.raises(tc.BorrowError, match="cannot write `z` while another library's array is reading it"):
        z[0] = 1


@host
def test_what_nobody_took_ends_at_once() -> None:
    z = tc.ones(8)
    tc.lend(z)
    z[0] = 2
    assert z.numpy().sum() == 9


class Taken:
    """An array as another library makes it of the interface; it keeps what has the interface alive."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.interface = owner.__cuda_array_interface__
        assert not hasattr(owner, "__array_interface__")


def test_the_interface_on_a_gpu(paper: PaperDriver) -> None:
    z = tc.zeros(6, 4)
    a = Taken(tc.lend(z))
    address = z._elements.strided().address  # type: ignore[attr-defined]
    assert a.interface == {
        "shape": (6, 4),
        "typestr": "<f4",
        "data": (address, False),
        "strides": (16, 4),
        "version": 3,
        "stream": None,
    }
    with pytest.raises(tc.BorrowError, match="cannot read `z` while another library's array is writing it"):
        z.numpy()
    del a
    view = z[1:3, ::2]
    a = Taken(tc.lend(view, read_only=True))
    assert a.interface["data"] == (address + 16, True)
    assert a.interface["strides"] == (16, 8) and a.interface["shape"] == (2, 2)
    z.numpy()
    with pytest.raises(tc.BorrowError, match="cannot write `z`"):
        z[2, 0] = 1
    z[0, 0] = 1
    del a
    z[2, 0] = 1


@pytest.mark.parametrize("dtype", ["f16", "f64", "i8", "u16", "i64", "bool_"])
def test_dtypes_on_a_gpu(paper: PaperDriver, dtype: str) -> None:
    z = tc.zeros(4, dtype=getattr(tc, dtype))
    named = np.dtype(tc.lend(z).__cuda_array_interface__["typestr"])
    assert named == z.dtype.numpy()  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "f8e5m2"])
def test_dtypes_without_a_name(paper: PaperDriver, dtype: str) -> None:
    z = tc.zeros(4, dtype=getattr(tc, dtype))
    with pytest.raises(tc.UsageError, match=f"NumPy, by which it would be lent, has no {dtype}") as caught:
        tc.lend(z)
    assert caught.value.rule == "dtype-mismatch"
    z[0] = 1


def test_an_empty_array_has_no_address(paper: PaperDriver) -> None:
    assert tc.lend(tc.zeros(4)[2:2]).__cuda_array_interface__["data"][0] == 0


@pytest.mark.parametrize("value", [np.zeros(4), None, 3])
def test_what_is_no_tensor(value: Any) -> None:
    with pytest.raises(tc.UsageError, match="`lend` takes a tensor, this is a"):
        tc.lend(value)


@host
def test_a_tensor_that_was_moved_or_borrowed_read_only() -> None:
    z = tc.zeros(8)
    kept = z.into_partition(4)
    with pytest.raises(tc.BorrowError, match="`z` was moved"):
        tc.lend(z)
    del kept
    a = np.zeros(4)
    a.flags.writeable = False
    x = tc.from_dlpack(a)
    with pytest.raises(tc.BorrowError, match="marked read-only"):
        tc.lend(x)
    tc.lend(x, read_only=True)
