"""Which compiler a tile kernel gets on a GPU, and what is said where it cannot have the one it asks for. No GPU is needed."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.library_reports import checked_for
from tests.op_kernels import CASES
from tests.test_numba_cuda_lowering import kernels, report_of
from tilecheck.frontend.tile import read_function
from tilecheck.ir.compilers import preference
from tilecheck.ir.kernel import TensorParam
from tilecheck.verify.tile import TileReport, check_kernel
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends import cuda
from tilecheck_runtime.backends.numba_cuda.lower import Lowered
from tilecheck_runtime.backends.numba_cuda.specialise import lowered_for
from tilecheck_runtime.backends.tile_ir.compile import NotInstalled
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.errors import DriverError, LaunchRefused
from tilecheck_runtime.specialise import Key, TensorKey

__all__ = ["kernels"]


def report(module: ModuleType, name: str, backend: str) -> TileReport:
    (case,) = [c for c in CASES if c.name == name]
    found = report_of(module, case)
    found.kernel.options["backend"] = backend  # type: ignore[index]
    return found


def chosen(report: TileReport, monkeypatch: pytest.MonkeyPatch, failure: Exception | None) -> str:
    """The compiler that a device takes, if Tile IR ends in `failure`."""

    def tile_ir(*given: Any) -> str:
        if failure is not None:
            raise failure
        return "tile-ir"

    monkeypatch.setattr(cuda, "tile_ir", tile_ir)
    monkeypatch.setattr(cuda, "load", lambda *given: "numba-cuda")
    device: Any = SimpleNamespace(device=SimpleNamespace(enter=lambda: None))
    return str(cuda.CUDADevice.compile(device, report, None, {}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "backend", "wanted"),
    [
        ("mma_f16", "auto", "tile-ir"),
        ("add_f32", "auto", "numba-cuda"),
        ("add_f32", "tile-ir", "tile-ir"),
        ("mma_f16", "numba-cuda", "numba-cuda"),
    ],
)
def test_products_or_what_is_asked_for(
    kernels: ModuleType, name: str, backend: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(report(kernels, name, backend), monkeypatch, None) == wanted


@pytest.mark.parametrize(
    ("kernel", "sizes", "wanted", "why"),
    [
        (library.gemm, {"BM": 128, "BN": 128, "BK": 64}, "tile-ir", "it multiplies matrices"),
        (
            library.gemm,
            {"BM": 16, "BN": 128, "BK": 64},
            "numba-cuda",
            "an element read takes part in 16 multiplications",
        ),
        (library.gemm, {"BM": 128, "BN": 8, "BK": 64}, "numba-cuda", "takes part in 8 multiplications"),
        (library.attention, {"BM": 128, "BN": 64, "D": 64}, "tile-ir", "it multiplies matrices"),
        (library.decode_split, {"BM": 16, "BN": 64, "D": 128}, "numba-cuda", "its products are narrow"),
        (library.decode_split, {"BM": 64, "BN": 64, "D": 128}, "tile-ir", "it multiplies matrices"),
        (library.decode_merge, {"BM": 16, "D": 128}, "numba-cuda", "it multiplies no matrices"),
    ],
)
def test_narrow_products_are_bound_by_memory(kernel: Any, sizes: dict[str, int], wanted: str, why: str) -> None:
    report = checked_for(kernel, sizes, "f16")
    found = preference(report.kernel, report.types)
    assert found.compiler == wanted and why in found.reason and "if its tiles" not in found.reason


def test_extents_that_are_open_leave_it_to_the_launch() -> None:
    report = check_kernel(read_function(library.decode_split.fn))
    found = preference(report.kernel, report.types)
    assert str(found).endswith("if its tiles have more than 16 rows and columns")


def test_numba_cuda_heeds_warps_and_occupancy() -> None:
    sizes = {"BM": 1, "BN": 16384, "N": 16384}

    def told(**hints: int) -> tuple[int, int]:
        code = lowered_with(library.softmax, sizes, "f16", hints)
        return code.threads, code.resident

    threads, resident = told()
    assert told(num_warps=8)[0] == 256
    assert told(num_warps=32, occupancy=2) == (1024, 2)
    assert told(occupancy=resident + 1) == (threads, resident + 1)
    assert told(num_warps=16, occupancy=32) == (512, 2048 // 512)


def test_a_kernel_that_multiplies_chooses_its_warps_itself() -> None:
    sizes = {"BM": 128, "BN": 128, "BK": 64}
    plain, told = (lowered_with(library.gemm, sizes, "f16", hints) for hints in ({}, {"num_warps": 1, "occupancy": 8}))
    assert (plain.threads, plain.resident) == (told.threads, told.resident)


def lowered_with(kernel: Any, sizes: dict[str, int], dtype: str, hints: dict[str, int]) -> Lowered:
    """The numba-cuda module that a launch with these hints gets, before it is compiled."""
    report = checked_for(kernel, sizes, dtype)
    keys = tuple(
        TensorKey(
            p.dtype or dtype,
            len(p.extents or ()) - 1,
            16,
            (1 << 14,) * len(p.extents or ()),
            (16,) * (len(p.extents or ()) - 1) + (1,),
            None,
        )
        if isinstance(p, TensorParam)
        else None
        for p in report.kernel.params
    )
    return lowered_for(report, Key("numba-cuda", (), keys, tuple(sorted(hints.items()))), (9, 0))


def failures(module: ModuleType) -> list[tuple[Exception, str]]:
    """Ways in which Tile IR can be out of reach, and words of what is said then."""
    kernel = report(module, "mma_f16", "auto").kernel
    return [
        (NotInstalled("the tile-ir backend needs the package `cuda-tile`"), "pip install 'tilecheck[tile-ir]'"),
        (NoLowering("`print`", kernel), "does not compile `print`"),
        (DriverError("cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU", "no binary"), "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    ]


@pytest.mark.parametrize("way", range(3))
def test_auto_goes_on_with_numba_cuda(kernels: ModuleType, way: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failure, _ = failures(kernels)[way]
    assert chosen(report(kernels, "mma_f16", "auto"), monkeypatch, failure) == "numba-cuda"


@pytest.mark.parametrize("way", range(3))
def test_a_kernel_that_asks_is_refused_with_the_reason(
    kernels: ModuleType, way: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure, words = failures(kernels)[way]
    with pytest.raises(LaunchRefused) as caught:
        chosen(report(kernels, "mma_f16", "tile-ir"), monkeypatch, failure)
    assert "`mma_f16`: " in str(caught.value) and words in str(caught.value)
