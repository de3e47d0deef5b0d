"""Where the tile stores of a cuTile kernel go at one launch, block by block: what they leave out, and whom they meet.

Only stores that every block makes are looked at, at launches whose grid and extents are known; their places are computed
for every block, so a finding is what happens there.

- A grid that is rounded down leaves the last part of an output unwritten: less than a tile along some axis.
- A tile that begins outside of its array is undefined behaviour. In memory its first element may be another block's: of an
  array of shape (2, 8, 128, 64), element (0, 1, 192, 0) lies where (0, 2, 64, 0) does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Const,
    Do,
    Expr,
    Extent,
    Kernel,
    Name,
    OpCall,
    TupleExpr,
    Unary,
    walk,
)
from tilecheck.ir.simt import Atomic, Store, ThreadVar

Place = tuple[int, ...]
_MOST_BLOCKS = 8192


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles that one store writes at one launch: the first element by block, and the extents of a tile."""

    array: str
    span: Span
    shape: Place
    tile: Place
    origins: Mapping[Place, Place]

    def outside(self, origin: Place) -> bool:
        """Whether a tile that begins at `origin` begins outside of the array."""
        return any(not 0 <= at < extent for at, extent in zip(origin, self.shape, strict=True))

    def owner(self, place: Place) -> Place | None:
        """The block whose tile, inside the array, holds the element at `place`."""
        for block, origin in self.origins.items():
            ahead = [at - first for at, first in zip(place, origin, strict=True)]
            inside = all(0 <= a < extent for a, extent in zip(ahead, self.tile, strict=True))
            if inside and not self.outside(origin):
                return block
        return None


def store_faults(kernel: Kernel, launch: Launch) -> Iterator[Fault]:
    """What the stores of `kernel` do wrong at `launch`, which launches it."""
    nodes = tuple(walk(*kernel.body))
    stores = [n for n in nodes if isinstance(n, OpCall) and n.op == "stores_tile"]
    written = Counter(array_of(call) for call in stores)
    others = {n.array.id for n in nodes if isinstance(n, Store | Atomic) and isinstance(n.array, Name)}
    spans = {n.span for n in stores}
    others -= {n.array.id for n in nodes if isinstance(n, Store) and isinstance(n.array, Name) and n.span in spans}
    for statement in kernel.body:
        if isinstance(statement, Do) and isinstance(statement.value, OpCall) and statement.value.op == "stores_tile":
            tiles = _tiles(kernel, statement.value, launch)
            if tiles is None:
                continue
            yield from _meets(kernel, tiles, launch)
            if written[tiles.array] == 1 and tiles.array not in others:
                yield from _left_out(kernel, tiles, launch)


def array_of(call: OpCall) -> str:
    """The array that a `stores_tile` names."""
    array = call.args[0]
    assert isinstance(array, Const) and isinstance(array.value, str)
    return array.value


def _tiles(kernel: Kernel, call: OpCall, launch: Launch) -> Tiles | None:
    array, first, extents = array_of(call), call.args[1], call.args[2]
    value = launch.arguments.get(array)
    if not isinstance(value, HostArray) or value.shape is None or any(e is None for e in launch.grid):
        return None
    assert isinstance(first, TupleExpr) and isinstance(extents, TupleExpr)
    x, y, z = (int(e) for e in launch.grid if e is not None)
    shape = tuple(extent for extent in value.shape if extent is not None)
    if not 0 < x * y * z <= _MOST_BLOCKS or not len(first.items) == len(shape) == len(value.shape) or 0 in shape:
        return None
    meaning = _Meaning(kernel, launch)
    tile = meaning.all(extents.items, (0, 0, 0))
    if tile is None:
        return None
    origins: dict[Place, Place] = {}
    for c, b, a in product(range(z), range(y), range(x)):
        origin = meaning.all(first.items, (a, b, c))
        if origin is None:
            return None
        origins[a, b, c] = origin
    return Tiles(array, call.span, shape, tile, origins)


def _left_out(kernel: Kernel, tiles: Tiles, launch: Launch) -> Iterator[Fault]:
    for axis, (extent, tile) in enumerate(zip(tiles.shape, tiles.tile, strict=True)):
        starts = {origin[axis] for origin in tiles.origins.values()}
        end = max(starts) + tile
        if 0 < extent - end < tile and min(starts) == 0:
            yield Fault(
                "partial-coverage",
                f"the last {extent - end} elements of `{tiles.array}` along axis {axis} are written by no block: "
                f"{len(starts)} tiles of {tile} reach {end} of {extent}",
                launch.span,
                kernel.name,
                (Label(tiles.span, f"the tiles of `{kernel.name}` are stored here"),),
                f"round the grid up: `ct.cdiv({extent}, {tile})`",
            )


def _meets(kernel: Kernel, tiles: Tiles, launch: Launch) -> Iterator[Fault]:
    strides = [math.prod(tiles.shape[k + 1 :]) for k in range(len(tiles.shape))]
    for block, origin in tiles.origins.items():
        if not tiles.outside(origin):
            continue
        flat = sum(at * stride for at, stride in zip(origin, strides, strict=True))
        if not 0 <= flat < math.prod(tiles.shape):
            continue
        place = tuple(flat // stride % extent for stride, extent in zip(strides, tiles.shape, strict=True))
        other = tiles.owner(place)
        if other is not None and other != block:
            shown = f"`{tiles.array}[{', '.join(map(str, origin))}]`"
            there = f"`{tiles.array}[{', '.join(map(str, place))}]`"
            yield Fault(
                "data-race",
                f"`{tiles.array}` is written by two blocks at once: the tile of block {block} begins outside, and in "
                f"memory that is in the tile of block {other}",
                tiles.span,
                kernel.name,
                (Label(launch.span, f"{shown} of block {block} lies where {there} of block {other} does"),),
                "give the store the tile's own place in the output; the axes of index, tile and array have to agree",
            )
            return


class _Meaning:
    """Ints of one kernel at one launch."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        assigns = [n for n in walk(*kernel.body) if isinstance(n, Assign)]
        times = Counter(n.target for n in assigns)
        self.values = {n.target: n.value for n in assigns if times[n.target] == 1}
        self.launch = launch

    def all(self, items: Sequence[Expr], block: Place) -> Place | None:
        """The values of `items` in one block, None if one is not known."""
        found = [self.of(item, block) for item in items]
        known = tuple(value for value in found if value is not None)
        return known if len(known) == len(found) else None

    def of(self, value: Expr, block: Place) -> int | None:
        """The value of an int expression in one block, None if the launch does not say."""
        match value:
            case Const(value=bool()):
                return None
            case Const(value=int() as number):
                return number
            case ThreadVar(kind="blockIdx", axis=axis) if axis is not None:
                return block["xyz".index(axis)]
            case ThreadVar(kind="gridDim", axis=axis) if axis is not None:
                return self.launch.grid["xyz".index(axis)]
            case Extent(array=Name(id=array), axis=axis) if axis is not None:
                given = self.launch.arguments.get(array)
                known = isinstance(given, HostArray) and given.shape is not None and axis < len(given.shape)
                return given.shape[axis] if known else None  # type: ignore[union-attr, index]
            case Name(id=name):
                given = self.launch.arguments.get(name)
                if isinstance(given, int) and not isinstance(given, bool):
                    return given
                return self.of(self.values[name], block) if name in self.values else None
            case Unary(op="-", operand=operand):
                inner = self.of(operand, block)
                return None if inner is None else -inner
            case Binary(op="+" | "-" | "*" | "//" | "%" as op, left=left, right=right):
                a, b = self.of(left, block), self.of(right, block)
                return None if a is None or b is None else _combined(op, a, b)
            case OpCall(op="min" | "max" as op, args=args):
                parts = self.all(args, block)
                return None if parts is None else min(parts) if op == "min" else max(parts)
        return None


def _combined(op: str, a: int, b: int) -> int | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    return None if b == 0 else a // b if op == "//" else a % b
