"""From a checked kernel and a specialisation key to a loaded kernel, and from a launch to the driver call.

`compile_for` needs no GPU; `load` needs one. The device's limits are compared before the driver is asked, and the refusal
shows the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tilecheck.ir.compilers import products
from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Grid, Launch, Operand
from tilecheck_runtime.backends.limits import hold
from tilecheck_runtime.backends.numba_cuda.compile import Binary, CompileFailed, build
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.backends.numba_cuda.registers import SIZE
from tilecheck_runtime.driver import Bound, Device, Function
from tilecheck_runtime.errors import LaunchRefused
from tilecheck_runtime.specialise import Key, Once, TensorKey

# Blocks along axis 1 and 2 of the hardware's own grid, on every device.
LONGEST: Final = 65535


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled and loaded kernel; `in_row` compiles and loads the same one for grids that are longer on axis 1 or 2 than
    the hardware's own.
    """

    kernel: Kernel
    lowered: Lowered
    binary: Binary
    function: Function
    in_row: Callable[[], Program]

    @property
    def checks(self) -> bool:
        """Whether a check remains in the kernel."""
        return self.lowered.checks

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel; `record` is the address of its fault record, 0 without checks."""
        if self._too_long(work.grid):
            self.in_row().launch(work, stream, record)
            return
        lowered = self.lowered
        values, grid = self.values(work, record), self.grid(work)
        self.function.submit(lowered.formats, values, grid, (lowered.threads, 1, 1), lowered.shared, stream)

    def bound(self, work: Launch, stream: int, record: int) -> Bound:
        """The packed arguments, and a call that submits the kernel with them."""
        if self._too_long(work.grid):
            return self.in_row().bound(work, stream, record)
        lowered = self.lowered
        packed = self.function.pack(lowered.formats, self.values(work, record))
        return packed, packed.bound(self.grid(work), (lowered.threads, 1, 1), lowered.shared, stream)

    def grid(self, work: Launch) -> Grid:
        """The blocks as the driver starts them."""
        x, y, z = work.grid
        return (x * y * z, 1, 1) if self.lowered.in_row or self._too_long(work.grid) else work.grid

    def _too_long(self, grid: Grid) -> bool:
        return not self.lowered.in_row and max(grid[1:]) > LONGEST

    def values(self, work: Launch, record: int) -> list[int | float]:
        """What is packed for a launch: the arguments as the kernel takes them, and how its blocks are numbered."""
        values: list[int | float] = []
        for param in self.kernel.params:
            value = work.arguments[param.name]
            if isinstance(value, Operand):
                values += value.array.numbers
            else:
                values.append(value)
        return [*values, *work.grid, record]


def facts_of(kernel: Kernel, key: Key) -> dict[str, Facts]:
    """What the code may rely on for each array: the key says it."""
    facts: dict[str, Facts] = {}
    for param, known in zip(kernel.params, key.arguments, strict=True):
        if isinstance(param, TensorParam) and known is not None:
            facts[param.name] = _facts(known)
    return facts


def _facts(known: TensorKey) -> Facts:
    rank, size = len(known.extents), SIZE[known.dtype]

    def lines(axis: int) -> bool:
        others = (divisor for other, divisor in enumerate(known.strides) if other != axis)
        return known.address >= 16 and all(divisor * size % 16 == 0 for divisor in others)

    turned = known.unit if known.unit is not None and known.unit != rank - 1 and lines(known.unit) else None
    return Facts(known.dtype, rank, known.unit == rank - 1, lines(rank - 1), known.extents, turned, known.single)


def lowered_for(report: TileReport, key: Key, capability: tuple[int, int], in_row: bool = False) -> Lowered:
    """The generated module of one specialisation. Raises `NoLowering` for what has no lowering,
    `LaunchRefused` for what the assembler refuses.
    """
    kernel = report.kernel
    maps = {
        param.name: known.map_shape
        for param, known in zip(kernel.params, key.arguments, strict=True)
        if known is not None and known.map_shape is not None
    }
    hints = {} if products(kernel) else dict(key.hints)
    warps = hints.get("num_warps")
    return lower(
        report,
        facts_of(kernel, key),
        maps=maps,
        threads=None if warps is None else 32 * warps,
        resident=hints.get("occupancy"),
        capability=capability,
        in_row=in_row,
    )


def compile_for(
    report: TileReport, key: Key, capability: tuple[int, int], in_row: bool = False
) -> tuple[Lowered, Binary]:
    """Generate and compile one specialisation for a compute capability. Raises `NoLowering` for what has no lowering,
    `LaunchRefused` for what the assembler refuses.
    """
    lowered = lowered_for(report, key, capability, in_row)
    try:
        binary = build(
            lowered.name,
            lowered.source,
            lowered.namespace,
            lowered.identity,
            lowered.formats,
            lowered.threads,
            capability,
            blocks_per_multiprocessor=lowered.resident,
            accelerated=lowered.accelerated,
        )
    except CompileFailed as error:
        raise LaunchRefused(
            f"`{report.kernel.name}` does not compile for sm_{capability[0]}{capability[1]} with {lowered.threads} threads a "
            f"block: {error}",
            error.way_out,
        ) from error
    return lowered, binary


def load(device: Device, report: TileReport, key: Key, in_row: bool = False) -> Program:
    """Compile for `device` and load. Raises `LaunchRefused` where its limits cannot hold the kernel."""
    lowered, binary = compile_for(report, key, device.capability, in_row)
    if lowered.shared > device.limits.shared_opt_in:
        raise LaunchRefused(
            f"`{lowered.name}` needs {lowered.shared} bytes of shared memory a block, {device.name} has "
            f"{device.limits.shared_opt_in}",
            "use smaller tiles",
        )
    function = device.load(binary.image, binary.entry)
    hold(device, lowered.name, function, lowered.threads, lowered.shared)
    longer: Once[None, Program] = Once()
    return Program(
        report.kernel,
        lowered,
        binary,
        function,
        lambda: longer.get(None, lambda: load(device, report, key, in_row=True)),
    )
