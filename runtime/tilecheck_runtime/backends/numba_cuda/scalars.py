"""Scalar expressions of a kernel as text of the generated module.

Kernel ints are 64-bit two's complement with Python's floor `//` and `%`; numba-cuda computes int64 the same way, so the
text is nearly the user's own. Every int is cast once, where it is made, so that numba never widens or narrows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    DimRef,
    Expr,
    Extent,
    Item,
    Logic,
    Name,
    OpCall,
    Select,
    TupleExpr,
    Unary,
)
from tilecheck.ir.types import ScalarType, SubTilesType, TensorType, TileType, ViewType
from tilecheck_runtime.backends.numba_cuda import mapped
from tilecheck_runtime.backends.numba_cuda.blocks import tiles_along

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_MATH: Final = {
    "sqrt": "math.sqrt",
    "exp": "math.exp",
    "log": "math.log",
    "log2": "math.log2",
    "log10": "math.log10",
    "log1p": "math.log1p",
    "expm1": "math.expm1",
    "sin": "math.sin",
    "cos": "math.cos",
    "tan": "math.tan",
    "tanh": "math.tanh",
    "sinh": "math.sinh",
    "cosh": "math.cosh",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "atan2": "math.atan2",
    "abs": "abs",
    "minimum": "min",
    "maximum": "max",
}
# Scalar rows that are spelled out: the operands by position.
_SPELLED: Final = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} / {1})",
    "floor_divide": "({0} // {1})",
    "remainder": "({0} % {1})",
    "pow": "({0} ** {1})",
    "negative": "(-{0})",
    "positive": "(+{0})",
    "square": "({0} * {0})",
    "ceil_div": "(-(-{0} // {1}))",
    "rsqrt": "(1.0 / math.sqrt({0}))",
    "exp2": "(2.0 ** {0})",
    "clip": "min(max({0}, {1}), {2})",
    "fma": "cuda.fma({0}, {1}, {2})",
    "where": "({1} if {0} else {2})",
    "equal": "({0} == {1})",
    "not_equal": "({0} != {1})",
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
    "logical_and": "({0} and {1})",
    "logical_or": "({0} or {1})",
    "logical_not": "(not {0})",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "({0} ^ {1})",
    "bitwise_invert": "(~{0})",
    "bitwise_left_shift": "({0} << {1})",
    "bitwise_right_shift": "({0} >> {1})",
}

SCALAR_OPS: Final = frozenset(_MATH) | frozenset(_SPELLED) | {"block_id", "num_blocks", "num_tiles"}


def literal(value: object) -> str:
    """A constant as text; non-finite floats have names of their own in the module."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "(-inf)"
    return repr(value)


def scalar_text(low: Lowering, expr: Expr) -> str:
    """`expr` as text of the generated module."""
    kind = low.types.get(expr)
    if isinstance(kind, ScalarType) and kind.value is not None:
        return literal(kind.value)
    match expr:
        case Const(value=value):
            return literal(value)
        case DimRef(key=key):
            return str(low.dims[key])
        case Name(id=name):
            return low.variable(name)
        case Unary(op=op, operand=operand):
            return f"({'not ' if op == 'not' else op}{scalar_text(low, operand)})"
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return f"({scalar_text(low, left)} {op} {scalar_text(low, right)})"
        case Logic(op=op, operands=operands):
            return "(" + f" {op} ".join(scalar_text(low, o) for o in operands) + ")"
        case Select(cond=cond, then=then, other=other):
            return f"({scalar_text(low, then)} if {scalar_text(low, cond)} else {scalar_text(low, other)})"
        case TupleExpr(items=items):
            return "(" + "".join(f"{scalar_text(low, i)}, " for i in items) + ")"
        case Item(base=base, index=index):
            return f"{scalar_text(low, base)}[{scalar_text(low, index)}]"
        case Extent(array=Name(id=array), axis=axis):
            if axis is not None:
                return f"{low.variable(array)}_n{axis}"
            return "(" + " * ".join(f"{low.variable(array)}_n{a}" for a in range(low.facts[array].rank)) + ")"
        case OpCall():
            return _call(low, expr)
    raise AssertionError(f"no scalar text for {type(expr).__name__}")


def _call(low: Lowering, call: OpCall) -> str:
    op, args = call.op, call.args
    match op:
        case "block_id":
            return f"b{low.constant_int(args[0])}"
        case "num_blocks":
            return f"g{low.constant_int(args[0])}"
        case "num_tiles":
            return _num_tiles(low, args)
        case "item" | "int" | "float" | "bool":
            return _convert(low, op, args[0])
        case "at":
            return mapped.at_text(low, call)
    texts = [scalar_text(low, a) for a in args]
    if op in _MATH:
        return f"{_MATH[op]}({', '.join(texts)})"
    return _SPELLED[op].format(*texts)


def _num_tiles(low: Lowering, args: tuple[Expr, ...]) -> str:
    view, axis = low.types[args[0]], low.constant_int(args[1])
    match view:
        case ViewType(array=array, shape=shape, permute=permute):
            return tiles_along(low, array, permute[axis % len(shape)], low.extent(shape[axis % len(shape)]))
        case TensorType(name=array, shape=shape) if shape is not None:
            return tiles_along(low, array, axis % len(shape), low.extent(shape[axis % len(shape)]))
        case SubTilesType(array=array, shape=shape):
            whole = low.own[array][axis % len(shape)]
            return str(-(-whole // low.extent(shape[axis % len(shape)])))
    raise AssertionError("`num_tiles` of something that has no tiles")


def _convert(low: Lowering, op: str, value: Expr) -> str:
    """`int(x)`, `float(x)`, `bool(x)` and `x.item()` of a scalar or of a tile of one element."""
    kind = low.types[value]
    if isinstance(kind, TileType):
        wanted = op if op != "item" else {"f": "float", "b": "bool"}.get(kind.dtype.kind[0], "int")
        dtype = {"int": "i64", "float": "f64", "bool": "bool_"}[wanted]
        return low.one_value(value, dtype)
    cast = {"int": "int64", "float": "float64", "bool": "bool"}[op]
    return f"{cast}({scalar_text(low, value)})"
