"""Matrix products by whole warpgroups, sm_90a: `wgmma` reads both operands from shared memory, by descriptor.

Four warps compute 64 rows and all N columns of the accumulator; warp w of the block owns rows 16 w to 16 w + 15, which is
the `Fragments` layout with all warps down. The operands are the swizzled tiles of a pipelined loop (see `swizzle`), whose
form is the hardware's own, so a tile is named by its address, two strides and the width of the swizzle. The left operand
may come in registers instead: a tile held like an accumulator is there already, as the weights of an attention are.

`issue` starts the products of one round and returns accumulators that are still being written; only `finish` may touch
them. Between the two the block may start copies and compute what does not need the accumulators.

Invariant: copies written by `cp.async` become visible to the tensor cores by `visible`, each thread for its own, before the
barrier that announces them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.layout import Fragments
from tilecheck_runtime.backends.numba_cuda.matrix import TENSOR_DTYPES, Operand, left_registers
from tilecheck_runtime.backends.numba_cuda.registers import FLOAT, I32, I64, Value
from tilecheck_runtime.backends.numba_cuda.shared import thread_index
from tilecheck_runtime.backends.numba_cuda.swizzle import Swizzled, arena

ROWS: Final = 64
_GROUP: Final = 128
_MOST_COLUMNS: Final = 256
_MOST_ROWS: Final = 256
_SWIZZLES: Final = {128: 1, 64: 2, 32: 3}


def threads_for(dtype: str, shape: tuple[int, ...], k: int) -> int | None:
    """The threads of a block that computes products into (..., M, N) by warpgroups; None if it cannot."""
    m, n = shape[-2:]
    if dtype not in TENSOR_DTYPES or any(extent != 1 for extent in shape[:-2]) or k % 16:
        return None
    if m % ROWS or m > _MOST_ROWS or n % 16 or n > _MOST_COLUMNS:
        return None
    return m // ROWS * _GROUP


def _descriptor(builder: ir.IRBuilder, form: Swizzled, address: Value) -> Value:
    """What names a tile to `wgmma`: the address, the strides from panel to panel and from eight rows to the next, and the
    swizzle; addresses and strides in units of 16 bytes.
    """
    fixed = form.panel_bytes // 16 << 16 | 8 * form.pitch // 16 << 32 | _SWIZZLES[form.pitch] << 62
    place = builder.zext(builder.lshr(builder.and_(address, I32(0x3FFFF)), I32(4)), I64)
    return builder.or_(place, ir.Constant(I64, fixed - (1 << 64) if fixed >> 63 else fixed))


def _along_k(form: Swizzled, transposed: bool, right: bool, step: int) -> int:
    """Bytes from the start of a tile to its columns (A) or rows (B) 16 `step` and later."""
    if transposed != right:
        return 16 * step * form.pitch
    panel, inner = divmod(16 * step, form.panel)
    return panel * form.panel_bytes + 2 * inner


def issue(
    builder: ir.IRBuilder,
    dtype: str,
    layout: Fragments,
    k: int,
    a: tuple[Operand, Sequence[Value]],
    b: tuple[Operand, Sequence[Value]],
    accumulator: Sequence[Value],
) -> list[Value]:
    """Start `accumulator + a @ b`. Tiles in shared memory come as offsets (i64) in the arena; A may come as registers that
    are `ready`. K a multiple of 16.
    """
    (left, left_values), (right, right_values) = a, b
    assert right.swizzled is not None
    count = layout.registers
    operands: list[Value] = []
    places: list[str] = []
    second = _descriptor(builder, right.swizzled, arena(builder, right_values[0]))
    first = None if left.swizzled is None else _left_descriptor(builder, left, left.swizzled, left_values[0])
    majors = "" if left.swizzled is None else f" {int(left.transposed)},"
    for step in range(k // 16):
        start = count + len(operands)
        if left.swizzled is None:
            assert left.layout is not None
            operands += left_registers(builder, left.layout, left_values, 0, step)
            place = "{" + ", ".join(f"${start + i}" for i in range(4)) + "}"
        else:
            assert first is not None
            operands.append(builder.add(first, I64(_along_k(left.swizzled, left.transposed, False, step) // 16)))
            place = f"${start}"
        operands.append(builder.add(second, I64(_along_k(right.swizzled, right.transposed, True, step) // 16)))
        places.append(f"{place}, ${count + len(operands) - 1}")
    registers = ", ".join(f"${i}" for i in range(count))
    op = f"wgmma.mma_async.sync.aligned.m64n{layout.shape[-1]}k16.f32.{dtype}.{dtype}"
    lines = [f"{op} {{{registers}}}, {place}, p, 1, 1,{majors} {int(not right.transposed)};" for place in places]
    begin = "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned;"
    text = " ".join([begin, *lines, "wgmma.commit_group.sync.aligned; }"])
    return _on_registers(builder, text, operands, accumulator)


def _left_descriptor(builder: ir.IRBuilder, left: Operand, form: Swizzled, offset: Value) -> Value:
    """The warpgroup's 64 rows: rows of the tile, or its columns, which are one panel."""
    group = builder.lshr(thread_index(builder), I32(7))
    share = form.panel_bytes if left.transposed else ROWS * form.pitch
    return _descriptor(builder, form, builder.add(arena(builder, offset), builder.mul(group, I32(share))))


def finish(builder: ir.IRBuilder, accumulator: Sequence[Value]) -> list[Value]:
    """The accumulators of `issue`, complete."""
    return _on_registers(builder, "wgmma.wait_group.sync.aligned 0;", (), accumulator)


def settle(builder: ir.IRBuilder) -> None:
    """Wait for all products but those of the last `issue`, whose operands may still be read."""
    kind = ir.FunctionType(ir.VoidType(), [])
    text = "wgmma.wait_group.sync.aligned 1;"
    builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), [])


def _on_registers(
    builder: ir.IRBuilder, text: str, operands: Sequence[Value], accumulator: Sequence[Value]
) -> list[Value]:
    """Inline PTX that changes `accumulator` in its registers."""
    count = len(accumulator)
    kind = ir.FunctionType(ir.LiteralStructType([FLOAT] * count), [o.type for o in operands] + [FLOAT] * count)
    letters = ["r" if o.type == I32 else "l" for o in operands]
    constraints = ",".join(["=f"] * count + letters + [str(i) for i in range(count)] + ["~{memory}"])
    done = builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), [*operands, *accumulator])
    return [builder.extract_value(done, i) for i in range(count)]


def visible(builder: ir.IRBuilder) -> None:
    """Let the tensor cores see what this thread wrote to shared memory."""
    kind = ir.FunctionType(ir.VoidType(), [])
    text = "fence.proxy.async.shared::cta;"
    builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), [])
