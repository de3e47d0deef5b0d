"""Rows of the next wave of blocks, fetched into the second-level cache while this one computes.

A block that reduces a long row loads it, then waits for the sum before it can store: with few blocks on a multiprocessor
memory idles meanwhile. So each block also names the row that the block one wave later will load; nobody waits for it, and
it takes no registers. Of short rows enough blocks are under way without that, and naming rows costs more than it brings.

    t_0 = load_f16_0(x, (x_n0, x_n1, ), (x_s0, int64(1), ), (int64(b0), int64(0), ))
    fetch_0(x, (x_n0, x_n1, ), (x_s0, int64(1), ), (int64(b0), int64(0), ))

Invariant: only tiles that the array has whole are named, so no address outside of it is formed; a fetch changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Assign, Const, Expr, Name, OpCall, walk
from tilecheck.ops.row import OPS
from tilecheck_runtime.backends.numba_cuda import memory
from tilecheck_runtime.backends.numba_cuda.registers import I64, SIZE, Value
from tilecheck_runtime.backends.numba_cuda.shared import thread_index

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

# Multiprocessors, by architecture: blocks that start together, at least.
_WAVE: Final[Mapping[tuple[int, int], int]] = {(9, 0): 132}
# Bytes of a row from which on fetching pays.
_LEAST: Final = 32768


def next_wave(
    low: Lowering, form: memory.Global, index: Sequence[Expr] | None, place: tuple[str, str, str], at: str
) -> None:
    """Fetch ahead of the load of `form` whose tile has `index`, None for the block's own, where that pays. `place` and
    `at` are address, extents, strides and index as text.
    """
    wave = _WAVE.get(low.capability)
    shape = form.layout.shape
    if wave is None or shape[-1] * SIZE[form.dtype] < _LEAST or not (form.whole and form.vectors):
        return
    if not low.recipes.straight or not _follows_blocks(low, index) or not _reduces(low):
        return

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, extents, strides, own = args
        _fetch(builder, form, base[0], extents, strides, [builder.add(own[0], I64(wave)), *own[1:]])
        return ()

    name = low.out.intrinsic("fetch", (form, wave), 4, None, build)
    low.out.line(f"{name}({', '.join(place)}, {at})")


def _follows_blocks(low: Lowering, index: Sequence[Expr] | None) -> bool:
    """Whether the tile is that of the block along axis 0 and the same for all blocks along the others."""
    if index is None:
        return True
    if len(index) < 2:
        return False
    first, *others = index
    if isinstance(first, Name):
        values = [n.value for n in walk(*low.kernel.body) if isinstance(n, Assign) and n.target == first.id]
        first = values[0] if len(values) == 1 else first
    own = isinstance(first, OpCall) and first.op == "block_id" and low.constant_int(first.args[0]) == 0
    return own and all(isinstance(other, Const) for other in others)


def _reduces(low: Lowering) -> bool:
    calls = (node for node in walk(*low.kernel.body) if isinstance(node, OpCall))
    return any(call.op in OPS and OPS[call.op].family == "reduction" for call in calls)


def _fetch(
    builder: ir.IRBuilder,
    form: memory.Global,
    base: Value,
    extents: Sequence[Value],
    strides: Sequence[Value],
    index: Sequence[Value],
) -> None:
    """One thread asks for each row of tile `index`, if the array has all of it."""
    shape, size = form.layout.shape, SIZE[form.dtype]
    origin = memory.first_element(builder, shape, index)
    thread = builder.zext(thread_index(builder), I64)
    within = memory.is_whole(builder, shape, origin, extents)
    with builder.if_then(builder.and_(builder.icmp_unsigned("<", thread, I64(prod(shape[:-1]))), within)):
        at, left = list(origin), thread
        for axis in range(len(shape) - 2, -1, -1):
            at[axis] = builder.add(at[axis], builder.urem(left, I64(shape[axis])))
            left = builder.udiv(left, I64(shape[axis]))
        address = builder.add(base, memory.bytes_from(builder, at, strides, size))
        text = f"cp.async.bulk.prefetch.L2.global [$0], {shape[-1] * size};"
        kind = ir.FunctionType(ir.VoidType(), [I64])
        builder.call(ir.InlineAsm(kind, text, "l", side_effect=True), [address])
