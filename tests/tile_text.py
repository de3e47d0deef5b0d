"""Tile kernels from text, for tests of the checks: one kernel `k` with a common head, checked and, if wanted, launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.tile import check_kernel
from tilecheck.verify.tile_conditions import Refusal
from tilecheck.verify.tile_report import TileReport

HEAD = """\
import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mapped, Mut, Shared, Tensor, f16, f32, i32
class B(Dim): ...
class C(Dim): ...
class BM(Dim): ...
class BN(Dim): ...
class BK(Dim): ...
class D8(Dim, size=8): ...
class D10(Dim, size=10): ...
class D16(Dim, size=16): ...
class D24(Dim, size=24): ...
"""
ONE = "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]"
TWO = f"{ONE}, y: Tensor[Shared, f32, Dyn]"
MAPPED = "z: Tensor[Mapped, f32, B], x: Tensor[Shared, f32, Dyn]"


def kernel(body: str, params: str = ONE, options: str = "", before: str = "") -> Kernel:
    """The kernel `k` of this body, read without faults."""
    decorator = f"@tc.kernel({options})" if options else "@tc.kernel"
    inner = "\n".join("    " + line for line in body.splitlines())
    text = f"{HEAD}{before.rstrip()}\n{decorator}\ndef k({params}) -> None:\n{inner}\n"
    kernels, faults = read_kernels(Source("k.py", text), lambda module, importer: None)
    assert not faults, faults
    return kernels[-1]


def check(
    body: str, params: str = ONE, options: str = "", before: str = "", dims: Mapping[str, int] | None = None
) -> TileReport:
    """The report of that kernel; `dims` by name."""
    read = kernel(body, params, options, before)
    return check_kernel(read, {f"k.py::{name}": value for name, value in (dims or {}).items()})


def rungs(report: TileReport, array: str) -> list[str]:
    """How the accesses of an array are known to be in bounds, in order."""
    return [str(access.rung) for access in report.accesses if access.array == array]


def refusal(
    report: TileReport,
    shapes: Mapping[str, tuple[int, ...]],
    grid: tuple[int, ...] = (1, 1, 1),
    dims: Mapping[str, int] | None = None,
    **scalars: Any,
) -> Refusal | None:
    """The first launch condition that fails; `dims` by name."""
    keyed = {f"k.py::{name}": value for name, value in (dims or {}).items()}
    found = (c.evaluate(shapes, scalars, keyed, grid) for c in report.conditions)
    return next((r for r in found if r is not None), None)
