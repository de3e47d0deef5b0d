"""The numba-cuda lowering without a GPU: every row has one, and what it generates compiles."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.library_reports import checked_for
from tests.op_case import Case
from tests.op_kernels import CASES, module_text
from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_function, read_kernels
from tilecheck.ir.kernel import TensorParam
from tilecheck.ops.row import OPS
from tilecheck.verify.tile import TileReport, check_kernel
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends import faults
from tilecheck_runtime.backends.numba_cuda.compile import compile_ptx, link
from tilecheck_runtime.backends.numba_cuda.elementwise import ELEMENTWISE
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.backends.numba_cuda.table import TILE_OPS
from tilecheck_runtime.errors import LaunchRefused, UsageError

# Rows that are no tile-valued op: memory, indices, scalars and what has an effect alone.
ELSEWHERE = {
    *("load", "store", "load_tile", "load_like", "partition", "tiles", "num_tiles"),
    *("indices", "indices_with", "at", "block_id", "num_blocks"),
    *("item", "int", "float", "bool", "print", "device_assert"),
}


def has_compiler() -> bool:
    """Whether numba-cuda finds NVVM; without it code is generated and not compiled."""
    try:
        import_module("numba.cuda.cudadrv.nvvm").NVVM()
    except Exception:  # the library raises kinds of its own for each thing that can be missing
        return False
    return True


compiled = pytest.mark.skipif(not has_compiler(), reason="numba-cuda has no NVVM here")


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path: Path = tmp_path_factory.mktemp("ops") / "op_kernels_generated.py"
    path.write_text(module_text())
    spec = importlib.util.spec_from_file_location("op_kernels_generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def report_of(kernels: ModuleType, case: Case) -> TileReport:
    kernel = read_function(getattr(kernels, case.name).fn)
    dims = {key: case.sizes[decl.name] for key, decl in kernel.dims.items() if decl.size is None}
    report = check_kernel(kernel, dims)
    assert [f.message for f in report.faults if f.rule not in ("partial-coverage", "void-lanes")] == []
    return report


def lowered(report: TileReport, divisor: int = 16, capability: tuple[int, int] = (8, 0)) -> Lowered:
    facts = {
        p.name: Facts(p.dtype or "f32", len(p.extents or ()), True, True, (divisor,) * len(p.extents or ()))
        for p in report.kernel.params
        if isinstance(p, TensorParam)
    }
    return lower(report, facts, capability=capability)


def test_every_row_has_a_lowering() -> None:
    assert set(ELEMENTWISE) | set(TILE_OPS) | ELSEWHERE == set(OPS)


def test_every_tile_op_has_a_kernel_to_compare_backends_on() -> None:
    assert {case.op for case in CASES} == set(OPS) - ELSEWHERE


def chosen() -> list[Case]:
    """One case per row, the first; all dtypes run on the device."""
    first: dict[str, Case] = {}
    for case in CASES:
        first.setdefault(case.op, case)
    return list(first.values())


@compiled
@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.name)
def test_a_row_compiles(kernels: ModuleType, case: Case) -> None:
    code = lowered(report_of(kernels, case))
    ptx, entry = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    assert f".entry {entry}" in ptx


@compiled
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        *("add_f16", "max_f32_1", "min_f16_1", "max_padded_f16", "astype_f32_bf16", "sum_bf16_None", "hypot_bf16"),
        *("mma_f16", "mma_bf16", "mma_f64", "mma_i8", "matmul_f16", "atomic_add_f32"),
    ],
)
def test_older_architectures_assemble(kernels: ModuleType, name: str, capability: tuple[int, int]) -> None:
    (case,) = [c for c in CASES if c.name == name]
    code = lowered(report_of(kernels, case), capability=capability)
    ptx, _ = compile_ptx(
        code.name,
        code.source,
        code.namespace,
        code.formats,
        code.threads,
        capability,
        accelerated=code.accelerated,
    )
    assert f".target sm_{capability[0]}{capability[1]}" in ptx
    image, _ = link([ptx], capability, accelerated=code.accelerated)
    assert image.startswith(b"\x7fELF")


NEWER = """
import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mut, Shared, Tensor

class BM(Dim): ...

@tc.kernel
def eight(z: Tensor[Mut, tc.f32, BM], x: Tensor[Shared, tc.f8e4m3, Dyn]) -> None:
    z.store(tc.load_like(x, z).astype(tc.f32))

@tc.kernel
def inside(z: Tensor[Mut, tc.f32, BM], x: Tensor[Shared, tc.f32, Dyn]) -> None:
    z.store(tc.load_like(x, z).astype(tc.f8e5m2).astype(tc.f32))

@tc.kernel
def adds(z: Tensor[Atomic, tc.bf16, Dyn], x: Tensor[Shared, tc.bf16, Dyn]) -> None:
    i = tc.arange(BM)
    tc.atomic_add(z, i, tc.gather(x, i))
"""


@pytest.mark.parametrize(
    ("name", "first", "what"),
    [
        ("eight", (8, 9), "f8e4m3 numbers"),
        ("inside", (8, 9), "f8e5m2 numbers"),
        ("adds", (9, 0), "`atomic_add` of bf16"),
    ],
)
def test_what_an_architecture_has_not_is_refused_by_name(name: str, first: tuple[int, int], what: str) -> None:
    kernels, _ = read_kernels(Source("newer.py", NEWER), lambda module: None)
    (kernel,) = [k for k in kernels if k.name == name]
    report = check_kernel(kernel, dict.fromkeys(kernel.dims, 64))
    code = lowered(report, capability=first)
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, first)
    assert link([ptx], first)[0]
    with pytest.raises(
        LaunchRefused, match=f"`{name}` has {what}, which need sm_{first[0]}{first[1]} or later"
    ) as caught:
        lowered(report, capability=(8, 0))
    assert caught.value.rule == "unsupported"


@compiled
def test_aligned_whole_tiles_move_16_bytes_at_a_time(kernels: ModuleType) -> None:
    (case,) = [c for c in CASES if c.name == "add_f32"]
    code = lowered(report_of(kernels, case), divisor=4096)
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    assert ptx.count("ld.global.nc.v4.f32") == 2
    assert ptx.count("st.global.v4.f32") == 1
    assert not re.search(r"ld\.global\.(nc\.)?f32", ptx)


@compiled
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=str)
def test_a_check_keeps_the_first_failing_block(kernels: ModuleType, capability: tuple[int, int]) -> None:
    (case,) = [c for c in CASES if c.name == "gather_f32"]
    code = lowered(report_of(kernels, case))
    assert code.checks
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, capability)
    assert re.search(r"atom\.(global\.)?max\.s64", ptx)
    assert (first := faults.code(20, 4)) == max(faults.code(30, 7), first, faults.code(21, 4), 0)
    assert faults.decoded(first) == (20, 4) and faults.decoded(0) is None


@compiled
def test_sources_are_kept_on_request_with_line_tables(
    kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [c for c in CASES if c.name == "add_f32"]
    code = lowered(report_of(kernels, case))
    monkeypatch.setenv("TILECHECK_SOURCES", str(tmp_path / "kept"))
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    (source,) = (tmp_path / "kept").glob("add_f32-*.numba-cuda.py")
    assert source.read_text() == code.source
    assert [path.read_text() for path in (tmp_path / "kept").glob("add_f32-*.ptx")] == [ptx]
    assert source.name in ptx and ".loc" in ptx
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILECHECK_SOURCES", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="TILECHECK_SOURCES"):
        compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))


def test_a_padded_load_reads_its_padding(kernels: ModuleType) -> None:
    (case,) = [c for c in CASES if c.name == "max_padded_f32"]
    assert "'-inf'" in lowered(report_of(kernels, case)).identity


def test_the_source_is_readable(kernels: ModuleType) -> None:
    (case,) = [c for c in CASES if c.name == "add_f32"]
    lines = lowered(report_of(kernels, case)).source.splitlines()
    assert lines[0].startswith("def add_f32(z, z_n0, z_n1, z_s0, z_s1, x,")
    assert sum("load_f32" in line for line in lines) == 2
    assert sum("add_0(" in line for line in lines) == 1


def softmax_with(rows: int, width: int) -> Lowered:
    report = checked_for(library.softmax, {"BM": rows, "BN": width, "N": width}, "f32")
    return lower(report, {name: Facts("f32", 2, True, True, (rows, width)) for name in ("z", "x")})


@compiled
def test_a_row_that_is_its_tile_needs_no_clipping(kernels: ModuleType) -> None:
    report = checked_for(library.softmax, {"BM": 1, "BN": 5000, "N": 5000}, "f32")
    code = lower(report, {name: Facts("f32", 2, True, True, (8, 8)) for name in ("z", "x")})
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    assert "ld.global.nc.v4.f32" in ptx
    assert not re.search(r"ld\.global\.(nc\.)?f32", ptx)


@compiled
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (library.softmax, {"BM": 1, "BN": 4096, "N": 4096}),
        (library.layer_norm, {"BM": 1, "BN": 4096, "N": 4096}),
        (library.silu_mul, {"BM": 4096}),
        (library.transpose, {"BM": 64, "BN": 64}),
    ],
)
def test_short_elements_move_16_bytes_at_a_time(kernel: Any, sizes: dict[str, int], dtype: str) -> None:
    report = checked_for(kernel, sizes, dtype)
    ranks = {p.name: len(p.extents or ()) for p in report.kernel.params if isinstance(p, TensorParam)}
    code = lower(report, {n: Facts(dtype, rank, True, True, (4096,) * rank) for n, rank in ranks.items()})
    ptx, _ = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    moved = set(re.findall(r"(?:ld|st)\.global\.[\w.]+", ptx))
    assert moved == {"ld.global.nc.v4.u32", "st.global.v4.u32"}


def test_equal_texts_with_other_layouts_are_told_apart() -> None:
    wide, tall, again = softmax_with(1, 16384), softmax_with(4, 4096), softmax_with(4, 4096)
    assert wide.source == tall.source and wide.threads == tall.threads
    assert wide.identity != tall.identity
    assert tall.identity == again.identity
    assert " at 0x" not in tall.identity


def test_a_tile_that_no_block_holds_is_refused_before_it_is_written_out() -> None:
    report = checked_for(library.gemm, {"BM": 4096, "BN": 4096, "BK": 16}, "f16")
    facts = {name: Facts("f16" if name != "z" else "f32", 2, True, True, (16, 16)) for name in "zxy"}
    with pytest.raises(LaunchRefused, match="a tile of 16,777,216 elements"):
        lower(report, facts, capability=(9, 0))
