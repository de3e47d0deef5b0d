"""Shape and dtype of what a call of a plain library makes, as far as the file shows them.

NumPy's and numba's makers give float64 unless a dtype is named, `arange` and `full` what their numbers are, the `_like`
ones and converters what they are given. None stands for what cannot be read, and then nothing is said.

Worked example: `np.full((4, n), 0.5)` has the shape `(4, None)` and the dtype `f64`, `np.ones(64, np.int32)` has `(64,)`
and `i32`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.values import Array, Value
from tilecheck.borrow.vocabulary import DTYPES, NUMBA_DTYPES, canonical
from tilecheck.ir import host as ir

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def described(
    low: Expressions, node: ir.Call, full: str, given: list[Value]
) -> tuple[tuple[int | None, ...] | None, str | None]:
    """Shape and dtype as the call says them; `given` is what is known of its arguments."""
    library, _, maker = full.rpartition(".")
    plain_args = [arg.value for arg in node.args if not arg.name and not arg.star]
    first = plain_args[0] if node.args and plain_args and plain_args[0] is node.args[0].value else None
    shape: tuple[int | None, ...] | None = None
    if maker in ("rand", "randn") and library == "numpy.random" and len(plain_args) == len(node.args):
        shape = tuple(low.whole(item) for item in plain_args)
    elif maker == "linspace" and len(plain_args) > 2:
        shape = (low.whole(plain_args[2]),)
    elif maker in (*_FROM_SHAPE, "random") and isinstance(first, ir.Display):
        shape = tuple(low.whole(item) for item in first.items)
    elif first is not None and low.whole(first) is not None:
        counted = maker in _FROM_SHAPE or maker == "random" or (maker == "arange" and len(plain_args) == 1)
        shape = (low.whole(first),) if counted else None
    dtype = argument(node, "dtype", {"full": 2, "full_like": 2}.get(maker, 1 if maker in _SECOND_IS_DTYPE else 99))
    if dtype is not None:
        found = named_dtype(dtype)
    elif library.startswith(("torch", "cupy")):
        return shape, None
    else:
        found = _usual_dtype(low, maker, plain_args)
    kept = (maker.endswith("_like") or maker in _CONVERTERS) and all(arg.name in (None, "dtype") for arg in node.args)
    like = given[0] if given and first is not None and kept else None
    if isinstance(like, Array) and like.library == "numpy":
        shape, found = like.shape, like.dtype if dtype is None else found
    return shape, found


def named_dtype(node: ir.Expr) -> str | None:
    """The dtype that `node` names: `np.float32`, `float`, `"float32"`."""
    if isinstance(node, ir.Const) and isinstance(node.value, str):
        return NUMBA_DTYPES.get(node.value)
    return DTYPES.get(canonical(node) or "")


def _usual_dtype(low: Expressions, maker: str, plain_args: list[ir.Expr]) -> str | None:
    """The dtype of what a maker makes if no one is named."""
    if maker in _FLOAT64:
        return "f64"
    if maker == "randint":
        return "i64"
    of = plain_args if maker == "arange" else plain_args[1:2] if maker == "full" else []
    numbers = [low.scalar(item) if isinstance(item, ir.Const) else low.number(item) for item in of]
    if not numbers or any(isinstance(item, bool) or not isinstance(item, int | float) for item in numbers):
        return None
    return "f64" if any(isinstance(item, float) for item in numbers) else "i64"


_FROM_SHAPE = ("zeros", "ones", "empty", "full", "device_array", "pinned_array")
_CONVERTERS = ("array", "asarray", "ascontiguousarray")

# Makers whose second argument is the dtype, and those that make float64 unless one is named.
_MADE = ("zeros", "ones", "empty", "device_array", "pinned_array", "mapped_array", "managed_array")
_SECOND_IS_DTYPE = (*_MADE, "zeros_like", "ones_like", "empty_like", *_CONVERTERS)
_FLOAT64 = (*_MADE, "linspace", "rand", "randn", "random", "uniform", "normal")


def argument(node: ir.Call, name: str, at: int) -> ir.Expr | None:
    """The argument `name`, or the one at position `at`."""
    for arg in node.args:
        if arg.name == name:
            return arg.value
    plain = [arg.value for arg in node.args if arg.name is None and not arg.star]
    return plain[at] if at < len(plain) else None
