"""The machine that a compiled kernel runs on: threads and their indices, arrays, and what generated code calls.

Shared arrays are one per block and name; dynamic ones share one buffer per block. Local arrays are one per thread and
name. What cannot be computed (an opaque value, a statement that was not read) gives 0 and is remembered as a reason why
the run is inexact.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from tilecheck.interp import simt_ops
from tilecheck.interp.clocks import Timed
from tilecheck.interp.simt_compile import Program
from tilecheck.interp.simt_memory import Arr, Cell, Memory, Watch
from tilecheck.interp.simt_warps import Lanes
from tilecheck.ir.host_array import Contents, HostArray
from tilecheck.ir.simt import AllocArray

Extents = tuple[int, int, int]
WARP = 32


class Gone(Exception):
    """The thread ended itself: a failed `assert`, a `raise`."""


class TooLong(Exception):
    """The run took more loop rounds than it may."""


class Thread(Timed):
    """One thread: its indices under the short names that generated code uses, and where it waits."""

    __slots__ = (
        "bx", "by", "bz", "dx", "dy", "dz", "event", "gone", "gx", "gy", "gz", "home", "lane_id", "lanes", "local",
        "place", "program", "reply", "tx", "ty", "tz", "waits", "warp_size",
    )  # fmt: skip

    def __init__(self, home: Block, lane: int, place: Extents, grid: Extents, extents: Extents, own: list[int]) -> None:
        super().__init__(home.number, lane, own)
        self.home = home
        self.place = place
        self.tx, self.ty, self.tz = place
        self.bx, self.by, self.bz = home.place
        self.dx, self.dy, self.dz = extents
        self.gx, self.gy, self.gz = grid
        self.lane_id = lane % WARP
        self.warp_size = WARP
        self.lanes = home.warps[lane // WARP]
        self.lanes.threads.append(self)
        self.local: dict[str, Arr] = {}
        self.program: Generator[Any, Any, Any] | None = None
        self.event: tuple[Any, ...] = ()
        self.reply: Any = None
        self.gone = False
        # How often it will still be passed over.
        self.waits = 0

    def lane_mask(self) -> int:
        """The lanes that this thread's warp operation names; the lanes of the warp if it names none."""
        payload = self.event[2]
        mask = payload if self.event[0] == 2 else payload[1] if payload is not None else None
        if mask is None:
            return (1 << len(self.lanes.threads)) - 1
        return int(mask) & 0xFFFFFFFF


class Block:
    """One block: its threads, its shared memory, and who waits at its barrier."""

    __slots__ = ("alive", "cells", "left", "number", "place", "pool", "shared", "threads", "waiting", "warps")

    def __init__(self, number: int, place: Extents, width: int) -> None:
        self.number = number
        self.place = place
        self.threads: list[Thread] = []
        self.warps = [Lanes() for _ in range(-(-width // WARP))]
        self.waiting: list[Thread] = []
        self.alive = width
        self.left: Thread | None = None
        self.cells: dict[int, Cell] = {}
        self.shared: dict[str, Arr] = {}
        self.pool: np.ndarray[Any, Any] | None = None


class Machine:
    """What generated code reaches through `R`."""

    Gone = Gone
    functions = simt_ops.FUNCTIONS
    atomics = simt_ops.ATOMICS
    wrap = staticmethod(simt_ops.wrap)
    divide = staticmethod(simt_ops.divide)
    floor_divide = staticmethod(simt_ops.floor_divide)
    modulo = staticmethod(simt_ops.modulo)
    power = staticmethod(simt_ops.power)
    shift_left = staticmethod(simt_ops.shift_left)
    shift_right = staticmethod(simt_ops.shift_right)

    def __init__(
        self,
        program: Program,
        arguments: Mapping[str, object],
        dynamic_shared: int,
        constants: dict[str, object],
        max_steps: int,
        allowed_wraps: frozenset[int],
        track: bool = True,
        deadline: float | None = None,
    ) -> None:
        self.program = program
        self.arguments = arguments
        self.dynamic_shared = dynamic_shared
        self.constants = constants
        self.steps = max_steps
        self.deadline = math.inf if deadline is None else deadline
        self.reasons: set[str] = set()
        self.watch = Watch(allowed_wraps)
        self.track = track
        self.memory = Memory(self.watch)
        self.cells: dict[int, Cell] = {}
        self._const: dict[str, Arr] = {}
        self._unit = _narrowest(program)

    # ---- setting up

    def bound(self) -> list[object]:
        """The kernel's arguments, arrays as `Arr`. An array that nothing writes, directly or through an alias, is not
        tracked. Raises ValueError for a missing one.
        """
        arrays = {name: value for name, value in self.arguments.items() if isinstance(value, np.ndarray)}
        written = [arrays[name] for name in sorted(self.program.written & arrays.keys())]
        units = {array.itemsize for array in written}
        values: list[object] = []
        for param in self.program.kernel.params:
            if param.name not in self.arguments:
                raise ValueError(f"no value for parameter `{param.name}` of kernel `{self.program.kernel.name}`")
            value = self.arguments[param.name]
            if isinstance(value, np.ndarray):
                tracked = self.track and any(np.may_share_memory(value, other) for other in written)
                unit = min(units) if tracked and any(_odd_overlap(value, other) for other in written) else None
                values.append(Arr(value, param.name, "global", self.cells if tracked else None, unit))
            elif isinstance(value, np.void):
                values.append(Arr(np.asarray(value), param.name, "global", None))
            elif isinstance(value, np.generic):
                values.append(value.item())
            else:
                values.append(value)
        return values

    # ---- bookkeeping

    def tick(self) -> None:
        """One scheduling step."""
        self.steps -= 1
        if self.steps < 0:
            raise TooLong
        if self.steps & 63 == 0:
            self.keep_time()

    def keep_time(self) -> None:
        """Stop the run past its deadline."""
        if time.process_time() > self.deadline:
            raise TooLong

    def refuel(self, rounds: int) -> int:
        """More loop rounds for a thread that used up `rounds`."""
        self.steps -= rounds
        if self.steps < 0:
            raise TooLong
        self.keep_time()
        return rounds

    def inexact(self, reason: str) -> None:
        """Remember that the run is not the kernel: `reason`."""
        self.reasons.add(reason)

    def opaque(self, reason: str, *_: object) -> int:
        """A value that nothing is known of."""
        self.reasons.add(reason)
        return 0

    def unknown_atomic(self, op: str) -> Any:
        """An atomic that is not known: it leaves the element as it is."""
        self.reasons.add(f"`cuda.atomic.{op}`")
        return lambda old, *_: old

    def free(self, name: str) -> object:
        """A constant of the enclosing Python scope."""
        if name in self.constants:
            return self.constants[name]
        return self.opaque(f"the constant `{name}`")

    @staticmethod
    def number(text: str) -> float:
        return float(text)

    # ---- arrays

    def allocate(self, t: Thread, site: int, shape: tuple[Any, ...]) -> Arr:
        """The array of an `AllocArray`, made on first use."""
        node = self.program.sites[site]
        assert isinstance(node, AllocArray)
        if node.space == "const":
            if node.name not in self._const:
                self._const[node.name] = self._constant(node)
            return self._const[node.name]
        home = t.home.shared if node.space == "shared" else t.local
        found = home.get(node.name)
        if found is None:
            found = home[node.name] = self._made(node, t, shape)
        return found

    def _made(self, node: AllocArray, t: Thread, shape: tuple[Any, ...]) -> Arr:
        if node.dtype is None:
            self.inexact(f"the dtype of `{node.name}`")
        dtype = np.dtype(node.dtype or "float64") if node.dtype != "bfloat16" else np.dtype("float32")
        if node.space == "local":
            return Arr(np.zeros(shape, dtype), node.name, "local", None)
        if node.dynamic:
            if t.home.pool is None:
                t.home.pool = np.zeros(self.dynamic_shared, np.uint8)
            count = self.dynamic_shared // dtype.itemsize
            array = t.home.pool[: count * dtype.itemsize].view(dtype)
            return Arr(array, node.name, "shared", t.home.cells if self.track else None, self._unit)
        return Arr(np.zeros(shape, dtype), node.name, "shared", t.home.cells if self.track else None)

    def _constant(self, node: AllocArray) -> Arr:
        value = self.program.kernel.constants.get(node.source or "")
        if isinstance(value, HostArray):
            made = host_values(value)
            if made is not None:
                return Arr(made, node.name.removeprefix("::"), "const", None)
        self.inexact(f"the contents of `{node.source}`")
        shape = value.shape if isinstance(value, HostArray) and value.shape is not None else (1,)
        return Arr(np.zeros([extent or 0 for extent in shape]), node.name.removeprefix("::"), "const", None)

    def extent(self, array: Any, axis: int | None) -> int:
        """`array.shape[axis]`, or its size."""
        if isinstance(array, tuple):
            return len(array)
        if not isinstance(array, Arr):
            return self.opaque("the extent of something that is no array")
        if axis is None:
            return math.prod(array.shape)
        return array.shape[axis] if -array.ndim <= axis < array.ndim else self.opaque("an axis that is not there")

    def view(self, t: Thread, array: Any, index: tuple[Any, ...], site: int) -> Any:
        """A view of an array; positions are checked, slices are clipped as in Python."""
        if not isinstance(array, Arr):
            return self.item(t, array, index[0], site)
        if len([part for part in index if part is not ...]) > array.ndim:
            self.watch.stray(t, array, tuple(i for i in index if isinstance(i, int)), site, wrapped=False)
            return array
        parts: list[Any] = []
        positions = _positions(index, array.ndim)
        for part, axis in zip(index, positions, strict=True):
            if isinstance(part, slice) or part is ...:
                parts.append(part)
                continue
            at = int(part)
            extent = array.shape[axis]
            if not 0 <= at < extent:
                wrapped = -extent <= at < 0
                self.watch.stray(t, array, (at,), site, wrapped=wrapped)
                if not wrapped:
                    return array.view(array.np[(slice(0, 0),) * array.ndim])
            parts.append(at)
        if all(not isinstance(part, slice) and part is not ... for part in parts) and len(parts) == array.ndim:
            parts.append(...)
        return array.view(array.np[tuple(parts)])

    def item(self, t: Thread, base: Any, index: Any, site: int) -> Any:
        """`base[index]` of a tuple; of an array when the frontend could not tell."""
        if isinstance(base, Arr):
            return self.memory.read1(t, base, index, site)
        if isinstance(base, tuple) and isinstance(index, int) and -len(base) <= index < len(base):
            return base[index]
        return self.opaque("an item of something that is no tuple")

    def reshaped(self, op: str, array: Any, *args: Any) -> Any:
        """`shape`, `ndim` and the views that only rearrange an array."""
        if not isinstance(array, Arr):
            return self.opaque(f"`{op}` of something that is no array")
        if op == "shape":
            return array.shape
        if op == "ndim":
            return array.ndim
        if op == "T" or (op == "transpose" and not args):
            return array.view(array.np.T)
        if op in ("reshape", "ravel", "flat"):
            shape = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args or (-1,)
            try:
                made = array.np.reshape(shape)
            except (ValueError, TypeError):
                return self.opaque(f"`{op}` to a shape that does not fit")
            if np.shares_memory(made, array.np) or not made.size:
                return array.view(made)
        return self.opaque(f"`{op}` of an array")

    def range(self, start: Any, stop: Any, step: Any) -> range:
        """`range`; a step of 0 makes no round."""
        if not step:
            self.inexact("a loop with step 0")
            return range(0)
        return range(int(start), int(stop), int(step))


def coordinates(number: int, extents: Extents) -> Extents:
    """The place of thread or block `number`, x fastest."""
    return (number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1]))


def _positions(index: tuple[Any, ...], ndim: int) -> list[int]:
    """The axis of each part of an index that may hold one Ellipsis."""
    axes: list[int] = []
    axis = 0
    for part in index:
        axes.append(axis)
        axis += ndim - (len(index) - 1) if part is ... else 1
    return axes


def _odd_overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.itemsize != b.itemsize and np.may_share_memory(a, b)


def _narrowest(program: Program) -> int | None:
    """The narrowest element of the dynamic shared arrays if they differ in width."""
    widths = set()
    for node in program.sites:
        if isinstance(node, AllocArray) and node.dynamic:
            widths.add(np.dtype(node.dtype or "float64").itemsize if node.dtype != "bfloat16" else 4)
    return min(widths) if len(widths) > 1 else None


def host_values(value: HostArray) -> np.ndarray[Any, Any] | None:
    """The NumPy array of a `HostArray` whose contents are known, None otherwise."""
    if not isinstance(value.contents, Contents) or value.shape is None or any(extent is None for extent in value.shape):
        return None
    shape = tuple(int(extent or 0) for extent in value.shape)
    dtype = value.dtype if value.dtype != "bfloat16" else "float32"
    if value.contents.values is not None:
        return np.array(value.contents.values, dtype).reshape(shape)
    if value.contents.step == 0 and value.contents.start == 0:
        return np.zeros(shape, dtype or "float64")
    start, step = value.contents.start, value.contents.step
    if start == 0 and step == 1:
        return np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    return (start + step * np.arange(math.prod(shape))).astype(dtype or "float64").reshape(shape)
