"""Tile IR compiles what the GPU runs, without one: an op of each row in every run, all of it in the nightly one."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.gpu.harness import tile_binary
from tests.gpu.recorded import programs, record
from tests.gpu.test_agreement import call_of
from tests.op_kernels import CASES, Case
from tests.test_numba_cuda_lowering import chosen, kernels
from tests.test_tile_ir_lowering import ASKED_FMA
from tilecheck_runtime.backends import cpu, default
from tilecheck_runtime.backends.tile_ir.compile import missing
from tilecheck_runtime.backends.tile_ir.words import NoLowering

__all__ = ["kernels"]

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()}: pip install 'tilecheck[tile-ir]'")

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
FEW = ("add_f32", "mma_f16", "mma_f64", "sum_f16_1", "gather_f32", "atomic_add_f32", "rand_f32", "reduce_f32")
CUBIN = b"\x7fELF"


@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.name)
def test_a_row_compiles(kernels: ModuleType, case: Case) -> None:
    _, image, entry = tile_binary(call_of(kernels, case), "sm_90")
    assert (image[:4], entry) == (CUBIN, case.name)


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != "sm_90"])
@pytest.mark.parametrize("name", FEW)
def test_other_architectures_compile(kernels: ModuleType, name: str, architecture: str) -> None:
    (case,) = [c for c in CASES if c.name == name]
    assert tile_binary(call_of(kernels, case), architecture)[1][:4] == CUBIN


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("case", [c for c in CASES if c not in ASKED_FMA], ids=lambda case: case.name)
def test_every_op_compiles(kernels: ModuleType, case: Case, architecture: str) -> None:
    assert tile_binary(call_of(kernels, case), architecture)[1][:4] == CUBIN


@pytest.mark.slow
@pytest.mark.parametrize("program", programs())
def test_every_example_and_library_kernel_compiles(program: str) -> None:
    if default() is not cpu.CPU:
        pytest.skip("launches are recorded on the CPU")
    for launch in record(program):
        for architecture in ARCHITECTURES:
            try:
                assert tile_binary(launch.call, architecture)[1][:4] == CUBIN
            except NoLowering as refused:
                assert "no power of two" in str(refused)
