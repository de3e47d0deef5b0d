"""Tiles between global memory and registers.

An access is described once, when the kernel is specialised (`Global`), and built with the run-time values: address,
extents, strides and tile index. Three forms, best first: whole vectors when the tile lies inside and everything is
aligned; elements when the array's last axis is not contiguous or not aligned; clipped elements at a ragged edge. A
block finds out once per access whether its tile is whole, so the interior keeps its vectors.

Invariant: a clipped load reads element 0 of the array for lanes outside (it exists: extents are positive) and replaces
it, so no load leaves the array; a clipped store is skipped lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, Linear, Lines, Whole
from tilecheck_runtime.backends.numba_cuda.registers import (
    I1,
    I8,
    I32,
    I64,
    SIZE,
    Value,
    llvm_type,
    pack,
    packed_type,
    unpack,
)
from tilecheck_runtime.backends.numba_cuda.shared import GLOBAL_SPACE, thread_index


@dataclass(frozen=True, slots=True)
class Global:
    """One access of `dtype` elements in `layout`.

    `whole` is set when the specialisation knows that no tile hangs over an edge; `vectors` when the last axis has
    stride one and every row start is aligned to 16 bytes; `constant` when nothing writes the array during the launch, so
    that its loads may move past stores (`ld.global.nc`).
    """

    dtype: str
    layout: Layout
    whole: bool
    vectors: bool
    constant: bool


def _load(builder: ir.IRBuilder, form: Global, address: Value, kind: ir.Type, align: int) -> Value:
    loaded = builder.load(_pointer(builder, address, kind))
    loaded.align = align
    if form.constant:
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _memory_type(dtype: str) -> ir.Type:
    return I8 if dtype == "bool_" else llvm_type(dtype)


def _pointer(builder: ir.IRBuilder, address: Value, kind: ir.Type) -> Value:
    return builder.inttoptr(address, ir.PointerType(kind, GLOBAL_SPACE))


def first_element(builder: ir.IRBuilder, shape: Sequence[int], index: Sequence[Value]) -> list[Value]:
    return [builder.mul(i, I64(extent)) for i, extent in zip(index, shape, strict=True)]


def bytes_from(builder: ir.IRBuilder, at: Sequence[Value], strides: Sequence[Value], size: int) -> Value:
    terms = [builder.mul(a, s) for a, s in zip(at, strides, strict=True)]
    return builder.mul(reduce(builder.add, terms, I64(0)), I64(size))


def _places(
    builder: ir.IRBuilder, layout: Layout, origin: Sequence[Value], slot: int
) -> tuple[list[Value], Value | None]:
    coordinates, valid = layout.coordinates(builder, slot, 64)
    return [builder.add(o, c) for o, c in zip(origin, coordinates, strict=True)], valid


def is_whole(builder: ir.IRBuilder, shape: Sequence[int], origin: Sequence[Value], extents: Sequence[Value]) -> Value:
    tests = [
        builder.icmp_signed("<=", builder.add(o, I64(extent)), limit)
        for o, extent, limit in zip(origin, shape, extents, strict=True)
    ]
    return reduce(builder.and_, tests, I1(1))


def _inside(builder: ir.IRBuilder, at: Sequence[Value], extents: Sequence[Value], valid: Value | None) -> Value:
    tests = [builder.icmp_signed("<", a, limit) for a, limit in zip(at, extents, strict=True)]
    return reduce(builder.and_, tests, valid if valid is not None else I1(1))


def vector_length(dtype: str) -> int:
    """Elements in 16 bytes."""
    return 16 // SIZE[dtype]


def _vector_groups(form: Global) -> list[list[int]] | None:
    """The slots of each wide access of one thread; None if elements go one by one."""
    if not form.vectors:
        return None
    layout = form.layout
    match layout:
        case Linear(vector=vector) if vector > 1:
            width = min(vector, vector_length(form.dtype))
        case Fragments() if layout.shape[-1] % 2 == 0:
            width = 2
        case _:
            return None
    return [list(range(s, s + width)) for s in range(0, layout.registers, width)]


def _load_whole(
    builder: ir.IRBuilder, form: Global, base: Value, strides: Sequence[Value], origin: Sequence[Value]
) -> list[Value]:
    kind, size = _memory_type(form.dtype), SIZE[form.dtype]
    values: list[Value] = []
    base = builder.add(base, bytes_from(builder, origin, strides, size))
    origin = [I64(0)] * len(origin)
    groups = _vector_groups(form)
    if groups is not None:
        for group in groups:
            at, valid = _places(builder, form.layout, origin, group[0])
            offset = bytes_from(builder, at, strides, size)
            if valid is not None:
                offset = builder.select(valid, offset, I64(0))
            packed = packed_type(kind, len(group))
            vector = _load(builder, form, builder.add(base, offset), packed, size * len(group))
            values += unpack(builder, vector, kind, len(group))
    else:
        for slot in range(form.layout.registers):
            at, valid = _places(builder, form.layout, origin, slot)
            offset = bytes_from(builder, at, strides, size)
            if valid is not None:
                offset = builder.select(valid, offset, I64(0))
            values.append(_load(builder, form, builder.add(base, offset), kind, size))
    return values


def _load_clipped(
    builder: ir.IRBuilder,
    form: Global,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    origin: Sequence[Value],
    pad: Value,
) -> list[Value]:
    kind, size = _memory_type(form.dtype), SIZE[form.dtype]
    values: list[Value] = []
    for slot in range(form.layout.registers):
        at, valid = _places(builder, form.layout, origin, slot)
        inside = _inside(builder, at, extents, valid)
        offset = builder.select(inside, bytes_from(builder, at, strides, size), I64(0))
        value = _load(builder, form, builder.add(base, offset), kind, size)
        values.append(builder.select(inside, value, pad))
    return values


def load_tile(
    builder: ir.IRBuilder,
    form: Global,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    index: Sequence[Value],
    pad: Value,
) -> list[Value]:
    """This thread's registers of tile `index`. `base` is an address, extents, strides (in elements) and index are i64;
    `pad` is a constant of the memory type for lanes outside.
    """
    origin = first_element(builder, form.layout.shape, index)
    if form.whole:
        values = _load_whole(builder, form, base, strides, origin)
    else:
        whole = is_whole(builder, form.layout.shape, origin, extents)
        with builder.if_else(whole) as (then, otherwise):
            with then:
                fast = _load_whole(builder, form, base, strides, origin)
                fast_block = builder.block
            with otherwise:
                slow = _load_clipped(builder, form, base, extents, strides, origin, pad)
                slow_block = builder.block
        values = []
        for f, s in zip(fast, slow, strict=True):
            phi = builder.phi(f.type)
            phi.add_incoming(f, fast_block)
            phi.add_incoming(s, slow_block)
            values.append(phi)
    if form.dtype == "bool_":
        values = [builder.icmp_unsigned("!=", v, I8(0)) for v in values]
    return values


def _store_one(builder: ir.IRBuilder, address: Value, value: Value, allowed: Value | None, align: int) -> None:
    if allowed is None:
        builder.store(value, _pointer(builder, address, value.type)).align = align
    else:
        with builder.if_then(allowed):
            builder.store(value, _pointer(builder, address, value.type)).align = align


def _store_whole(
    builder: ir.IRBuilder,
    form: Global,
    base: Value,
    strides: Sequence[Value],
    origin: Sequence[Value],
    values: Sequence[Value],
) -> None:
    size = SIZE[form.dtype]
    if isinstance(form.layout, Fragments):
        _store_fragments(builder, form, form.layout, base, None, strides, origin, values)
        return
    base = builder.add(base, bytes_from(builder, origin, strides, size))
    origin = [I64(0)] * len(origin)
    groups = _vector_groups(form)
    if groups is not None:
        for group in groups:
            at, valid = _places(builder, form.layout, origin, group[0])
            vector = pack(builder, [values[slot] for slot in group])
            address = builder.add(base, bytes_from(builder, at, strides, size))
            _store_one(builder, address, vector, valid, size * len(group))
        return
    first = _first_thread(builder, form.layout)
    for slot in range(form.layout.registers):
        at, valid = _places(builder, form.layout, origin, slot)
        _store_one(
            builder,
            builder.add(base, bytes_from(builder, at, strides, size)),
            values[slot],
            _both(builder, first, valid),
            size,
        )


def _first_thread(builder: ir.IRBuilder, layout: Layout) -> Value | None:
    """What several threads hold is stored by one of them."""
    if isinstance(layout, Lines):
        return layout.first(builder)
    if isinstance(layout, Whole):
        return builder.icmp_unsigned("==", thread_index(builder), I32(0))
    return None


def _both(builder: ir.IRBuilder, a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return a if b is None else b
    return builder.and_(a, b)


def store_tile(
    builder: ir.IRBuilder,
    form: Global,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    index: Sequence[Value],
    values: Sequence[Value],
) -> None:
    """Write this thread's registers to tile `index`; lanes outside the array are dropped."""
    if form.dtype == "bool_":
        values = [builder.zext(v, I8) for v in values]
    origin = first_element(builder, form.layout.shape, index)
    if form.whole:
        _store_whole(builder, form, base, strides, origin, values)
        return
    with builder.if_else(is_whole(builder, form.layout.shape, origin, extents)) as (then, otherwise):
        with then:
            _store_whole(builder, form, base, strides, origin, values)
        with otherwise:
            _store_clipped(builder, form, base, extents, strides, origin, values)


def _store_clipped(
    builder: ir.IRBuilder,
    form: Global,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    origin: Sequence[Value],
    values: Sequence[Value],
) -> None:
    if isinstance(form.layout, Fragments):
        _store_fragments(builder, form, form.layout, base, extents, strides, origin, values)
        return
    first = _first_thread(builder, form.layout)
    for slot in range(form.layout.registers):
        at, valid = _places(builder, form.layout, origin, slot)
        inside = _inside(builder, at, extents, _both(builder, first, valid))
        address = builder.add(base, bytes_from(builder, at, strides, SIZE[form.dtype]))
        _store_one(builder, address, values[slot], inside, SIZE[form.dtype])


def _store_fragments(
    builder: ir.IRBuilder,
    form: Global,
    layout: Fragments,
    base: Value,
    extents: Sequence[Value] | None,
    strides: Sequence[Value],
    origin: Sequence[Value],
    values: Sequence[Value],
) -> None:
    """Write an accumulator, clipped if `extents` are given. It leaves no registers for a pair of coordinates or for an
    address each, so rows follow one another by one step, and columns are constants.
    """
    size = SIZE[form.dtype]
    own = layout.own(builder, 64)
    start = [*origin[:-2], builder.add(origin[-2], own[0]), builder.add(origin[-1], own[1])]
    address = builder.add(base, bytes_from(builder, start, strides, size))
    down = builder.mul(strides[-2], I64(8 * size))
    room = None if extents is None else [builder.sub(extents[axis], start[axis]) for axis in (-2, -1)]
    pairs = room is None and form.vectors
    rows, columns = layout.pieces
    for turn in range(2 * rows):
        for piece in range(columns):
            slot = (turn // 2 * columns + piece) * 4 + turn % 2 * 2
            for column, held in enumerate(
                [pack(builder, values[slot : slot + 2])] if pairs else values[slot : slot + 2]
            ):
                across = 8 * piece + column
                inside = None
                if room is not None:
                    below, beside = (
                        builder.icmp_signed(">", left, I64(at))
                        for left, at in zip(room, (8 * turn, across), strict=True)
                    )
                    inside = builder.and_(below, beside)
                place = builder.add(address, builder.mul(strides[-1], I64(across * size)))
                _store_one(builder, place, held, inside, 2 * size if pairs else size)
        address = builder.add(address, down)
