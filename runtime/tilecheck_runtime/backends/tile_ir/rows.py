"""Rows of the op table whose cuTile form is more than a call on their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tilecheck.ir.kernel import (
    Assign,
    Const,
    Expr,
    Function,
    OpCall,
    Return,
    TupleExpr,
)
from tilecheck.ir.types import (
    DimType,
    ScalarType,
    StrType,
    SubTilesType,
    TensorType,
    TileType,
    ViewType,
)
from tilecheck_runtime.backends.tile_ir.mapped import at_text
from tilecheck_runtime.backends.tile_ir.words import CT_DTYPE, NARROW, REDUCTIONS, NoLowering

if TYPE_CHECKING:
    from tilecheck_runtime.backends.tile_ir.lower import Lowering


def _tile(low: Lowering, node: Expr) -> TileType:
    kind = low.types[node]
    assert isinstance(kind, TileType)
    return kind


def _dtype(low: Lowering, node: OpCall) -> str:
    return f"ct.{CT_DTYPE[_tile(low, node).dtype.name]}"


def _shape(low: Lowering, node: OpCall) -> tuple[int, ...]:
    return low.shape(_tile(low, node))


def _axis(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    axis = node.args[1] if len(node.args) > 1 else given.get("axis")
    if axis is None or (isinstance(axis, Const) and axis.value is None):
        return "None"
    if isinstance(axis, TupleExpr):
        return "(" + "".join(f"{low.constant_int(i)}, " for i in axis.items) + ")"
    return str(low.constant_int(axis))


def _keepdims(node: OpCall) -> bool:
    given = dict(node.kwargs)
    flag = node.args[2] if len(node.args) > 2 else given.get("keepdims")
    return isinstance(flag, Const) and bool(flag.value)


def _reduction(low: Lowering, node: OpCall) -> str:
    x, kind = low.expr(node.args[0]), _tile(low, node)
    narrow = _tile(low, node.args[0]).dtype.name in NARROW
    if narrow:
        x = f"ct.astype({x}, ct.float32)"
    text = f"ct.{node.op}({x}, {_axis(low, node)}, keepdims={_keepdims(node)}{REDUCTIONS[node.op]})"
    return f"ct.astype({text}, ct.{CT_DTYPE[kind.dtype.name]})" if narrow else text


def _truth(low: Lowering, node: OpCall) -> str:
    function = "max" if node.op == "any" else "min"
    inner = f"ct.astype({low.expr(node.args[0])}, ct.int32)"
    return f"(ct.{function}({inner}, {_axis(low, node)}, keepdims={_keepdims(node)}) != 0)"


def _arg(low: Lowering, node: OpCall) -> str:
    x = low.expr(node.args[0])
    text = f"ct.{node.op}({x}, {_axis(low, node)}, keepdims={_keepdims(node)}, propagate_nan=True)"
    return f"ct.astype({text}, {_dtype(low, node)})"


def _scan(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    axis = _axis(low, node)
    backwards = given.get("reverse")
    reverse = isinstance(backwards, Const) and bool(backwards.value)
    narrow = _tile(low, node.args[0]).dtype.name in NARROW
    x = f"ct.astype({low.expr(node.args[0])}, ct.float32)" if narrow else low.expr(node.args[0])
    text = f"ct.{node.op}({x}, {0 if axis == 'None' else axis}, reverse={reverse})"
    return f"ct.astype({text}, {_dtype(low, node)})" if narrow else text


def _arange(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    start = low.constant_int(given["start"]) if "start" in given else 0
    step = low.constant_int(given["step"]) if "step" in given else 1
    return f"ct.arange({_shape(low, node)[0]}, dtype={_dtype(low, node)}, start={start}, step={step})"


def _full(low: Lowering, node: OpCall) -> str:
    value = node.args[1]
    if isinstance(low.types[value], TileType):
        return f"ct.broadcast_to({low.expr(value)}, {_shape(low, node)})"
    return f"ct.full({_shape(low, node)}, {low.expr(value, _tile(low, node).dtype.name)}, {_dtype(low, node)})"


def _permute(low: Lowering, node: OpCall) -> str:
    rank = len(_shape(low, node))
    if len(node.args) == 1:
        axes = tuple(reversed(range(rank)))
    elif node.op == "transpose":
        order = list(range(rank))
        first, second = (low.constant_int(a) % rank for a in node.args[1:3])
        order[first], order[second] = order[second], order[first]
        axes = tuple(order)
    else:
        given = node.args[1]
        items = given.items if isinstance(given, TupleExpr) else node.args[1:]
        axes = tuple(low.constant_int(i) % rank for i in items)
    return f"ct.permute({low.expr(node.args[0])}, {axes})"


def _where(low: Lowering, node: OpCall) -> str:
    dtype = _tile(low, node).dtype.name
    cond, x, y = node.args
    return f"ct.where({low.expr(cond)}, {low.expr(x, dtype)}, {low.expr(y, dtype)})"


def _num_tiles(low: Lowering, node: OpCall) -> str:
    view, axis = low.types[node.args[0]], low.constant_int(node.args[1])
    match view:
        case ViewType(array=array, shape=shape, permute=permute):
            at = axis % len(shape)
            return f"ct.cdiv({low.variable(array)}.shape[{permute[at]}], {low.extent(shape[at])})"
        case TensorType(name=array, shape=shape) if shape is not None:
            at = axis % len(shape)
            return f"ct.cdiv({low.variable(array)}.shape[{at}], {low.extent(shape[at])})"
        case SubTilesType(array=array, shape=shape):
            at = axis % len(shape)
            return str(-(-low.own[array][at] // low.extent(shape[at])))
    raise AssertionError("`num_tiles` of something that has no tiles")


def _sign(low: Lowering, node: OpCall) -> str:
    x, dtype = low.expr(node.args[0]), _tile(low, node).dtype.name
    if dtype[0] == "u":
        return f"ct.astype({x} > 0, {_dtype(low, node)})"
    return f"ct.where({x} > 0, {x} * 0 + 1, ct.where({x} < 0, {x} * 0 - 1, {x} * 0))"


def _round(low: Lowering, node: OpCall) -> str:
    # Halves go to the even neighbour: one below `floor(x + 1/2)` where that is odd and x lies half way.
    dtype = _tile(low, node).dtype.name
    x = low.expr(node.args[0])
    if dtype in NARROW:
        x = f"ct.astype({x}, ct.float32)"
    up = f"ct.floor({x} + 0.5)"
    text = f"({up} - ct.where(({up} - {x} == 0.5) & ({up} - 2 * ct.floor({up} * 0.5) != 0), 1.0, 0.0))"
    return f"ct.astype({text}, ct.{CT_DTYPE[dtype]})"


def _extract(low: Lowering, node: OpCall) -> str:
    given = node.args[1]
    items = given.items if isinstance(given, TupleExpr) else (given,)
    index = "(" + "".join(f"{low.constant_int(i)}, " for i in items) + ")"
    return f"ct.extract({low.expr(node.args[0])}, {index}, {_shape(low, node)})"


def _concat(low: Lowering, node: OpCall) -> str:
    parts = node.args[0]
    assert isinstance(parts, TupleExpr)
    axis = node.args[1] if len(node.args) > 1 else dict(node.kwargs).get("axis")
    at = low.constant_int(axis) % len(_shape(low, node)) if axis is not None else 0
    texts = [low.expr(item) for item in parts.items]
    extents = [low.shape(_tile(low, item))[at] for item in parts.items]
    joined = _joined(texts, extents, at)
    if joined is None:
        raise NoLowering(f"`concat` of tiles of {', '.join(map(str, extents))} along axis {at}", node)
    return joined


def _joined(texts: Sequence[str], extents: Sequence[int], axis: int) -> str | None:
    """The tiles one behind the other, joined two at a time so that every extent on the way is a power of two; None if
    there is no such order.
    """
    if len(texts) == 1:
        return texts[0]
    for cut in range(1, len(texts)):
        if all((part & (part - 1)) == 0 for part in (sum(extents[:cut]), sum(extents[cut:]))):
            left, right = _joined(texts[:cut], extents[:cut], axis), _joined(texts[cut:], extents[cut:], axis)
            if left is not None and right is not None:
                return f"ct.cat(({left}, {right}), {axis})"
    return None


def shown(low: Lowering, value: Expr) -> str:
    """An argument of `print`: texts and constants as text, numbers in a format that it has."""
    kind = low.types[value]
    if isinstance(kind, StrType | ScalarType | DimType):
        known = kind.extent if isinstance(kind, DimType) else kind.value
        return low.expr(value) if known is None else repr(str(known))
    if not isinstance(kind, TileType):
        raise NoLowering("`print` of what is neither text, number nor tile", value)
    wanted = "int32" if kind.dtype.kind == "bool" else "float32" if kind.dtype.name in NARROW else None
    return low.expr(value) if wanted is None else f"ct.astype({low.expr(value)}, ct.{wanted})"


def _places(low: Lowering, node: OpCall, mask: Expr | None) -> tuple[str, str, str | None]:
    """Array, index and mask of an access by element, after a check of every lane."""
    target = low.types[node.args[0]]
    assert isinstance(target, TensorType)
    array = low.variable(target.name)
    given = node.args[1]
    items = [low.expr(i) for i in (given.items if isinstance(given, TupleExpr) else (given,))]
    allowed = None if mask is None else low.expr(mask)
    inside = " & ".join(f"(0 <= {i}) & ({i} < {array}.shape[{axis}])" for axis, i in enumerate(items))
    if allowed is not None:
        inside = f"({inside}) | ct.bitwise_not({allowed})"
    low.fault_unless(f"(ct.min(ct.astype({inside}, ct.int32)) != 0)", node.span.line)
    return array, "(" + "".join(f"{i}, " for i in items) + ")", allowed


def _option(node: OpCall, position: int, name: str) -> Expr | None:
    found = node.args[position] if len(node.args) > position else dict(node.kwargs).get(name)
    return None if isinstance(found, Const) and found.value is None else found


def _gather(low: Lowering, node: OpCall) -> str:
    array, index, mask = _places(low, node, _option(node, 2, "mask"))
    pad = _option(node, 3, "pad")
    extra = "" if mask is None else f", mask={mask}"
    return f"ct.gather({array}, {index}{extra}, padding_value={'0' if pad is None else low.expr(pad)})"


def _atomic(low: Lowering, node: OpCall) -> str:
    """An update by element. Lanes that a mask or a failed check turns off go outside, where cuTile does nothing."""
    count = 2 if node.op == "atomic_cas" else 1
    array, index, mask = _places(low, node, _option(node, 2 + count, "mask"))
    given = node.args[1]
    first, *rest = given.items if isinstance(given, TupleExpr) else (given,)
    allowed = "ok" if mask is None else f"ct.astype({mask}, ct.bool_) & ok"
    index = f"(ct.where({allowed}, {low.expr(first)}, -1), {''.join(f'{low.expr(i)}, ' for i in rest)})"
    target = low.types[node.args[0]]
    assert isinstance(target, TensorType) and target.dtype is not None
    values = ", ".join(low.typed(v, target.dtype.name) for v in node.args[2 : 2 + count])
    name = "atomic_xchg" if node.op == "atomic_exchange" else node.op
    return f"ct.{name}({array}, {index}, {values})"


# Binary digits of a random float of each dtype.
_DIGITS: Final = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


def _random(low: Lowering, node: OpCall) -> str:
    """`random_bits`, `rand` and `randn`: lane i draws at `offset + i`."""
    shape, given = _shape(low, node), dict(node.kwargs)
    lanes = f"ct.reshape(ct.arange({math.prod(shape)}, dtype=ct.int64), {shape})"
    counter, seed = f"{lanes} + {low.typed(given['offset'], 'i64')}", low.typed(given["seed"], "i64")
    if node.op == "random_bits":
        return f"_bits({counter}, {seed})"
    dtype = _tile(low, node).dtype.name
    if node.op == "rand":
        text = f"_rand({counter}, {seed}, {_DIGITS[dtype]})"
    else:
        text = f"_randn({counter}, {seed}, {_DIGITS['f64' if dtype == 'f64' else 'f32']})"
    return f"ct.astype({text}, ct.{CT_DTYPE[dtype]})" if dtype in NARROW else text


def _philox(low: Lowering, node: OpCall) -> str:
    return f"_bits(ct.astype({low.expr(node.args[0])}, ct.int64), {low.typed(node.args[1], 'i64')})"


def _folded(low: Lowering, node: OpCall) -> str:
    """`reduce` and `scan` with a device function.

    cuTile wants an identity, which the function need not have: every lane carries whether it is there, and what is not
    there leaves the other side as it is.
    """
    function, given = node.args[1], dict(node.kwargs)
    if not isinstance(function, Function):
        raise NoLowering(f"`{node.op}` of something that is no device function", node)
    name = f"_fold{len(low.functions)}"
    low.functions.append(_function_text(low, function, name, node))
    tile = _tile(low, node.args[0])
    zero = "False" if tile.dtype.name == "bool_" else "0.0" if tile.dtype.name[0] in "fb" else "0"
    axis_expr = node.args[2] if len(node.args) > 2 else given.get("axis")
    axis = low.constant_int(axis_expr) % len(tile.shape) if axis_expr is not None else 0
    last = node.args[3] if len(node.args) > 3 else given.get("keepdims" if node.op == "reduce" else "reverse")
    flag = isinstance(last, Const) and bool(last.value)
    option = f"keepdims={flag}" if node.op == "reduce" else f"reverse={flag}"
    there = f"ct.ones({low.shape(tile)}, ct.bool_)"
    x = low.expr(node.args[0])
    return f"ct.{node.op}(({x}, {there}), {axis}, {name}, ({zero}, False), {option})[0]"


def _function_text(low: Lowering, function: Function, name: str, node: OpCall) -> str:
    p, q = (low.variable(n) for n in function.params)
    lines = [f"def {name}({p}, {p}_there, {q}, {q}_there):"]
    result = low.variable(function.result)
    for statement in function.body:
        match statement:
            case Assign(target=target, value=value):
                lines.append(f"    {low.variable(target)} = {low.expr(value)}")
            case Return(value=value) if value is not None:
                lines.append(f"    {result} = {low.expr(value)}")
                break
            case _:
                raise NoLowering(f"control flow in the function of `{node.op}`", statement)
    lines.append(f"    alone = ct.where({p}_there, {p}, {q})")
    lines.append(f"    return ct.where({p}_there & {q}_there, {result}, alone), {p}_there | {q}_there")
    return "\n".join([*lines, "\n"])


def _scalar_cast(low: Lowering, node: OpCall) -> str:
    """`item`, `int`, `float`, `bool`: a rank-0 tile or a scalar as a scalar."""
    kind, (value,) = low.types[node], node.args
    assert isinstance(kind, ScalarType)
    return f"ct.astype({low.expr(value)}, ct.{_SCALARS[kind.kind]})"


_SCALARS: Final = {"int": "int64", "float": "float64", "bool": "bool_"}

SPECIAL: Final[dict[str, Callable[[Lowering, OpCall], str]]] = {
    "load": lambda low, node: low.load(node),
    "load_tile": lambda low, node: low.load(node),
    "load_like": lambda low, node: low.load(node),
    "num_tiles": _num_tiles,
    "block_id": lambda low, node: low.bid(low.constant_int(node.args[0])),
    "num_blocks": lambda low, node: low.blocks_along(low.constant_int(node.args[0])),
    "zeros": lambda low, node: f"ct.zeros({_shape(low, node)}, {_dtype(low, node)})",
    "ones": lambda low, node: f"ct.ones({_shape(low, node)}, {_dtype(low, node)})",
    "full": _full,
    "arange": _arange,
    "astype": lambda low, node: f"ct.astype({low.expr(node.args[0])}, {_dtype(low, node)})",
    "bitcast": lambda low, node: f"ct.bitcast({low.expr(node.args[0])}, {_dtype(low, node)})",
    "where": _where,
    "mma": lambda low, node: f"ct.mma({', '.join(low.expr(a) for a in node.args)})",
    "matmul": lambda low, node: low._matmul(node, node.args[0], node.args[1]),
    "reshape": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "expand_dims": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "squeeze": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "broadcast_to": lambda low, node: f"ct.broadcast_to({low.expr(node.args[0])}, {_shape(low, node)})",
    "permute_dims": _permute,
    "transpose": _permute,
    **dict.fromkeys(REDUCTIONS, _reduction),
    "any": _truth,
    "all": _truth,
    "argmax": _arg,
    "argmin": _arg,
    "cumsum": _scan,
    "cumprod": _scan,
    "sign": _sign,
    "round": _round,
    "extract": _extract,
    "concat": _concat,
    "gather": _gather,
    "scatter": _atomic,
    "at": at_text,
    **dict.fromkeys(("random_bits", "rand", "randn"), _random),
    "philox": _philox,
    **dict.fromkeys(("reduce", "scan"), _folded),
    **dict.fromkeys(("item", "int", "float", "bool"), _scalar_cast),
    **{f"atomic_{op}": _atomic for op in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")},
}
