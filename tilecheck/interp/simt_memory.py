"""Memory of a running SIMT launch: arrays with bounds, and the record of who touched which element when.

Every element access of a kernel passes here. An index outside its extent is reported and the access dropped (a load
gives 0); a negative one wraps once, as numba does, and is reported too. An access that is not ordered after a
conflicting one is a race. A shared element read before any write is uninitialised.

Cells are keyed by byte address, so views and aliased arguments of one buffer meet in the same cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilecheck.interp.clocks import Mailbox, Timed

Key = tuple[int, int]


class Cell:
    """Accesses of one element: last plain write, reads and atomics since, by thread."""

    __slots__ = ("atomics", "box", "name", "reads", "value", "write", "written")

    def __init__(self) -> None:
        self.write: tuple[int, int, int, int] | None = None  # block, lane, time, site
        self.value: object = None
        self.reads: dict[Key, tuple[int, int]] | None = None  # (block, lane) -> time, site
        self.atomics: dict[Key, tuple[int, int]] | None = None
        self.box: Mailbox | None = None
        self.written = False


class Arr:
    """An array as a kernel sees it: a NumPy view, its extents, and the record its accesses go to (None: untracked)."""

    __slots__ = (
        "addr",
        "cells",
        "item",
        "n",
        "name",
        "ndim",
        "np",
        "shape",
        "space",
        "stride",
        "strides",
        "unit",
    )

    def __init__(
        self, array: np.ndarray[Any, Any], name: str, space: str, cells: dict[int, Cell] | None, unit: int | None = None
    ) -> None:
        self.np = array
        self.item = array.item
        self.name = name
        self.space = space
        self.cells = cells
        self.shape = array.shape
        self.strides = array.strides
        self.ndim = array.ndim
        self.n = array.shape[0] if array.ndim else 1
        self.stride = array.strides[0] if array.ndim else 0
        self.addr = array.__array_interface__["data"][0] if cells is not None else 0
        self.unit = unit  # bytes per cell where views of several widths share memory

    def view(self, array: np.ndarray[Any, Any]) -> Arr:
        """Another view of the same memory, under the same name."""
        return Arr(array, self.name, self.space, self.cells, self.unit)


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a race: which thread, at which site, and what it did."""

    block: int
    lane: int
    site: int
    kind: str  # read, write, atomic


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses of one element that nothing orders. `same_value`: both wrote the same value."""

    first: Access
    second: Access
    array: Arr
    index: tuple[int, ...]
    same_value: bool


@dataclass(frozen=True, slots=True)
class Stray:
    """An index outside its extent; `wrapped` says that a negative one came back inside."""

    block: int
    lane: int
    site: int
    array: Arr
    index: tuple[int, ...]
    wrapped: bool


@dataclass(frozen=True, slots=True)
class Unset:
    """Shared memory read before any write."""

    block: int
    lane: int
    site: int
    array: Arr
    index: tuple[int, ...]


class Watch:
    """Receives what memory notices; `races`, `strays` and `unsets` keep the first of each pair of sites."""

    def __init__(self, allowed_wraps: frozenset[int] = frozenset()) -> None:
        self.races: dict[tuple[int, int, bool], Race] = {}
        self.strays: dict[tuple[int, bool], Stray] = {}
        self.unsets: dict[int, Unset] = {}
        self.allowed_wraps = allowed_wraps

    def race(
        self, t: Timed, other: tuple[int, int, int], kinds: tuple[str, str], a: Arr, i: Any, k: int, same: bool
    ) -> None:
        """`t` at site `k` collides with an earlier access (block, lane, site)."""
        block, lane, site = other
        low, high = (site, k) if site <= k else (k, site)
        key = (low, high, same)
        if key not in self.races:
            first = Access(block, lane, site, kinds[0])
            second = Access(t.block, t.lane, k, kinds[1])
            self.races[key] = Race(first, second, a, _index(i), same)

    def stray(self, t: Timed, a: Arr, index: tuple[int, ...], k: int, *, wrapped: bool) -> None:
        """`t` used an index outside the extents of `a`."""
        if wrapped and k in self.allowed_wraps:
            return
        if (k, wrapped) not in self.strays:
            self.strays[k, wrapped] = Stray(t.block, t.lane, k, a, index, wrapped)

    def unset(self, t: Timed, a: Arr, i: Any, k: int) -> None:
        """`t` read shared memory that nothing wrote."""
        if k not in self.unsets:
            self.unsets[k] = Unset(t.block, t.lane, k, a, _index(i))


def _index(i: Any) -> tuple[int, ...]:
    return i if isinstance(i, tuple) else (i,)


class Memory:
    """The accesses of one launch. `read`, `write`, `update` and `atomic` are what generated kernels call."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    # ---- places

    def place(self, t: Timed, a: Arr, i: tuple[Any, ...], k: int) -> tuple[Any, ...] | None:
        """The index inside the extents, wrapped once; None if it is outside."""
        index = tuple(int(x) for x in i)
        if len(index) > a.ndim:
            self.watch.stray(t, a, index, k, wrapped=False)
            return None
        result: list[int] = []
        wrapped = False
        for x, n in zip(index, a.shape, strict=False):
            at = x
            if x < 0:
                at = x + n
                wrapped = True
            if not 0 <= at < n:
                self.watch.stray(t, a, index, k, wrapped=False)
                return None
            result.append(at)
        if wrapped:
            self.watch.stray(t, a, index, k, wrapped=True)
        return tuple(result)

    def cells_of(self, a: Arr, i: tuple[int, ...], offset: int = 0) -> list[Cell]:
        """The cells that element `i` of `a` covers: one, unless views of several widths share the memory."""
        assert a.cells is not None
        address = a.addr + offset
        for x, step in zip(i, a.strides, strict=False):
            address += x * step
        if a.unit is None:
            return [_cell(a.cells, address)]
        return [_cell(a.cells, address + d) for d in range(0, a.np.itemsize, a.unit)]

    # ---- checks

    def note_read(self, t: Timed, cell: Cell, a: Arr, i: Any, k: int) -> None:
        """Record a plain read."""
        write = cell.write
        if write is not None and not t.knows(write[0], write[1], write[2]):
            self.watch.race(t, (write[0], write[1], write[3]), ("write", "read"), a, i, k, False)
        if cell.atomics:
            for (block, lane), (time, site) in cell.atomics.items():
                if not t.knows(block, lane, time):
                    self.watch.race(t, (block, lane, site), ("atomic", "read"), a, i, k, False)
                    break
        if not cell.written and a.space == "shared":
            self.watch.unset(t, a, i, k)
        if cell.reads is None:
            cell.reads = {}
        cell.reads[t.block, t.lane] = (t.time, k)

    def note_write(self, t: Timed, cell: Cell, a: Arr, i: Any, k: int, value: object) -> None:
        """Record a plain write of `value`."""
        write = cell.write
        if write is not None and not t.knows(write[0], write[1], write[2]):
            same = value is cell.value or value == cell.value or (_is_nan(value) and _is_nan(cell.value))
            self.watch.race(t, (write[0], write[1], write[3]), ("write", "write"), a, i, k, bool(same))
        for accesses, kind in ((cell.reads, "read"), (cell.atomics, "atomic")):
            if accesses:
                for (block, lane), (time, site) in accesses.items():
                    if not t.knows(block, lane, time):
                        self.watch.race(t, (block, lane, site), (kind, "write"), a, i, k, False)
                        break
                accesses.clear()
        cell.write = (t.block, t.lane, t.time, k)
        cell.value = value
        cell.written = True

    def note_atomic(self, t: Timed, cell: Cell, a: Arr, i: Any, k: int, stored: bool) -> None:
        """Record an atomic update, and exchange what fences released. One that `stored` something else has seen all those
        before it, so that what comes after it comes after them.
        """
        write = cell.write
        if write is not None and not t.knows(write[0], write[1], write[2]):
            self.watch.race(t, (write[0], write[1], write[3]), ("write", "atomic"), a, i, k, False)
        for (block, lane), (time, site) in (cell.reads or {}).items():
            if not t.knows(block, lane, time):
                self.watch.race(t, (block, lane, site), ("read", "atomic"), a, i, k, False)
                break
        if not cell.written and a.space == "shared":
            self.watch.unset(t, a, i, k)
        if cell.atomics is None:
            cell.atomics = {}
        if stored:
            cell.atomics.clear()
        cell.atomics[t.block, t.lane] = (t.time, k)
        cell.written = True
        if cell.box is None:
            cell.box = Mailbox()
        t.publish(cell.box)

    # ---- accesses

    def read1(self, t: Timed, a: Arr, i: Any, k: int) -> Any:
        """`a[i]` of a one-dimensional array."""
        if a.ndim != 1 or type(i) is not int or not 0 <= i < a.n:
            return self.read(t, a, (i,), k)
        if a.cells is not None:
            if a.unit is None:
                address = a.addr + i * a.stride
                cell = a.cells.get(address)
                if cell is None:
                    cell = a.cells[address] = Cell()
                self.note_read(t, cell, a, i, k)
            else:
                for cell in self.cells_of(a, (i,)):
                    self.note_read(t, cell, a, i, k)
        return a.item(i)

    def read(self, t: Timed, a: Arr, i: tuple[Any, ...], k: int, field: str | None = None) -> Any:
        """`a[i]`; fewer positions than axes give a view. `field` is a member of a structured element."""
        index = self.place(t, a, i, k)
        if index is None:
            return self.lost(a, i)
        if len(index) < a.ndim:
            return a.view(a.np[index])
        if a.cells is not None:
            for cell in self.cells_of(a, index, _offset(a, field)):
                self.note_read(t, cell, a, index, k)
        if field is not None:
            found = a.np[index][field]
            return a.view(found) if getattr(found, "ndim", 0) else found.item()
        if a.np.dtype.names is not None:
            return a.view(a.np[(*index, ...)])
        return a.item(*index)

    def lost(self, a: Arr, i: tuple[Any, ...]) -> Any:
        """What a load outside the extents gives: 0, or an empty view."""
        if len(i) < a.ndim:
            return a.view(a.np[(slice(0, 0),) * len(i)].reshape((0, *a.shape[len(i) :])))
        return 0

    def write1(self, t: Timed, a: Arr, i: Any, value: Any, k: int) -> None:
        """`a[i] = value` of a one-dimensional array."""
        if a.ndim != 1 or type(i) is not int or not 0 <= i < a.n or a.unit is not None:
            self.write(t, a, (i,), value, k)
            return
        if a.cells is not None:
            address = a.addr + i * a.stride
            cell = a.cells.get(address)
            if cell is None:
                cell = a.cells[address] = Cell()
            self.note_write(t, cell, a, i, k, value)
        try:
            a.np[i] = value
        except (OverflowError, TypeError, ValueError):
            put(a.np, i, value)

    def write(self, t: Timed, a: Arr, i: tuple[Any, ...], value: Any, k: int, field: str | None = None) -> None:
        """`a[i] = value`; fewer positions than axes write the whole row."""
        index = self.place(t, a, i, k)
        if index is None:
            return
        if len(index) < a.ndim:
            self.fill(t, a.view(a.np[index]), value, k)
            return
        plain = value.np if isinstance(value, Arr) else value
        if a.cells is not None:
            for cell in self.cells_of(a, index, _offset(a, field)):
                self.note_write(t, cell, a, index, k, plain if not isinstance(value, Arr) else None)
        if field is not None:
            put(a.np[(*index, ...)][field], (), plain)
        else:
            put(a.np, index, plain)

    def fill(self, t: Timed, a: Arr, value: Any, k: int) -> None:
        """Write every element of a view, from one value or element by element from another array."""
        source = None
        if isinstance(value, Arr):
            if value.shape != a.shape and value.np.size != 1:
                self.watch.stray(t, a, value.shape, k, wrapped=False)
                return
            source = np.broadcast_to(value.np, a.shape)
            if value.cells is not None:
                for at in np.ndindex(value.shape):
                    for cell in self.cells_of(value, at):
                        self.note_read(t, cell, value, at, k)
        elif isinstance(value, tuple):
            source = np.broadcast_to(np.asarray(value), a.shape)
        for at in np.ndindex(a.shape):
            item = value if source is None else source[at].item()
            if a.cells is not None:
                for cell in self.cells_of(a, at):
                    self.note_write(t, cell, a, at, k, item)
            put(a.np, at, item)

    def atomic(
        self, t: Timed, a: Arr, i: tuple[Any, ...], k: int, function: Callable[..., Any], operands: tuple[Any, ...]
    ) -> Any:
        """Apply `function(old, *operands)` to one element, indivisibly; gives the old value."""
        index = self.place(t, a, i, k)
        if index is None or len(index) < a.ndim:
            return 0
        old = a.item(*index)
        new = function(old, *operands)
        if new != old:
            t.yields = 0
        if a.cells is not None:
            for cell in self.cells_of(a, index):
                self.note_atomic(t, cell, a, index, k, bool(new != old))
        put(a.np, index, new)
        return old


def _cell(cells: dict[int, Cell], address: int) -> Cell:
    cell = cells.get(address)
    if cell is None:
        cell = cells[address] = Cell()
    return cell


def _offset(a: Arr, field: str | None) -> int:
    fields = a.np.dtype.fields
    return fields[field][1] if field is not None and fields is not None and field in fields else 0


def put(array: np.ndarray[Any, Any], index: Any, value: Any) -> None:
    """`array[index] = value` with C's conversions: integers wrap, a float in an integer array is truncated."""
    kind = array.dtype.kind
    if kind in "iu" and isinstance(value, float):
        value = int(value) if value == value and abs(value) != float("inf") else 0
    if kind in "iu" and isinstance(value, int):
        bits = array.dtype.itemsize * 8
        value &= (1 << bits) - 1
        if kind == "i" and value >> (bits - 1):
            value -= 1 << bits
    if kind in "fiu" and isinstance(value, complex):
        value = value.real
    with np.errstate(all="ignore"):
        array[index] = value


def _is_nan(value: object) -> bool:
    """Whether a value is not a number: two of them are one value here, although they compare unequal."""
    return isinstance(value, float | np.floating) and math.isnan(value)
