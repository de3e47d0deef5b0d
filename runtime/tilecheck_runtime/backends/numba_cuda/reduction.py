"""Reductions along one axis, and scans.

A reduction has three forms. A tile whose lines are whole rounds of the block folds in registers, then across the block
by shuffles and one exchange of a value per warp; lines that a few neighbouring lanes hold fold by shuffles alone;
everything else goes through shared memory, where each element of the result walks its line. The combine function works
on several values at once, so argmax is the same code on pairs (value, position).

Invariant: combination is associative and commutative up to rounding, and every form combines each element once. The
order of float additions depends on the form and the thread count, never on timing: results repeat bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.exchange import put_tile
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, Linear, Lines, Whole, split_index
from tilecheck_runtime.backends.numba_cuda.registers import I32, SIZE, Value
from tilecheck_runtime.backends.numba_cuda.shared import barrier, get, private, put, scratch, shuffle_xor, thread_index

Values = list[Value]
Combine = Callable[[ir.IRBuilder, Values, Values], Values]


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction: `dtypes` of the values that are folded together, `identity` for lanes outside the tile."""

    dtypes: tuple[str, ...]
    identity: tuple[Value, ...]
    combine: Combine


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the kernel: its name is unique in the module, `repeats` says that it may run more than once."""

    name: str
    repeats: bool


def _aligned(size: int) -> int:
    return -(-size // 16) * 16


def _offsets(dtypes: Sequence[str], count: int) -> list[int]:
    offsets, at = [], 0
    for dtype in dtypes:
        offsets.append(at)
        at += _aligned(count * SIZE[dtype])
    return offsets


def shared_bytes(fold_dtypes: Sequence[str], source: Layout, axis: int) -> int:
    """Bytes of the shared buffer that `reduce_axis` takes."""
    lines = source.size // source.shape[axis]
    form = _form(source, axis)
    count = {"shared": source.size, "lanes": lines}.get(form, 0)
    return sum(_aligned(count * SIZE[d]) for d in fold_dtypes)


def _form(source: Layout, axis: int) -> str:
    if isinstance(source, Whole):
        return "whole"
    length = source.shape[axis]
    if not isinstance(source, Linear) or prod(source.shape[axis + 1 :]) != 1 or not source.exact:
        return "shared"
    round_size = source.threads * source.vector
    if length % round_size == 0:
        return "block"
    lanes = length // source.vector
    if length % source.vector == 0 and round_size % length == 0 and lanes <= 32 and lanes & (lanes - 1) == 0:
        return "lanes"
    return "shared"


# Chains that one thread folds side by side: each instruction waits four cycles for the one before it in its chain.
_CHAINS: Final = 4


def _in_thread(builder: ir.IRBuilder, fold: Fold, slots: Sequence[Values]) -> Values:
    """What one thread holds of a line, folded."""
    chains: list[Values] = list(slots[:_CHAINS])
    for s, values in enumerate(slots[_CHAINS:]):
        chains[s % _CHAINS] = fold.combine(builder, chains[s % _CHAINS], values)
    while len(chains) > 1:
        pairs = [fold.combine(builder, a, b) for a, b in zip(chains[::2], chains[1::2], strict=False)]
        chains = pairs + chains[len(chains) & ~1 :]
    return chains[0]


def _across_lanes(builder: ir.IRBuilder, fold: Fold, values: Values, lanes: int) -> Values:
    step = lanes // 2
    while step:
        values = fold.combine(builder, values, [shuffle_xor(builder, v, step) for v in values])
        step //= 2
    return values


def _bases(builder: ir.IRBuilder, fold: Fold, count: int) -> list[Value]:
    return [scratch(builder, d, o) for d, o in zip(fold.dtypes, _offsets(fold.dtypes, count), strict=True)]


def reduce_axis(
    builder: ir.IRBuilder,
    fold: Fold,
    source: Layout,
    axis: int,
    target: Layout,
    parts: Sequence[Sequence[Value]],
    site: Site,
) -> list[list[Value]]:
    """Fold `source` along `axis`. `parts` holds the registers of each folded value; the result has those of `target`,
    whose row-major order is that of the lines.
    """
    length = source.shape[axis]
    inner = prod(source.shape[axis + 1 :])
    lines = source.size // length
    slots = [[part[s] for part in parts] for s in range(source.registers)]
    match _form(source, axis):
        case "whole":
            folded = []
            for line in range(lines):
                start = (line // inner) * length * inner + line % inner
                total = slots[start]
                for k in range(1, length):
                    total = fold.combine(builder, total, slots[start + k * inner])
                folded.append(total)
            return _spread_constant(folded, target)
        case "block":
            return _reduce_block(builder, fold, source, lines, target, slots, site)
        case "lanes":
            return _reduce_lanes(builder, fold, source, length, lines, target, slots)
        case _:
            return _reduce_shared(builder, fold, source, length, inner, target, parts)


def reduce_rows(
    builder: ir.IRBuilder, fold: Fold, source: Fragments, target: Lines, values: Sequence[Value], site: Site
) -> list[Value]:
    """Fold the columns of an accumulator: in registers, over the four lanes of a row, and over the warps that share a row,
    one value per warp and row through a buffer of the op's own. Every thread of a row gets the result.
    """
    totals: list[Values | None] = [None] * target.registers
    for slot, value in enumerate(values):
        line = target.slot_of(source, slot)
        total = totals[line]
        totals[line] = [value] if total is None else fold.combine(builder, total, [value])
    folded = [_across_lanes(builder, fold, total, 4) for total in totals if total is not None]
    across = source.warps[1]
    if across == 1:
        return [total[0] for total in folded]
    rows = source.shape[-2]
    base = private(builder, f"{site.name}_0", fold.dtypes[0], rows * across)
    thread = thread_index(builder)
    place = builder.mul(builder.urem(builder.lshr(thread, I32(5)), I32(across)), I32(rows))
    own = [target.coordinates(builder, slot)[0][-2] for slot in range(target.registers)]
    if site.repeats:
        barrier(builder)
    with builder.if_then(builder.icmp_unsigned("==", builder.and_(thread, I32(3)), I32(0))):
        for row, total in zip(own, folded, strict=True):
            put(builder, base, builder.add(place, row), total[0])
    barrier(builder)
    results: list[Value] = []
    for row in own:
        parts = [[get(builder, fold.dtypes[0], base, builder.add(row, I32(w * rows)))] for w in range(across)]
        total = parts[0]
        for part in parts[1:]:
            total = fold.combine(builder, total, part)
        results.append(total[0])
    return results


def _spread_constant(folded: list[Values], target: Layout) -> list[list[Value]]:
    assert isinstance(target, Whole)
    return [[line[p] for line in folded] for p in range(len(folded[0]))]


def _read_lines(builder: ir.IRBuilder, fold: Fold, bases: list[Value], target: Layout) -> list[list[Value]]:
    result: list[list[Value]] = [[] for _ in bases]
    for slot in range(target.registers):
        index, valid = target.row_major(builder, slot)
        if valid is not None:
            index = builder.select(valid, index, I32(0))
        for values, dtype, base in zip(result, fold.dtypes, bases, strict=True):
            values.append(get(builder, dtype, base, index))
    return result


def _reduce_block(
    builder: ir.IRBuilder, fold: Fold, source: Layout, lines: int, target: Layout, slots: list[Values], site: Site
) -> list[list[Value]]:
    """Lines that the whole block holds: registers, then lanes, then one value per warp through a buffer of the op's own,
    so that nothing but the next round of a loop has to wait for its readers.
    """
    per_line = len(slots) // lines
    totals: list[Values] = []
    for line in range(lines):
        total = _in_thread(builder, fold, slots[line * per_line : (line + 1) * per_line])
        totals.append(_across_lanes(builder, fold, total, 32))
    warps = source.threads // 32
    if warps == 1 and isinstance(target, Whole):
        return _spread_constant(totals, target)
    thread = thread_index(builder)
    warp = builder.lshr(thread, I32(5))
    bases = [private(builder, f"{site.name}_{i}", dtype, lines * warps) for i, dtype in enumerate(fold.dtypes)]
    if site.repeats:
        barrier(builder)
    with builder.if_then(builder.icmp_unsigned("==", builder.and_(thread, I32(31)), I32(0))):
        for line, total in enumerate(totals):
            for base, value in zip(bases, total, strict=True):
                put(builder, base, builder.add(warp, I32(line * warps)), value)
    barrier(builder)
    if isinstance(target, Whole):
        return _spread_constant(
            [_fold_run(builder, fold, bases, I32(line * warps), warps) for line in range(lines)], target
        )
    result: list[list[Value]] = [[] for _ in bases]
    for slot in range(target.registers):
        index, valid = target.row_major(builder, slot)
        if valid is not None:
            index = builder.select(valid, index, I32(0))
        total = _fold_run(builder, fold, bases, builder.mul(index, I32(warps)), warps)
        for values, value in zip(result, total, strict=True):
            values.append(value)
    return result


def _fold_run(builder: ir.IRBuilder, fold: Fold, bases: list[Value], start: Value, count: int) -> Values:
    def read(k: int) -> Values:
        return [get(builder, d, b, builder.add(start, I32(k))) for d, b in zip(fold.dtypes, bases, strict=True)]

    runs = [read(k) for k in range(count)]
    while len(runs) > 1:
        folded = [fold.combine(builder, x, y) for x, y in zip(runs[::2], runs[1::2], strict=False)]
        runs = folded + ([runs[-1]] if len(runs) % 2 else [])
    return runs[0]


def _reduce_lanes(
    builder: ir.IRBuilder, fold: Fold, source: Layout, length: int, lines: int, target: Layout, slots: list[Values]
) -> list[list[Value]]:
    lanes = length // source.vector
    lines_per_round = source.threads // lanes
    bases = _bases(builder, fold, lines)
    thread = thread_index(builder)
    barrier(builder)
    for r in range(len(slots) // source.vector):
        total = slots[r * source.vector]
        for v in range(1, source.vector):
            total = fold.combine(builder, total, slots[r * source.vector + v])
        total = _across_lanes(builder, fold, total, lanes)
        line = builder.add(builder.udiv(thread, I32(lanes)), I32(r * lines_per_round))
        with builder.if_then(builder.icmp_unsigned("==", builder.urem(thread, I32(lanes)), I32(0))):
            for base, value in zip(bases, total, strict=True):
                put(builder, base, line, value)
    barrier(builder)
    result = _read_lines(builder, fold, bases, target)
    barrier(builder)
    return result


def _reduce_shared(
    builder: ir.IRBuilder,
    fold: Fold,
    source: Layout,
    length: int,
    inner: int,
    target: Layout,
    parts: Sequence[Sequence[Value]],
) -> list[list[Value]]:
    bases = _bases(builder, fold, source.size)
    barrier(builder)
    for base, part in zip(bases, parts, strict=True):
        put_tile(builder, source, part, base)
    barrier(builder)
    result: list[list[Value]] = [[] for _ in bases]
    for slot in range(target.registers):
        line, valid = target.row_major(builder, slot)
        if valid is not None:
            line = builder.select(valid, line, I32(0))
        outer_at, inner_at = split_index(builder, (source.size // length // inner, inner), line)
        start = builder.add(builder.mul(outer_at, I32(length * inner)), inner_at)
        total = _walk(builder, fold, bases, start, length, inner)
        for values, value in zip(result, total, strict=True):
            values.append(value)
    barrier(builder)
    return result


def _walk(builder: ir.IRBuilder, fold: Fold, bases: list[Value], start: Value, length: int, step: int) -> Values:
    """Fold the `length` elements from `start`, `step` apart, in a loop."""
    first = [get(builder, d, b, start) for d, b in zip(fold.dtypes, bases, strict=True)]
    if length == 1:
        return first
    before = builder.block
    loop = builder.append_basic_block("fold")
    after = builder.append_basic_block("folded")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(I32)
    k.add_incoming(I32(1), before)
    carried = []
    for value in first:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        carried.append(phi)
    index = builder.add(start, builder.mul(k, I32(step)))
    element = [get(builder, d, b, index) for d, b in zip(fold.dtypes, bases, strict=True)]
    total = fold.combine(builder, list(carried), element)
    following = builder.add(k, I32(1))
    end = builder.block
    k.add_incoming(following, end)
    for phi, value in zip(carried, total, strict=True):
        phi.add_incoming(value, end)
    builder.cbranch(builder.icmp_unsigned("<", following, I32(length)), loop, after)
    builder.position_at_end(after)
    return total


def scan_axis(
    builder: ir.IRBuilder, fold: Fold, source: Layout, axis: int, reverse: bool, part: Sequence[Value]
) -> list[Value]:
    """The inclusive scan of `source` along `axis`, each line by one thread through shared memory."""
    length = source.shape[axis]
    inner = prod(source.shape[axis + 1 :])
    lines = source.size // length
    (base,) = _bases(builder, fold, source.size)
    barrier(builder)
    put_tile(builder, source, part, base)
    barrier(builder)
    thread = thread_index(builder)
    for r in range(-(-lines // source.threads)):
        line = builder.add(thread, I32(r * source.threads))
        with builder.if_then(builder.icmp_unsigned("<", line, I32(lines))):
            outer_at, inner_at = split_index(builder, (lines // inner, inner), line)
            start = builder.add(builder.mul(outer_at, I32(length * inner)), inner_at)
            if reverse:
                start = builder.add(start, I32((length - 1) * inner))
            _scan_line(builder, fold, base, start, length, -inner if reverse else inner)
    barrier(builder)
    result = []
    for slot in range(source.registers):
        index, valid = source.row_major(builder, slot)
        if valid is not None:
            index = builder.select(valid, index, I32(0))
        result.append(get(builder, fold.dtypes[0], base, index))
    barrier(builder)
    return result


def _scan_line(builder: ir.IRBuilder, fold: Fold, base: Value, start: Value, length: int, step: int) -> None:
    if length == 1:
        return
    dtype = fold.dtypes[0]
    first = get(builder, dtype, base, start)
    before = builder.block
    loop = builder.append_basic_block("scan")
    after = builder.append_basic_block("scanned")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(I32)
    k.add_incoming(I32(1), before)
    carried = builder.phi(first.type)
    carried.add_incoming(first, before)
    index = builder.add(start, builder.mul(k, I32(step)))
    (total,) = fold.combine(builder, [carried], [get(builder, dtype, base, index)])
    put(builder, base, index, total)
    following = builder.add(k, I32(1))
    k.add_incoming(following, builder.block)
    carried.add_incoming(total, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, I32(length)), loop, after)
    builder.position_at_end(after)
