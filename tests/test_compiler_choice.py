"""Which compiler a tile kernel gets on a GPU, and what is said where it cannot have the one it asks for. No GPU is needed."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.op_kernels import CASES
from tests.test_numba_cuda_lowering import kernels, report_of
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import cuda
from tilecheck_runtime.backends.tile_ir.compile import NotInstalled
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.driver import DriverError
from tilecheck_runtime.errors import LaunchRefused

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
