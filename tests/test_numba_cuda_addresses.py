"""Address maps of products on an emulated block: copies, fragments, warpgroups, accumulators, bands of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.warp_machine import SHARED_BASE, Machine
from tilecheck.frontend.tile import read_function
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.numba_cuda import blocks, matrix, memory, reduction, swizzle, warpgroup
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Linear, Lines, fits_fragments
from tilecheck_runtime.backends.numba_cuda.registers import I16, I32, I64
from tilecheck_runtime.backends.numba_cuda.swizzle import Fetch, Swizzled

RNG = np.random.default_rng(5)
ARENA = -(-SHARED_BASE // 1024) * 1024


def fetched(machine: Machine, what: Fetch, array: Any, index: Sequence[int], base: int, offset: int) -> None:
    """Run `fetch` for the tile `index` of `array`, which stands at `base` in the machine's memory."""
    rank = array.ndim
    strides = [s // 2 for s in array.strides]

    def build(builder: Any, args: Any) -> Any:
        swizzle.fetch(builder, what, args[0][0], args[1], args[2], args[3], swizzle.arena(builder, args[4][0]))
        return ()

    assert len(index) == rank
    machine.run(build, [[base], list(array.shape), strides, list(index), [offset]])


def tile_of(array: Any, shape: Sequence[int], index: Sequence[int]) -> Any:
    """The tile, zeros outside the array."""
    tile = np.zeros(shape, array.dtype)
    part = array[tuple(slice(i * e, (i + 1) * e) for i, e in zip(index, shape, strict=True))]
    tile[tuple(slice(n) for n in part.shape)] = part
    return tile


def swizzled(form: Swizzled, tile: Any) -> bytes:
    """The bytes of a tile in shared memory, by the hardware's rule: bits 4-6 of an address are changed by bits 7-9."""
    bits = form.chunks.bit_length() - 1
    out = np.zeros(form.panel_bytes * (form.columns // form.panel), np.uint8)
    for row in range(form.rows):
        for column in range(form.columns):
            panel, inner = divmod(column, form.panel)
            linear = panel * form.panel_bytes + row * form.pitch + 2 * inner
            place = linear ^ ((linear >> 7 & (1 << bits) - 1) << 4)
            out[place : place + 2] = np.frombuffer(tile[row, column].tobytes(), np.uint8)
    return out.tobytes()


@pytest.mark.parametrize(
    "rows, columns, threads",
    [(128, 64, 128), (64, 128, 256), (64, 32, 128), (32, 16, 32), (16, 96, 32), (8, 64, 128), (48, 48, 64)],
)
@pytest.mark.parametrize("extents", [(256, 256), (100, 72), (5, 8), (131, 200)])
def test_a_fetch_writes_each_byte_once_and_clips(
    rows: int, columns: int, threads: int, extents: tuple[int, int]
) -> None:
    form = Swizzled.of(rows, columns)
    assert form is not None
    array = RNG.standard_normal(extents).astype(np.float16)
    last = (-(-extents[0] // rows) - 1, -(-extents[1] // columns) - 1)
    for index in {(0, 0), last}:
        machine = Machine(threads, 2 * form.size + 1024, bytes(32) + array.tobytes())
        what = Fetch(form, (rows, columns), (0, 1), (False, False), threads)
        fetched(machine, what, array, index, 32, form.size)
        start = ARENA + form.size
        want = swizzled(form, tile_of(array, (rows, columns), index))
        assert machine.shared[start : start + len(want)].tobytes() == want
        assert machine.written.sum() == len(want)
        assert machine.written.max() == 1


def test_a_fetch_of_a_batch_takes_its_rows_and_columns_from_the_named_axes() -> None:
    array = RNG.standard_normal((3, 40, 64)).astype(np.float16)
    form = Swizzled(16, 64)
    machine = Machine(32, form.size + 1024, array.tobytes())
    fetched(machine, Fetch(form, (1, 16, 64), (1, 2), (False, True), 32), array, (2, 2, 0), 0, 0)
    want = swizzled(form, tile_of(array[2], (16, 64), (2, 0)))
    assert machine.shared[ARENA : ARENA + len(want)].tobytes() == want


SHAPES = [
    ((128, 128, 64), 128, None),
    ((128, 256, 32), 256, None),
    ((64, 64, 16), 128, None),
    ((32, 96, 64), 64, (2, 1)),
    ((64, 128, 32), 128, (4, 1)),
    ((64, 32, 48), 32, (1, 1)),
]


@pytest.mark.parametrize("a_transposed", [False, True], ids=["mk", "km"])
@pytest.mark.parametrize("b_transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("extents, threads, warps", SHAPES, ids=str)
def test_products_read_what_was_fetched(
    extents: tuple[int, int, int],
    threads: int,
    warps: tuple[int, int] | None,
    a_transposed: bool,
    b_transposed: bool,
) -> None:
    m, n, k = extents
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    stored = [np.ascontiguousarray(a.T if a_transposed else a), np.ascontiguousarray(b.T if b_transposed else b)]
    grid = warps or fits_fragments((m, n), threads)
    assert grid is not None
    layout = Fragments((m, n), threads, grid)
    forms = [Swizzled.of(*t.shape) for t in stored]
    assert forms[0] is not None and forms[1] is not None
    share = 16 * layout.pieces[0], 8 * layout.pieces[1]
    assert (not a_transposed or forms[0].takes(share[0])) and (b_transposed or forms[1].takes(share[1]))
    machine = Machine(threads, forms[0].size + forms[1].size + 1024, stored[0].tobytes() + stored[1].tobytes())
    whole = (True, True)
    fetched(machine, Fetch(forms[0], stored[0].shape, (0, 1), whole, threads), stored[0], (0, 0), 0, 0)
    place = forms[0].size
    fetched(machine, Fetch(forms[1], stored[1].shape, (0, 1), whole, threads), stored[1], (0, 0), a.nbytes, place)
    operands = matrix.Operand(None, forms[0], a_transposed), matrix.Operand(None, forms[1], b_transposed)

    def build(builder: Any, args: Any) -> Any:
        return matrix.tensor_mma(builder, "f16", layout, k, (operands[0], args[0]), (operands[1], args[1]), args[2])

    start = RNG.standard_normal((m, n)).astype(np.float32)
    got = machine.run(build, [[0], [place], scattered(layout, start)])
    np.testing.assert_allclose(gathered(layout, got), start + a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("a_transposed", [False, True], ids=["mk", "km"])
@pytest.mark.parametrize("b_transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize(
    "extents", [(64, 64, 64), (128, 96, 32), (128, 128, 16), (64, 256, 128), (64, 16, 48)], ids=str
)
def test_warpgroups_read_what_was_fetched(
    extents: tuple[int, int, int], a_transposed: bool, b_transposed: bool
) -> None:
    m, n, k = extents
    threads = warpgroup.threads_for("f16", (m, n), k)
    assert threads == 2 * m
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    stored = [np.ascontiguousarray(a.T if a_transposed else a), np.ascontiguousarray(b.T if b_transposed else b)]
    layout = Fragments((m, n), threads, (threads // 32, 1))
    forms = [Swizzled.of(*t.shape) for t in stored]
    assert forms[0] is not None and forms[1] is not None
    machine = Machine(threads, forms[0].size + forms[1].size + 1024, stored[0].tobytes() + stored[1].tobytes())
    place = forms[0].size
    whole = (True, True)
    fetched(machine, Fetch(forms[0], stored[0].shape, (0, 1), whole, threads), stored[0], (0, 0), 0, 0)
    fetched(machine, Fetch(forms[1], stored[1].shape, (0, 1), whole, threads), stored[1], (0, 0), a.nbytes, place)
    operands = matrix.Operand(None, forms[0], a_transposed), matrix.Operand(None, forms[1], b_transposed)

    def build(builder: Any, args: Any) -> Any:
        left, right = (operands[0], args[0]), (operands[1], args[1])
        return warpgroup.finish(builder, warpgroup.issue(builder, "f16", layout, k, left, right, args[2]))

    start = RNG.standard_normal((m, n)).astype(np.float32)
    got = machine.run(build, [[0], [place], scattered(layout, start)])
    np.testing.assert_allclose(gathered(layout, got), start + a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)


def test_a_product_takes_one_operand_from_registers() -> None:
    m, n, k, threads = 64, 64, 32, 128
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    layout = Fragments((m, n), threads, (2, 2))
    held = Linear((m, k), threads, 8)
    form = Swizzled(k, n)
    arena = -(-matrix.shared_bytes("f16", m, k) // 1024) * 1024
    machine = Machine(threads, arena + form.size + 1024, b.tobytes())
    fetched(machine, Fetch(form, (k, n), (0, 1), (True, True), threads), b, (0, 0), 0, arena)
    bits = scattered(held, a.view(np.int16).astype(np.int64))

    def build(builder: Any, args: Any) -> Any:
        values = [builder.trunc(v, I16) for v in args[0]]
        left, right = (matrix.Operand(held), values), (matrix.Operand(None, form), args[1])
        return matrix.tensor_mma(builder, "f16", layout, k, left, right, args[2])

    start = np.zeros((m, n), np.float32)
    got = machine.run(build, [bits, [arena], scattered(layout, start)])
    np.testing.assert_allclose(gathered(layout, got), a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("groups", [False, True], ids=["warps", "warpgroups"])
@pytest.mark.parametrize("b_transposed", [False, True], ids=["kn", "nk"])
def test_a_computed_left_operand_is_there_already(groups: bool, b_transposed: bool) -> None:
    m, n, k, threads = 128, 32, 48, 256
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    layout, own = Fragments((m, n), threads, (8, 1)), Fragments((m, k), threads, (8, 1))
    stored = np.ascontiguousarray(b.T) if b_transposed else b
    form = Swizzled(*stored.shape)
    machine = Machine(threads, form.size + 1024, stored.tobytes())
    fetched(machine, Fetch(form, stored.shape, (0, 1), (True, True), threads), stored, (0, 0), 0, 0)
    left, right = matrix.Operand(own, ready=True), matrix.Operand(None, form, b_transposed)

    def build(builder: Any, args: Any) -> Any:
        values = [builder.trunc(v, I16) for v in args[0]]
        if groups:
            begun = warpgroup.issue(builder, "f16", layout, k, (left, values), (right, args[1]), args[2])
            return warpgroup.finish(builder, begun)
        return matrix.tensor_mma(builder, "f16", layout, k, (left, values), (right, args[1]), args[2])

    start = RNG.standard_normal((m, n)).astype(np.float32)
    got = machine.run(build, [scattered(own, a.view(np.int16).astype(np.int64)), [0], scattered(layout, start)])
    np.testing.assert_allclose(gathered(layout, got), start + a.astype(float) @ b.astype(float), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("warps", [(2, 1), (1, 2), (2, 2)])
def test_rows_fold_in_place_and_spread_without_a_move(warps: tuple[int, int]) -> None:
    threads = 32 * warps[0] * warps[1]
    layout, lines = Fragments((64, 48), threads, warps), Lines((64, 1), threads, warps)
    tile = RNG.integers(-99, 99, (64, 48)).astype(np.float32)
    fold = reduction.Fold(("f32",), (), lambda b, x, y: [b.fadd(x[0], y[0])])

    def build(builder: Any, args: Any) -> Any:
        return reduction.reduce_rows(builder, fold, layout, lines, args[0], reduction.Site("fold", True))

    totals = Machine(threads, 1024, b"").run(build, [scattered(layout, tile)])
    spread = [totals[lines.slot_of(layout, slot)] for slot in range(layout.registers)]
    want = np.broadcast_to(tile.sum(axis=1, keepdims=True), tile.shape)
    np.testing.assert_array_equal(gathered(layout, spread), want)


@pytest.mark.parametrize("warps", [(2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("shape", [(64, 1), (1, 96)])
def test_lines_stand_beside_the_accumulator(shape: tuple[int, int], warps: tuple[int, int]) -> None:
    threads = 32 * warps[0] * warps[1]
    layout, lines = Fragments((64, 96), threads, warps), Lines(shape, threads, warps)
    assert lines.beside(layout)
    own, theirs = places(lines), places(layout)
    axis = 0 if shape[1] == 1 else 1
    for slot in range(layout.registers):
        np.testing.assert_array_equal(own[lines.slot_of(layout, slot)][axis], theirs[slot][axis])

    def build(builder: Any, args: Any) -> Any:
        return [builder.zext(lines.first(builder), I64)]

    (first,) = Machine(threads, 0, b"").run(build, [])
    held = own[:, axis][:, first != 0]
    assert sorted(held.ravel().tolist()) == list(range(max(shape)))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("extents", [(64, 96), (61, 95), (17, 48)])
@pytest.mark.parametrize("vectors", [True, False])
def test_an_accumulator_is_stored_where_it_belongs(dtype: str, extents: tuple[int, int], vectors: bool) -> None:
    layout = Fragments((32, 48), 64, (2, 1))
    kind = {"f32": np.float32, "f16": np.int16}[dtype]
    pitch = 96
    form = memory.Global(dtype, layout, extents == (64, 96), vectors, False)
    tile = RNG.integers(-1000, 1000, (32, 48)).astype(kind)
    registers = scattered(layout, tile.astype(np.float32 if dtype == "f32" else np.int64))

    def build(builder: Any, args: Any) -> Any:
        base, shape, strides, index, values = args
        if dtype == "f16":
            values = [builder.trunc(v, I16) for v in values]
        memory.store_tile(builder, form, base[0], shape, strides, index, values)
        return ()

    machine = Machine(64, 0, bytes(extents[0] * pitch * np.dtype(kind).itemsize))
    machine.run(build, [[0], list(extents), [pitch, 1], [0, 1], registers])
    want = np.zeros((extents[0], pitch), kind)
    part = want[:32, 48 : extents[1]]
    part[:] = tile[: part.shape[0], : part.shape[1]]
    np.testing.assert_array_equal(machine.memory.view(kind).reshape(want.shape), want)


def places(layout: Fragments | Linear | Lines) -> Any:
    """Row and column of every register of every thread: (registers, 2, threads)."""

    def build(builder: Any, args: Any) -> Any:
        found = [layout.coordinates(builder, slot)[0] for slot in range(layout.registers)]
        return [builder.zext(value, I64) for at in found for value in at]

    flat = Machine(layout.threads, 0, b"").run(build, [])
    return np.array(flat).reshape(layout.registers, 2, layout.threads)


def scattered(layout: Fragments | Linear | Lines, tile: Any) -> list[Any]:
    return [tile[row, column] for row, column in places(layout)]


def gathered(layout: Fragments, registers: Sequence[Any]) -> Any:
    tile = np.full(layout.shape, np.nan)
    for (row, column), values in zip(places(layout), registers, strict=True):
        tile[row, column] = values
    return tile


@pytest.mark.parametrize("grid", [(1, 1, 1), (16, 16, 1), (33, 5, 1), (7, 40, 3), (3, 20, 17), (132, 1, 1)], ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_bands_take_every_tile_once(grid: tuple[int, int, int], rank: int, descending: bool) -> None:
    count = grid[0] * grid[1] * grid[2]

    def build(builder: Any, args: Any) -> Any:
        block, *extents = (builder.trunc(a, I32) for a in args[0])
        return [builder.zext(part, I64) for part in blocks.banded(builder, block, extents, rank, descending)]

    ids = Machine(count, 0, b"").run(build, [[np.arange(count), *grid]])
    assert set(zip(*(axis.tolist() for axis in ids), strict=True)) == set(np.ndindex(*grid))


def test_blocks_that_run_together_form_a_square() -> None:
    def build(builder: Any, args: Any) -> Any:
        block, *extents = (builder.trunc(a, I32) for a in args[0])
        return [builder.zext(part, I64) for part in blocks.banded(builder, block, extents, 2, descending=False)]

    rows, columns, _ = Machine(256, 0, b"").run(build, [[np.arange(256), 64, 64, 1]])
    assert len(set(rows.tolist())) == len(set(columns.tolist())) == 16


def test_blocks_with_long_loops_come_first() -> None:
    assert blocks.uneven(read_function(library.attention.fn).body)
    assert not blocks.uneven(read_function(library.gemm.fn).body)

    def build(builder: Any, args: Any) -> Any:
        block, *extents = (builder.trunc(a, I32) for a in args[0])
        return [builder.zext(part, I64) for part in blocks.banded(builder, block, extents, 3, descending=True)]

    heads, rows, _ = Machine(64, 0, b"").run(build, [[np.arange(64), 4, 16, 1]])
    assert rows.tolist() == list(range(15, -1, -1)) * 4
    assert heads.tolist() == sorted(heads.tolist())


@pytest.mark.parametrize("vector", [8, 2])
@pytest.mark.parametrize("rows, columns", [(32, 128), (16, 48)])
def test_what_is_taken_is_what_was_fetched(rows: int, columns: int, vector: int) -> None:
    form, layout = Swizzled(rows, columns), Linear((1, rows, columns), 64, vector)
    array = RNG.integers(0, 30000, (rows, columns)).astype(np.int16)
    machine = Machine(64, form.size + 1024, array.tobytes())
    fetched(machine, Fetch(form, (rows, columns), (0, 1), (True, True), 64), array, (0, 0), 0, 0)

    def build(builder: Any, args: Any) -> Any:
        return swizzle.take(builder, form, layout, (1, 2), swizzle.arena(builder, args[0][0]))

    got = machine.run(build, [[0]])

    def order(builder: Any, args: Any) -> Any:
        found = [layout.coordinates(builder, slot) for slot in range(layout.registers)]
        return [builder.zext(v, I64) for at, _ in found for v in at]

    places = np.array(Machine(64, 0, b"").run(order, [])).reshape(layout.registers, 3, 64)
    for (outside, row, column), values in zip(places, got, strict=True):
        inside = outside == 0
        np.testing.assert_array_equal(values[inside], array[row[inside], column[inside]])
