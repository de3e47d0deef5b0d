"""Rows that are reduced: what a block keeps in registers over a reduction, and what it fetches for blocks after it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.library_reports import checked_for
from tests.test_numba_cuda_lowering import compiled
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.numba_cuda.compile import compile_ptx, unspilled
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts


def on_rows(kernel: Any, dtype: str, width: int, rows: int = 1, capability: tuple[int, int] = (9, 0)) -> Lowered:
    report = checked_for(kernel, {"BM": rows, "BN": width, "N": width}, dtype)
    shapes = {"z": (4096, width), "x": (4096, width), "w": (width,), "b": (width,)}
    named = [p.name for p in report.kernel.params if p.name in shapes]
    facts = {n: Facts.of(dtype, 256, shapes[n], (*shapes[n][1:], 1)) for n in named}
    return lower(report, facts, capability=capability)


def test_a_long_row_of_short_elements_is_converted_again_after_each_reduction() -> None:
    for dtype in ("f16", "bf16"):
        assert on_rows(library.layer_norm, dtype, 16384).source.count("again_0(t_0)") == 2
        assert on_rows(library.rms_norm, dtype, 16384).source.count("again_0(t_0)") == 1


def test_what_is_short_or_wide_is_kept() -> None:
    assert "again" not in on_rows(library.layer_norm, "f32", 16384).source
    assert "again" not in on_rows(library.layer_norm, "f16", 512).source


@compiled
def test_up_to_four_blocks_of_a_long_row_stand_on_a_multiprocessor() -> None:
    code = on_rows(library.layer_norm, "f16", 16384)
    ptx, _ = compile_ptx(
        code.name, code.source, code.namespace, code.formats, code.threads, (9, 0),
        blocks_per_multiprocessor=code.resident,
    )  # fmt: skip
    for blocks in (code.resident, 4):
        _, used = unspilled(re.sub(r"minnctapersm \d+", f"minnctapersm {blocks}", ptx), (9, 0))
        assert (code.threads, used.spilled) == (256, 0)
        assert used.registers * code.threads * blocks <= 65536


@compiled
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_a_block_names_the_row_that_comes_one_wave_later(dtype: str) -> None:
    code = on_rows(library.softmax, dtype, 16384)
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    size = 16384 * {"f16": 2, "f32": 4}[dtype]
    assert ptx.count("cp.async.bulk.prefetch.L2.global") == 1
    assert f"], {size};" in ptx


def test_nothing_is_fetched_for_short_rows_or_by_older_architectures() -> None:
    assert "fetch" not in on_rows(library.softmax, "f16", 4096).source
    assert "fetch" not in on_rows(library.softmax, "f16", 16384, capability=(8, 0)).source
    assert "fetch" not in on_rows(library.softmax, "f16", 12000, rows=3).source


@compiled
def test_a_row_of_one_tile_is_summed_without_a_loop() -> None:
    report = checked_for(library.row_sum, {"BM": 1, "BN": 1024}, "f16")
    facts = {"z": Facts.of("f32", 256, (64, 1), (1, 1)), "x": Facts.of("f16", 256, (64, 1024), (1024, 1))}
    branches = []
    for single in ((), ((1, 1024),)):
        code = lower(report, facts | {"x": replace(facts["x"], single=single)}, capability=(9, 0))
        ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
        before = ptx[: ptx.index("ld.global")]
        branches.append(len(re.findall(r"^\s+@?%?p?\d*\s*bra", before, re.MULTILINE)))
    assert branches[0] > branches[1] == 0
    # Each thread adds up its own elements, and what a sum starts from is left out.
    assert ptx[: ptx.index("shfl")].count("add.f32") == 1024 // code.threads - 1
