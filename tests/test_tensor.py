"""Tensors on the host: creation, views, subscripts, moves and what their messages say."""

import copy
import gc
import pickle

import numpy as np
import pytest

import tilecheck_runtime as tc
from tilecheck.surface.dims import Dim
from tilecheck.surface.dtypes import DTYPES, bf16, f16, f32, f64, i8, i32, i64, u8
from tilecheck.surface.errors import TilecheckError, UsageError
from tilecheck.surface.tensor import Tensor
from tilecheck_runtime import BorrowError


def rule_of(call: object, *args: object) -> str:
    with pytest.raises(TilecheckError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.rule


def test_creation_agrees_with_numpy() -> None:
    for ours, theirs in [
        (tc.zeros(2, 3), np.zeros((2, 3), np.float32)),
        (tc.ones((4,)), np.ones(4, np.float32)),
        (tc.full(3, -1.5), np.full(3, -1.5, np.float32)),
        (tc.full((2, 2), 7, i32), np.full((2, 2), 7, np.int32)),
        (tc.arange(8), np.arange(8, dtype=np.int32)),
        (tc.arange(2, 9, 3), np.arange(2, 9, 3, dtype=np.int32)),
        (tc.arange(2**31, 2**31 + 2), np.arange(2**31, 2**31 + 2)),
        (tc.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, np.float32)),
        (tc.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (tc.eye(2, 3), np.eye(2, 3, dtype=np.float32)),
        (tc.asarray([1.0, 2.0]), np.array([1, 2], np.float32)),
        (tc.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], np.int32)),
        (tc.asarray(np.arange(3.0)), np.arange(3.0)),
        (tc.asarray(np.arange(3.0), dtype=f16), np.arange(3, dtype=np.float16)),
        (tc.asarray(True), np.array(True)),
    ]:
        got = ours.numpy()
        assert got.dtype == theirs.dtype
        assert np.array_equal(got, theirs)
        assert isinstance(ours, Tensor)


def test_random_tensors_repeat_with_a_seed() -> None:
    assert np.array_equal(tc.randn(5, seed=3).numpy(), tc.randn(5, seed=3).numpy())
    values = tc.rand(100, seed=1).numpy()
    assert values.dtype == np.float32
    assert values.min() >= 0 and values.max() < 1


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_dtype_is_stored(dtype: type) -> None:
    x = tc.zeros(3, dtype=dtype)
    x[1] = 1
    assert x.dtype is dtype
    assert x.astype(f32).numpy().tolist() == [0, 1, 0]


def test_asarray_refuses_what_has_no_dtype() -> None:
    assert rule_of(tc.asarray, ["a"]) == "dtype-mismatch"
    assert rule_of(tc.asarray, 1j) == "dtype-mismatch"
    assert rule_of(tc.full, 3, "a") == "dtype-mismatch"
    assert rule_of(tc.zeros(3).__setitem__, 0, None) == "dtype-mismatch"
    assert rule_of(tc.full, 3, [1, 2, 3]) == "usage"
    assert rule_of(tc.empty, 2**40, 2**40) == "index-overflow"
    assert rule_of(tc.zeros, -1) == "shape-mismatch"
    assert rule_of(tc.zeros, 2.0) == "shape-mismatch"


def test_a_dim_has_no_value_on_the_host() -> None:
    class BM(Dim): ...

    class D4(Dim, size=4): ...

    with pytest.raises(UsageError, match="`BM` has no value on the host"):
        tc.zeros(BM)
    assert tc.zeros(D4).shape == (4,)


def test_subscripts() -> None:
    host = np.arange(24, dtype=np.int32).reshape(4, 6)
    x = tc.asarray(host)
    assert x[1, 2] == 8 and isinstance(x[1, 2], int)
    assert x[-1, -1] == 23
    for key in [np.s_[1:3], np.s_[:, 2], np.s_[1:3, ::2], np.s_[..., 1:], np.s_[-2:, :-1], np.s_[2:2]]:
        assert np.array_equal(x[key].numpy(), host[key]), key
    assert np.array_equal(x[1:3][0, 1:4].numpy(), host[1:3][0, 1:4])
    assert [row.numpy().tolist() for row in x[:2, :2]] == [[0, 1], [6, 7]]


@pytest.mark.parametrize("key", [np.s_[0:9], np.s_[5:3], np.s_[8, 0], np.s_[-9], np.s_[0:1, 0:1, 0:1], np.s_[0:-9]])
def test_nothing_is_clamped(key: object) -> None:
    assert rule_of(tc.zeros(8, 8).__getitem__, key) == "out-of-bounds"


def test_writes_from_the_host() -> None:
    x = tc.zeros(2, 3)
    x[0, 1] = 5
    x[1] = [1, 2, 3]
    x[:, 0] = tc.full(2, 9.0)
    assert x.numpy().tolist() == [[9, 5, 0], [9, 2, 3]]
    with pytest.raises(UsageError, match=r"values of shape \(4,\) do not fit the shape \(3,\)"):
        x[0] = [1, 2, 3, 4]


def test_reshape_and_reinterpretation() -> None:
    x = tc.arange(12)
    assert x.reshape(3, -1).shape == (3, 4)
    assert x.reshape(2, 6)[1].numpy().tolist() == [6, 7, 8, 9, 10, 11]
    assert rule_of(x.reshape, 5, 3) == rule_of(x.reshape, -1, 5) == "shape-mismatch"
    assert rule_of(x.reshape(3, 4)[:, 1:3].reshape, 6) == "shape-mismatch"
    assert tc.ones(4).view(i32).numpy().tolist() == [0x3F800000] * 4
    assert tc.zeros(4, dtype=i64).view(u8).shape == (32,)
    assert rule_of(tc.zeros(3, dtype=i8).view, f16) == "dtype-mismatch"
    assert tc.arange(3).astype(bf16).dtype is bf16


def test_a_view_ends_when_its_bytes_are_borrowed_exclusively_elsewhere() -> None:
    t = tc.zeros(64)
    v, far = t[0:32], t[32:64]
    t[0:16].partition(4)
    with pytest.raises(BorrowError, match=r"`v` was borrowed at .*test_tensor\.py:.* ended when a partition") as e:
        v.numpy()
    assert e.value.rule == "borrow-conflict"
    assert far.numpy().sum() == 0


def test_a_view_stays_when_it_is_borrowed_through() -> None:
    t = tc.zeros(8)
    v = t[0:4]
    w = v[0:2]
    w.partition(2)
    assert v.numpy().sum() == 0
    v.partition(2)
    assert rule_of(w.numpy) == "borrow-conflict"


def test_views_see_what_the_host_writes() -> None:
    t = tc.zeros(8)
    p = t.partition(4)
    v = t[0:4]
    t[1] = 1
    assert v.numpy().tolist() == [0, 1, 0, 0]
    v[2] = 2
    assert p.unpartition().numpy().tolist() == [0, 1, 2, 0, 0, 0, 0, 0]


def test_interleaved_views_do_not_disturb_each_other() -> None:
    t = tc.zeros(8)
    even, odd = t[0::2], t[1::2]
    even[0] = 1
    odd[0] = 2
    assert t.numpy().tolist()[:2] == [1, 2]
    assert even.numpy()[0] == 1


def test_moves() -> None:
    z = tc.arange(8)
    zp = z.into_partition(4)
    with pytest.raises(BorrowError, match="`z` was moved and cannot be used any more") as e:
        z.numpy()
    assert e.value.rule == "use-after-move"
    assert "unpartition" in str(e.value.help)
    assert "test_tensor.py:" in e.value.points[0]
    for use in (lambda: z[0], lambda: z.reshape(8), lambda: z.partition(4), lambda: z.into_partition(4)):
        assert rule_of(use) == "use-after-move"
    again = zp.unpartition()
    assert again.numpy().tolist() == list(range(8))
    assert rule_of(zp.unpartition) == "use-after-move"


def test_a_second_tensor_on_the_memory_forbids_the_move() -> None:
    base = tc.arange(8)
    view = base.reshape(2, 4)
    with pytest.raises(BorrowError, match="cannot move `base`: another tensor shares its memory") as e:
        base.into_partition(8)
    assert e.value.rule == "borrow-conflict"
    failure = base.try_into_partition(8)
    assert isinstance(failure, BorrowError)
    assert base.numpy().sum() == view.numpy().sum()
    del view, failure, e
    assert isinstance(base.try_into_partition(8), tc.OwnedPartition)


def test_garbage_in_a_cycle_does_not_forbid_the_move() -> None:
    base = tc.arange(8)
    cycle: list[object] = [base[0:4]]
    cycle.append(cycle)
    del cycle
    assert base.into_partition(8).grid == (1, 1, 1)


def test_the_last_view_may_be_moved() -> None:
    zp = tc.arange(8).reshape(2, 4).into_partition(1, 4)
    assert zp.unpartition().shape == (2, 4)


def test_a_move_ends_idle_partitions() -> None:
    z = tc.arange(8)
    p = z.partition(4)
    zp = z.into_partition(4)
    assert "ended" in repr(p)
    with pytest.raises(BorrowError, match=r"`p` was borrowed .* `into_partition` took it over"):
        p.unpartition()
    assert zp.unpartition().shape == (8,)


def test_split_gives_two_exclusive_halves() -> None:
    z = tc.zeros(4, 6)
    left, right = z.split(2, axis=1)
    left[0, 0] = 1
    right[0, 0] = 2
    assert z.numpy()[0].tolist() == [1, 0, 2, 0, 0, 0]
    z.partition(2, 2)
    assert rule_of(left.numpy) == rule_of(right.numpy) == "borrow-conflict"
    for at in (0, 6, -1):
        assert rule_of(z.split, at, 1) == "out-of-bounds"


def test_repr_shows_shape_dtype_device_and_state() -> None:
    z = tc.zeros(2, 3)
    here = z.device
    assert repr(z) == f"<Tensor f32 (2, 3) on {here}: owner>"
    p = z.partition(1, 3)
    assert repr(z) == f"<Tensor f32 (2, 3) on {here}: owner; exclusive, idle: a partition>"
    assert repr(p) == "<Partition of f32[2, 3] into (1, 3): borrowed>"
    assert repr(z[0]) == f"<Tensor f32 (3,) on {here}: view; exclusive, idle: a partition>"
    zp = z.into_partition(1, 3)
    assert repr(z).startswith(f"<Tensor f32 (2, 3) on {here}: moved at ")
    assert repr(zp).endswith("owned>")
    assert repr(tc.meta(4, dtype=f64)) == "<Tensor f64 (4,) on meta: shape only>"


def test_memory_returns_to_what_it_was() -> None:
    gc.collect()
    before = tc.allocated()
    x = tc.zeros(100)
    v = x[10:20]
    assert tc.allocated().count == before.count + 1
    assert tc.allocated().nbytes == before.nbytes + 400
    del x
    assert tc.allocated().count == before.count + 1
    del v
    assert tc.allocated() == before


def test_meta_tensors_have_no_data() -> None:
    m = tc.meta(8, 8)
    assert m.partition(4, 4).grid == (2, 2, 1)
    assert m[0:4].shape == (4, 8)
    with pytest.raises(UsageError, match="a meta tensor has a shape and no data"):
        m.numpy()


def test_handles_are_not_duplicated() -> None:
    z = tc.arange(4)
    same, fresh = copy.copy(z), copy.deepcopy(z)
    assert repr(same).endswith("view>")
    fresh[0] = 9
    assert z[0] == same[0] == 0
    assert rule_of(z.into_partition, 2) == "borrow-conflict"
    for handle in (z, z.partition(2), tc.value(1).graph()):
        assert rule_of(pickle.dumps, handle) == "usage"
        if handle is not z:
            assert rule_of(copy.copy, handle) == "usage"


def test_the_kernel_language_is_not_spoken_on_the_host() -> None:
    z = tc.zeros(4)
    for call in (lambda: z.store(1), lambda: z.partition(2).load(), lambda: z.num_tiles(0)):
        with pytest.raises(UsageError, match="belongs to the kernel language"):
            call()
    assert not hasattr(z, "nonsense")
    with pytest.raises(UsageError, match="neither true nor false"):
        bool(z)
    assert tc.ones(1)
