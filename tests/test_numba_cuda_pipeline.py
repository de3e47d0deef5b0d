"""Loads that run ahead: the text and PTX of pipelined loops."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

import tilecheck as tc
from tests.library_reports import checked_for
from tests.test_numba_cuda_lowering import compiled
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32
from tilecheck.ir.kernel import TensorParam
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.numba_cuda.compile import CompileFailed, compile_ptx, unspilled
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts


class BM(Dim): ...


class BN(Dim): ...


class BK(Dim): ...


@tc.kernel(requires="z.shape[1] >= y.shape[1]")
def scores_of_a_scaled_tile(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, BK], y: Tensor[Shared, f16, BK, Dyn]
) -> None:
    rows = x.partition(BM, BK, pad=0)[tc.block_id(0), 0] * 2
    ys = y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for j in range(ys.num_tiles(1)):
        acc = tc.maximum(acc, tc.mma(rows, ys[0, j], tc.zeros(BM, BN, dtype=f32)))
    z.store(acc)


@tc.kernel(requires="z.shape[1] >= y.shape[1]")
def scores_of_a_tile_stored_too(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, BK], y: Tensor[Shared, f16, BK, Dyn]
) -> None:
    rows = x.partition(BM, BK, pad=0)[tc.block_id(0), 0]
    ys = y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32) + tc.sum(rows.astype(f32))
    for j in range(ys.num_tiles(1)):
        acc = tc.maximum(acc, tc.mma(rows, ys[0, j], tc.zeros(BM, BN, dtype=f32)))
    z.store(acc)


def source_of(kernel: Any, sizes: dict[str, int], divisor: int = 4096, **more: Any) -> Lowered:
    report = checked_for(kernel, sizes, "f16")
    assert [f.message for f in report.faults if f.rule != "partial-coverage"] == []
    facts: dict[str, Facts] = {}
    maps: dict[str, tuple[int, ...]] = {}
    for param in report.kernel.params:
        if isinstance(param, TensorParam):
            rank = len(param.extents or ())
            facts[param.name] = Facts(param.dtype or "f32", rank, True, more.get("aligned", True), (divisor,) * rank)
            if param.access == "Mapped":
                maps[param.name] = (8, 1)
    return lower(
        report, facts, maps=maps, capability=more.get("capability", (8, 0)), warpgroups=more.get("warpgroups", False)
    )


def ptx_of(code: Lowered, capability: tuple[int, int]) -> str:
    ptx, _ = compile_ptx(
        code.name,
        code.source,
        code.namespace,
        code.formats,
        code.threads,
        capability,
        blocks_per_multiprocessor=code.resident,
        accelerated=code.accelerated,
    )
    return ptx


def in_loop(source: str) -> list[str]:
    """The lines of the last loop."""
    lines = source.splitlines()
    start = max(i for i, line in enumerate(lines) if line.lstrip().startswith(("for ", "while ")))
    return [line.strip() for line in lines[start:]]


GEMM = {"BM": 128, "BN": 128, "BK": 64}


@pytest.mark.parametrize("capability, stages, resident", [((8, 0), 4, 1), ((8, 6), 3, 1), ((9, 0), 3, 2)], ids=str)
def test_as_many_stages_as_shared_memory_holds(capability: tuple[int, int], stages: int, resident: int) -> None:
    code = source_of(library.gemm, GEMM, capability=capability)
    assert code.source.count("fetch_0(") == code.source.count("fetch_1(") == 2
    assert f"for _fill in range({stages - 1}):" in code.source
    assert "load_f16" not in code.source
    assert code.shared == 1024 + stages * 2 * 128 * 64 * 2
    assert code.resident == resident


def test_no_stage_fits_and_the_loads_stay() -> None:
    code = source_of(library.gemm, {"BM": 128, "BN": 256, "BK": 128}, capability=(8, 6))
    assert "fetch" not in code.source
    assert "load_f16" in code.source


@pytest.mark.parametrize("reason", ["an old device", "unaligned rows"])
def test_what_cp_async_cannot_copy_is_loaded_as_before(reason: str) -> None:
    more: dict[str, Any] = {"capability": (7, 5)} if reason == "an old device" else {"aligned": False}
    code = source_of(library.gemm, GEMM, **more)
    assert "fetch" not in code.source
    assert code.source.count("load_f16") == 2


@compiled
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
def test_a_matrix_product_is_copied_by_16_bytes_with_one_barrier_a_round(capability: tuple[int, int]) -> None:
    code = source_of(library.gemm, GEMM, capability=capability)
    ptx = ptx_of(code, capability)
    copies, waits = re.findall(r"cp\.async\.cg\S* \[\S+\], \[\S+\], 16(, \S+)?;", ptx), 4 if capability < (9, 0) else 3
    assert len(copies) >= 16 + 16 and len(copies) % 16 == 0
    assert set(copies) == {""}
    assert f"cp.async.wait_group {waits - 2};" in ptx
    assert ptx.count("bar.sync") + ptx.count("barrier.sync") == 2
    assert "ld.global" not in ptx


@compiled
@pytest.mark.parametrize("columns, end", [(128, ["finish_0", "leave_0"]), (256, ["settle_0", "finish_0", "leave_0"])])
def test_hopper_multiplies_by_warpgroups_while_copies_start(columns: int, end: list[str]) -> None:
    sizes = {"BM": 128, "BN": columns, "BK": 64}
    code = source_of(library.gemm, sizes, capability=(9, 0), warpgroups=True)
    lines = [line for line in in_loop(code.source) if "(" in line and not line.startswith(("for ", "fill", "full"))]
    order = [line.split("(")[0].split(" = ")[-1] for line in lines]
    assert order == ["arrive_0", "wgmma_0", "fetch_0", "fetch_1", "commit_0", *end, "store_f32_0"]
    assert code.threads == 256
    ptx = ptx_of(code, (9, 0))
    assert ".target sm_90a" in ptx
    assert ptx.count("wgmma.mma_async") == sizes["BK"] // 16
    assert ptx.count("fence.proxy.async") == 2
    assert "ldmatrix" not in ptx


def test_an_accumulator_that_the_loop_reads_is_complete_in_its_own_round() -> None:
    sizes = {"BM": 128, "BN": 64, "BK": 64}
    plain = source_of(library.gemm, sizes, capability=(9, 0), warpgroups=True)
    scaled = source_of(halved_each_round, sizes, capability=(9, 0), warpgroups=True)
    assert "settle" in plain.source and "acc = finish_0(acc)" in plain.source
    assert "settle" not in scaled.source
    assert in_loop(scaled.source).index("t_2 = finish_0(t_1)") < in_loop(scaled.source).index("acc = t_3")


@pytest.mark.parametrize("warpgroups", [False, True])
def test_attention_keeps_scores_and_weights_in_registers(warpgroups: bool) -> None:
    sizes = {"BM": 128, "BN": 64, "D": 128}
    code = source_of(library.attention, sizes, capability=(9, 0), warpgroups=warpgroups)
    assert code.accelerated == warpgroups
    start = code.source.index("for j in")
    steps = code.source[start : code.source.index("leave", start)]
    assert len(re.findall(r"fetch_\d\(k,", steps)) == len(re.findall(r"fetch_\d\(v,", steps)) == 1
    # Nothing but the copies goes by way of shared memory.
    assert not any(word in steps for word in ("load_f16", "move", "permute", "reshape"))
    products = re.findall(r"\b(?:mma|wgmma)_\d\(([\w()]+), full_0", steps)
    assert products[0] == ("int64(place_0)" if warpgroups else "queries")
    assert len(products) == 2


def test_what_no_round_changes_stands_behind_the_ring() -> None:
    sizes = {"BM": 128, "BN": 128, "D": 128}
    code = source_of(library.attention, sizes, capability=(9, 0), warpgroups=True)
    ring, place = code.namespace["ring_1"], code.namespace["place_0"]
    assert isinstance(ring, int) and isinstance(place, int)
    tile = 128 * 128 * 2
    assert ring + 3 * 2 * tile <= place
    assert place + tile + 1024 <= code.shared <= 227 * 1024


@pytest.mark.parametrize("kernel", [scores_of_a_scaled_tile, scores_of_a_tile_stored_too])
def test_registers_that_no_round_changes_are_no_operand_of_warpgroups(kernel: Any) -> None:
    code = source_of(kernel, {"BM": 64, "BN": 32, "BK": 32}, capability=(9, 0), warpgroups=True)
    assert not code.accelerated
    assert "place" not in code.source
    assert "fetch_0(y," in code.source


@pytest.mark.parametrize("sizes", [{"BM": 32, "BN": 128, "BK": 64}, {"BM": 64, "BN": 512, "BK": 32}], ids=str)
def test_tiles_that_suit_no_warpgroup_go_to_warps(sizes: dict[str, int]) -> None:
    code = source_of(library.gemm, sizes, capability=(9, 0), warpgroups=True)
    assert not code.accelerated
    assert "mma_0(" in code.source
    assert "fetch_0(" in code.source


@compiled
def test_ragged_edges_are_filled_with_zeros() -> None:
    ptx = ptx_of(source_of(library.gemm, GEMM, divisor=8), (8, 0))
    sizes = re.findall(r"cp\.async\.cg\S* \[\S+\], \[\S+\], 16(, \S+)?;", ptx)
    assert sizes
    assert "" not in sizes


def test_a_later_round_is_spelled_with_its_own_index() -> None:
    lines = in_loop(source_of(library.gemm, GEMM).source)
    fetches = [line for line in lines if line.startswith("fetch")]
    assert len(fetches) == 2
    assert all("int64(ahead_0)" in line and "int64(k)" not in line for line in fetches)


@tc.kernel
def transposed_and_named(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    xs, ys = x.partition(BM, BK, permute=(1, 0), pad=0), y.partition(BN, BK, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(ys.num_tiles(1)):
        left = tc.permute_dims(xs[tc.block_id(0), k], (0, 1))
        right = tc.transpose(ys[tc.block_id(1), k])
        acc = tc.mma(left, right, acc)
    z.store(acc)


@tc.kernel
def read_twice(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        left = xs[tc.block_id(0), k]
        acc = tc.mma(left, ys[k, tc.block_id(1)], acc) + tc.sum(left.astype(f32))
    z.store(acc)


@tc.kernel
def halved_each_round(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[tc.block_id(0), k], ys[k, tc.block_id(1)], acc) * 0.5
    z.store(acc)


@tc.kernel
def steps_by_a_load(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]
) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    at = 0
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[tc.block_id(0), k], ys[at, tc.block_id(1)], acc)
        at = k + 1
    z.store(acc)


@tc.kernel
def left_early(
    z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn], most: int
) -> None:
    xs, ys = x.partition(BM, BK, pad=0), y.partition(BK, BN, pad=0)
    acc = tc.zeros(BM, BN, dtype=f32)
    for k in range(xs.num_tiles(1)):
        if k == most:
            break
        acc = tc.mma(xs[tc.block_id(0), k], ys[k, tc.block_id(1)], acc)
    z.store(acc)


def test_transposes_and_variables_rename_what_runs_ahead() -> None:
    code = source_of(transposed_and_named, GEMM)
    assert code.source.count("fetch_") == 4
    assert not any(word in code.source for word in ("load_f16", "permute", "left", "right"))


def test_a_load_that_others_read_comes_back_to_registers() -> None:
    code = source_of(read_twice, GEMM)
    assert "load_f16" not in code.source
    assert code.source.count("take_0(") == 1
    assert "(x," in code.source and "(y," in code.source


def test_an_index_of_the_last_round_does_not_run_ahead() -> None:
    code = source_of(steps_by_a_load, GEMM)
    assert "fetch_0(x," in code.source
    assert "load_f16_0(y," in code.source
    # The check that stays in place comes with the load.
    assert "fault_0(" in code.source


def test_a_loop_that_may_end_early_runs_nothing_ahead() -> None:
    assert "fetch" not in source_of(left_early, GEMM).source


DEFAULTS = [
    (library.gemm, GEMM),
    (library.gemm, {"BM": 128, "BN": 256, "BK": 64}),
    (library.persistent_gemm, GEMM),
    (library.attention, {"BM": 128, "BN": 64, "D": 128}),
]


@compiled
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a"])
@pytest.mark.parametrize(
    "kernel, sizes", DEFAULTS, ids=lambda value: getattr(getattr(value, "fn", None), "__name__", "")
)
def test_products_neither_spill_nor_run_one_after_another(kernel: Any, sizes: dict[str, int], target: str) -> None:
    capability = (int(target[3]), int(target[4]))
    code = source_of(kernel, sizes, 8, capability=capability, warpgroups=target == "sm_90a")
    cuda = import_module("cuda.core")
    program = cuda.ObjectCode.from_ptx(ptx_of(code, capability).encode())
    linker = cuda.Linker(program, options=cuda.LinkerOptions(arch=target, ptxas_options="-v"))
    linker.link("cubin")
    said = linker.get_info_log()
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "wgmma" not in said, "the assembler says that it waits for each product"


@compiled
def test_tiles_that_take_more_registers_than_there_are_are_refused() -> None:
    code = source_of(library.gemm, {"BM": 256, "BN": 256, "BK": 64}, capability=(9, 0), warpgroups=True)
    with pytest.raises(CompileFailed, match=r"needs \d+ registers a thread, a block of so many threads leaves 128"):
        unspilled(ptx_of(code, (9, 0)), (9, 0), accelerated=True)
