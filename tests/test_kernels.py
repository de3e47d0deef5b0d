"""The kernel library: what it computes, what is proved of it, and that both GPU compilers take it."""

from __future__ import annotations

import pytest

import tilecheck as tc
from benchmarks import resources
from tests.gpu.harness import Call, arrays_of, strides_of
from tests.gpu.recorded import recording
from tests.library_cases import CASES
from tests.test_numba_cuda_lowering import compiled
from tilecheck.check import check_text
from tilecheck.frontend.tile import read_function
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.verify.tile import check_kernel
from tilecheck.verify.verdict import Property, Verdict
from tilecheck_runtime import calls, kernels
from tilecheck_runtime.backends import cpu, default
from tilecheck_runtime.backends.numba_cuda.compile import compile_ptx
from tilecheck_runtime.backends.numba_cuda.lower import Lowered
from tilecheck_runtime.backends.numba_cuda.lower import lower as lower_numba
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.backends.tile_ir.lower import lower as lower_tile
from tilecheck_runtime.errors import LaunchRefused

# Each kernel with each dtype.
KINDS = tuple(dict.fromkeys((case.kernel, case.dtype) for case in CASES.values()))
# One of each kind is compiled to PTX; the text of all is generated.
TO_PTX = (
    *(("gelu_mul", "bf16"), ("softmax", "f16"), ("add_rms_norm", "bf16"), ("layer_norm", "f32"), ("row_argmax", "f16")),
    *(("total", "f32"), ("gemm_tt", "f16"), ("linear_silu", "bf16"), ("batched_gemm", "f16"), ("attention", "f16")),
    *(("decode_split", "bf16"), ("decode_merge", "f16"), ("rope", "bf16"), ("cache_update", "i8")),
    *(("embedding", "f16"), ("transpose", "f16")),
)


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_computes_what_numpy_does(case: str) -> None:
    CASES[case].run()


def test_every_kernel_has_cases() -> None:
    assert {case.kernel for case in CASES.values()} == set(kernels.__all__)


def test_the_library_is_part_of_the_package() -> None:
    assert all(getattr(tc.kernels, name) is getattr(kernels, name) for name in kernels.__all__)
    assert tc.__all__.count("kernels") == 1


USE = """
import tilecheck as tc
from tilecheck import kernels

x, y, z = tc.ones(1024), tc.ones(1024), tc.zeros(1024)
a = tc.zeros(64, 64, dtype=tc.f16)
kernels.gemm.where(BK=64)(tc.zeros(64, 64).partition(32, 32), a, a).sync()
"""


@pytest.mark.parametrize(
    "line, rule",
    [
        ("kernels.silu(z.partition(128), x).sync()", None),
        ("tc.kernels.saxpy(z, x, y, 2.0).sync()", "unpartitioned-output"),
        ("kernels.add(z.partition(128), x, z).sync()", "borrow-conflict"),
    ],
)
def test_the_linter_knows_what_a_library_kernel_writes(line: str, rule: str | None) -> None:
    found = check_text("use.py", USE + line + "\n", Modules(), Options()).diagnostics
    assert [(d.rule, d.span.line) for d in found] == ([] if rule is None else [(rule, 8)])


def test_a_row_longer_than_its_tile_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="N <= BN"):
        kernels.softmax(tc.zeros(4, 64).partition(4, 32), tc.zeros(4, 64)).sync()


@pytest.mark.parametrize("name", kernels.__all__)
def test_every_access_is_proved_before_the_launch(name: str) -> None:
    report = check_kernel(read_function(getattr(kernels, name).fn))
    assert report.faults == ()
    verdict = report.verdicts[Property.IN_BOUNDS].verdict
    if name == "embedding":
        assert verdict is Verdict.CHECKED
        assert [a.array for a in report.accesses if a.rung == "in-place"] == ["table"]
    else:
        assert verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


def first_call(name: str, dtype: str) -> Call:
    """The kernel's launch in its first case of a dtype."""
    if default() is not cpu.CPU:
        pytest.skip("launches are recorded on the CPU")
    # What was read for an earlier test is compiled already.
    calls.forget()
    with recording() as listed:
        next(case for case in CASES.values() if (case.kernel, case.dtype) == (name, dtype)).run()
    return next(launch.call for launch in listed if launch.name == name)


def with_numba(call: Call) -> Lowered:
    """The generated numba-cuda module, for arrays aligned as an allocator does."""
    dtypes = {p.name: p.dtype for p in call.report.kernel.params if hasattr(p, "dtype")}
    facts = {n: Facts.of(str(dtypes[n]), 256, a.shape, strides_of(a)) for n, a in arrays_of(call).items()}
    return lower_numba(call.report, facts, maps={n: m.shape for n, m in call.maps.items()})


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_both_compilers_take_it(name: str, dtype: str) -> None:
    call = first_call(name, dtype)
    assert with_numba(call).checks is (name == "embedding")
    maps = {n: m.shape for n, m in call.maps.items()}
    assert lower_tile(call.report, maps).checks is (name == "embedding")


@compiled
@pytest.mark.parametrize(("name", "dtype"), TO_PTX)
def test_numba_cuda_makes_ptx_of_it(name: str, dtype: str) -> None:
    code = with_numba(first_call(name, dtype))
    ptx, entry = compile_ptx(code.name, code.source, code.namespace, code.formats, code.threads, (9, 0))
    assert f".entry {entry}" in ptx


@compiled
@pytest.mark.parametrize("architecture", resources.ARCHITECTURES)
@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("gemm", {"Real": "f32", "Factor": "f16"}),
        ("linear_silu", {"Factor": "f16"}),
        ("attention", {"Factor": "bf16"}),
        ("decode_split", {"Factor": "f16"}),
        ("layer_norm", {"Real": "f16"}),
        ("gelu_mul", {"Real": "f32"}),
    ],
)
def test_no_register_spills_at_the_extents_it_is_made_for(name: str, dtypes: dict[str, str], architecture: str) -> None:
    assert resources.resources(name, dtypes, architecture).spilled == 0


def test_every_kernel_has_extents_to_be_compiled_at() -> None:
    for name in kernels.__all__:
        read = read_function(getattr(kernels, name).fn)
        assert {decl.name for decl in read.dims.values() if decl.size is None} <= set(resources.extents_of(name))
        assert list(resources.dtypes_of(name))
