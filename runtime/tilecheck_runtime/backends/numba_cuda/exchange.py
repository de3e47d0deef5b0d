"""Tiles between threads: one routine moves a tile through shared memory into any other arrangement.

Reshape, permutation, broadcast, extraction and layout changes differ only in the map from a target element to its
source element, so they are one function, `remap`. Moves that need no exchange (the same registers, one value for all)
are found first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.layout import Layout, Linear, Whole, join_index
from tilecheck_runtime.backends.numba_cuda.registers import I1, I32, SIZE, Value, element_bytes, pack
from tilecheck_runtime.backends.numba_cuda.shared import SHARED_SPACE, barrier, get, put, scratch

# From the coordinates in the target tile to the row-major index in the source tile.
IndexMap = Callable[[ir.IRBuilder, Sequence[Value]], Value]


def shared_bytes(dtype: str, layout: Layout) -> int:
    """Bytes of the shared buffer that an exchange of a tile takes."""
    return layout.size * SIZE[dtype]


def put_tile(
    builder: ir.IRBuilder, layout: Layout, values: Sequence[Value], base: Value, pitch: int | None = None
) -> None:
    """Write the tile to shared memory in row-major order, rows `pitch` elements apart if given. A vector of the layout
    goes in one access where its elements stay neighbours and aligned.
    """
    width = layout.vector if isinstance(layout, Linear) and values[0].type != I1 else 1
    size = element_bytes(values[0].type)
    while width > 1 and (width * size > 16 or (pitch is not None and pitch % width)):
        width //= 2
    for slot in range(0, len(values), width):
        coordinates, valid = layout.coordinates(builder, slot)
        if pitch is None:
            index = join_index(builder, layout.shape, coordinates)
        else:
            row = join_index(builder, layout.shape[:-1], coordinates[:-1])
            index = builder.add(builder.mul(row, I32(pitch)), coordinates[-1])
        group = values[slot : slot + width]
        if valid is None:
            _put_group(builder, base, index, group, size)
        else:
            with builder.if_then(valid):
                _put_group(builder, base, index, group, size)


def _put_group(builder: ir.IRBuilder, base: Value, index: Value, group: Sequence[Value], size: int) -> None:
    if len(group) == 1:
        put(builder, base, index, group[0])
        return
    vector = pack(builder, group)
    place = builder.bitcast(builder.gep(base, [index]), ir.PointerType(vector.type, SHARED_SPACE))
    builder.store(vector, place).align = size * len(group)


def get_tile(builder: ir.IRBuilder, dtype: str, layout: Layout, base: Value, index_map: IndexMap) -> list[Value]:
    """The registers of `layout`, read from shared memory through `index_map`."""
    values: list[Value] = []
    for slot in range(layout.registers):
        coordinates, valid = layout.coordinates(builder, slot)
        index = index_map(builder, coordinates)
        if valid is not None:
            index = builder.select(valid, index, I32(0))
        values.append(get(builder, dtype, base, index))
    return values


def in_place(source: Layout, target: Layout) -> list[int] | None:
    """For each register of `target`, the register of the same thread that holds its element of `source`, broadcast to the
    target's shape; None if some element is in another thread.

    A row of weights that every row of a tile meets, and a number for each row, need no exchange where the rows are whole
    turns of the threads.
    """
    if not (isinstance(target, Linear) and target.exact):
        return None
    reach = target.threads * target.vector
    missing = len(target.shape) - len(source.shape)
    if isinstance(source, Linear):
        lead = next((axis for axis, extent in enumerate(source.shape) if extent != 1), len(source.shape))
        repeats = source.shape[lead:] == target.shape[missing + lead :]
        if repeats and (source.threads, source.vector) == (target.threads, target.vector) and source.size % reach == 0:
            return [slot % source.registers for slot in range(target.registers)]
    if isinstance(source, Whole):
        padded = (1,) * missing + source.shape
        end = max((axis + 1 for axis, extent in enumerate(padded) if extent != 1), default=0)
        inner = prod(target.shape[end:])
        if padded[:end] == target.shape[:end] and inner % reach == 0:
            return [slot // target.vector * reach // inner for slot in range(target.registers)]
    return None


def remap(
    builder: ir.IRBuilder, dtype: str, source: Layout, target: Layout, values: Sequence[Value], index_map: IndexMap
) -> list[Value]:
    """The registers of `target` whose element at c is the source's element number `index_map(c)`."""
    if source.size == 1 and isinstance(source, Whole):
        return [values[0]] * target.registers
    base = scratch(builder, dtype)
    barrier(builder)
    put_tile(builder, source, values, base)
    barrier(builder)
    moved = get_tile(builder, dtype, target, base, index_map)
    barrier(builder)
    return moved


def needs_exchange(source: Layout, target: Layout) -> bool:
    """Whether a reshape from `source` to `target` moves elements between threads."""
    if isinstance(source, Linear) and isinstance(target, Linear):
        return source.vector != target.vector
    return not (isinstance(source, Whole) and (isinstance(target, Whole) or source.size == 1))


def reshape(builder: ir.IRBuilder, dtype: str, source: Layout, target: Layout, values: Sequence[Value]) -> list[Value]:
    """The same elements in row-major order, under another shape or in another layout."""
    if not needs_exchange(source, target) and source.registers == target.registers:
        return list(values)
    return remap(builder, dtype, source, target, values, lambda b, at: join_index(b, target.shape, at))
