"""The lowerings of tile-valued rows, keyed by row. Elementwise rows are `elementwise.ELEMENTWISE`, loads and stores
`accesses`, scalars `scalars`; a test says that together they are the op table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tilecheck.ir.kernel import OpCall
from tilecheck_runtime.backends.numba_cuda import elements, products, randoms, reductions, shapes, tiles
from tilecheck_runtime.backends.numba_cuda.layout import Layout
from tilecheck_runtime.backends.numba_cuda.tiles import Held

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

TileOp = Callable[["Lowering", OpCall, Layout | None], Held]

TILE_OPS: Final[dict[str, TileOp]] = {
    "where": tiles.lower_where,
    "isinf": tiles.classify("isinf"),
    "isfinite": tiles.classify("isfinite"),
    "astype": tiles.lower_astype,
    "bitcast": tiles.lower_bitcast,
    "zeros": tiles.constant_fill(0),
    "ones": tiles.constant_fill(1),
    "full": tiles.lower_full,
    "arange": tiles.lower_arange,
    "reshape": shapes.lower_reshape,
    "expand_dims": shapes.lower_reshape,
    "squeeze": shapes.lower_reshape,
    "permute_dims": shapes.lower_permute,
    "transpose": shapes.lower_permute,
    "broadcast_to": shapes.lower_broadcast_to,
    "extract": shapes.lower_extract,
    "concat": shapes.lower_concat,
    **dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), reductions.lower_reduce),
    "argmax": reductions.lower_arg_extremum,
    "argmin": reductions.lower_arg_extremum,
    "cumsum": reductions.lower_scan,
    "cumprod": reductions.lower_scan,
    "reduce": reductions.lower_function_reduce,
    "scan": reductions.lower_function_scan,
    "mma": products.lower_mma,
    "matmul": products.lower_matmul,
    "gather": elements.lower_gather,
    "scatter": elements.lower_atomic,
    **dict.fromkeys(elements.ATOMICS, elements.lower_atomic),
    "philox": randoms.lower_philox,
    **dict.fromkeys(("random_bits", "rand", "randn"), randoms.lower_random),
}
