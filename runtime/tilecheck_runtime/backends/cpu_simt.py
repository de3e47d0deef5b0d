"""SIMT kernels on the CPU: the executor, thread by thread.

A kernel that was proved runs without its races being recorded; bounds are checked in any case. One that opted out of the
proof is watched, and stops with the first fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilecheck.interp.simt import Kind, SimtFault, run
from tilecheck.interp.simt_compile import Program, compile_kernel
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Property, Verdict
from tilecheck_runtime.backends import Array, Grid
from tilecheck_runtime.errors import KernelStopped

_RULES: dict[Kind, str] = {
    "race": "data-race",
    "out-of-bounds": "out-of-bounds",
    "divergent-barrier": "divergent-barrier",
    "uninitialised-shared": "uninitialised-shared",
    "warp-sync": "warp-sync",
}
_PROVED = frozenset({Verdict.PROVEN, Verdict.PROVEN_GIVEN})
_MAX_STEPS = 1 << 40


@dataclass(frozen=True, slots=True)
class SimtProgram:
    """A compiled SIMT kernel with its contract; `dims` by key, `watched` if races are looked for."""

    program: Program
    block: Grid
    shared: int
    dims: Mapping[str, int]
    watched: bool


def compile_simt(report: SimtReport, block: Grid, shared: int, dims: Mapping[str, int]) -> SimtProgram:
    """The program of a kernel that passed its checks."""
    watched = any(
        report.verdicts[name].verdict not in _PROVED
        for name in (Property.RACE_FREE, Property.SHARED_INITIALISED)
        if name in report.verdicts
    )
    return SimtProgram(compile_kernel(report.kernel), block, shared, dict(dims), watched or not report.verdicts)


def execute(kernel: str, program: SimtProgram, arguments: Mapping[str, Array | int | float | bool], grid: Grid) -> None:
    """Run one launch. Raises KernelStopped for the first fault."""
    result = run(
        program.program,
        arguments,
        grid,
        program.block,
        dynamic_shared=program.shared,
        constants=program.dims,
        max_steps=_MAX_STEPS,
        track=program.watched,
    )
    for fault in result.faults:
        if not fault.same_value and not fault.wrapped:
            raise _stopped(kernel, fault)
    if result.inexact:
        raise KernelStopped(
            f"`{kernel}` cannot run on the CPU: {result.inexact[0]}",
            "run it on a GPU, or write that part in the kernel language",
            rule="unsupported",
        )


def _stopped(kernel: str, fault: SimtFault) -> KernelStopped:
    where = f" of `{fault.array}`" if fault.array is not None else ""
    element = f" at {fault.index[0] if len(fault.index) == 1 else fault.index}" if fault.index else ""
    points = tuple(f"{party.node.span}: {party}" for party in fault.parties)
    message = f"`{kernel}` stopped: {fault.detail}{where}{element}"
    return KernelStopped(message, rule=_RULES.get(fault.kind, "launch-contract"), points=points)
