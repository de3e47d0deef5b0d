"""Tile IR compiles what the GPU runs, without one: every op with every dtype, every example, every kernel of the library,
for each generation of devices that it knows.
"""

from __future__ import annotations

from types import ModuleType

import pytest

import tilecheck as tc
from tests.gpu.harness import tile_binary
from tests.gpu.recorded import programs, record
from tests.gpu.test_agreement import call_of
from tests.op_case import Case
from tests.op_kernels import CASES
from tests.op_kernels_wide import ODD, wide
from tests.test_numba_cuda_lowering import kernels
from tests.test_tile_ir_lowering import ASKED_FMA
from tilecheck.frontend.tile import read_function
from tilecheck.verify.tile import check_kernel
from tilecheck_runtime.backends import cpu, default
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, compile_cubin, missing
from tilecheck_runtime.backends.tile_ir.lower import lower
from tilecheck_runtime.backends.tile_ir.words import NoLowering

__all__ = ["kernels"]

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()}: pip install 'tilecheck[tile-ir]'")

WIDE = frozenset(wide())
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
CUBIN = b"\x7fELF"


class D16(tc.Dim, size=16): ...


@pytest.mark.parametrize("case", [c for c in CASES if c not in ASKED_FMA], ids=lambda case: case.name)
def test_every_op_compiles(kernels: ModuleType, case: Case) -> None:
    call = call_of(kernels, case)
    # The further dtypes of a row differ from its first ones in nothing that an architecture decides.
    for architecture in ARCHITECTURES if case not in WIDE else ("sm_90",):
        try:
            _, image, entry = tile_binary(call, architecture)
        except NoLowering as refused:
            assert ("no power of two" if case.tile == ODD else "a padding of") in str(refused)
            assert case in WIDE
        else:
            assert (image[:4], entry) == (CUBIN, case.name)


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


def test_print_compiles() -> None:
    @tc.kernel
    def says(z: tc.Tensor[tc.Mut, tc.f16, D16]) -> None:
        tc.print("block", tc.block_id(0), D16, z.load(), z.load() > 0)
        z.store(z.load() + 1)

    lowered = lower(check_kernel(read_function(says.fn)))
    facts = {"z": ArrayFacts("f16", 1, False, True, 16, (16,), (1,))}
    for architecture in ARCHITECTURES:
        image, entry = compile_cubin(lowered, read_function(says.fn), facts, {}, architecture)
        assert (image[:4], entry) == (CUBIN, "says")
