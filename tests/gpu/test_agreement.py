"""Interpreter, numba-cuda and Tile IR on the device: every op and dtype, every example, every kernel of the library.

Tolerances: an op's is stated with its case, in units of its dtype at the value's size (`UNIT`); for whole kernels it is the
tuner's table, `tune.TOLERANCE`, relative to the largest value. Integers and truth values are equal.
"""

from __future__ import annotations

import zlib
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import Array, Call, dtype_name, interpreted, with_numba, with_tile_ir
from tests.gpu.recorded import on_cpu, programs, record
from tests.op_case import Case
from tests.op_kernels import CASES
from tests.test_numba_cuda_lowering import kernels, report_of
from tilecheck.surface.dtypes import DTYPES
from tilecheck_runtime.backends.tile_ir.lower import NoLowering
from tilecheck_runtime.driver import Device
from tilecheck_runtime.tune import TOLERANCE

pytestmark = pytest.mark.gpu

__all__ = ["kernels"]

# Distance between neighbouring values at 1.
UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


@cache
def device() -> Device:
    return Device.open(0)


def drawn(case: Case, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    low, high = case.domain
    kind = DTYPES[dtype].numpy()
    if dtype == "bool_":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype[0] == "f" or dtype == "bf16":
        return rng.uniform(low, high, shape).astype(np.float32 if dtype != "f64" else np.float64).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(max(int(low), limits.min), min(int(high), limits.max) + 1, shape).astype(kind)


def call_of(module: ModuleType, case: Case) -> Call:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    sizes = case.sizes
    out_shape = case.out_shape or case.shape
    tile = (sizes["BM"], sizes["BM2"] if case.op in ("mma", "matmul") else sizes["BN"])
    grid = (-(-out_shape[0] // tile[0]), -(-out_shape[1] // tile[1]), 1)
    arguments: dict[str, Any] = {}
    tiles = {} if case.access == "Atomic" else {"z": tile}
    start = np.zeros if case.access == "Atomic" else np.ones
    arguments["z"] = start(out_shape, DTYPES[case.output].numpy())
    shapes = case.shapes or (case.shape,) * 3
    for name, dtype, shape in zip(("x", "y", "w"), case.inputs, shapes, strict=False):
        arguments[name] = drawn(case, dtype, shape, rng)
    if case.access == "Atomic":
        grid = (2, 1, 1)
    return Call(report_of(module, case), arguments, grid, tiles, {})


def agree(case: Case, got: Any, wanted: Any) -> None:
    """Equal, or within the case's tolerance in units of the dtype at the value's size."""
    if case.tolerance == 0 or got.dtype.kind in "iub":
        same = (got == wanted) | ((got != got) & (wanted != wanted))
        assert same.all(), f"{(~same).sum()} of {got.size} elements differ: {got[~same][:3]} for {wanted[~same][:3]}"
        return
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    unit = UNIT[case.output] * np.maximum(np.abs(b), 1.0)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        off = np.where(alike, 0, np.abs(a - b) / unit)
    assert np.nanmax(off) <= case.tolerance and not np.isnan(off).any(), f"{np.nanmax(off)} units apart"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_numba_cuda_agrees_with_the_interpreter(kernels: ModuleType, case: Case) -> None:
    call = call_of(kernels, case)
    agree(case, with_numba(device(), call)["z"], interpreted(call)["z"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tile_ir_agrees_with_the_interpreter(kernels: ModuleType, case: Case) -> None:
    call = call_of(kernels, case)
    try:
        got = with_tile_ir(device(), call)["z"]
    except NoLowering as refused:
        pytest.skip(str(refused))
    agree(case, got, interpreted(call)["z"])


recorded = pytest.mark.skipif(not on_cpu(), reason="launches are recorded with TILECHECK_DEVICE=cpu")


def equal(name: str, got: dict[str, Array], expected: dict[str, Array]) -> None:
    """The written arrays of a kernel, within the dtype's tolerance of the largest value."""
    assert set(got) == set(expected)
    for array, wanted in expected.items():
        tolerance = TOLERANCE.get(dtype_name(wanted), 0.0)
        a, b = got[array].astype(np.float64), wanted.astype(np.float64)
        largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest, err_msg=f"`{array}` of `{name}`")


@recorded
@pytest.mark.parametrize("program", programs())
def test_numba_cuda_computes_what_the_interpreter_does(program: str) -> None:
    for launch in record(program):
        equal(launch.name, with_numba(device(), launch.call), launch.expected)


@recorded
@pytest.mark.parametrize("program", programs())
def test_tile_ir_computes_what_the_interpreter_does(program: str) -> None:
    refused = []
    for launch in record(program):
        try:
            equal(launch.name, with_tile_ir(device(), launch.call), launch.expected)
        except NoLowering as reason:
            refused.append(str(reason))
    if refused:
        pytest.skip("; ".join(refused))
