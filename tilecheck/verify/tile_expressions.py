"""Types of expressions in tile kernels: the rows of the op table, applied.

Operators on tiles and scalars are rows too; scalars that are known keep their value, computed by the row's own meaning, so
that `if BM > 32` is decided wherever `BM` is. A row that raises `NotYet` leaves the expression without a type: only the
launch can tell, and nothing is said.
"""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

from tilecheck.ir.kernel import (
    Access,
    Binary,
    Compare,
    Const,
    DimRef,
    DTypeRef,
    Expr,
    Function,
    Item,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Select,
    TensorParam,
    TupleExpr,
    Unary,
)
from tilecheck.ir.kernel import Extent as ExtentNode
from tilecheck.ir.types import (
    DimExtent,
    DimType,
    DTypeType,
    FunctionType,
    IndexType,
    NoneType,
    ScalarType,
    StrType,
    SubTilesType,
    TensorType,
    TileType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.ops import OPS, operators
from tilecheck.ops.numbers import describe
from tilecheck.ops.row import Effect, Lanes, NotYet, Op, Refused
from tilecheck.surface.dtypes import DTYPES
from tilecheck.surface.elsewhere import IN_KERNELS
from tilecheck.verify.tile_inference import Call, Mixed, TypePass
from tilecheck.verify.tile_values import UNKNOWN, Conflict, Env, Known, Unknown, join

_INT = ScalarType("int")
# Answered from types alone; the frontend writes them for `x.dtype` and `x.ndim`.
QUERIES = ("dtype", "rank")


def expression(p: TypePass, node: Expr) -> Known:
    """The type of `node`, recorded; UNKNOWN after a fault, or where only the launch can tell."""
    held = _expression(p, node)
    if isinstance(held, Unknown):
        p.open.add(node)
        return UNKNOWN
    p.types[node] = held
    return held


def _expression(p: TypePass, node: Expr) -> Known:
    match node:
        case Const(value=value):
            return _constant(value)
        case Name(id=name):
            return p.read(name, node)
        case DimRef(key=key):
            decl = p.kernel.dims[key]
            return DimType(decl.size if decl.size is not None else DimExtent(key, decl.name))
        case DTypeRef(name=name):
            return DTypeType(DTYPES[name])
        case Unary(op=op, operand=operand):
            return operator(p, f"unary {op}", node, operand)
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return operator(p, op, node, left, right)
        case Logic(operands=operands):
            return logic(p, node, operands)
        case Select():
            return select(p, node)
        case TupleExpr(items=items):
            held = [expression(p, item) for item in items]
            known = [h for h in held if not isinstance(h, Unknown)]
            return TupleType(tuple(known)) if len(known) == len(held) else UNKNOWN
        case Item():
            return item(p, node)
        case ExtentNode():
            return extent(p, node)
        case OpCall():
            return call(p, node)
        case Function():
            p.fault(
                "usage", f"the function `{node.callee}` is used as a value", node.span, "pass it to `reduce` or `scan`"
            )
            return UNKNOWN
        case Opaque():
            return UNKNOWN
        case _:
            raise TypeError(f"a tile kernel has no expression {type(node).__name__}")


def _constant(value: object) -> Type:
    match value:
        case bool():
            return ScalarType("bool", value)
        case int():
            return ScalarType("int", value)
        case float():
            return ScalarType("float", value)
        case str():
            return StrType(value)
        case _:
            return NoneType()


def operator(p: TypePass, op: str, node: Node, *operands: Expr) -> Known:
    """A row by its operator."""
    held = [expression(p, operand) for operand in operands]
    known = [h for h in held if not isinstance(h, Unknown)]
    if len(known) < len(held):
        return UNKNOWN
    row = operators().get(op)
    if row is None:
        p.fault("unsupported", f"`{op.removeprefix('unary ')}` has no meaning in a kernel", node.span)
        return UNKNOWN
    for place, one in enumerate(known):
        if not isinstance(one, TileType | ScalarType | DimType):
            what = f"the whole tensor `{one.name}`" if isinstance(one, TensorType) else describe(one)
            p.fault("usage", f"`{op.removeprefix('unary ')}` of {what}", operands[place].span, _tile_of(p, one))
            return UNKNOWN
    if op == "unary not" and isinstance(known[0], ScalarType | DimType):
        value = _value(known[0])
        return ScalarType("bool", None if value is None else not value)
    return apply(p, row, node, known, {}, operands)


def _tile_of(p: TypePass, held: Known) -> str | None:
    """How to read a tile of what an operator does not take."""
    if isinstance(held, ViewType):
        return "read a tile of the view by its index, `xs[i]`"
    if not isinstance(held, TensorType):
        return None
    if held.access == "Mut":
        return f"read its tile: `{held.name}.load()`"
    outputs = [q.name for q in p.kernel.params if isinstance(q, TensorParam) and q.access is Access.MUT]
    return f"read a tile of it: `tc.load_like({held.name}, {outputs[0]})`" if outputs else "cut it into tiles first"


def logic(p: TypePass, node: Logic, operands: tuple[Expr, ...]) -> Known:
    """`and`, `or` on scalars; on tiles `&` and `|` are meant."""
    value: bool | None = node.op == "and"
    for operand in operands:
        held = expression(p, operand)
        if isinstance(held, TileType):
            sign = "&" if node.op == "and" else "|"
            p.fault(
                "unsupported", f"`{node.op}` of a tile", operand.span, f"combine bool tiles lane by lane with `{sign}`"
            )
            return UNKNOWN
        if isinstance(held, Unknown):
            value = None
            continue
        if not isinstance(held, ScalarType | DimType):
            p.fault("usage", f"`{node.op}` of {describe(held)}", operand.span)
            return UNKNOWN
        one = _value(held)
        if one is not None and bool(one) != (node.op == "and"):
            return ScalarType("bool", node.op == "or")
        value = None if one is None else value
    return ScalarType("bool", value)


def select(p: TypePass, node: Select) -> Known:
    """`a if c else b`: a scalar condition; a known one picks."""
    known = condition(p, node.cond, "`if ... else`")
    if known is not None:
        return expression(p, node.then if known else node.other)
    then, other = expression(p, node.then), expression(p, node.other)
    if isinstance(then, Unknown) or isinstance(other, Unknown):
        return UNKNOWN
    if isinstance(then, ScalarType | DimType) and isinstance(other, ScalarType | DimType):
        kinds = {t.kind if isinstance(t, ScalarType) else "int" for t in (then, other)}
        if len(kinds) == 1:
            return ScalarType(kinds.pop())
        if kinds == {"int", "float"}:
            return ScalarType("float")
        p.fault("dtype-mismatch", f"`if ... else` of {' and '.join(sorted(kinds))}", node.span)
        return UNKNOWN
    joined = join("the value", then, other)
    if isinstance(joined, Conflict):
        # A condition that was refused is the mistake; with `where` the branches may well fit.
        decides = p.types.get(node.cond)
        if not isinstance(decides, TileType) or not decides.shape:
            p.fault(joined.rule, joined.message, node.span, joined.help)
        return UNKNOWN
    return joined


def item(p: TypePass, node: Item) -> Known:
    """`at[0]` of a minted index or a tuple."""
    base, index = expression(p, node.base), expression(p, node.index)
    if isinstance(base, Unknown) or isinstance(index, Unknown):
        return UNKNOWN
    position = _value(index) if isinstance(index, ScalarType | DimType) else None
    length = base.rank if isinstance(base, IndexType) else len(base.items) if isinstance(base, TupleType) else None
    if length is None:
        p.fault("usage", f"a position of {describe(base)}", node.span)
        return UNKNOWN
    if not isinstance(position, int):
        p.fault("unsupported", "a position that is no constant", node.index.span, "write it as a number: `at[0]`")
        return UNKNOWN
    if not -length <= position < length:
        p.fault("shape-mismatch", f"position {position} of {describe(base)} of length {length}", node.span)
        return UNKNOWN
    return _INT if isinstance(base, IndexType) else base.items[position]  # type: ignore[union-attr]


def extent(p: TypePass, node: ExtentNode) -> Known:
    """`x.shape[k]`: the whole extent of a tensor, the extent of a tile; `x.size`."""
    base = expression(p, node.array)
    if isinstance(base, Unknown):
        return UNKNOWN
    if not isinstance(base, TensorType | TileType | ViewType | SubTilesType):
        p.fault("usage", f"the shape of {describe(base)}", node.span)
        return UNKNOWN
    shape = base.shape
    if shape is None:
        return _INT
    if node.axis is None:
        if isinstance(base, TensorType) and base.access != "Shared":
            return _INT
        total = 1
        for one in shape:
            total = total * one if isinstance(one, int) and total else 0
        return ScalarType("int", total or None)
    if not -len(shape) <= node.axis < len(shape):
        p.fault("shape-mismatch", f"axis {node.axis} of a shape with {len(shape)} axes", node.span)
        return UNKNOWN
    if isinstance(base, TensorType) and base.access != "Shared":
        return _INT
    here = shape[node.axis]
    return ScalarType("int", here if isinstance(here, int) else None)


def condition(p: TypePass, node: Expr, where: str) -> bool | None:
    """The truth of a condition if it is known. Tiles decide no branch."""
    held = expression(p, node)
    match held:
        case ScalarType(value=value):
            return None if value is None else bool(value)
        case DimType():
            return True
        case Unknown():
            return None
        case TileType(shape=shape):
            way = (
                "take its value with `.item()`"
                if not shape
                else "pick lanes with `tc.where`, or reduce: `tc.any(t).item()`"
            )
            p.fault("unsupported", f"a tile decides {where}", node.span, way)
        case _:
            p.fault("usage", f"{describe(held)} decides {where}", node.span)
    return None


def whole(p: TypePass, node: Expr, where: str) -> None:
    """An int scalar is needed."""
    held = expression(p, node)
    if isinstance(held, Unknown | DimType) or (isinstance(held, ScalarType) and held.kind == "int"):
        return
    p.fault("usage", f"{where} takes ints, not {describe(held)}", node.span)


# ---- calls


def call(p: TypePass, node: OpCall) -> Known:
    """A row by its name."""
    if node.op in QUERIES and len(node.args) == 1:
        return query(p, node)
    row = OPS.get(node.op)
    if row is None:
        for argument in (*node.args, *(v for _, v in node.kwargs)):
            if not isinstance(argument, Function):
                expression(p, argument)
        p.fault(*_no_row(node.op), node.span, _no_row_help(node.op))
        return UNKNOWN
    held: list[Known] = []
    for argument in node.args:
        if isinstance(argument, Function):
            first = next((h for h in held if isinstance(h, TileType)), None)
            held.append(function(p, argument, first))
        else:
            held.append(expression(p, argument))
    named = {key: expression(p, value) for key, value in node.kwargs}
    args = [h for h in held if not isinstance(h, Unknown)]
    kwargs = {key: h for key, h in named.items() if not isinstance(h, Unknown)}
    if len(args) < len(held) or len(kwargs) < len(named):
        return UNKNOWN
    return apply(p, row, node, args, kwargs, node.args)


def apply(
    p: TypePass, row: Op, node: Node, args: list[Type], kwargs: dict[str, Type], nodes: tuple[Expr, ...]
) -> Known:
    """The type rule of a row, its void lanes, and its value on known scalars."""
    try:
        result = row.type_of(args, kwargs)
        mixed = row.mixed(args, kwargs)
    except Refused as error:
        p.refused(error, node, nodes)
        return UNKNOWN
    except NotYet:
        return UNKNOWN
    for argument, axis, edge in mixed:
        tile = _tile_extent(args[argument], axis, edge)
        if tile is not None:
            p.mixed.append(Mixed(node, row.name, edge, tile, p.place(node.span)))
    if isinstance(result, ScalarType) and row.effect is Effect.NONE and row.lanes is Lanes.CARRY and not kwargs:
        return _computed(row, args, result)
    return result


def _tile_extent(argument: Type, axis: int, edge: object) -> int | DimExtent | None:
    tiles = argument.items if isinstance(argument, TupleType) else (argument,)
    for tile in tiles:
        if isinstance(tile, TileType) and (axis, edge) in tile.void:
            found = tile.shape[axis]
            return found if isinstance(found, int | DimExtent) else None
    return None


def _value(type: object) -> int | float | bool | None:
    if isinstance(type, ScalarType):
        return type.value
    if isinstance(type, DimType) and isinstance(type.extent, int):
        return type.extent
    return None


def _computed(row: Op, args: list[Type], result: ScalarType) -> ScalarType:
    """The value of a row on known scalars, as its meaning has it."""
    values = [_value(a) for a in args]
    if not values or any(v is None for v in values):
        return result
    try:
        with np.errstate(all="ignore"):
            value = row.meaning(*values)
    except (ArithmeticError, ValueError, TypeError):
        return result
    kinds = {"int": int, "float": float, "bool": bool}
    return ScalarType(result.kind, kinds[result.kind](value))


def query(p: TypePass, node: OpCall) -> Known:
    """`x.dtype`, `x.ndim`."""
    base = expression(p, node.args[0])
    if isinstance(base, Unknown):
        return UNKNOWN
    if not isinstance(base, TileType | TensorType | ViewType | SubTilesType):
        p.fault("usage", f"the {node.op} of {describe(base)}", node.span)
        return UNKNOWN
    if node.op == "dtype":
        return UNKNOWN if base.dtype is None else DTypeType(base.dtype)
    return UNKNOWN if base.shape is None else ScalarType("int", len(base.shape))


def function(p: TypePass, node: Function, first: TileType | None) -> Known:
    """A device function passed to an op: its parameters are rank-0 tiles of the first tile's dtype."""
    if first is None:
        return UNKNOWN
    params = tuple(TileType(first.dtype, ()) for _ in node.params)
    outer, calls, loops = p.env, p.calls, p.loops
    inner: Env = dict(zip(node.params, params, strict=True))
    frame = Call(node.result)
    p.env, p.calls, p.loops = inner, [frame], []
    p.block(p, node.body)
    ended = p.env is not None
    p.env, p.calls, p.loops = outer, calls, loops
    given = frame.given
    if given is None or ended:
        p.fault("usage", f"`{node.callee}` does not return a value on every path", node.span)
        return UNKNOWN
    if isinstance(given, Unknown) or not isinstance(given, Type):
        return UNKNOWN
    if isinstance(given, ScalarType):
        given = TileType(first.dtype, ())
    p.types[node] = FunctionType(params, given)
    return p.types[node]


def _no_row(name: str) -> tuple[str, str]:
    import tilecheck

    if name in dir(tilecheck):
        return "usage", f"`{name}` belongs to the host and is called in a kernel"
    return "usage", f"kernels have no op `{name}`"


def _no_row_help(name: str) -> str | None:
    if name in IN_KERNELS:
        return IN_KERNELS[name]
    near = get_close_matches(name, OPS, 1)
    return f"the nearest is `{near[0]}`; `tilecheck ops` lists all" if near else "`tilecheck ops` lists them"
