"""Every op on the device against the interpreter: ragged shapes, every dtype that the op takes."""

from __future__ import annotations

import zlib
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import Call, interpreted, with_numba, with_tile_ir
from tests.op_kernels import CASES, Case
from tests.test_numba_cuda_lowering import kernels, report_of, sizes_of
from tilecheck.surface.dtypes import DTYPES
from tilecheck_runtime.backends.tile_ir.lower import NoLowering
from tilecheck_runtime.driver import Device

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
    sizes = sizes_of(case)
    out_shape = case.out_shape or case.shape
    tile = (sizes["BM"], sizes["BM2"] if case.op in ("mma", "matmul") else sizes["BN"])
    grid = (-(-out_shape[0] // tile[0]), -(-out_shape[1] // tile[1]), 1)
    arguments: dict[str, Any] = {}
    tiles = {} if case.access == "Atomic" else {"z": tile}
    start = np.zeros if case.access == "Atomic" else np.ones
    arguments["z"] = start(out_shape, DTYPES[case.output].numpy())
    shapes = [case.shape] * 3
    if case.op == "mma":
        shapes = [(128, 96), (96, 128)]
    if case.op == "matmul":
        shapes = [(128, 32), (32, 128)]
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
    both_nan = np.isnan(a) & np.isnan(b)
    off = np.where(both_nan, 0, np.abs(a - b) / unit)
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
