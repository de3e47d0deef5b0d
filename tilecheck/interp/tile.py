"""The interpreter of tile kernels: runs a checked kernel on NumPy arrays, block by block, in any order.

It is the meaning of the tile track. Every access is checked (`Trap`), stores clip at ragged edges, a recorder sees
races that would be real. For a kernel that passed the checks, the result is the same for every order of blocks:

    run(report, {"z": TensorArgument(z, tile=(128,)), "x": TensorArgument(x), "a": 2.0}, grid=(8, 1, 1), dims={...})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tilecheck.interp.arguments import Argument, TensorArgument
from tilecheck.interp.coarse import coarsened
from tilecheck.interp.compile import Program, compile_kernel
from tilecheck.interp.machine import Machine, Void
from tilecheck.interp.recorder import Block, Recorder
from tilecheck.interp.tensors import bind
from tilecheck.ir.kernel import TensorParam
from tilecheck.ops.debug import DeviceAssertion
from tilecheck.verify.tile import TileReport


def blocks(grid: Block) -> Iterator[Block]:
    """The blocks of a grid, x fastest."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                yield (x, y, z)


def run(
    report: TileReport,
    arguments: Mapping[str, Argument],
    grid: Block,
    dims: Mapping[str, int],
    *,
    order: Iterable[Block] | None = None,
    recorder: Recorder | None = None,
    void: Void = "zero",
) -> None:
    """Run the kernel of `report` once, writing the arrays in `arguments` (by parameter name) in place.

    `dims` gives the values of the kernel's `Dim`s by key, `order` the blocks of `grid` in the order to run them.
    `void` is what void lanes hold: 0, as on a device, or poison, to show an analysis that lets one through. Raises
    `Trap`; what earlier blocks wrote stays.
    """
    program = compile_kernel(report.kernel, report.types, dims)
    execute(program, arguments, grid, order=order, recorder=recorder, void=void)


def execute(
    program: Program,
    arguments: Mapping[str, Argument],
    grid: Block,
    *,
    order: Iterable[Block] | None = None,
    recorder: Recorder | None = None,
    void: Void = "zero",
) -> None:
    """Run a compiled kernel; as `run`, for callers that keep programs."""
    kernel = program.kernel
    if program.coarse and order is None and recorder is None:
        arguments, grid = coarsened(arguments, grid)
    machine = Machine(kernel.name, kernel.path, grid, void, recorder)
    values: list[object] = []
    for param in kernel.params:
        argument = arguments[param.name]
        if isinstance(param, TensorParam):
            if not isinstance(argument, TensorArgument):
                raise TypeError(f"`{param.name}` is a tensor parameter, it got {argument!r}")
            values.append(bind(param.name, str(param.access), argument, machine))
        else:
            values.append(argument)
    with np.errstate(all="ignore"):
        for block in blocks(grid) if order is None else order:
            machine.block = block
            try:
                program.run(machine, *values)
            except DeviceAssertion as failed:
                raise machine.trap("device-assert", failed.message) from None
