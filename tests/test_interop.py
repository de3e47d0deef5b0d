"""Memory lent to and borrowed from other libraries."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tilecheck_runtime as tc
from tilecheck.surface.dtypes import DTYPES, bf16
from tilecheck.surface.errors import TilecheckError
from tilecheck_runtime import BorrowError

# NumPy lends and borrows memory of the host.
pytestmark = pytest.mark.cpu


def test_numpy_borrows_without_a_copy_and_may_only_read() -> None:
    z = tc.arange(8)
    a = np.from_dlpack(z)
    assert a.tolist() == list(range(8))
    assert not a.flags.writeable
    assert z.numpy().sum() == a.sum()
    with pytest.raises(BorrowError, match="cannot write `z` while another library's array is reading it"):
        z[0] = 5
    with pytest.raises(BorrowError, match="cannot borrow `z` exclusively"):
        z.partition(4)
    with pytest.raises(BorrowError, match="cannot move `z`"):
        z.into_partition(4)
    del a
    z[0] = 5
    assert z[0] == 5


def test_a_consumer_that_cannot_be_told_gets_an_exclusive_loan() -> None:
    z = tc.arange(8)
    capsule = z.__dlpack__()
    with pytest.raises(BorrowError, match="cannot read `z` while another library's array is writing it"):
        z.numpy()
    del capsule
    assert z.numpy().sum() == 28


def test_the_memory_outlives_the_tensor() -> None:
    gc.collect()
    before = tc.allocated()
    a = np.from_dlpack(tc.full(1000, 3.0))
    assert tc.allocated().count == before.count + 1
    assert a.sum() == 3000
    del a
    assert tc.allocated() == before


def test_borrowing_keeps_the_owner_alive() -> None:
    a = np.arange(6.0)
    gone = weakref.ref(a)
    x = tc.from_dlpack(a)
    a[0] = 7
    del a
    assert x.numpy()[0] == 7
    assert tc.allocated().borrowed >= 1
    del x
    assert gone() is None


def test_two_imports_of_one_array_know_of_each_other() -> None:
    a = np.zeros(16, np.float32)
    x, y = tc.from_dlpack(a), tc.from_dlpack(a[8:])
    p = x[8:12].partition(2)
    y.partition(4)
    with pytest.raises(BorrowError, match="a partition borrowed it exclusively"):
        p.unpartition()


def test_our_own_memory_comes_back_as_a_view() -> None:
    z = tc.zeros(8)
    again = tc.from_dlpack(np.from_dlpack(z)[2:4])
    assert again.numpy().tolist() == [0, 0]
    z[2] = 1
    assert again.numpy().tolist() == [1, 0]
    z.partition(4)
    with pytest.raises(BorrowError, match="a partition borrowed it exclusively"):
        again.numpy()


def test_what_cannot_be_borrowed() -> None:
    a = np.arange(6.0)
    a.flags.writeable = False
    x = tc.from_dlpack(a)
    with pytest.raises(BorrowError) as e:
        x.partition(2)
    assert e.value.rule == "write-to-shared"
    with pytest.raises(BorrowError, match="belongs to another library"):
        tc.from_dlpack(np.zeros(4)).into_partition(2)
    for refused in (lambda: tc.from_dlpack([1, 2]), lambda: tc.from_dlpack(np.arange(6)[::-1]),
                    lambda: tc.from_dlpack(np.array(["a"])), lambda: np.from_dlpack(tc.zeros(2, dtype=bf16)),
                    lambda: tc.zeros(2).__dlpack__(dl_device=(2, 0)), lambda: tc.zeros(2).__dlpack__(stream=1)):  # fmt: skip
        with pytest.raises(TilecheckError):
            refused()


def test_elements_that_share_memory_are_only_read() -> None:
    row = np.arange(4.0)
    assert tc.from_dlpack(np.broadcast_to(row, (3, 4))).numpy().sum() == 18
    for strides in [(0, 8), (8, 8), (16, 12)]:
        twice = np.lib.stride_tricks.as_strided(row, (2, 2), strides, writeable=True)
        with pytest.raises(TilecheckError, match="share memory"):
            tc.from_dlpack(twice)
    tc.from_dlpack(np.zeros((3, 4)).T).partition(2, 2)
    tc.from_dlpack(np.zeros((6, 4))[::2, ::2]).partition(2, 2)


def test_copies() -> None:
    z = tc.ones(3)
    a = np.asarray(z)
    a[0] = 5
    assert z[0] == 1
    b = np.from_dlpack(z, copy=True)
    z[0] = 2
    assert b[0] == 1


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2"])
def test_what_numpy_has_no_dlpack_for_is_said_in_our_name(name: str) -> None:
    x = tc.zeros(8, dtype=DTYPES[name])
    with pytest.raises(TilecheckError, match=f"NumPy, by which it would be lent, has no {name}"):
        np.from_dlpack(x)
    # Nothing is held, and the bits go.
    x.partition(4)
    bits = np.from_dlpack(x.view(DTYPES["u16" if name == "bf16" else "u8"]))
    assert bits.tolist() == [0] * 8


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0, 2)])
def test_an_array_without_elements_is_borrowed(shape: tuple[int, ...]) -> None:
    borrowed = tc.from_dlpack(np.ones(shape, np.float32))
    assert borrowed.shape == shape and borrowed.numpy().shape == shape
    assert np.from_dlpack(borrowed).shape == shape


@pytest.mark.parametrize("take", [tc.asarray, tc.from_dlpack])
def test_bytes_in_another_order_are_refused_with_a_way_out(take: Callable[[object], object]) -> None:
    values = np.arange(4, dtype=np.dtype(np.float32).newbyteorder())
    with pytest.raises(TilecheckError, match="has its bytes in the order of another machine") as caught:
        take(values)
    assert caught.value.help == 'turn them: `a.astype(a.dtype.newbyteorder("="))`'
    assert tc.asarray(values.astype(values.dtype.newbyteorder("="))).numpy().tolist() == [0, 1, 2, 3]
