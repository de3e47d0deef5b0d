"""Matrix products as rows of the op table: tensor cores where dtype and extents fit, multiply-add elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir

from tilecheck.ir.kernel import Expr, OpCall
from tilecheck_runtime.backends.numba_cuda import matrix, warpgroup
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, fits_fragments
from tilecheck_runtime.backends.numba_cuda.pipeline import finisher
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import Value, work_dtype
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held, convert, fill

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering


def product(low: Lowering, node: Expr, x: Expr, y: Expr, accumulator: Expr | None, want: Layout | None) -> Held:
    """`mma(x, y, acc)` and `x @ y`, on tensor cores where they take the dtype and the extents divide."""
    kind = low.tile_type(node)
    shape = tile_shape(kind)
    if low.runs_ahead(x) or low.runs_ahead(y):
        assert isinstance(node, OpCall) and accumulator is not None
        return _staged_product(low, node, (x, y), accumulator)
    a, b = low.tile(x, None), low.tile(y, None)
    inner = a.layout.shape[-1]
    result = work_dtype(a.dtype) if accumulator is None else kind.dtype.name
    fragments = low.plan.accumulator(node) if isinstance(node, OpCall) and node.op == "mma" else None
    if fragments is None and a.dtype in low.plan.tensor and inner % 16 == 0:
        warps = fits_fragments(shape, low.plan.threads)
        fragments = None if warps is None else Fragments(shape, low.plan.threads, warps)
    target: Layout = fragments or low.plan.layout(shape)
    if accumulator is None:
        start = fill(low, "0", "int", target, result)
    else:
        start = convert(low, low.tile(accumulator, target), target)
    a_layout, b_layout = a.layout, b.layout
    m, n = shape[-2:]
    if fragments is not None:
        accumulators = fragments
        low.out.shares(matrix.shared_bytes(a.dtype, m, inner) + matrix.shared_bytes(a.dtype, inner, n))

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            held = (matrix.Operand(a_layout), args[0]), (matrix.Operand(b_layout), args[1])
            return matrix.tensor_mma(builder, a.dtype, accumulators, inner, *held, args[2])
    else:
        low.out.shares(matrix.plain_shared_bytes(a.dtype, prod(shape[:-2]), m, n, inner))

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            return matrix.plain_mma(
                builder, a.dtype, result, target, inner, (a_layout, args[0]), (b_layout, args[1]), args[2]
            )

    key = (a.dtype, a_layout, b_layout, target)
    name = low.out.intrinsic("mma", key, 3, (result, target.registers), build)
    held = low.bind("t", f"{name}({a.name}, {b.name}, {start.name})", target, result)
    return cast_held(low, held, kind.dtype.name)


def _staged_product(low: Lowering, node: OpCall, operands: Sequence[Expr], accumulator: Expr) -> Held:
    """`mma` with an operand that runs ahead: its tile stands in shared memory."""
    target = low.plan.accumulator(node)
    assert target is not None
    inner = tile_shape(low.tile_type(operands[0]))[-1]
    dtype = low.tile_type(operands[0]).dtype.name
    forms: list[matrix.Operand] = []
    texts: list[str] = []
    for operand, own in zip(operands, (low.plan.left(node), None), strict=True):
        found = low.in_shared(operand)
        if found is None:
            held = low.tile(operand, own)
            held = held if own is None else convert(low, held, own)
            forms.append(matrix.Operand(held.layout, ready=own is not None))
            texts.append(held.name)
        else:
            form, transposed, text = found
            forms.append(matrix.Operand(None, form, transposed))
            texts.append(text)
    shapes = (target.shape[-2], inner), (inner, target.shape[-1])
    held_shapes = [shape for form, shape in zip(forms, shapes, strict=True) if form.moves]
    low.out.shares(sum(matrix.shared_bytes(dtype, *shape) for shape in held_shapes))
    start = convert(low, low.tile(accumulator, target), target)
    if node in low.plan.grouped:
        return _grouped_product(low, node, target, (forms[0], texts[0]), (forms[1], texts[1]), start)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return matrix.tensor_mma(builder, dtype, target, inner, (forms[0], args[0]), (forms[1], args[1]), args[2])

    key = (dtype, *forms, target, inner)
    name = low.out.intrinsic("mma", key, 3, ("f32", target.registers), build)
    return low.bind("t", f"{name}({', '.join(texts)}, {start.name})", target, "f32")


def _grouped_product(
    low: Lowering,
    node: OpCall,
    target: Fragments,
    a: tuple[matrix.Operand, str],
    b: tuple[matrix.Operand, str],
    start: Held,
) -> Held:
    """The same by warpgroups. The loop's next copies are started while its first product is under way."""
    left = low.tile_type(node.args[0])
    dtype, inner = left.dtype.name, tile_shape(left)[-1]

    def begin(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return warpgroup.issue(builder, dtype, target, inner, (a[0], args[0]), (b[0], args[1]), args[2])

    def settle(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        warpgroup.settle(builder)
        return ()

    key = (dtype, a[0], b[0], target, inner)
    name = low.out.intrinsic("wgmma", key, 3, ("f32", target.registers), begin)
    begun = low.bind("t", f"{name}({a[1]}, {b[1]}, {start.name})", target, "f32")
    for ring in low.rings.values():
        if ring.starter is node:
            ring.refill()
            if ring.overlaps:
                low.out.line(f"{low.out.intrinsic('settle', None, 0, None, settle)}()")
                return begun
    return low.bind("t", f"{finisher(low, target.registers)}({begun.name})", target, "f32")


def lower_mma(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`mma(x, y, acc)`."""
    return product(low, node, node.args[0], node.args[1], node.args[2], want)


def lower_matmul(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`matmul(x, y)`."""
    return product(low, node, node.args[0], node.args[1], None, want)
