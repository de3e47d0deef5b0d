"""Makers of our tensors, `tc.zeros(64)`: what is known of what they make.

Invariant: an extent that cannot be read is None, and a shape of which not even the number of axes is sure is None.

Worked example: `tc.full((8, n), 1.0)` is f32 with the shape `(8, None)`; `tc.meta(64)` has a shape and no data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tilecheck.borrow.context import Operand
from tilecheck.borrow.values import Array, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind
from tilecheck.ir.kernel import Access
from tilecheck.surface.dtypes import DTYPES

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

META: Final = "tilecheck.meta"


def make_tensor(low: Expressions, node: ir.Call, name: str, full: str) -> Operand:
    """A new tensor that the function `full` makes; `name` is what the user calls it."""
    given = [low.read(arg.value).value for arg in node.args]
    if full not in ("tilecheck.from_dlpack", META):
        low.make_in_scope(node)
    maker = full.removeprefix("tilecheck.")
    dtype_expr = _keyword(node, "dtype")
    short = (canonical(dtype_expr) or "").removeprefix("tilecheck.")
    dtype = short if short in DTYPES else None
    if dtype_expr is None and maker in ("zeros", "ones", "empty", "eye", "linspace", "rand", "randn", "meta"):
        dtype = "f32"
    elif dtype_expr is None and maker == "full":
        third = _keyword(node, "dtype", 2)
        spelled = (canonical(third) or "").removeprefix("tilecheck.")
        dtype = "f32" if third is None else spelled if spelled in DTYPES else None
    shape = _shape(low, node, maker)
    source = given[0] if maker == "asarray" and node.args and not node.args[0].star else None
    if isinstance(source, Array) and source.library == "numpy":
        # A copy of a NumPy array: its extents, and its dtype unless another one is named.
        dtype, shape = source.dtype if _keyword(node, "dtype", 1) is None else dtype, source.shape
    array = Array("tilecheck", dtype, shape, Access.OWNED, made=node if full == META else None)
    return Operand(low.make(Kind.TENSOR, name, node.span), array)


def _shape(low: Expressions, node: ir.Call, maker: str) -> tuple[int | None, ...] | None:
    given = [arg.value for arg in node.args if not arg.name]
    if any(arg.star for arg in node.args) or not given:
        return None
    if maker in ("zeros", "ones", "empty", "rand", "randn", "meta", "full"):
        first = given[0]
        if isinstance(first, ir.Display):
            return tuple(low.whole(item) for item in first.items)
        sizes = given[:1] if maker == "full" else given
        shape = tuple(low.whole(size) for size in sizes)
        # One name may be a whole shape; then nothing is known.
        return None if len(shape) == 1 and shape[0] is None else shape
    if maker == "arange" and len(given) == 1:
        return (low.whole(given[0]),)
    return None


def is_meta(value: Value) -> bool:
    """Whether `value` is a tensor that has a shape and no data."""
    made = value.made if isinstance(value, Array) else None
    return isinstance(made, ir.Call) and canonical(made.func) == META


def _keyword(node: ir.Call, name: str, at: int | None = None) -> ir.Expr | None:
    """The argument `name`, or the one at position `at`."""
    for arg in node.args:
        if arg.name == name:
            return arg.value
    if at is not None and at < len(node.args) and not any(arg.star or arg.name for arg in node.args[: at + 1]):
        return node.args[at].value
    return None
