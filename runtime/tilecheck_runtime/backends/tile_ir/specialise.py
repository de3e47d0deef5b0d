"""Tile IR kernels under our launch: from a report and a specialisation key to a loaded kernel.

A cuTile block is one launch block of the driver with a single thread index; the compiler decides how many threads run it.
`wanted` says which kernels `backend="auto"` sends here: those that multiply matrices, where the Tile IR compiler reaches
what cuBLAS reaches.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilecheck.ir.kernel import Binary, Kernel, OpCall, ScalarParam, TensorParam, walk
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Launch, Operand
from tilecheck_runtime.backends.numba_cuda.registers import SIZE
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, NotInstalled, compile_cubin
from tilecheck_runtime.backends.tile_ir.lower import Lowered, lower
from tilecheck_runtime.driver import Device, Function
from tilecheck_runtime.errors import LaunchRefused
from tilecheck_runtime.specialise import Key, TensorKey

# Extents and strides are passed as 32-bit ints.
_LIMIT = 2**31 - 1
_SCALARS = {"int": ("i64", "q"), "float": ("f64", "d"), "bool": ("bool_", "?")}


@dataclass(frozen=True, slots=True)
class TileProgram:
    """A compiled and loaded kernel."""

    kernel: Kernel
    lowered: Lowered
    function: Function

    @property
    def checks(self) -> bool:
        """Whether a check remains in the kernel."""
        return self.lowered.checks

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel. Raises `LaunchRefused` beyond 32-bit extents."""
        self.function.submit(*self._arguments(work, record), work.grid, (1, 1, 1), 0, stream)

    def bound(self, work: Launch, stream: int, record: int) -> Callable[[], None]:
        """A call that submits the kernel, its arguments packed once. Raises `LaunchRefused` beyond 32-bit extents."""
        return self.function.pack(*self._arguments(work, record)).bound(work.grid, (1, 1, 1), 0, stream)

    def _arguments(self, work: Launch, record: int) -> tuple[str, list[int | float]]:
        """Formats and values of the parameters."""
        formats = ""
        values: list[int | float] = []
        for param in self.kernel.params:
            value = work.arguments[param.name]
            if isinstance(value, Operand):
                array = value.array
                size = SIZE[array.dtype.name]
                numbers = [*array.shape, *(s // size for s in array.strides)]
                if max(numbers, default=0) > _LIMIT:
                    raise LaunchRefused(
                        f"`{param.name}` of `{self.kernel.name}` has an extent or stride of {max(numbers)}, the tile-ir "
                        f"backend takes {_LIMIT} at most",
                        'use `@tc.kernel(backend="numba-cuda")`',
                    )
                formats += "P" + "i" * len(numbers)
                values += [array.address, *numbers]
            else:
                formats += _SCALARS[_kind(param)][1]
                values.append(value)
        if self.checks:
            formats += "Pii"
            values += [record, 1, 1]
        return formats, values


def _kind(param: object) -> str:
    return (param.kind or "int") if isinstance(param, ScalarParam) else "int"


def wanted(report: TileReport) -> bool:
    """Whether `backend="auto"` compiles this kernel through Tile IR, where that is installed."""
    products = (n for n in walk(*report.kernel.body) if isinstance(n, OpCall | Binary))
    return any(n.op in ("mma", "matmul", "@") for n in products)


@cache
def installed() -> bool:
    """Whether `cuda-tile` is there."""
    try:
        return importlib.util.find_spec("cuda.tile") is not None
    except ModuleNotFoundError:
        return False


@cache
def _compilers_on_path() -> None:
    """cuTile starts `tileiras`, which starts `ptxas`, by name; the wheels put them beside their package.

    They come first: an older `ptxas` of a system-wide toolkit does not read what this `tileiras` writes.
    """
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else ():
        for found in sorted(Path(folder).glob("cu*/bin")):
            os.environ["PATH"] = f"{found}{os.pathsep}{os.environ.get('PATH', '')}"


def facts_of(kernel: Kernel, key: Key) -> dict[str, ArrayFacts]:
    """What the compiler may rely on for each array: the key says it."""
    pairs = zip(kernel.params, key.arguments, strict=True)
    return {p.name: _facts(known) for p, known in pairs if isinstance(p, TensorParam) and known is not None}


def _facts(known: TensorKey) -> ArrayFacts:
    rank = len(known.extents)
    extents = tuple(min(e, 16) for e in known.extents)
    return ArrayFacts(known.dtype, rank, False, known.unit == rank - 1, known.address, extents, known.strides)


def load(device: Device, report: TileReport, key: Key) -> TileProgram:
    """Compile for `device` and load. Raises `NoLowering` for what cuTile does not take, `LaunchRefused` without it."""
    kernel = report.kernel
    maps = {
        param.name: known.map_shape
        for param, known in zip(kernel.params, key.arguments, strict=True)
        if known is not None and known.map_shape is not None
    }
    lowered = lower(report, maps)
    _compilers_on_path()
    scalars = {p.name: _SCALARS[_kind(p)][0] for p in kernel.params if isinstance(p, ScalarParam)}
    architecture = f"sm_{device.capability[0]}{device.capability[1]}"
    try:
        image, entry = compile_cubin(lowered, kernel, facts_of(kernel, key), scalars, architecture)
    except NotInstalled as error:
        raise LaunchRefused(str(error)) from None
    return TileProgram(kernel, lowered, device.load(image, entry))
