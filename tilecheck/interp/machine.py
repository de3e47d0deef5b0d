"""The state of a launch and the memory under it: bounds-checked rectangles and elements, and the record of who
touched what.

An access outside its array raises `Trap` before anything happens. A load that hangs over an edge fills the void
lanes: with the view's padding, else with 0, or with poison, so that a test can see a void lane that reached a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilecheck.interp.arguments import Trap
from tilecheck.interp.recorder import Access, Block, Recorder
from tilecheck.ops.numbers import Array, as_dtype

Void = Literal["zero", "poison"]

_PADS = {"zero": 0.0, "neg_zero": -0.0, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


@dataclass(slots=True)
class Machine:
    """The state of one launch: which block runs, at which line, and what void lanes hold."""

    kernel: str
    path: str
    grid: Block
    void: Void = "zero"
    recorder: Recorder | None = None
    block: Block = (0, 0, 0)
    line: int = 0

    def trap(
        self, rule: str, message: str, *, array: str | None = None, index: Sequence[int] = (), help: str | None = None
    ) -> Trap:
        """The trap for the access of this moment."""
        return Trap(
            rule,
            message,
            kernel=self.kernel,
            path=self.path,
            line=self.line,
            array=array,
            index=tuple(index) or None,
            block=self.block,
            help=help,
        )

    def fill(self, dtype: np.dtype[Any], pad: object = None) -> Array:
        """What a lane beyond the edge holds."""
        if pad is not None:
            return as_dtype(_PADS[pad] if isinstance(pad, str) else pad, dtype)
        if self.void == "zero":
            return np.zeros((), dtype)
        if dtype.kind in "iu":
            return as_dtype(0x5A5A5A5A5A5A5A5A, dtype)
        return np.array(True) if dtype.kind == "b" else np.array(np.nan, dtype)


@dataclass(slots=True)
class Memory:
    """One array of the launch: bounds-checked rectangles, and the record of who touched what."""

    name: str
    array: Array
    machine: Machine

    def read(
        self, start: Sequence[int], shape: Sequence[int], pad: object = None, limit: Sequence[int] | None = None
    ) -> Array:
        """The rectangle of `shape` elements from `start`; lanes at or beyond `limit` (the array's extents) are
        filled.
        """
        extents = limit or self.array.shape
        inside = tuple(slice(s, min(s + n, e)) for s, n, e in zip(start, shape, extents, strict=True))
        part = self.array[inside]
        if self.machine.recorder is not None:
            self.machine.recorder.record(self.name, inside, "read", self.machine.block, self.machine.line)
        if part.shape == tuple(shape):
            return part
        tile = np.full(shape, self.machine.fill(self.array.dtype, pad), self.array.dtype)
        tile[tuple(slice(0, n) for n in part.shape)] = part
        return tile

    def write(self, start: Sequence[int], tile: Array, limit: Sequence[int] | None = None) -> None:
        """Write the lanes of `tile` that lie before `limit` (the array's extents) to the rectangle from `start`."""
        extents = limit or self.array.shape
        inside = tuple(slice(s, min(s + n, e)) for s, n, e in zip(start, tile.shape, extents, strict=True))
        if self.machine.recorder is not None:
            self.machine.recorder.record(self.name, inside, "write", self.machine.block, self.machine.line)
        self.array[inside] = tile[tuple(slice(0, max(i.stop - i.start, 0)) for i in inside)]

    def tiles_along(self, axis: int, tile: int) -> int:
        """How many tiles of extent `tile` cover `axis`."""
        extent: int = self.array.shape[axis]
        return -(-extent // tile)

    def check(self, indices: Sequence[int], shape: Sequence[int], axes: Sequence[int]) -> None:
        """Trap unless `indices` name a tile of `shape` on the array's `axes`."""
        for at, (index, tile, axis) in enumerate(zip(indices, shape, axes, strict=True)):
            tiles = self.tiles_along(axis, tile)
            if not 0 <= index < tiles:
                raise self.machine.trap(
                    "out-of-bounds",
                    f"tile {index} of `{self.name}` is out of bounds on axis {at}: {self.array.shape[axis]} elements are "
                    f"{tiles} tile{'s' if tiles != 1 else ''} of {tile}",
                    array=self.name,
                    index=indices,
                    help=f"loop over `range(....num_tiles({at}))`, or compare the index with it first",
                )

    def elements(self, indices: Sequence[Any], mask: Any, access: Access) -> tuple[Array, ...]:
        """Element indices, broadcast and checked; lanes whose `mask` is false are set to element 0 and not recorded."""
        given = np.broadcast_arrays(*indices) if mask is None else np.broadcast_arrays(*indices, mask)[:-1]
        lanes = np.ones(given[0].shape, bool) if mask is None else np.broadcast_to(mask, given[0].shape)
        for axis, index in enumerate(given):
            outside = lanes & ((index < 0) | (index >= self.array.shape[axis]))
            if outside.any():
                where = tuple(np.argwhere(outside)[0])
                raise self.machine.trap(
                    "out-of-bounds",
                    f"index {int(index[where])} of `{self.name}` is out of bounds on axis {axis} of extent "
                    f"{self.array.shape[axis]}",
                    array=self.name,
                    index=tuple(int(i[where]) for i in given),
                    help="compare the index with `.shape` and pass the comparison as `mask=`",
                )
        if self.machine.recorder is not None and lanes.any():
            touched = tuple(index[lanes] for index in given)
            self.machine.recorder.record(self.name, touched, access, self.machine.block, self.machine.line)
        return tuple(np.where(lanes, index, 0) for index in given)
