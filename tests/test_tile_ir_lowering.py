"""The Tile IR lowering: readable cuTile text, refusals by name, and binaries where `cuda-tile` is installed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tilecheck as tc
from tests.library_reports import checked_for
from tests.op_case import Case
from tests.op_kernels import CASES
from tests.test_numba_cuda_lowering import ELSEWHERE, kernels, report_of
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32
from tilecheck.frontend.tile import read_function
from tilecheck.ir.compilers import preference
from tilecheck.ops.row import OPS
from tilecheck.verify.tile import check_kernel
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.tile_ir import functions
from tilecheck_runtime.backends.tile_ir.lower import lower
from tilecheck_runtime.backends.tile_ir.rows import SPECIAL
from tilecheck_runtime.backends.tile_ir.words import CALLS, INFIX, MATH, NoLowering

__all__ = ["kernels"]


class D32(tc.Dim, size=32): ...


class D48(tc.Dim, size=48): ...


class D64(tc.Dim, size=64): ...


class D128(tc.Dim, size=128): ...


def case(name: str) -> Case:
    (found,) = [c for c in CASES if c.name == name]
    return found


def test_every_row_lowers() -> None:
    assert set(INFIX) | set(CALLS) | set(MATH) | set(SPECIAL) | functions.ROWS | ELSEWHERE == set(OPS)


# cuTile has no fused multiply-add, and so none that rounds as asked.
ASKED_FMA = [case for case in CASES if case.op == "fma" and "=" in case.body.partition("tc.fma")[2]]


# Nor tiles of other extents than powers of two in arithmetic; what loads pad with is a zero, an infinity or a nan.
OTHER_PADS = re.compile(r"pad=(True|-?[1-9])")


def beyond_cutile(case: Case) -> str | None:
    """Why Tile IR refuses a case, as a pattern."""
    odd = [str(extent) for extent in case.tile if extent & (extent - 1)]
    pad = OTHER_PADS.search(case.body) if case.op != "gather" else None
    if odd:
        return f"a tile extent of ({'|'.join(odd)}), which is no power of two"
    return None if pad is None else f"a padding of {pad[1]}"


@pytest.mark.parametrize("case", [c for c in CASES if c not in ASKED_FMA], ids=lambda case: case.name)
def test_every_case_has_a_text_or_is_refused_by_name(kernels: ModuleType, case: Case) -> None:
    report, reason = report_of(kernels, case), beyond_cutile(case)
    if reason is None:
        assert lower(report).source.count("def ") >= 1
    else:
        with pytest.raises(NoLowering, match=reason):
            lower(report)


def test_what_cutile_has_not_is_refused_by_name() -> None:
    @tc.kernel
    def wide(z: tc.Tensor[tc.Mut, tc.f32, D48]) -> None:
        z.store(z.load() + 1.0)

    @tc.kernel
    def crossed(z: tc.Tensor[tc.Mut, tc.f32, D128], x: tc.Tensor[tc.Shared, tc.f32, tc.Dyn]) -> None:
        long, short = x.partition(D64, pad=0)[0], x.partition(D32, pad=0)[0]
        z.store(tc.concat((short, long, short)))

    for kernel, words in (
        (wide, "a tile extent of 48, which is no power of two"),
        (crossed, "`concat` of tiles of 32, 64, 32 along axis 0"),
    ):
        with pytest.raises(NoLowering, match=words):
            lower(check_kernel(read_function(kernel.fn)))


def test_tiles_of_two_lengths_are_joined_where_every_step_is_a_power_of_two() -> None:
    @tc.kernel
    def ends(z: tc.Tensor[tc.Mut, tc.f32, D128], x: tc.Tensor[tc.Shared, tc.f32, tc.Dyn]) -> None:
        long, short = x.partition(D64, pad=0)[0], x.partition(D32, pad=0)[0]
        z.store(tc.concat((long, short, short)))

    assert "ct.cat((long, ct.cat((short, short), 0)), 0)" in lower(check_kernel(read_function(ends.fn))).source


def test_print_shows_texts_numbers_and_tiles() -> None:
    @tc.kernel
    def says(z: tc.Tensor[tc.Mut, tc.f16, D64]) -> None:
        tc.print("block", tc.block_id(0), D64, z.load(), z.load() > 0)

    text = lower(check_kernel(read_function(says.fn))).source
    tile = "ct.load(z, (ct.bid(0), ), (64,))"
    assert f"ct.print('block', ct.bid(0), '64', ct.astype({tile}, ct.float32), ct.astype(({tile} > " in text


def test_roundings_are_cutiles_own_and_fma_has_none(kernels: ModuleType) -> None:
    text = lower(report_of(kernels, case("divide_f64_zero"))).source
    assert "ct.truediv(a, b, rounding_mode=ct.RoundingMode.RZ, flush_to_zero=False)" in text
    for case_of_fma in ASKED_FMA:
        with pytest.raises(NoLowering, match=r"`fma` with `(rounding|flush_to_zero)`"):
            lower(report_of(kernels, case_of_fma))


def test_the_text_is_the_kernel(kernels: ModuleType) -> None:
    text = lower(report_of(kernels, case("mma_f16"))).source
    assert text.splitlines()[0] == "def mma_f16(z, x, y):"
    assert "acc = ct.mma(ct.load(x, (b0__, k, ), (64, 32)), ct.load(y, (k, b1__, ), (32, 32)), acc)" in text
    assert "ct.store(z, (b0__, b1__, ), acc)" in text


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel(requires="x.shape[1] == y.shape[0]")
def product_that_asserts(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[tc.block_id(0), k], ys[k, tc.block_id(1)], acc)
    tc.device_assert(tc.sum(acc) < 1e30)
    z.store(acc)


def placed(
    kernel: Any, grid: tuple[int, int], blocks: Sequence[tuple[int, int]], launched: tuple[int, int]
) -> list[Any]:
    """The tiles that these of the `launched` blocks compute, in order, for an output of `grid` tiles."""
    lines = lower(checked_for(kernel, {"BM": 16, "BN": 16, "BK": 16}, "f16")).source.splitlines()
    start = next(n for n, line in enumerate(lines) if "rows__" in line)
    end = next(n for n, line in enumerate(lines) if "b0__ =" in line)
    found: list[Any] = []
    note = re.sub(r"\S.*", "found.append((b0__, b1__))", lines[end])
    for at in blocks:
        ct = SimpleNamespace(bid=at.__getitem__, num_blocks=launched.__getitem__, cdiv=lambda n, tile: -(-n // tile))
        z = SimpleNamespace(shape=[16 * n for n in grid])
        exec(textwrap.dedent("\n".join([*lines[start : end + 1], note])), {"ct": ct, "z": z, "found": found})
    return found


@pytest.mark.parametrize("grid", [(1, 1), (5, 3), (16, 4), (19, 7), (1, 9), (9, 1)], ids=str)
def test_blocks_of_a_product_share_out_the_tiles_in_bands(grid: tuple[int, int]) -> None:
    rows, columns = grid
    blocks = [(i, j) for j in range(columns) for i in range(rows)]
    found = placed(product_that_asserts, grid, blocks, grid)
    assert sorted(found) == sorted(blocks)
    assert {i for i, _ in found[: 8 * columns]} == set(range(min(rows, 8)))


@pytest.mark.parametrize("grid", [(1, 1), (5, 3), (19, 7), (1, 9)], ids=str)
@pytest.mark.parametrize("blocks", [1, 4, 200])
def test_blocks_of_a_product_walk_over_the_tiles_in_bands(grid: tuple[int, int], blocks: int) -> None:
    rows, columns = grid
    found = placed(library.gemm, grid, [(i, 0) for i in range(blocks)], (blocks, 1))
    assert sorted(found) == [(i, j) for i in range(rows) for j in range(columns)]
    if blocks == 1:
        assert {i for i, _ in found[: 8 * columns]} == set(range(min(rows, 8)))


def test_a_padded_load_reads_its_padding(kernels: ModuleType) -> None:
    assert "(8, 64), padding_mode=ct.PaddingMode.NEG_INF)" in lower(report_of(kernels, case("max_padded_f32"))).source


def test_scalars_take_the_dtype_of_the_tile_they_meet(kernels: ModuleType) -> None:
    text = lower(report_of(kernels, case("full_block"))).source
    assert "ct.astype(ct.bid(0), ct.int32)" in text


def test_a_check_notes_its_line_and_turns_stores_off(kernels: ModuleType) -> None:
    lowered = lower(report_of(kernels, case("gather_f32")))
    assert lowered.checks
    assert lowered.parameters[-1] == "fault"
    assert "ct.atomic_max(fault, 0," in lowered.source
    assert "if ok:" in lowered.source


def test_products_go_to_tile_ir_by_default(kernels: ModuleType) -> None:
    reports = [report_of(kernels, case(name)) for name in ("mma_f16", "add_f32")]
    product, sums = (preference(report.kernel, report.types) for report in reports)
    assert (product.compiler, product.asked) == ("tile-ir", False)
    assert re.fullmatch(
        r"tile-ir where it is installed, else numba-cuda: it multiplies matrices \(line \d+\)", str(product)
    )
    assert str(sums) == "numba-cuda: it multiplies no matrices"
