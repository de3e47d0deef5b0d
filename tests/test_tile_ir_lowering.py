"""The Tile IR lowering: readable cuTile text, refusals by name, and binaries where `cuda-tile` is installed."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.op_kernels import CASES, Case
from tests.test_numba_cuda_lowering import ELSEWHERE, kernels, report_of
from tilecheck.ir.compilers import preference
from tilecheck.ir.kernel import TensorParam
from tilecheck.ops.row import OPS
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, compile_cubin, missing
from tilecheck_runtime.backends.tile_ir.lower import lower
from tilecheck_runtime.backends.tile_ir.rows import SPECIAL
from tilecheck_runtime.backends.tile_ir.words import CALLS, INFIX, MATH, NoLowering

__all__ = ["kernels"]

# Rows that cuTile has no form for; each is refused by its name.
REFUSED = {"fma", "fmod", "mul_hi", "expm1", "log1p", "rand", "randn", "random_bits", "philox", "scan", "reduce"}


def case(name: str) -> Case:
    (found,) = [c for c in CASES if c.name == name]
    return found


def test_every_row_lowers_or_is_refused_by_name() -> None:
    lowered = set(INFIX) | set(CALLS) | set(MATH) | set(SPECIAL)
    assert lowered | REFUSED | ELSEWHERE == set(OPS)
    assert not lowered & REFUSED


@pytest.mark.parametrize("op", sorted(REFUSED))
def test_a_refusal_names_the_row(kernels: ModuleType, op: str) -> None:
    first = next(c for c in CASES if c.op == op)
    with pytest.raises(NoLowering, match=f"`{op}`"):
        lower(report_of(kernels, first))


def test_the_text_is_the_kernel(kernels: ModuleType) -> None:
    text = lower(report_of(kernels, case("mma_f16"))).source
    assert text.splitlines()[0] == "def mma_f16(z, x, y):"
    assert "acc = ct.mma(ct.load(x, (ct.bid(0), k, ), (64, 32)), ct.load(y, (k, ct.bid(1), ), (32, 32)), acc)" in text
    assert "ct.store(z, (ct.bid(0), ct.bid(1), ), acc)" in text


def test_scalars_take_the_dtype_of_the_tile_they_meet(kernels: ModuleType) -> None:
    text = lower(report_of(kernels, case("full_block"))).source
    assert "ct.astype(ct.bid(0), ct.int32)" in text


def test_a_check_notes_its_line_and_turns_stores_off(kernels: ModuleType) -> None:
    lowered = lower(report_of(kernels, case("gather_f32")))
    assert lowered.checks
    assert lowered.parameters[-1] == "fault"
    assert "ct.scatter(fault, 0," in lowered.source
    assert "if ok:" in lowered.source


def test_products_go_to_tile_ir_by_default(kernels: ModuleType) -> None:
    product, sums = (preference(report_of(kernels, case(name)).kernel) for name in ("mma_f16", "add_f32"))
    assert (product.compiler, product.asked) == ("tile-ir", False)
    assert re.fullmatch(
        r"tile-ir where it is installed, else numba-cuda: it multiplies matrices \(line \d+\)", str(product)
    )
    assert str(sums) == "numba-cuda: it multiplies no matrices"


compiler = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@compiler
@pytest.mark.parametrize("name", ["add_f32", "mma_f16", "sum_f16_1", "gather_f32"])
def test_it_compiles_without_a_gpu(kernels: ModuleType, name: str) -> None:
    report = report_of(kernels, case(name))
    facts = {
        p.name: ArrayFacts(p.dtype or "f32", 2, False, True, 16, (16, 16), (16, 1))
        for p in report.kernel.params
        if isinstance(p, TensorParam)
    }
    image, entry = compile_cubin(lower(report), report.kernel, facts, {}, "sm_90")
    assert entry == name
    assert image[:4] == b"\x7fELF"
