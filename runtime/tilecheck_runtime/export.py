"""Kernels compiled for another machine: its architecture is named, its compilers and its GPU are not needed here.

Inside `exporting("sm_90", folder)` every tile kernel that is launched, or prepared with `op.compile()`, is compiled for that
architecture too, by the compiler it would get there, into the kernel cache `folder`. On the other machine
`disk_cache.enable(folder)` makes the same calls find their kernels; one that is not in the folder is compiled there as
ever. Shape-only arguments export a kernel without data:

    with exporting("sm_90", "kernels") as found:
        gemm.where(BK=64)(tc.meta(4096, 4096).partition(128, 128), x, y).compile()
    found[0]      # Exported(kernel='gemm', compiler='tile-ir', dims={'BK': 64, 'BM': 128, 'BN': 128}, nbytes=41232, ...)

Invariant: what is exported has the key of the real call, because the same code makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilecheck.ir.compilers import Compiler, preference
from tilecheck.verify.tile_report import TileReport
from tilecheck_runtime import disk_cache, specialise
from tilecheck_runtime.backends.numba_cuda import installed
from tilecheck_runtime.backends.numba_cuda.compile import compilers
from tilecheck_runtime.backends.numba_cuda.specialise import compile_for as through_numba
from tilecheck_runtime.backends.tile_ir.compile import NotInstalled
from tilecheck_runtime.backends.tile_ir.specialise import compile_for as through_tile_ir
from tilecheck_runtime.backends.tile_ir.specialise import refused
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.resources import capability_of


@dataclass(frozen=True, slots=True)
class Exported:
    """One specialisation in the folder; `why` says what kept it from Tile IR, if it wanted that."""

    kernel: str
    compiler: Compiler
    dims: tuple[tuple[str, int], ...]
    hints: tuple[tuple[str, int], ...]
    nbytes: int
    why: str = ""


@contextmanager
def exporting(architecture: str, folder: str | Path, only: Compiler | None = None) -> Iterator[list[Exported]]:
    """Export every kernel that is launched or compiled inside; the list grows as they come, each specialisation once.

    `only` leaves out the kernels of the other compiler. Raises UsageError for an architecture that the compiler does not know and for a
    folder that `disk_cache.enable` refuses, LaunchRefused inside for a kernel that the compiler it asks for does not take.
    """
    capability = capability_of(architecture)
    seen: dict[tuple[int, specialise.Key], TileReport] = {}
    listed: list[Exported] = []

    def listen(report: TileReport, key: specialise.Key) -> None:
        if (id(report), key) not in seen:
            seen[id(report), key] = report
            exported = export(report, key, architecture, capability, only)
            if only in (None, exported.compiler):
                listed.append(exported)

    before = disk_cache.folder()
    disk_cache.enable(folder)
    sign()
    specialise.listeners.append(listen)
    try:
        yield listed
    finally:
        specialise.listeners.remove(listen)
        if before is None:
            disk_cache.disable()
        else:
            disk_cache.enable(before)


def sign() -> None:
    """Let machines with other compilers, or none, find what is in the kernel cache."""
    if installed.missing() is None:
        disk_cache.sign(compilers())


def export(
    report: TileReport,
    key: specialise.Key,
    architecture: str,
    capability: tuple[int, int],
    only: Compiler | None = None,
) -> Exported:
    """Compile one specialisation into the kernel cache. Raises LaunchRefused as a launch there would."""
    wish, name, why = preference(report.kernel, report.types), report.kernel.name, ""
    if wish.compiler == "tile-ir":
        try:
            _, image, _ = through_tile_ir(report, key, architecture)
            return Exported(name, "tile-ir", key.dims, key.hints, len(image))
        except (NoLowering, NotInstalled) as reason:
            if wish.asked:
                raise refused(name, reason) from None
            why = str(reason)
    if only == "tile-ir":
        return Exported(name, "numba-cuda", key.dims, key.hints, 0, why)
    _, binary = through_numba(report, key, capability)
    return Exported(name, "numba-cuda", key.dims, key.hints, len(binary.image), why)
