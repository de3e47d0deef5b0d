"""Partitions: grids, what is refused, ends of borrows."""

import pytest

import tilecheck_runtime as tc
from tilecheck.surface.errors import TilecheckError, UsageError
from tilecheck_runtime import BorrowError


@pytest.mark.parametrize(
    ("shape", "tile", "grid"),
    [((1000,), (128,), (8, 1, 1)), ((192, 134), (64, 64), (3, 3, 1)), ((2, 5, 9), (1, 2, 3), (2, 3, 3))],
)
def test_the_grid_is_the_ceiling_per_axis(
    shape: tuple[int, ...], tile: tuple[int, ...], grid: tuple[int, int, int]
) -> None:
    assert tc.zeros(shape).partition(*tile).grid == grid
    assert tc.zeros(shape).into_partition(tile).grid == grid


@pytest.mark.parametrize(
    ("shape", "tile", "text"),
    [
        ((8,), (0,), "the tile of `x` has extent 0 on axis 0"),
        ((8,), (-4,), "the tile of `x` has extent -4 on axis 0"),
        ((0,), (4,), "`x` has no elements to partition: its extent on axis 0 is 0"),
        ((8, 8), (4,), r"a tile of 1 axes for `x`, which has 2, shape \(8, 8\)"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "`x` has 4 axes, a grid has 1 to 3"),
    ],
)
def test_tiles_that_do_not_fit(shape: tuple[int, ...], tile: tuple[int, ...], text: str) -> None:
    x = tc.zeros(shape)
    with pytest.raises(UsageError, match=text) as e:
        x.partition(*tile)
    assert e.value.rule == "shape-mismatch"
    assert repr(x).endswith("owner>")


def test_a_second_partition_ends_the_first() -> None:
    z = tc.zeros(8)
    p = z.partition(4)
    q = z.partition(2)
    with pytest.raises(BorrowError, match=r"`p` was borrowed at .* ended when a partition borrowed it exclusively"):
        p.unpartition()
    assert q.unpartition().shape == (8,)


def test_partitions_of_disjoint_slices_live_side_by_side() -> None:
    t = tc.zeros(100)
    a, b = t[0:40].partition(20), t[40:80].partition(20)
    assert a.unpartition().shape == b.unpartition().shape == (40,)
    t[0:60].partition(20)
    for ended in (a, b):
        with pytest.raises(BorrowError):
            ended.unpartition()


def test_mapped_partitions() -> None:
    p = tc.zeros(64).partition(8)
    assert p.map(1, blocks=3).grid == (3, 1, 1)
    assert p.map((4,), blocks=8).mapping == p.map(4, blocks=8).mapping
    q = tc.zeros(8, 8).partition(2, 4)
    assert q.map((1, tc.OWNED), blocks=4).grid == (4, 1, 1)
    for refused in (
        lambda: p.map(1, blocks=0),
        lambda: p.map(1, blocks=9),
        lambda: p.map(1, 1, blocks=4),
        lambda: p.map(0, blocks=4),
        lambda: p.map(tc.OWNED, blocks=1),
        lambda: q.map((1, tc.OWNED), blocks=5),
        lambda: p.prefix().map(1, blocks=1),
        lambda: p.map(1, blocks=1).prefix(),
    ):
        with pytest.raises(TilecheckError) as e:
            refused()
        assert e.value.rule == "usage"
