"""Tiles of 2-byte elements in shared memory without padding: the form that `cp.async` writes and `ldmatrix` reads.

A tile of (rows, columns) is cut into panels of at most 64 columns; a panel stores its rows one after another, and the
16-byte chunks of a row are permuted by the row number, so that eight rows of one chunk lie in eight different groups of
banks. Chunk c of row r of a panel stands at

    row r:   chunk c ^ ((r % 8) >> (3 - log2(chunks in a row)))

which is the hardware's own swizzle of 128, 64 or 32 bytes, as long as the tile begins at a multiple of 1024 bytes.

Invariant: `fetch` writes every byte of its tile exactly once, zeros for what lies outside the array, and reads no byte
outside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.layout import Layout, Linear
from tilecheck_runtime.backends.numba_cuda.registers import I16, I32, I64, Value, packed_type, unpack
from tilecheck_runtime.backends.numba_cuda.shared import SHARED_SPACE, scratch, thread_index

ALIGNMENT: Final = 1024
_CHUNK: Final = 8
_PANELS: Final = (64, 32, 16)


@dataclass(frozen=True, slots=True)
class Swizzled:
    """The form of a tile of `rows` x `columns` 2-byte elements; columns are neighbours in memory."""

    rows: int
    columns: int

    @classmethod
    def of(cls, rows: int, columns: int) -> Swizzled | None:
        """The form, None if the extents do not fill whole chunks and groups of eight rows."""
        return cls(rows, columns) if rows % 8 == 0 and columns % _PANELS[-1] == 0 else None

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return next(width for width in _PANELS if self.columns % width == 0)

    @property
    def chunks(self) -> int:
        """16-byte chunks in a row of a panel: 8, 4 or 2."""
        return self.panel // _CHUNK

    @property
    def pitch(self) -> int:
        """Bytes of a row of a panel."""
        return 2 * self.panel

    @property
    def panel_bytes(self) -> int:
        return self.rows * self.pitch

    @property
    def size(self) -> int:
        """Bytes of the tile, up to the next place where another may begin."""
        return -(-2 * self.rows * self.columns // ALIGNMENT) * ALIGNMENT

    def takes(self, width: int) -> bool:
        """Whether warps may own `width` columns each: no share begins inside another's chunks."""
        share = width // _CHUNK
        return width % 16 == 0 and (share % self.chunks == 0 or self.chunks % share == 0)


def arena(builder: ir.IRBuilder, offset: Value) -> Value:
    """The shared address (i32) `offset` bytes (i64) into the part of the buffer that begins at a multiple of 1024."""
    start = builder.ptrtoint(scratch(builder, "u8"), I32)
    aligned = builder.and_(builder.add(start, I32(ALIGNMENT - 1)), I32(-ALIGNMENT))
    return builder.add(aligned, builder.trunc(offset, I32))


def _key(builder: ir.IRBuilder, form: Swizzled, row: Value) -> Value:
    """What the chunks of `row` are permuted by."""
    return builder.lshr(builder.and_(row, I32(7)), I32(3 - (form.chunks.bit_length() - 1)))


# ---- from global memory


@dataclass(frozen=True, slots=True)
class Fetch:
    """One load that runs ahead. `shape` is the tile in the axes of its view, of which `axes` are the rows and the columns,
    columns with stride one and every row aligned to 16 bytes; `whole` says of both whether no tile hangs over the edge.
    """

    form: Swizzled
    shape: tuple[int, ...]
    axes: tuple[int, int]
    whole: tuple[bool, bool]
    threads: int


def fetch(
    builder: ir.IRBuilder,
    what: Fetch,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    index: Sequence[Value],
    target: Value,
) -> None:
    """Start to copy tile `index` to shared address `target`. `base` is an address, extents, strides (in elements) and
    index are i64.
    """
    form, threads = what.form, what.threads
    row_axis, column_axis = what.axes
    origin = [builder.mul(i, I64(e)) for i, e in zip(index, what.shape, strict=True)]
    start: Value = I64(0)
    for at, stride in zip(origin, strides, strict=True):
        start = builder.add(start, builder.mul(at, stride))
    first = builder.add(base, builder.mul(start, I64(2)))
    rows_left = _left(builder, extents[row_axis], origin[row_axis], form.rows)
    columns_left = _left(builder, extents[column_axis], origin[column_axis], form.columns)
    row_bytes = builder.mul(strides[row_axis], I64(2))
    in_row = form.columns // _CHUNK
    total = form.rows * in_row
    thread = thread_index(builder)
    # With whole rows in each turn a thread keeps its chunk, and with eight of them its place in the permutation. Addresses
    # then grow by one step a turn: what they differ by is no value of its own to keep in a register.
    steady = threads % in_row == 0
    down = threads // in_row if steady else 0
    step = builder.mul(row_bytes, I64(down))
    row, chunk, source = thread, thread, first
    for turn in range(-(-total // threads)):
        number = builder.add(thread, I32(turn * threads))
        if turn == 0 or not steady:
            row, chunk = builder.udiv(number, I32(in_row)), builder.urem(number, I32(in_row))
            at = builder.add(
                builder.mul(builder.zext(row, I64), row_bytes), builder.zext(builder.mul(chunk, I32(2 * _CHUNK)), I64)
            )
            source = builder.add(first, at)
        else:
            source = builder.add(source, step)
        below = turn * down
        keyed, fixed = (row, below * form.pitch) if down % 8 == 0 else (builder.add(row, I32(below)), 0)
        place = builder.add(target, _place(builder, form, keyed, chunk))
        size: Value = I32(16)
        if not what.whole[1]:
            size = builder.mul(_clamp(builder, builder.sub(columns_left, builder.mul(chunk, I32(_CHUNK))), 8), I32(2))
        if not what.whole[0]:
            size = builder.select(builder.icmp_signed(">", builder.sub(rows_left, row), I32(below)), size, I32(0))
        given = source
        if what.whole != (True, True):
            # Nothing is read for a size of zero; the address stays in the array all the same.
            given = builder.select(builder.icmp_unsigned("!=", size, I32(0)), source, base)
        inside = None if (turn + 1) * threads <= total else builder.icmp_unsigned("<", number, I32(total))
        _copy(builder, place, fixed, given, None if what.whole == (True, True) else size, inside)


def _left(builder: ir.IRBuilder, extent: Value, origin: Value, most: int) -> Value:
    """How many of the next `most` elements from `origin` on the array has, as i32."""
    rest = builder.sub(extent, origin)
    rest = builder.select(builder.icmp_signed("<", rest, I64(most)), rest, I64(most))
    return builder.trunc(builder.select(builder.icmp_signed("<", rest, I64(0)), I64(0), rest), I32)


def _clamp(builder: ir.IRBuilder, value: Value, most: int) -> Value:
    value = builder.select(builder.icmp_signed("<", value, I32(most)), value, I32(most))
    return builder.select(builder.icmp_signed("<", value, I32(0)), I32(0), value)


def _place(builder: ir.IRBuilder, form: Swizzled, row: Value, chunk: Value) -> Value:
    """The bytes from the start of the tile to chunk `chunk` of row `row`."""
    panel, inner = builder.udiv(chunk, I32(form.chunks)), builder.urem(chunk, I32(form.chunks))
    at = builder.add(builder.mul(panel, I32(form.panel_bytes)), builder.mul(row, I32(form.pitch)))
    return builder.add(at, builder.shl(builder.xor(inner, _key(builder, form, row)), I32(4)))


def _copy(
    builder: ir.IRBuilder, place: Value, fixed: int, source: Value, size: Value | None, inside: Value | None
) -> None:
    operands, constraints = [place, source], "r,l"
    text = f"cp.async.cg.shared.global.L2::128B [$0+{fixed}], [$1], 16"
    if size is not None:
        operands.append(size)
        constraints += ",r"
        text += ", $2"
    text += ";"
    if inside is not None:
        text = f"{{ .reg .pred p; setp.ne.b32 p, ${len(operands)}, 0; @p {text} }}"
        operands.append(builder.zext(inside, I32))
        constraints += ",r"
    _effect(builder, text, operands, constraints)


def _effect(builder: ir.IRBuilder, text: str, operands: Sequence[Value] = (), constraints: str = "") -> None:
    kind = ir.FunctionType(ir.VoidType(), [o.type for o in operands])
    clobbered = f"{constraints}{',' if constraints else ''}~{{memory}}"
    builder.call(ir.InlineAsm(kind, text, clobbered, side_effect=True), list(operands))


def commit(builder: ir.IRBuilder) -> None:
    """The copies that this thread started since the last commit are one group."""
    _effect(builder, "cp.async.commit_group;")


def wait(builder: ir.IRBuilder, pending: int) -> None:
    """Wait until at most `pending` groups of this thread are under way."""
    _effect(builder, f"cp.async.wait_group {pending};")


# ---- to registers


def take(builder: ir.IRBuilder, form: Swizzled, layout: Layout, axes: tuple[int, int], base: Value) -> list[Value]:
    """This thread's registers (of 16 bits) of the tile at shared address `base`; `axes` of the layout are its rows and
    columns. Neighbours of a vector come in one access, as they lie in one chunk.
    """
    width = layout.vector if isinstance(layout, Linear) and axes[1] == len(layout.shape) - 1 else 1
    width = min(width, _CHUNK)
    values: list[Value] = []
    for slot in range(0, layout.registers, width):
        coordinates, valid = layout.coordinates(builder, slot)
        row, column = coordinates[axes[0]], coordinates[axes[1]]
        place = _place(builder, form, row, builder.udiv(column, I32(_CHUNK)))
        place = builder.add(place, builder.mul(builder.urem(column, I32(_CHUNK)), I32(2)))
        if valid is not None:
            place = builder.select(valid, place, I32(0))
        kind = packed_type(I16, width) if width > 1 else I16
        loaded = builder.load(builder.inttoptr(builder.add(base, place), ir.PointerType(kind, SHARED_SPACE)))
        loaded.align = 2 * width
        values += unpack(builder, loaded, I16, width) if width > 1 else [loaded]
    return values


# ---- to fragments


@dataclass(frozen=True, slots=True)
class Padded:
    """Row-major rows `pitch` elements of 2 bytes apart."""

    pitch: int


class Lanes:
    """The addresses from which this lane's share of `ldmatrix.x4` reads 16 x 16 elements of a tile at `base`.

    `origin` is where the warp's own rows and columns begin, `width` how many columns it owns. `across` tells which two of
    the four 8 x 8 matrices are neighbours in a row: the outer ones (lanes 0-7 and 16-23) or the next ones (0-7 and 8-15).
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        form: Swizzled | Padded,
        base: Value,
        origin: tuple[Value, Value],
        width: int,
        *,
        outer: bool,
    ) -> None:
        self._builder = builder
        self._form = form
        self._cache: dict[int, Value] = {}
        lane = builder.and_(thread_index(builder), I32(31))
        if outer:
            row, self._half = builder.and_(lane, I32(15)), builder.lshr(lane, I32(4))
        else:
            upper = builder.shl(builder.lshr(lane, I32(4)), I32(3))
            row = builder.add(upper, builder.and_(lane, I32(7)))
            self._half = builder.and_(builder.lshr(lane, I32(3)), I32(1))
        row = builder.add(row, origin[0])
        if isinstance(form, Padded):
            column = builder.add(builder.mul(self._half, I32(_CHUNK)), origin[1])
            self._start = builder.add(base, builder.mul(builder.add(builder.mul(row, I32(form.pitch)), column), I32(2)))
            return
        chunk = builder.udiv(origin[1], I32(_CHUNK))
        start = builder.add(base, builder.mul(row, I32(form.pitch)))
        panel = builder.mul(builder.udiv(chunk, I32(form.chunks)), I32(form.panel_bytes))
        self._start = builder.add(start, panel)
        # A constant chunk sets other bits than the warp's first and the half do, so `^` adds it.
        place = builder.xor(self._half, _key(builder, form, lane))
        if width // _CHUNK < form.chunks:
            place = builder.xor(place, builder.urem(chunk, I32(form.chunks)))
        self._place = place

    def at(self, row: int, column: int) -> tuple[Value, int]:
        """Address and constant offset for the 16 x 16 elements at (row, column) of the warp's part; multiples of 16."""
        form = self._form
        if isinstance(form, Padded):
            return self._start, 2 * (row * form.pitch + column)
        panel, chunk = divmod(column // _CHUNK, form.chunks)
        if chunk not in self._cache:
            moved = self._builder.xor(self._place, I32(chunk))
            self._cache[chunk] = self._builder.add(self._start, self._builder.shl(moved, I32(4)))
        return self._cache[chunk], row * form.pitch + panel * form.panel_bytes


def load_matrices(builder: ir.IRBuilder, address: Value, fixed: int, transposed: bool) -> list[Value]:
    """`ldmatrix.x4` from the lanes' addresses, `fixed` bytes on."""
    suffix = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{$0, $1, $2, $3}}, [$4+{fixed}];"
    kind = ir.FunctionType(ir.LiteralStructType([I32] * 4), [I32])
    # Reads memory that barriers order, so the call must stay where it is.
    loaded = builder.call(ir.InlineAsm(kind, text, "=r,=r,=r,=r,r,~{memory}", side_effect=True), [address])
    return [builder.extract_value(loaded, i) for i in range(4)]
