"""Matrix products: tensor cores for f16 and bf16, multiply-add for the rest.

Operands go through shared memory: tiles in registers with rows an odd number of 16 bytes long, so that the eight rows of an
`ldmatrix` fall into different banks; loads that a pipelined loop started ahead stand there already (see `pipeline`). The
accumulator stays in `Fragments` registers across the loop that carries it.

Fragment order of `mma.sync.m16n8k16` (PTX ISA, matrix fragments): with g = lane / 4 and t = lane % 4, A holds rows g and
g + 8 at columns 2t and 2t + 8, B holds columns g at rows 2t and 2t + 8, C holds rows g and g + 8 at columns 2t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.exchange import put_tile
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout
from tilecheck_runtime.backends.numba_cuda.registers import FLOAT, I32, SIZE, Value, cast, is_float, pack, target_has
from tilecheck_runtime.backends.numba_cuda.shared import barrier, get, scratch
from tilecheck_runtime.backends.numba_cuda.swizzle import Lanes, Padded, Swizzled, arena, load_matrices

TENSOR_DTYPES: Final = ("f16", "bf16")


def tensor_dtypes(capability: tuple[int, int]) -> tuple[str, ...]:
    """What the tensor cores multiply."""
    return TENSOR_DTYPES if capability >= (8, 0) else ("f16",)


def _pitch(dtype: str, columns: int) -> int:
    """Elements from row to row: an odd number of 16-byte chunks where rows are whole chunks."""
    chunk = 16 // SIZE[dtype]
    return columns if columns % (2 * chunk) == chunk else columns + chunk


def shared_bytes(dtype: str, rows: int, columns: int) -> int:
    """Bytes of shared memory for an operand that comes in registers."""
    return rows * _pitch(dtype, columns) * SIZE[dtype]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of `tensor_mma`. `layout` is where a thread holds its share, None for a tile that stands in shared memory
    in the form `swizzled`; `transposed`: its rows there are the operand's columns. `ready`: the registers of the left
    operand are those that the tensor cores take.
    """

    layout: Layout | None
    swizzled: Swizzled | None = None
    transposed: bool = False
    ready: bool = False

    @property
    def moves(self) -> bool:
        """Whether it goes from registers through shared memory."""
        return self.layout is not None and not self.ready


def left_registers(
    builder: ir.IRBuilder, layout: Layout, values: Sequence[Value], piece: int, step: int
) -> list[Value]:
    """The four registers of A for 16 rows and columns 16 `step` and later, from a tile held like an accumulator."""
    assert isinstance(layout, Fragments)
    registers: list[Value] = []
    for column in (2 * step, 2 * step + 1):
        start = (piece * layout.pieces[1] + column) * 4
        registers += [pack(builder, values[start : start + 2]), pack(builder, values[start + 2 : start + 4])]
    return registers


def _multiply(
    builder: ir.IRBuilder, dtype: str, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]
) -> list[Value]:
    if not target_has((8, 0)):
        halves = (([*a[:2]], b[0]), ([*a[2:]], b[1]))
        for down, over in halves:
            c = _multiply_half(builder, down, over, c)
        return list(c)
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    result = ir.LiteralStructType([FLOAT] * 4)
    kind = ir.FunctionType(result, [I32] * 6 + [FLOAT] * 4)
    done = builder.call(ir.InlineAsm(kind, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", side_effect=False), [*a, *b, *c])
    return [builder.extract_value(done, i) for i in range(4)]


def _multiply_half(builder: ir.IRBuilder, a: Sequence[Value], b: Value, c: Sequence[Value]) -> list[Value]:
    """Half the depth, for sm_75: the fragments are those of the first or the second eight columns of A."""
    text = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5}, {$6}, {$7, $8, $9, $10};"
    kind = ir.FunctionType(ir.LiteralStructType([FLOAT] * 4), [I32] * 3 + [FLOAT] * 4)
    done = builder.call(ir.InlineAsm(kind, text, "=f,=f,=f,=f,r,r,r,f,f,f,f", side_effect=False), [*a, b, *c])
    return [builder.extract_value(done, i) for i in range(4)]


def tensor_mma(
    builder: ir.IRBuilder,
    dtype: str,
    layout: Fragments,
    k: int,
    a: tuple[Operand, Sequence[Value]],
    b: tuple[Operand, Sequence[Value]],
    accumulator: Sequence[Value],
) -> list[Value]:
    """`accumulator + a @ b` for a of (M, K) and b of (K, N) in f16 or bf16, accumulated in f32; K a multiple of 16.

    An operand comes with its registers, or with the offset (i64) of its tile in the arena, see `swizzle`.
    """
    m, n = layout.shape[-2:]
    first = shared_bytes(dtype, m, k) if a[0].moves else 0
    held = [(a, 0, _pitch(dtype, k)), (b, first, _pitch(dtype, n))]
    held = [(operand, start, pitch) for operand, start, pitch in held if operand[0].moves]
    if held:
        barrier(builder)
        for (operand, values), start, pitch in held:
            assert operand.layout is not None
            put_tile(builder, operand.layout, values, scratch(builder, dtype, start), pitch)
        barrier(builder)
    row0, column0 = layout.warp_origin(builder)
    rows, columns = layout.pieces
    left = None
    if not a[0].ready:
        left = _reader(builder, a, 0, _pitch(dtype, k), row0, 16 * rows, outer=not a[0].transposed)
    right = _reader(builder, b, first, _pitch(dtype, n), column0, 8 * columns, outer=not b[0].transposed, across=True)

    def fragments(step: int) -> tuple[list[list[Value]], list[list[Value]]]:
        down: list[list[Value]] = []
        for i in range(rows):
            if left is None:
                assert a[0].layout is not None
                down.append(left_registers(builder, a[0].layout, a[1], i, step))
            else:
                down.append(load_matrices(builder, *_at(left, a[0], 16 * i, 16 * step), a[0].transposed))
        over: list[list[Value]] = []
        for pair in range(-(-columns // 2)):
            place = _at(right, b[0], 16 * step, 16 * pair)
            loaded = load_matrices(builder, *place, not b[0].transposed)
            over += [loaded[:2], loaded[2:]]
        return down, over

    totals = list(accumulator)
    ready = fragments(0)
    for step in range(k // 16):
        down, over = ready
        if step + 1 < k // 16:
            ready = fragments(step + 1)
        for j in range(columns):
            for i in range(rows):
                slot = (i * columns + j) * 4
                totals[slot : slot + 4] = _multiply(builder, dtype, down[i], over[j], totals[slot : slot + 4])
    if held:
        barrier(builder)
    return totals


def _reader(
    builder: ir.IRBuilder,
    operand: tuple[Operand, Sequence[Value]],
    start: int,
    pitch: int,
    own: Value,
    width: int,
    *,
    outer: bool,
    across: bool = False,
) -> Lanes:
    """The lanes' addresses in an operand; a warp's part begins at `own` along M (or along N, `across`)."""
    what, values = operand
    by_rows = what.transposed == across
    origin = (own, I32(0)) if by_rows else (I32(0), own)
    form: Swizzled | Padded
    if what.swizzled is not None:
        form, base = what.swizzled, arena(builder, values[0])
    else:
        form, base = Padded(pitch), builder.ptrtoint(scratch(builder, "u8", start), I32)
    return Lanes(builder, form, base, origin, width, outer=outer)


def _at(lanes: Lanes, operand: Operand, row: int, column: int) -> tuple[Value, int]:
    return lanes.at(column, row) if operand.transposed else lanes.at(row, column)


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
