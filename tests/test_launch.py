"""Kernel calls: what they accept, what they refuse and how they say it. No checker has seen these calls."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32, f64, i32

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


# ---- arguments


def test_a_launch_computes_and_its_value_are_its_tensors() -> None:
    z, x, y = tc.zeros(1000), tc.randn(1000, seed=1), tc.randn(1000, seed=2)
    p = z.partition(128)
    op = k.plus(p, x, y)
    assert op.grid == (8, 1, 1)
    assert op.sync() == (p, x, y)
    assert np.array_equal(z.numpy(), x.numpy() + y.numpy())
    assert k.plus(z=z.partition(100), y=y, x=x).grid == (10, 1, 1)


def test_an_owned_partition_comes_back() -> None:
    x = tc.arange(64).astype(f32)
    z = k.move(tc.zeros(64).into_partition(16), x).first().unpartition().sync()
    assert z.numpy().tolist() == list(range(64))
    assert k.move(z.partition(16), x).first().unpartition().to_host().sync().tolist() == list(range(64))


@pytest.mark.parametrize(
    ("call", "rule", "text"),
    [
        (lambda z, x: k.move(z, x), "unpartitioned-output", "`z` of `move` is `Mut` and wants a partition, it got a whole tensor"),
        (lambda z, x: k.move(z.partition(8), x.partition(8)), "usage", "`x` of `move` is `Shared` and wants a tensor, it got a partition"),
        (lambda z, x: k.move(z.partition(8).map(1, blocks=2), x), "launch-contract", "`z` of `move` is `Mut`, it got a partition with a map"),
        (lambda z, x: k.walk(z.partition(8), x), "launch-contract", "`z` of `walk` is `Mapped`, it got a partition without a map"),
        (lambda z, x: k.walk(z, x), "unpartitioned-output", "`z` of `walk` is `Mapped` and wants a partition"),
        (lambda z, x: k.move(z.partition(8), x.astype(f64)), "dtype-mismatch", "`x` holds f64, `move` wants f32"),
        (lambda z, x: k.move(z.astype(f16).partition(8), x), "dtype-mismatch", "`z` holds f16, `move` wants f32"),
        (lambda z, x: k.move(z.partition(8), x.reshape(8, 8)), "shape-mismatch", r"`x` has 2 axes, shape \(8, 8\); `move` wants 1"),
        (lambda z, x: k.move(z.reshape(8, 8).partition(8, 8), x), "shape-mismatch", "`z` has 2 axes"),
        (lambda z, x: k.move(z.partition(8), x.numpy()), "usage", r"`x` of `move` is a tensor parameter, it got a NumPy array of float32\nhelp: copy it to the device: `tc.asarray\(x\)`"),
        (lambda z, x: k.move(np.zeros(64).partition(8), x), "usage", "`z` of `move` is a tensor parameter, it got None, which is what the `partition` of a NumPy array gives"),
        (lambda z, x: k.move(np.zeros(64), x), "usage", r"it got a NumPy array of float64\nhelp: make a tensor of it, `z = tc.asarray\(z, tc.f32\)`, pass `z.partition\(64\)`"),
        (lambda z, x: k.move(z.partition(8), [1.0]), "usage", r"it got a `list`\nhelp: copy it to the device: `tc.asarray\(x, tc.f32\)`"),
        (lambda z, x: k.move(z.partition(8), 3.0), "usage", "`x` of `move` is a tensor parameter, it got a `float`"),
        (lambda z, x: k.move(z.partition(8), tc.dup(x)), "usage", "it got a `DeviceOp`"),
        (lambda z, x: k.move(z.partition(8)), "usage", "`x` of `move` is missing in this launch"),
        (lambda z, x: k.move(z.partition(8), y=x), "usage", "`move` has no parameter `y`"),
        (lambda z, x: k.move(z.partition(8), z=z), "usage", "`z` of `move` is given twice, by position and by name"),
        (lambda z, x: k.move(), "usage", "`z`, `x` of `move` are missing in this launch"),
        (lambda z, x: k.move(z.partition(8), x, x), "usage", "`move` takes 2 arguments, it got 3"),
        (lambda z, x: k.fill(z.partition(8), "a"), "dtype-mismatch", "`v` of `fill` is a scalar `float`, it got 'a'"),
        (lambda z, x: k.fill(z.partition(8), True), "dtype-mismatch", "`v` of `fill` is a scalar `float`, it got True"),
        (lambda z, x: k.fill(z.partition(8), x), "dtype-mismatch", "it got a `Tensor`"),
        (lambda z, x: k.pick(z.partition(8), x, 1.5), "dtype-mismatch", "`i` of `pick` is a scalar `int`, it got 1.5"),
        (lambda z, x: k.pick(z.partition(8), x, 2**63), "index-overflow", "kernel ints have 64 bits"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(call: Callable[[Any, Any], object], rule: str, text: str) -> None:
    z, x = tc.zeros(64), tc.ones(64)
    with pytest.raises(tc.TilecheckError, match=text) as caught:
        call(z, x)
    assert caught.value.rule == rule
    # Nothing is held after a refusal.
    del caught
    k.move(z.partition(8), x).sync()
    assert z.numpy().sum() == 64


def test_numpy_scalars_are_numbers() -> None:
    z = tc.zeros(8)
    k.fill(z.partition(8), np.float32(2)).sync()
    k.fill(z.partition(8), np.int64(3)).sync()
    assert z.numpy().tolist() == [3] * 8


# ---- borrows


def test_overlap_in_one_launch_is_refused_by_bytes() -> None:
    t = tc.arange(100).astype(f32)
    for output, source in [(t, t), (t, t[0:100]), (t[0:60], t[40:100]), (t.reshape(100), t), (t[0::2], t[0:50])]:
        error = refused(lambda output=output, source=source: k.move(output.partition(10), source))
        assert error.rule == "borrow-conflict"
    x = tc.ones(100)
    assert refused(lambda: k.both(t[0:60].partition(20), t[40:100].partition(20), x)).rule == "borrow-conflict"
    k.move(t[0:50].partition(10), t[50:100]).sync()
    k.move(t[0::2].partition(10), t[1::2]).sync()
    k.both(t[0:40].partition(20), t[40:80].partition(20), x).sync()
    assert t.numpy()[:80].tolist() == [1] * 80
    error = refused(lambda: k.move(x.partition(10), x))
    assert error.message == "`z` and `x` share memory in one launch of `move`, which writes `z`"


def test_a_refused_launch_does_not_end_older_borrows() -> None:
    z, x = tc.zeros(64), tc.ones(8)
    p = z.partition(8)
    later = z[0:8]
    assert refused(lambda: k.move(p, x)).rule == "shape-mismatch"
    assert later.numpy().sum() == 0
    k.fill(p, 1.0)
    assert refused(later.numpy).rule == "borrow-conflict"


def test_an_atomic_parameter_is_exclusive() -> None:
    n, x = tc.zeros(4, dtype=i32), tc.asarray(np.arange(32) % 4).astype(i32)
    assert refused(lambda: k.tally(x, x)).rule == "borrow-conflict"
    k.tally(n, x).with_grid(2).sync()
    assert n.numpy().tolist() == [8] * 4


@pytest.mark.cpu
def test_read_only_memory_is_not_written() -> None:
    a = np.zeros(64, np.float32)
    a.flags.writeable = False
    x = tc.from_dlpack(a)
    assert refused(lambda: x.partition(8)).rule == "write-to-shared"
    z = tc.zeros(64)
    k.move(z.partition(8), x).sync()


# ---- Dims


def test_dims_come_from_tiles_extents_and_where() -> None:
    z, x = tc.zeros(8), tc.ones(8, 100)
    k.row_sums.where(BK=32)(z.partition(4), x).sync()
    assert z.numpy().tolist() == [100] * 8
    error = refused(lambda: k.row_sums(z.partition(4), x))
    assert (error.rule, error.message) == ("unbound-dim", "`BK` of `row_sums` has no value: no argument binds it")
    assert error.help == "bind it: `row_sums.where(BK=64)(...)`"


def test_two_sources_that_disagree_are_both_named() -> None:
    error = refused(lambda: k.whole(tc.zeros(1024).partition(128), tc.ones(64)))
    assert error.rule == "shape-mismatch"
    assert error.message == (
        "the extent of `w` is 64 on axis 0, expected 128: `BM` is 128 from the tile of `z` on axis 0"
    )
    error = refused(lambda: k.sixteen(tc.zeros(64).partition(8)))
    assert error.message == "the tile of `z` is 8 on axis 0, expected 16: `D16` is 16 from its definition"
    error = refused(lambda: k.fill.where(BM=4)(tc.zeros(64).partition(8), 1.0))
    assert error.rule == "unbound-dim"
    assert error.message == "`where(BM=4)` binds 4, expected 8: `BM` is 8 from the tile of `z` on axis 0"
    k.whole(tc.zeros(1024).partition(64), tc.ones(64)).sync()
    k.sixteen(tc.zeros(64).partition(16)).sync()
    k.fill.where(BM=8)(tc.zeros(64).partition(8), 1.0).sync()


# ---- grids


def test_the_grid_is_the_partitions() -> None:
    z, x = tc.zeros(1024), tc.ones(1024)
    for wrong in (7, 9):
        error = refused(lambda wrong=wrong: k.move(z.partition(128), x).with_grid(wrong))
        assert error.rule == "launch-contract"
        assert error.message == f"`with_grid` says ({wrong}, 1, 1), `z` of `move` needs (8, 1, 1)"
        assert error.points == ("`z`: ceil(1024 / 128)",)
    assert z.numpy().sum() == 0
    k.move(z.partition(128), x).with_grid(8).sync()
    k.move(z.partition(128), x).with_grid((8, 1)).sync()
    for no_grid in ((), (0,), (8, 1, 1, 1), (8.0,)):
        assert isinstance(refused(lambda g=no_grid: k.move(z.partition(128), x).with_grid(*g)), tc.UsageError)


def test_outputs_must_agree() -> None:
    a, b, x = tc.zeros(64), tc.zeros(64), tc.ones(64)
    error = refused(lambda: k.both(a.partition(8), b.partition(16), x))
    assert error.rule == "launch-contract"
    assert error.message == "the outputs of `both` want different grids: `a` (8, 1, 1), `b` (4, 1, 1)"
    k.both(a.partition(8), b[0:32].partition(4), x).sync()


def test_a_prefix_covers_a_part() -> None:
    z = tc.full(64, -1.0)
    k.fill(z.partition(8).prefix(), 5.0).with_grid(3).sync()
    assert z.numpy().tolist() == [5] * 24 + [-1] * 40
    op = k.fill(z.partition(8).prefix(), 5.0)
    assert "a prefix does not define one" in refused(lambda: op.grid).message
    assert refused(op.sync).rule == "launch-contract"
    error = refused(lambda: k.fill(z.partition(8).prefix(), 5.0).with_grid(9))
    assert error.message == "the grid of `fill` has 9 blocks on axis 0, the prefix `z` has 8 tiles"
    x = tc.ones(64)
    op = k.both(tc.zeros(32).partition(8), z.partition(8).prefix(), x)
    assert op.grid == (4, 1, 1)
    op.sync()
    assert z.numpy().tolist() == [1] * 32 + [-1] * 32


def test_without_an_output_the_grid_is_given_and_checked_each_time() -> None:
    x = tc.zeros(48)
    assert "it has no output that defines one" in refused(k.peek(x).sync).message
    k.peek(x).with_grid(3).sync()
    error = refused(lambda: k.peek(x).with_grid(4))
    assert error.rule == "out-of-bounds"
    assert "4" in error.message and "3" in error.message and "`x`" in error.message
    k.peek(x).with_grid(3).sync()


def test_with_grid_uses_the_op_up() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    op = k.move(z.partition(8), x)
    again = op.with_grid(8)
    assert isinstance(refused(op.sync), tc.OpError)
    assert refused(z.numpy).rule == "borrow-conflict"
    again.sync()
    op = k.move(z.partition(8), x)
    refused(lambda: op.with_grid(7))
    z[0] = 0


# ---- conditions at each launch


def test_conditions_hold_at_every_launch() -> None:
    z = tc.zeros(64)
    for _ in range(2):
        k.by_block(z.partition(8), tc.ones(64)).sync()
        error = refused(lambda: k.by_block(z.partition(8), tc.ones(56)))
        assert error.rule == "out-of-bounds"
        error = refused(lambda: k.plus(z.partition(8), tc.ones(32), tc.ones(64)))
        assert error.rule == "shape-mismatch"
        assert "`x` has 32 elements" in error.message and "`z` has 64" in error.message
        assert refused(lambda: k.first_half(z.partition(8), tc.ones(127))).rule == "launch-contract"
        k.first_half(z.partition(8), tc.ones(128)).sync()
    k.by_block(tc.zeros(60).partition(8), tc.ones(60)).sync()


def test_a_scalar_index_is_bounded_on_both_sides() -> None:
    z, x = tc.zeros(8), tc.arange(64).astype(f32)
    k.pick(z.partition(8), x, 7).sync()
    assert z.numpy()[0] == 56
    for bad in (8, -1):
        error = refused(lambda bad=bad: k.pick(z.partition(8), x, bad).sync())
        assert error.rule == "out-of-bounds"
        assert z.numpy()[0] == 56


def test_mapped_partitions_are_walked_once() -> None:
    for size, tile, blocks in [(62, 8, 3), (64, 8, 8), (5, 8, 1), (64, 1, 7)]:
        z, x = tc.zeros(size), tc.randn(size, seed=size)
        k.walk(z.partition(tile).map(1, blocks=blocks), x).sync()
        assert np.array_equal(z.numpy(), x.numpy())
    for start, count in [(0, 0), (0, 8), (3, 1), (7, 1), (2, -1)]:
        z = tc.zeros(62)
        k.ones_within(z.partition(8).map(1, blocks=3), start, count).sync()
        end = 62 if count == -1 else min(62, (start + count) * 8)
        assert z.numpy()[start * 8 : end].all()
        assert z.numpy().sum() == end - start * 8
    assert (
        refused(lambda: k.ones_within(tc.zeros(62).partition(8).map(1, blocks=3), 7, 2).sync()).rule == "out-of-bounds"
    )


def test_a_source_is_measured_against_the_range_it_fills() -> None:
    cache, fresh = tc.zeros(4096), tc.ones(256)
    k.update(cache.partition(128).map(1, blocks=4), fresh, 5, 2).sync()
    assert np.flatnonzero(cache.numpy()).tolist() == list(range(640, 896))
    assert refused(lambda: k.update(cache.partition(128).map(1, blocks=4), fresh, 5, 3).sync()).rule == "out-of-bounds"


def test_partners_are_mapped_alike() -> None:
    a, b = tc.zeros(62), tc.zeros(62)
    k.in_step(a.partition(8).map(2, blocks=3), b.partition(8).map(2, blocks=3)).sync()
    assert (a.numpy().sum(), b.numpy().sum()) == (62, 124)
    p = a.partition(8).map(1, blocks=3)
    for other, shape, blocks, text in [
        (b, 2, 3, "`a` and `b` of `in_step` share their indices, but are mapped differently"),
        (b, 1, 4, "want different grids"),
        (tc.zeros(31), 1, 3, "`a` has 8 tiles on axis 0, `b` has 4"),
    ]:
        q = other.partition(8).map(shape, blocks=blocks)
        assert text in refused(lambda q=q: k.in_step(p, q)).message


# ---- kernels that are wrong


class BX(Dim): ...


@tc.kernel
def writes_its_input(z: Tensor[Mut, f32, BX], x: Tensor[Shared, f32, BX]) -> None:
    x.store(z.load())


def test_a_wrong_kernel_is_refused_at_its_first_call_with_the_linters_words() -> None:
    z, x = tc.zeros(8), tc.ones(8)
    for _ in range(2):
        with pytest.raises(tc.KernelRejected) as caught:
            writes_its_input(z.partition(8), x)
        error = caught.value
        assert error.rule == "write-to-shared"
        assert [d.rule for d in error.diagnostics] == ["write-to-shared"]
        assert "error[write-to-shared]" in str(error)
        assert "test_launch.py:" in str(error)
        assert "x.store(z.load())" in str(error)
    z[0] = 1


def test_a_kernel_without_source_says_so() -> None:
    scope: dict[str, Any] = {"tc": tc, "Tensor": Tensor, "Mut": Mut, "f32": f32, "BX": BX, "Dyn": Dyn}
    exec("@tc.kernel\ndef made(z: Tensor[Mut, f32, BX]) -> None:\n    z.store(tc.zeros(BX))", scope)
    with pytest.raises(tc.KernelRejected, match="the source of `made` is not available"):
        scope["made"](tc.zeros(8).partition(8))


# ---- what is left behind


def test_a_stopped_kernel_lets_go_of_everything() -> None:
    z, x = tc.zeros(64), tc.zeros(64)
    x[40] = 1
    running = k.peek(x).with_grid(4).run()
    with pytest.raises(tc.KernelStopped, match="assertion failed: not zero") as caught:
        running.wait()
    assert caught.value.rule == "device-assert"
    assert "launch_kernels.py:" in caught.value.points[0] and "in `peek`, block (2, 0, 0)" in caught.value.points[0]
    x[0] = 2
    with pytest.raises(tc.KernelStopped) as caught:
        k.peek(x).with_grid(4).sync()
    # Of several, the interpreter names the first, a GPU the one that said so last.
    first = "block (0, 0, 0)" in caught.value.points[0]
    assert first or (x.device != "cpu" and "block (2, 0, 0)" in caught.value.points[0])
    x[...] = 1
    k.move(z.partition(8), x).sync()


def test_launches_leave_no_memory_behind() -> None:
    def program() -> None:
        z, x = tc.zeros(1000), tc.ones(1000)
        for _ in range(3):
            k.move(z.partition(128), x).run()
        k.move(z.partition(128), x).sync()
        graph = k.move(z.partition(128), x).graph()
        graph.launch().sync()
        refused(lambda: k.move(z.partition(128), x))

    def left() -> object:
        gc.collect()
        # Who asks for memory lets go of what work that is over kept.
        tc.zeros(1)
        return tc.allocated()

    # Once to let work of earlier tests end.
    program()
    before = left()
    program()
    assert left() == before


def test_slips_are_named_not_tracebacks() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    with pytest.raises(tc.UsageError, match="comes from its partitions"):
        k.fill[4, 64]
    assert refused(lambda: k.fill(z.partition(8), 10**400)).rule == "launch-contract"
    with pytest.raises(tc.UsageError, match="runs on a stream"):
        k.move(z.partition(8), x).sync_on("a")
    with pytest.raises(tc.UsageError, match="no array"):
        tc.asarray([1, [2]])
    k.move(z.partition(8), x).sync()


def test_thousands_of_launches_need_no_wait_between_them() -> None:
    z, one = tc.zeros(8), tc.ones(8)
    running = [k.plus(z.partition(8), one, one).run() for _ in range(3000)]
    with pytest.raises(tc.BorrowError, match="is writing it"):
        z.numpy()
    for op in running:
        op.wait()
    assert z.numpy().tolist() == [2.0] * 8


def test_a_remembered_launch_is_refused_as_a_new_one_is() -> None:
    z, x = tc.zeros(64), tc.arange(64).astype(f32)
    for _ in range(3):
        k.move(z.partition(16), x).sync()
        assert refused(lambda: k.move(z.partition(16), tc.zeros(40))).rule == "shape-mismatch"
        assert refused(lambda: k.move(z.partition(16), z)).rule == "borrow-conflict"
        owned = tc.zeros(64).into_partition(16)
        k.move(owned, x).sync()
        owned.unpartition()
        assert refused(lambda gone=owned: k.move(gone, x)).rule == "use-after-move"
    op = k.move(z[:32].partition(16), x)
    assert op.grid == (2, 1, 1)
    op.sync()
