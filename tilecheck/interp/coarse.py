"""Fewer, larger blocks for kernels that cannot tell: the interpreter's price is per tile, small tiles are common.

A kernel is *coarse* if its result does not depend on how its outputs are cut: it reads `Shared` tensors at its own
position, loads and stores its own tile, and computes elementwise, without a block id, a `Dim` or a tile's extent.
Then a block of 8 tiles computes what 8 blocks compute:

    z.store(a * tc.load_like(x, z))      z.partition(128) of 1024, grid (8, 1, 1)   ->   tile (1024,), grid (1, 1, 1)

Only a whole grid is coarsened, never with a recorder or an order, where the blocks themselves are the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilecheck.interp.arguments import Argument, TensorArgument
from tilecheck.interp.recorder import Block
from tilecheck.ir.kernel import Access, Assert, DimRef, Extent, Kernel, Name, OpCall, TensorParam, walk
from tilecheck.ops import OPS, Effect, Lanes

# Elements per tile beyond which a larger tile gains nothing.
ENOUGH = 1 << 16
_OWN = ("load", "load_like", "store")


def is_coarse(kernel: Kernel) -> bool:
    """Whether the kernel's result cannot depend on the extents of its tiles."""
    tensors = {param.name: param for param in kernel.params if isinstance(param, TensorParam)}
    if any(param.access not in (Access.SHARED, Access.MUT) for param in tensors.values()):
        return False
    for node in walk(*kernel.body):
        match node:
            case DimRef() | Assert():
                return False
            case Extent(array=Name(id=name)) if name in tensors:
                continue
            case Extent():
                return False
            case OpCall(op="load", args=(Name(id=name),)) if name in tensors and tensors[name].access is Access.SHARED:
                return False
            case OpCall(op=op) if op not in _OWN:
                row = OPS.get(op)
                if (
                    row is None
                    or row.lanes is not Lanes.CARRY
                    or row.effect is not Effect.NONE
                    or row.family == "debug"
                ):
                    return False
    return True


def coarsened(arguments: Mapping[str, Argument], grid: Block) -> tuple[Mapping[str, Argument], Block]:
    """The launch of a coarse kernel with tiles of about `ENOUGH` elements, or as it was."""
    outputs = {name: a for name, a in arguments.items() if isinstance(a, TensorArgument) and a.tile is not None}
    tiles = {a.tile for a in outputs.values()}
    if len(tiles) != 1:
        return arguments, grid
    tile = next(iter(tiles)) or ()
    counts = {tuple(-(-n // t) for n, t in zip(a.array.shape, tile, strict=True)) for a in outputs.values()}
    if counts != {grid[: len(tile)]} or any(n != 1 for n in grid[len(tile) :]):
        return arguments, grid
    size = 1
    for extent in tile:
        size *= extent
    room = max(ENOUGH // size, 1)
    factors = [1] * len(tile)
    for axis in reversed(range(len(tile))):
        factors[axis] = min(grid[axis], room)
        room //= factors[axis]
    larger = tuple(t * f for t, f in zip(tile, factors, strict=True))
    x, y, z = (*(-(-n // f) for n, f in zip(grid, factors, strict=False)), 1, 1, 1)[:3]
    changed = {name: replace(a, tile=larger) for name, a in outputs.items()}
    return {**arguments, **changed}, (x, y, z)
