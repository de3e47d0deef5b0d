"""Layouts: which thread holds which elements of a tile.

A layout answers one question, `coordinates(slot)`: where in the tile the element in register `slot` of this thread
stands, and whether it stands in the tile at all. Everything else (loads, stores, reductions, permutations) is written
against that answer.

- `Linear`: vectors of `vector` consecutive elements dealt to the threads in turn, so that a warp reads whole lines.
  Element (r, v) of thread t has the row-major index `(r * threads + t) * vector + v`.
- `Whole`: every thread holds the whole (small) tile, the usual form of a reduced value.
- `Fragments`: the accumulator of `mma.sync.m16n8`: each warp owns a rectangle of 16 x 8 pieces, 4 registers each.
- `Lines`: a row or a column of values beside an accumulator; each thread holds those of its own rows or columns.

Invariant: a value of one shape in one kernel has one `Linear` layout, because the vector width is chosen per shape; so
elementwise chains never move data between threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.registers import I32, I64, Value
from tilecheck_runtime.backends.numba_cuda.shared import thread_index

WHOLE_LIMIT = 8


def split_index(builder: ir.IRBuilder, shape: Sequence[int], index: Value) -> list[Value]:
    """The coordinates of row-major `index` in `shape`."""
    coordinates: list[Value] = []
    for axis in reversed(range(len(shape))):
        extent = I32(shape[axis])
        if axis == 0:
            coordinates.append(index)
        elif shape[axis] == 1:
            coordinates.append(I32(0))
        else:
            coordinates.append(builder.urem(index, extent))
            index = builder.udiv(index, extent)
    return coordinates[::-1]


def join_index(builder: ir.IRBuilder, shape: Sequence[int], coordinates: Sequence[Value]) -> Value:
    """The row-major index of `coordinates` in `shape`."""
    index: Value = I32(0)
    for extent, coordinate in zip(shape, coordinates, strict=True):
        index = builder.add(builder.mul(index, I32(extent)), coordinate)
    return index


def number(value: int, bits: int) -> Value:
    """An index constant of 32 or 64 bits."""
    return (I32 if bits == 32 else I64)(value)


def _thread(builder: ir.IRBuilder, bits: int) -> Value:
    thread = thread_index(builder)
    return thread if bits == 32 else builder.zext(thread, I64)


def _split_offset(
    builder: ir.IRBuilder, shape: Sequence[int], moving: Value, reach: int, fixed: int, bits: int
) -> list[Value]:
    """The coordinates in `shape` of `moving + fixed`, where `moving` is below `reach` and `fixed` a constant.

    Where the extents divide evenly the constant stays a constant of one coordinate, so that the addresses of a thread's
    elements differ by immediates and nothing is divided; a vector never crosses a row, so its constant cannot carry.
    """
    coordinates: list[Value] = []
    still: Value | None = moving
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        if still is None:
            fixed, at = divmod(fixed, extent)
            coordinates.append(number(at, bits))
        elif axis == 0:
            coordinates.append(builder.add(still, number(fixed, bits)))
        elif extent % reach == 0:
            coordinates.append(builder.add(still, number(fixed % extent, bits)))
            fixed //= extent
            still = None
        elif reach % extent == 0:
            step = builder.urem(still, number(extent, bits))
            coordinates.append(builder.add(step, number(fixed % extent, bits)))
            still, fixed, reach = builder.udiv(still, number(extent, bits)), fixed // extent, reach // extent
        else:
            index = builder.add(still, number(fixed, bits))
            coordinates.append(builder.urem(index, number(extent, bits)))
            still, fixed, reach = builder.udiv(index, number(extent, bits)), 0, max(shape[0], 1) * (1 << 62)
    return coordinates[::-1]


@dataclass(frozen=True, slots=True)
class Linear:
    shape: tuple[int, ...]
    threads: int
    vector: int

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def registers(self) -> int:
        return -(-self.size // (self.threads * self.vector)) * self.vector

    @property
    def exact(self) -> bool:
        """Whether every register of every thread stands in the tile."""
        return self.size % (self.threads * self.vector) == 0

    def _valid(self, builder: ir.IRBuilder, slot: int) -> Value | None:
        r, v = divmod(slot, self.vector)
        if (r + 1) * self.threads * self.vector <= self.size:
            return None
        start = builder.mul(thread_index(builder), I32(self.vector))
        return builder.icmp_unsigned("<", builder.add(start, I32(r * self.threads * self.vector + v)), I32(self.size))

    def row_major(self, builder: ir.IRBuilder, slot: int) -> tuple[Value, Value | None]:
        """The row-major index of `slot`, and whether it is in the tile (None: always)."""
        r, v = divmod(slot, self.vector)
        start = builder.mul(thread_index(builder), I32(self.vector))
        return builder.add(start, I32(r * self.threads * self.vector + v)), self._valid(builder, slot)

    def coordinates(self, builder: ir.IRBuilder, slot: int, bits: int = 32) -> tuple[list[Value], Value | None]:
        """The coordinates of `slot`, and whether it is in the tile (None: always)."""
        r, v = divmod(slot, self.vector)
        reach = self.threads * self.vector
        moving = builder.mul(_thread(builder, bits), number(self.vector, bits))
        return _split_offset(builder, self.shape, moving, reach, r * reach + v, bits), self._valid(builder, slot)


@dataclass(frozen=True, slots=True)
class Whole:
    shape: tuple[int, ...]
    threads: int

    vector = 1

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def registers(self) -> int:
        return self.size

    @property
    def exact(self) -> bool:
        return True

    def row_major(self, builder: ir.IRBuilder, slot: int) -> tuple[Value, Value | None]:
        """The row-major index of `slot`; it is the same in every thread."""
        return I32(slot), None

    def coordinates(self, builder: ir.IRBuilder, slot: int, bits: int = 32) -> tuple[list[Value], Value | None]:
        """The coordinates of `slot`; they are the same in every thread."""
        coordinates, index = [], slot
        for extent in reversed(self.shape):
            index, at = divmod(index, extent)
            coordinates.append(number(at, bits))
        return coordinates[::-1], None


@dataclass(frozen=True, slots=True)
class Fragments:
    """`shape` is (..., M, N) with leading extents 1; `warps` is the grid of warps over (M, N)."""

    shape: tuple[int, ...]
    threads: int
    warps: tuple[int, int]

    vector = 1

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def registers(self) -> int:
        return self.size // self.threads

    @property
    def exact(self) -> bool:
        return True

    @property
    def pieces(self) -> tuple[int, int]:
        """How many 16 x 8 pieces a warp owns, down and across."""
        return self.shape[-2] // self.warps[0] // 16, self.shape[-1] // self.warps[1] // 8

    def warp_origin(self, builder: ir.IRBuilder) -> tuple[Value, Value]:
        """The row and column where this warp's rectangle begins."""
        warp = builder.lshr(thread_index(builder), I32(5))
        down = builder.udiv(warp, I32(self.warps[1]))
        across = builder.urem(warp, I32(self.warps[1]))
        rows, columns = self.pieces
        return builder.mul(down, I32(rows * 16)), builder.mul(across, I32(columns * 8))

    def own(self, builder: ir.IRBuilder, bits: int = 32) -> tuple[Value, Value]:
        """Row and column of this thread's first register; the others stand `fixed` further on."""
        lane = builder.and_(thread_index(builder), I32(31))
        row0, column0 = self.warp_origin(builder)
        row = builder.add(row0, builder.lshr(lane, I32(2)))
        column = builder.add(column0, builder.mul(builder.and_(lane, I32(3)), I32(2)))
        return (row, column) if bits == 32 else (builder.zext(row, I64), builder.zext(column, I64))

    def fixed(self, slot: int) -> tuple[int, int]:
        """How far `slot` stands from the first register: piece by piece, 4 registers each."""
        piece, q = divmod(slot, 4)
        i, j = divmod(piece, self.pieces[1])
        return i * 16 + 8 * (q >> 1), j * 8 + (q & 1)

    def coordinates(self, builder: ir.IRBuilder, slot: int, bits: int = 32) -> tuple[list[Value], Value | None]:
        """The coordinates of `slot`."""
        own = self.own(builder, bits)
        last = [builder.add(at, number(step, bits)) for at, step in zip(own, self.fixed(slot), strict=True)]
        return [number(0, bits)] * (len(self.shape) - 2) + last, None

    def row_major(self, builder: ir.IRBuilder, slot: int) -> tuple[Value, Value | None]:
        """The row-major index of `slot`."""
        coordinates, valid = self.coordinates(builder, slot)
        return join_index(builder, self.shape, coordinates), valid


@dataclass(frozen=True, slots=True)
class Lines:
    """Values for the rows, `shape` (..., M, 1), or the columns, (..., 1, N), of an accumulator with the same grid of warps.

    Threads that share a row or a column hold the same value, so a value meets the accumulator without a move.
    """

    shape: tuple[int, ...]
    threads: int
    warps: tuple[int, int]

    vector = 1

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def of_rows(self) -> bool:
        """Whether there is a value for each row."""
        return self.shape[-1] == 1

    @property
    def registers(self) -> int:
        m, n = self.shape[-2:]
        return 2 * (m // self.warps[0] // 16) if self.of_rows else 2 * (n // self.warps[1] // 8)

    @property
    def exact(self) -> bool:
        return True

    def beside(self, fragments: Fragments) -> bool:
        """Whether these are values for the rows or the columns of `fragments`."""
        axis = -2 if self.of_rows else -1
        same = (self.threads, self.warps) == (fragments.threads, fragments.warps)
        return same and self.shape[axis] == fragments.shape[axis]

    def slot_of(self, fragments: Fragments, slot: int) -> int:
        """The register here that belongs to the row or column of `slot` there."""
        row, column = fragments.fixed(slot)
        return row // 8 if self.of_rows else column // 8 * 2 + column % 8

    def coordinates(self, builder: ir.IRBuilder, slot: int, bits: int = 32) -> tuple[list[Value], Value | None]:
        """The coordinates of `slot`."""
        m, n = self.shape[-2:]
        whole = Fragments((m, 8 * self.warps[1]) if self.of_rows else (16 * self.warps[0], n), self.threads, self.warps)
        row, column = whole.own(builder, bits)
        zero = number(0, bits)
        if self.of_rows:
            last = [builder.add(row, number(8 * slot, bits)), zero]
        else:
            last = [zero, builder.add(column, number(slot // 2 * 8 + slot % 2, bits))]
        return [zero] * (len(self.shape) - 2) + last, None

    def row_major(self, builder: ir.IRBuilder, slot: int) -> tuple[Value, Value | None]:
        """The row-major index of `slot`."""
        coordinates, valid = self.coordinates(builder, slot)
        return join_index(builder, self.shape, coordinates), valid

    def first(self, builder: ir.IRBuilder) -> Value:
        """Whether this thread is the first of those that hold its values."""
        thread = thread_index(builder)
        warp, lane = builder.lshr(thread, I32(5)), builder.and_(thread, I32(31))
        if self.of_rows:
            others = builder.or_(builder.and_(lane, I32(3)), builder.urem(warp, I32(self.warps[1])))
        else:
            others = builder.or_(builder.lshr(lane, I32(2)), builder.udiv(warp, I32(self.warps[1])))
        return builder.icmp_unsigned("==", others, I32(0))


Layout = Linear | Whole | Fragments | Lines


def fits_fragments(shape: tuple[int, ...], threads: int) -> tuple[int, int] | None:
    """The grid of warps for an accumulator of `shape`, as square a share as possible, or None if none divides."""
    if len(shape) < 2 or any(e != 1 for e in shape[:-2]):
        return None
    m, n = shape[-2:]
    count = threads // 32
    best: tuple[int, tuple[int, int]] | None = None
    for down in range(1, count + 1):
        across = count // down
        if down * across != count or m % (16 * down) or n % (8 * across):
            continue
        cost = m // down + n // across
        if best is None or cost < best[0]:
            best = cost, (down, across)
    return None if best is None else best[1]
