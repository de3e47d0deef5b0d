"""Views that are taken again in a loop: one borrow, handed on, and none of the rules given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tests.test_quick_and_long_way import added
from tilecheck_runtime import calls

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(run: Callable[[], object]) -> tc.BorrowError:
    with pytest.raises(tc.BorrowError) as caught:
        run()
    return caught.value


@pytest.mark.parametrize("how", ["slice", "row", "columns", "reshape", "input", "both"])
def test_a_view_taken_anew_has_the_seat_of_the_one_before(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = calls._quick
    taken: list[bool] = []

    def counted(*given: Any) -> Any:
        op = quick(*given)
        taken.append(op is not None)
        return op

    monkeypatch.setattr(calls, "_quick", counted)
    z, x = tc.zeros(4, 32), tc.asarray(np.arange(128, dtype=np.float32).reshape(4, 32))
    flat, line, stream = tc.zeros(128), tc.ones(32), tc.Stream()
    sides: dict[str, Callable[[], Any]] = {
        "slice": lambda: k.move(flat[:32].partition(8), line),
        "row": lambda: k.move(z[1].partition(8), line),
        "columns": lambda: k.move(z[1, :16].partition(8), line),
        "reshape": lambda: k.move(z.reshape(-1).partition(8), flat),
        "input": lambda: k.move(line.partition(8), x[2]),
        "both": lambda: k.move(z[3].partition(8), x[3]),
    }
    for _ in range(8):
        sides[how]().run(stream)
    assert sum(taken) >= 4
    stream.synchronize()
    if how == "both":
        assert z[3].numpy().tolist() == x[3].numpy().tolist() and not z[2].numpy().any()


def test_every_row_its_own_launch() -> None:
    z, x, stream = tc.zeros(16, 32), tc.asarray(np.arange(512, dtype=np.float32).reshape(16, 32)), tc.Stream()
    for _ in range(4):
        for row in range(16):
            added(z[row].partition(8), x[row], x[(row + 1) % 16]).run(stream)
    stream.synchronize()
    expected = x.numpy() + np.roll(x.numpy(), -1, axis=0)
    assert np.array_equal(z.numpy(), expected)


def test_two_views_side_by_side_have_a_borrow_each() -> None:
    z = tc.zeros(32)
    for _ in range(4):
        first, second = z[:16], z[:16]
        pieces = second.partition(8)
        error = refused(lambda view=first: view.partition(8))  # type: ignore[misc]
        assert error.rule == "borrow-conflict" and "ended when a partition borrowed it exclusively" in error.message
        k.move(pieces, tc.ones(16)).sync()


def test_what_was_derived_keeps_the_borrow_to_itself() -> None:
    z = tc.zeros(32)
    for _ in range(3):
        part = z[:16][:8]
        late = z[:16]
        part.partition(8)
        refused(lambda view=late: view.partition(8))  # type: ignore[misc]


def test_an_exclusive_borrow_ends_a_view_that_came_again() -> None:
    z, x, stream = tc.zeros(32), tc.ones(32), tc.Stream()
    for _ in range(6):
        k.move(z[:16].partition(8), x[:16]).run(stream)
    for _ in range(6):
        view = z[:16]
        k.move(z.partition(8), x).run(stream)
        refused(lambda view=view: view.partition(8))  # type: ignore[misc]
    stream.synchronize()


def test_the_error_names_the_line_of_this_view() -> None:
    z = tc.zeros(32)
    for _ in range(3):
        z[:16].partition(8)
    view = z[:16]; z.partition(8)  # fmt: skip # noqa: E702
    error = refused(lambda: view.partition(8))
    line = test_the_error_names_the_line_of_this_view.__code__.co_firstlineno + 4
    assert error.points[0].endswith(f"test_views_again.py:{line}: borrowed here")


def test_keys_are_told_apart_by_their_kind() -> None:
    x = tc.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert [x[1].shape, x[1:2].shape, x[0:1].shape, x[(1,)].shape] == [(4,), (1, 4), (1, 4), (4,)]
    for _ in range(2):
        with pytest.raises(tc.UsageError, match="neither an int nor a slice"):
            x[True]
        with pytest.raises(tc.UsageError, match="neither an int nor a slice"):
            x[1.0]
        assert x[np.int64(1)].numpy().tolist() == x[1].numpy().tolist() == [4, 5, 6, 7]
    assert x[:, 1:3].numpy().tolist() == [[1, 2], [5, 6], [9, 10]]
    x.into_partition(1, 4)
    for key in (1, slice(0, 1), (slice(None), slice(1, 3))):
        assert refused(lambda key=key: x[key]).rule == "use-after-move"  # type: ignore[misc]
