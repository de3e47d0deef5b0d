"""Matrix products as rows of the op table: tensor cores where dtype and extents fit, multiply-add elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir

from tilecheck.ir.kernel import Expr, OpCall
from tilecheck_runtime.backends.numba_cuda import matrix
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, fits_fragments
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import Value, work_dtype
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held, convert, fill

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lower import Lowering


def product(low: Lowering, node: Expr, x: Expr, y: Expr, accumulator: Expr | None, want: Layout | None) -> Held:
    """`mma(x, y, acc)` and `x @ y`, on tensor cores where they take the dtype and the extents divide."""
    kind = low.tile_type(node)
    shape = tile_shape(kind)
    a, b = low.tile(x, None), low.tile(y, None)
    inner = a.layout.shape[-1]
    result = work_dtype(a.dtype) if accumulator is None else kind.dtype.name
    fragments = low.plan.accumulator(node) if isinstance(node, OpCall) and node.op == "mma" else None
    if fragments is None and a.dtype in matrix.TENSOR_DTYPES and inner % 16 == 0:
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
        low.out.shares(matrix.shared_bytes(a.dtype, m, n, inner))

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            return matrix.tensor_mma(
                builder, a.dtype, accumulators, inner, (a_layout, args[0]), (b_layout, args[1]), args[2]
            )
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


def lower_mma(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`mma(x, y, acc)`."""
    return product(low, node, node.args[0], node.args[1], node.args[2], want)


def lower_matmul(low: Lowering, node: OpCall, want: Layout | None) -> Held:
    """`matmul(x, y)`."""
    return product(low, node, node.args[0], node.args[1], None, want)
