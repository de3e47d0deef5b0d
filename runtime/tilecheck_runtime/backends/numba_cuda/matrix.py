"""Matrix products: tensor cores for f16 and bf16, multiply-add for the rest.

Both operands go through shared memory, rows padded by 16 bytes so that the eight rows of an `ldmatrix` fall into
different banks. The accumulator stays in `Fragments` registers across the loop that carries it.

Fragment order of `mma.sync.m16n8k16` (PTX ISA, matrix fragments): with g = lane / 4 and t = lane % 4, A holds rows g and
g + 8 at columns 2t and 2t + 8, B holds columns g at rows 2t and 2t + 8, C holds rows g and g + 8 at columns 2t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.exchange import put_tile
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout
from tilecheck_runtime.backends.numba_cuda.registers import FLOAT, I32, SIZE, Value, cast, is_float
from tilecheck_runtime.backends.numba_cuda.shared import barrier, get, scratch, thread_index

TENSOR_DTYPES: Final = ("f16", "bf16")


def _pitch(dtype: str, columns: int) -> int:
    return columns + 16 // SIZE[dtype]


def shared_bytes(dtype: str, m: int, n: int, k: int) -> int:
    """Bytes of shared memory for both operands."""
    return (m * _pitch(dtype, k) + k * _pitch(dtype, n)) * SIZE[dtype]


def _shared_address(builder: ir.IRBuilder, base: Value, index: Value) -> Value:
    return builder.ptrtoint(builder.gep(base, [index]), I32)


def _load_matrices(builder: ir.IRBuilder, address: Value, transposed: bool) -> list[Value]:
    suffix = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    result = ir.LiteralStructType([I32] * 4)
    kind = ir.FunctionType(result, [I32])
    # Reads memory that barriers order, so the call must stay where it is.
    loaded = builder.call(ir.InlineAsm(kind, text, "=r,=r,=r,=r,r,~{memory}", side_effect=True), [address])
    return [builder.extract_value(loaded, i) for i in range(4)]


def _multiply(
    builder: ir.IRBuilder, dtype: str, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]
) -> list[Value]:
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    result = ir.LiteralStructType([FLOAT] * 4)
    kind = ir.FunctionType(result, [I32] * 6 + [FLOAT] * 4)
    done = builder.call(ir.InlineAsm(kind, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", side_effect=False), [*a, *b, *c])
    return [builder.extract_value(done, i) for i in range(4)]


def tensor_mma(
    builder: ir.IRBuilder,
    dtype: str,
    layout: Fragments,
    k: int,
    a: tuple[Layout, Sequence[Value]],
    b: tuple[Layout, Sequence[Value]],
    accumulator: Sequence[Value],
) -> list[Value]:
    """`accumulator + a @ b` for a of (M, K) and b of (K, N) in f16 or bf16, accumulated in f32; K a multiple of 16."""
    m, n = layout.shape[-2:]
    pitch_a, pitch_b = _pitch(dtype, k), _pitch(dtype, n)
    base_a = scratch(builder, dtype)
    base_b = scratch(builder, dtype, m * pitch_a * SIZE[dtype])
    barrier(builder)
    put_tile(builder, *a, base_a, pitch_a)
    put_tile(builder, *b, base_b, pitch_b)
    barrier(builder)
    rows, columns = layout.pieces
    row0, column0 = layout.warp_origin(builder)
    lane = builder.and_(thread_index(builder), I32(31))
    row_lane = builder.and_(lane, I32(15))
    half = builder.mul(builder.lshr(lane, I32(4)), I32(8))
    a_start = builder.add(builder.mul(builder.add(row0, row_lane), I32(pitch_a)), half)
    b_start = builder.add(builder.mul(row_lane, I32(pitch_b)), builder.add(column0, half))
    totals = list(accumulator)
    for step in range(k // 16):
        left = [
            _load_matrices(
                builder,
                _shared_address(builder, base_a, builder.add(a_start, I32(i * 16 * pitch_a + step * 16))),
                transposed=False,
            )
            for i in range(rows)
        ]
        for pair in range(-(-columns // 2)):
            at = builder.add(b_start, I32(step * 16 * pitch_b + pair * 16))
            right = _load_matrices(builder, _shared_address(builder, base_b, at), transposed=True)
            for j in range(2 * pair, min(2 * pair + 2, columns)):
                pick = right[:2] if j % 2 == 0 else right[2:]
                for i in range(rows):
                    slot = (i * columns + j) * 4
                    totals[slot : slot + 4] = _multiply(builder, dtype, left[i], pick, totals[slot : slot + 4])
    barrier(builder)
    return totals


def plain_mma(
    builder: ir.IRBuilder,
    dtype: str,
    result_dtype: str,
    layout: Layout,
    k: int,
    a: tuple[Layout, Sequence[Value]],
    b: tuple[Layout, Sequence[Value]],
    accumulator: Sequence[Value],
) -> list[Value]:
    """`accumulator + a @ b` by multiply-add in the result's dtype, k in order. Any layout, any extents; leading axes
    of the operands are batches.
    """
    shape = layout.shape
    m, n = shape[-2:]
    pitch_a, pitch_b = _pitch(dtype, k), _pitch(dtype, n)
    batches = layout.size // (m * n)
    base_a = scratch(builder, dtype)
    base_b = scratch(builder, dtype, -(-batches * m * pitch_a * SIZE[dtype] // 16) * 16)
    barrier(builder)
    put_tile(builder, *a, base_a, pitch_a)
    put_tile(builder, *b, base_b, pitch_b)
    barrier(builder)
    starts: list[tuple[Value, Value]] = []
    for slot in range(layout.registers):
        coordinates, valid = layout.coordinates(builder, slot)
        batch: Value = I32(0)
        for extent, at in zip(shape[:-2], coordinates[:-2], strict=True):
            batch = builder.add(builder.mul(batch, I32(extent)), at)
        row, column = coordinates[-2:]
        if valid is not None:
            batch, row, column = (builder.select(valid, v, I32(0)) for v in (batch, row, column))
        start_a = builder.mul(builder.add(builder.mul(batch, I32(m)), row), I32(pitch_a))
        start_b = builder.add(builder.mul(batch, I32(k * pitch_b)), column)
        starts.append((start_a, start_b))
    before = builder.block
    loop = builder.append_basic_block("multiply")
    after = builder.append_basic_block("multiplied")
    builder.branch(loop)
    builder.position_at_end(loop)
    at_k = builder.phi(I32)
    at_k.add_incoming(I32(0), before)
    carried = []
    for value in accumulator:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        carried.append(phi)
    totals = []
    down = builder.mul(at_k, I32(pitch_b))
    for (start_a, start_b), total in zip(starts, carried, strict=True):
        left = get(builder, dtype, base_a, builder.add(start_a, at_k))
        right = get(builder, dtype, base_b, builder.add(start_b, down))
        left, right = cast(builder, dtype, result_dtype, left), cast(builder, dtype, result_dtype, right)
        if is_float(result_dtype):
            totals.append(builder.fma(left, right, total))
        else:
            totals.append(builder.add(builder.mul(left, right), total))
    following = builder.add(at_k, I32(1))
    at_k.add_incoming(following, builder.block)
    for phi, value in zip(carried, totals, strict=True):
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, I32(k)), loop, after)
    builder.position_at_end(after)
    barrier(builder)
    return totals


def plain_shared_bytes(dtype: str, batches: int, m: int, n: int, k: int) -> int:
    """Bytes of shared memory that `plain_mma` takes."""
    return (batches * (m * _pitch(dtype, k) + k * _pitch(dtype, n))) * SIZE[dtype] + 16
