"""Tile IR kernels under our launch: from a report and a specialisation key to a loaded kernel.

A cuTile block is one launch block of the driver with a single thread index; the compiler decides how many threads run it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilecheck.ir.kernel import Kernel, ScalarParam, TensorParam
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Grid, Launch, Operand
from tilecheck_runtime.backends.numba_cuda.registers import SIZE
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, NotInstalled, compile_cubin
from tilecheck_runtime.backends.tile_ir.lower import Lowered, lower
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.driver import Bound, Device, Function
from tilecheck_runtime.errors import DriverError, LaunchRefused
from tilecheck_runtime.specialise import Key, TensorKey

# Extents and strides are passed as 32-bit ints.
_LIMIT = 2**31 - 1
# A kernel scalar as the compiler and as the driver call it.
SCALARS = {"int": ("i64", "q"), "float": ("f64", "d"), "bool": ("bool_", "?")}


@dataclass(frozen=True, slots=True)
class TileProgram:
    """A compiled and loaded kernel; of one that walks over its tiles, `at_once` blocks are launched at most."""

    kernel: Kernel
    lowered: Lowered
    function: Function
    at_once: int

    @property
    def checks(self) -> bool:
        """Whether a check remains in the kernel."""
        return self.lowered.checks

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel. Raises `LaunchRefused` beyond 32-bit extents."""
        self.function.submit(*self._arguments(work, record), self.grid(work), (1, 1, 1), 0, stream)

    def bound(self, work: Launch, stream: int, record: int) -> Bound:
        """The packed arguments, and a call that submits the kernel with them. Raises `LaunchRefused` beyond 32-bit extents."""
        packed = self.function.pack(*self._arguments(work, record))
        return packed, packed.bound(self.grid(work), (1, 1, 1), 0, stream)

    def values(self, work: Launch, record: int) -> list[int | float]:
        """What is packed for a launch."""
        return self._arguments(work, record)[1]

    def grid(self, work: Launch) -> Grid:
        """The blocks as the driver starts them."""
        return (min(prod(work.grid), self.at_once), 1, 1) if self.lowered.walks else work.grid

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
                formats += SCALARS[scalar_kind(param)][1]
                values.append(value)
        if self.checks:
            formats += "Pii"
            values += [record, 1, 1]
        return formats, values


def scalar_kind(param: object) -> str:
    """`int`, `float` or `bool`."""
    return (param.kind or "int") if isinstance(param, ScalarParam) else "int"


def facts_of(kernel: Kernel, key: Key) -> dict[str, ArrayFacts]:
    """What the compiler may rely on for each array: the key says it."""
    pairs = zip(kernel.params, key.arguments, strict=True)
    return {p.name: _facts(known) for p, known in pairs if isinstance(p, TensorParam) and known is not None}


def _facts(known: TensorKey) -> ArrayFacts:
    rank = len(known.extents)
    extents = tuple(min(e, 16) for e in known.extents)
    return ArrayFacts(known.dtype, rank, False, known.unit == rank - 1, known.address, extents, known.strides)


def compile_for(report: TileReport, key: Key, architecture: str) -> tuple[Lowered, bytes, str]:
    """Text, cubin and entry symbol of one specialisation for `architecture` (such as `sm_90`); no GPU is needed.

    Raises `NoLowering` for what cuTile does not take, `NotInstalled` without it.
    """
    kernel = report.kernel
    maps = {
        param.name: known.map_shape
        for param, known in zip(kernel.params, key.arguments, strict=True)
        if known is not None and known.map_shape is not None
    }
    hints = {name: value for name, value in key.hints if name != "num_warps"}
    lowered = lower(report, maps, latency=hints.get("latency"))
    scalars = {p.name: SCALARS[scalar_kind(p)][0] for p in kernel.params if isinstance(p, ScalarParam)}
    return lowered, *compile_cubin(lowered, kernel, facts_of(kernel, key), scalars, architecture, hints)


def load(device: Device, report: TileReport, key: Key) -> TileProgram:
    """Compile for `device` and load. Raises as `compile_for`, and `DriverError` for a cubin that the driver refuses."""
    lowered, image, entry = compile_for(report, key, f"sm_{device.capability[0]}{device.capability[1]}")
    at_once = device.limits.multiprocessors * dict(key.hints).get("occupancy", 1)
    return TileProgram(report.kernel, lowered, device.load(image, entry), at_once)


def refused(kernel: str, reason: NoLowering | NotInstalled | DriverError) -> LaunchRefused:
    """The error of a kernel that asks for Tile IR and cannot have it."""
    if isinstance(reason, NotInstalled):
        return LaunchRefused(f"`{kernel}`: {reason}", f'{reason.step}, or leave `backend="tile-ir"` out')
    rule = "unsupported" if isinstance(reason, NoLowering) else "launch-contract"
    return LaunchRefused(f"`{kernel}`: {reason}", 'use `backend="numba-cuda"`, or leave `backend` out', rule=rule)
