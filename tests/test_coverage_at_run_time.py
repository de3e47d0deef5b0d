"""Each element is written by exactly one block: partitions and mapped partitions of every rank, end to end.

Kernels add one to what they write, so an element that is visited twice, or never, shows.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tilecheck as tc
from tilecheck import Dim, Mapped, Mut, Tensor, i32


class A(Dim): ...


class B(Dim): ...


class C(Dim): ...


@tc.kernel
def bump1(z: Tensor[Mut, i32, A]) -> None:
    z.store(z.load() + 1)


@tc.kernel
def bump2(z: Tensor[Mut, i32, A, B]) -> None:
    z.store(z.load() + 1)


@tc.kernel
def bump3(z: Tensor[Mut, i32, A, B, C]) -> None:
    z.store(z.load() + 1)


@tc.kernel
def walk1(z: Tensor[Mapped, i32, A]) -> None:
    for at in z.indices():
        z.store(z.load(at) + 1, at)


@tc.kernel
def walk2(z: Tensor[Mapped, i32, A, B]) -> None:
    for at in z.indices():
        z.store(z.load(at) + 1, at)


@tc.kernel
def walk3(z: Tensor[Mapped, i32, A, B, C]) -> None:
    for at in z.indices():
        z.store(z.load(at) + 1, at)


@tc.kernel
def walk_rows(z: Tensor[Mapped, i32, A, B]) -> None:
    for at in z.indices():
        for j in range(z.num_tiles(1)):
            whole = z.at(at, j)
            z.store(z.load(whole) + 1, whole)


@tc.kernel
def walk_columns(z: Tensor[Mapped, i32, A, B, C]) -> None:
    for at in z.indices():
        for i in range(z.num_tiles(0)):
            whole = z.at(at, i)
            z.store(z.load(whole) + 1, whole)


@tc.kernel
def walk_range(
    a: Tensor[Mapped, i32, A, B], b: Tensor[Mapped, i32, A, B], i: int, rows: int, j: int, columns: int
) -> None:
    for at in a.indices_with(b, within=((i, rows), (j, columns))):
        a.store(a.load(at) + 1, at)
        b.store(b.load(at) + 2, at)


BUMPS = {1: bump1, 2: bump2, 3: bump3}
WALKS = {1: walk1, 2: walk2, 3: walk3}
quick = settings(max_examples=120, deadline=None, derandomize=True, database=None)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    shape = draw(st.tuples(*[st.integers(1, 12)] * rank))
    return shape, draw(st.tuples(*[st.integers(1, 7)] * rank))


@quick
@given(tilings(), st.booleans())
def test_a_partition_covers_each_element_once(tiling: tuple[tuple[int, ...], tuple[int, ...]], strided: bool) -> None:
    shape, tile = tiling
    whole = tc.zeros(tuple(2 * n for n in shape), dtype=i32)
    part = whole[tuple(slice(0, 2 * n, 2) for n in shape)] if strided else whole[tuple(slice(0, n) for n in shape)]
    BUMPS[len(shape)](part.partition(tile)).sync()
    assert np.array_equal(part.numpy(), np.ones(shape))
    assert whole.numpy().sum() == np.prod(shape)


@quick
@given(tilings(), st.data())
def test_a_mapped_partition_visits_each_tile_once(
    tiling: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    shape, tile = tiling
    z = tc.zeros(shape, dtype=i32)
    p = z.partition(tile)
    bands = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    blocks = data.draw(st.integers(1, int(np.prod(p.tiles))))
    WALKS[len(shape)](p.map(bands, blocks=blocks)).sync()
    assert np.array_equal(z.numpy(), np.ones(shape))


@quick
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.data())
def test_an_owned_axis_belongs_to_one_visit(n: int, m: int, a: int, b: int, data: st.DataObject) -> None:
    z = tc.zeros(n, m, dtype=i32)
    p = z.partition(a, b)
    blocks = data.draw(st.integers(1, p.tiles[0]))
    walk_rows(p.map(data.draw(st.integers(1, 3)), tc.OWNED, blocks=blocks)).sync()
    assert np.array_equal(z.numpy(), np.ones((n, m)))
    cube = tc.zeros(n, m, 3, dtype=i32)
    q = cube.partition(a, b, 2)
    many = data.draw(st.integers(1, q.tiles[1] * q.tiles[2]))
    walk_columns(q.map(tc.OWNED, 1, 1, blocks=many)).sync()
    assert np.array_equal(cube.numpy(), np.ones((n, m, 3)))


@quick
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.data())
def test_a_shared_sub_range_is_visited_once_by_both(n: int, m: int, a: int, b: int, data: st.DataObject) -> None:
    x, y = tc.zeros(n, m, dtype=i32), tc.zeros(n, m, dtype=i32)
    p, q = x.partition(a, b), y.partition(a, b)
    starts = [data.draw(st.integers(0, tiles)) for tiles in p.tiles]
    counts = [data.draw(st.integers(0, tiles - start)) for tiles, start in zip(p.tiles, starts, strict=True)]
    bands = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2)))
    blocks = data.draw(st.integers(1, int(np.prod(p.tiles))))
    given = [number for pair in zip(starts, counts, strict=True) for number in pair]
    walk_range(p.map(bands, blocks=blocks), q.map(bands, blocks=blocks), *given).sync()
    expected = np.zeros((n, m))
    rows, columns = (slice(s * t, (s + c) * t) for s, c, t in zip(starts, counts, (a, b), strict=True))
    expected[rows, columns] = 1
    assert np.array_equal(x.numpy(), expected)
    assert np.array_equal(y.numpy(), 2 * expected)


@quick
@given(tilings(), st.data())
def test_a_prefix_covers_its_grid_and_nothing_else(
    tiling: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    shape, tile = tiling
    z = tc.zeros(shape, dtype=i32)
    p = z.partition(tile)
    grid = tuple(data.draw(st.integers(1, n)) for n in p.tiles)
    BUMPS[len(shape)](p.prefix()).with_grid(grid).sync()
    expected = np.zeros(shape)
    expected[tuple(slice(0, g * t) for g, t in zip(grid, tile, strict=True))] = 1
    assert np.array_equal(z.numpy(), expected)
