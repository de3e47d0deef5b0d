"""Tensors as kernels see them: the block's own tile, read views, sub-tiles, elements under atomics.

Each object belongs to one launch and reads the current block from the launch's `Machine`.

Invariant: what a load returns is never changed by a later store, so tiles are values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilecheck.interp.arguments import TensorArgument
from tilecheck.interp.machine import Machine, Memory
from tilecheck.interp.mapped import MappedTensor, indices_of
from tilecheck.ops.numbers import Array


@dataclass(slots=True)
class View:
    """`x.partition(...)` of a `Shared` tensor."""

    memory: Memory
    tile: tuple[int, ...]
    pad: object
    permute: tuple[int, ...]

    def load(self, *at: Any) -> Array:
        """The tile at these indices."""
        indices = indices_of(at)
        self.memory.check(indices, self.tile, self.permute)
        rank = len(self.tile)
        start, shape = [0] * rank, [0] * rank
        for index, tile, axis in zip(indices, self.tile, self.permute, strict=True):
            start[axis], shape[axis] = index * tile, tile
        return self.memory.read(start, shape, self.pad).transpose(self.permute)

    def num_tiles(self, axis: int) -> int:
        """How many tiles cover axis `axis` of the view."""
        axis %= len(self.tile)
        return self.memory.tiles_along(self.permute[axis], self.tile[axis])


@dataclass(slots=True)
class SharedTensor:
    """A `Shared` parameter: read as a whole, at another tensor's position, in tiles, or element by element."""

    memory: Memory

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.array.shape

    @property
    def size(self) -> int:
        return self.memory.array.size

    def load(self, pad: object = None) -> Array:
        """The whole array; nothing of it lies beyond an edge, so `pad` never shows."""
        return self.memory.read((0,) * self.memory.array.ndim, self.shape)

    def load_like(self, like: OwnTile | MappedTensor, *at: Any, pad: object = None) -> Array:
        """The elements at the position of a block's own tile of `like`."""
        start = like.start(*at)
        other = like.memory.array.shape
        for axis, (s, n, e) in enumerate(zip(start, like.tile, other, strict=True)):
            needed = min(s + n, e)
            if needed > self.shape[axis]:
                raise self.memory.machine.trap(
                    "out-of-bounds",
                    f"`{self.memory.name}` has {self.shape[axis]} elements on axis {axis}, the tile of `{like.memory.name}` "
                    f"needs {needed}",
                    array=self.memory.name,
                    index=start,
                    help=f"pass a `{self.memory.name}` at least as long as `{like.memory.name}`",
                )
        return self.memory.read(start, like.tile, pad)

    def view(self, shape: Sequence[int], pad: object, permute: Sequence[int] | None) -> View:
        """The tensor seen in tiles of `shape`."""
        order = tuple(range(len(shape))) if permute is None else tuple(permute)
        return View(self.memory, tuple(shape), pad, order)

    def gather(self, indices: Sequence[Any], mask: Any, pad: object) -> Array:
        """The elements at `indices`; `pad` where `mask` is false."""
        found = self.memory.array[self.memory.elements(indices, mask, "read")]
        if mask is None:
            return np.asarray(found)
        return np.asarray(np.where(mask, found, self.memory.machine.fill(found.dtype, pad)))


@dataclass(slots=True)
class OwnTile:
    """A `Mut` parameter: the tile at the block's own position."""

    memory: Memory
    tile: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.array.shape

    @property
    def size(self) -> int:
        return self.memory.array.size

    def start(self) -> tuple[int, ...]:
        """The first element of the tile. Traps for a block outside the partition."""
        block = self.memory.machine.block
        for axis, (index, tile) in enumerate(zip(block, self.tile, strict=False)):
            tiles = self.memory.tiles_along(axis, tile)
            if index >= tiles:
                raise self.memory.machine.trap(
                    "launch-contract",
                    f"block {block} has no tile of `{self.memory.name}`: axis {axis} has {tiles} tiles",
                    array=self.memory.name,
                    help="leave the grid to the partition",
                )
        return tuple(index * tile for index, tile in zip(block, self.tile, strict=False))

    def num_tiles(self, axis: int) -> int:
        """How many tiles cover `axis` of the whole tensor."""
        axis %= len(self.tile)
        return self.memory.tiles_along(axis, self.tile[axis])

    def load(self, pad: object = None) -> Array:
        """The tile as of the block's earlier stores."""
        return self.memory.read(self.start(), self.tile, pad).copy()

    def store(self, tile: Array) -> None:
        """Replace the tile."""
        self.memory.write(self.start(), tile)

    def tiles(self, shape: Sequence[int]) -> SubTiles:
        """The tile cut again."""
        return SubTiles(self, tuple(shape))


@dataclass(slots=True)
class SubTiles:
    """`z.tiles(...)`: pieces of the block's own tile, clipped at its end, so they never leave it."""

    owner: OwnTile
    tile: tuple[int, ...]

    def num_tiles(self, axis: int) -> int:
        """How many sub-tiles cover `axis` of the block's tile."""
        axis %= len(self.tile)
        return -(-self.owner.tile[axis] // self.tile[axis])

    def _place(self, at: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Start and limit, in elements of the array, of the sub-tile at these indices."""
        indices = indices_of(at)
        memory = self.owner.memory
        for axis, index in enumerate(indices):
            tiles = self.num_tiles(axis)
            if not 0 <= index < tiles:
                raise memory.machine.trap(
                    "out-of-bounds",
                    f"sub-tile {index} of `{memory.name}` is out of bounds on axis {axis}: a tile of "
                    f"{self.owner.tile[axis]} has {tiles} sub-tiles of {self.tile[axis]}",
                    array=memory.name,
                    index=indices,
                    help=f"loop over `range(....num_tiles({axis}))`",
                )
        origin = self.owner.start()
        start = tuple(o + i * t for o, i, t in zip(origin, indices, self.tile, strict=True))
        limit = tuple(min(o + t, e) for o, t, e in zip(origin, self.owner.tile, memory.array.shape, strict=True))
        return start, limit

    def load(self, *at: Any) -> Array:
        """The sub-tile as of the block's earlier stores."""
        start, limit = self._place(at)
        return self.owner.memory.read(_clip(start, limit), self.tile, None, limit).copy()

    def store(self, tile: Array, *at: Any) -> None:
        """Replace the sub-tile."""
        start, limit = self._place(at)
        self.owner.memory.write(_clip(start, limit), tile, limit)


@dataclass(slots=True)
class AtomicTensor:
    """An `Atomic` parameter: elements are updated one at a time, in some order."""

    memory: Memory

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.array.shape

    @property
    def size(self) -> int:
        return self.memory.array.size

    def update(self, indices: Sequence[Any], mask: Any, values: Sequence[Any], f: Any) -> Array:
        """Set each element at `indices` to `f(old, *values)`, lane by lane; returns the old values (0 where masked)."""
        dtype = self.memory.array.dtype
        places = self.memory.elements(indices, mask, "atomic")
        shape = np.broadcast_shapes(places[0].shape, *(np.shape(v) for v in values))
        lanes = np.broadcast_to(True if mask is None else mask, shape)
        spread = [np.broadcast_to(p, shape) for p in places]
        given = [np.broadcast_to(v, shape) for v in values]
        old = np.zeros(shape, dtype)
        for lane in np.ndindex(shape):
            if lanes[lane]:
                where = tuple(p[lane] for p in spread)
                old[lane] = self.memory.array[where]
                self.memory.array[where] = f(old[lane], *(g[lane] for g in given))
        return old


def _clip(start: Sequence[int], limit: Sequence[int]) -> tuple[int, ...]:
    """A start that is not beyond the limit, so that slices of nothing stay empty."""
    return tuple(min(s, e) for s, e in zip(start, limit, strict=True))


def bind(name: str, access: str, argument: TensorArgument, machine: Machine) -> Any:
    """The object that stands for a tensor parameter in a launch."""
    memory = Memory(name, argument.array, machine)
    if machine.recorder is not None:
        machine.recorder.attach(name, argument.array)
    if access == "Shared":
        return SharedTensor(memory)
    if access == "Atomic":
        return AtomicTensor(memory)
    if argument.tile is None:
        raise ValueError(f"the argument for `{name}` has no tile")
    if access == "Mapped":
        if argument.map is None:
            raise ValueError(f"the argument for `{name}` has no map")
        return MappedTensor(memory, argument, argument.tile)
    return OwnTile(memory, argument.tile)
