"""Expressions of tile kernels: libcst -> IR.

Operators become `Binary`, `Compare`, `Unary` nodes; on tiles they mean the row of the op table with that operator.
`tc.f(...)` and methods become `OpCall`s of the row `f`, the receiver first; `xs[i, k]` of a view is `load_tile`. Which
rows exist, and for what, is the type pass's business. Python's `min`, `max`, `abs`, `pow`, `int`, `float`, `bool` become
the rows `minimum`, `maximum`, `abs`, `pow` and the scalar casts `int`, `float`, `bool`.

Two calls are no rows and are answered from types alone: `dtype(x)` for `x.dtype` and `rank(x)` for `x.ndim`.

Evaluation is left to right. A helper inlined in the middle of an expression writes statements before it, so operands to
its left that read memory or call ops move to cells first:

    z.store(z.load() + f(z))    ->    t$1 = load(z);  inline f;  store(z, t$1 + f.result)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import libcst as cst

from tilecheck.frontend.bindings import dotted
from tilecheck.frontend.constants import BINARY, COMPARE, UNARY, NotConstant, compute, literal
from tilecheck.frontend.names import External, Function, Unusable, meaning
from tilecheck.frontend.tile_names import constant, literal_of, local_root, named, outside
from tilecheck.frontend.tile_reader import Reader
from tilecheck.frontend.tile_words import construct, foreign_call
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    DTypeRef,
    Expr,
    Extent,
    If,
    Item,
    Logic,
    Name,
    Opaque,
    OpCall,
    Select,
    TupleExpr,
    Unary,
    walk,
)

_SCALAR_CASTS = ("int", "float", "bool")
_BUILTIN_ROWS = {"min": "minimum", "max": "maximum", "abs": "abs", "pow": "pow"}


def expression(r: Reader, node: cst.BaseExpression) -> Expr:
    """The value of `node`. Raises `Unsupported`."""
    span = r.span(node)
    match node:
        case cst.Integer() | cst.Float() | cst.SimpleString() | cst.ConcatenatedString():
            return constant(r, literal_of(r, node), node)
        case cst.Name(value="True" | "False" | "None"):
            return Const(cast("bool | None", literal(node)), span=span)
        case cst.Name():
            return named(r, node)
        case cst.Attribute():
            return attribute(r, node)
        case cst.UnaryOperation(operator=sign, expression=inner) if type(sign) in UNARY:
            return unary(r, cast("Literal['-', '+', '~', 'not']", UNARY[type(sign)]), inner, node)
        case cst.BinaryOperation(left=left, operator=op, right=right) if type(op) in BINARY:
            a, b = operands(r, left, right)
            return binary(r, BINARY[type(op)], a, b, node)
        case cst.BooleanOperation(left=left, operator=op, right=right):
            return logic(r, "and" if isinstance(op, cst.And) else "or", left, right, node)
        case cst.Comparison():
            return comparison(r, node)
        case cst.IfExp():
            return conditional(r, node)
        case cst.Tuple(elements=elements) if all(type(e) is cst.Element for e in elements):
            return TupleExpr(tuple(operands(r, *(e.value for e in elements))), span=span)
        case cst.Subscript():
            return subscript(r, node)
        case cst.Call():
            return call(r, node)
        case _:
            what, help = construct(node)
            raise r.refuse(f"{what} in a kernel", node, help)


def attribute(r: Reader, node: cst.Attribute) -> Expr:
    """`x.size`, `x.ndim`, `x.dtype`, `x.shape`, or a name of a module."""
    if not local_root(r, node):
        return outside(r, node, dotted(node) or "")
    base, name, span = expression(r, node.value), node.attr.value, r.span(node)
    match name:
        case "size":
            return Extent(base, None, span=span)
        case "dtype":
            known = r.tensor(base)
            if known is not None and known.dtype is not None:
                return DTypeRef(known.dtype, span=span)
            return OpCall("dtype", (base,), span=span)
        case "ndim":
            return OpCall("rank", (base,), span=span)
        case "shape":
            known = r.tensor(base)
            if known is not None and known.extents is not None:
                axes = range(len(known.extents))
                return TupleExpr(tuple(Extent(base, axis, span=span) for axis in axes), span=span)
            raise r.refuse("`.shape` without an axis", node, "name the axis: `x.shape[0]`, or unpack: `m, n = x.shape`")
        case _:
            raise r.refuse(
                f"the attribute `{name}` of a kernel value",
                node,
                "values have `shape`, `size`, `ndim` and `dtype`; `tilecheck ops` lists the methods",
            )


# ---- operators


def operands(r: Reader, *nodes: cst.BaseExpression) -> list[Expr]:
    """Values in order; those that an inlined call to their right would overtake are moved to cells before it."""
    values: list[Expr] = []
    for node in nodes:
        before = len(r.out)
        value = expression(r, node)
        if len(r.out) > before:
            late = r.out[before:]
            del r.out[before:]
            values = [r.spill(v) if _computes(v) else v for v in values]
            r.out.extend(late)
        values.append(value)
    return values


def _computes(value: Expr) -> bool:
    return any(isinstance(n, OpCall) for n in walk(value))


def unary(r: Reader, op: Literal["-", "+", "~", "not"], inner: cst.BaseExpression, node: cst.CSTNode) -> Expr:
    """`-x`, folded on constants."""
    value = expression(r, inner)
    if isinstance(value, Const):
        folded = _folded(r, op, node, value)
        if folded is not None:
            return folded
    return Unary(op, value, span=r.span(node))


def binary(r: Reader, op: str, left: Expr, right: Expr, node: cst.CSTNode) -> Expr:
    """`left op right`, folded on constants."""
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _folded(r, op, node, left, right)
        if folded is not None:
            return folded
    return Binary(op, left, right, span=r.span(node))  # type: ignore[arg-type]


def _folded(r: Reader, op: str, node: cst.CSTNode, *values: Const) -> Expr | None:
    if any(isinstance(v.value, str) or v.value is None for v in values):
        raise r.refuse(f"`{op}` on strings or `None`", node, None)
    try:
        return constant(r, compute(op, *(v.value for v in values)), node)
    except NotConstant:
        return None


def comparison(r: Reader, node: cst.Comparison) -> Expr:
    """`a < b <= c`: a conjunction in which the middle is evaluated once."""
    for part in node.comparisons:
        if type(part.operator) not in COMPARE:
            what, help = construct(part.operator)
            raise r.refuse(f"{what} in a kernel", node, help)
    values = operands(r, node.left, *(part.comparator for part in node.comparisons))
    if len(values) > 2:
        values = [values[0], *(r.spill(v) for v in values[1:-1]), values[-1]]
    links: list[Expr] = []
    for at, part in enumerate(node.comparisons):
        op, left, right = COMPARE[type(part.operator)], values[at], values[at + 1]
        folded = None
        if isinstance(left, Const) and isinstance(right, Const):
            folded = _folded(r, op, node, left, right)
        links.append(folded or Compare(op, left, right, span=r.span(node)))  # type: ignore[arg-type]
    if len(links) == 1:
        return links[0]
    return Logic("and", tuple(links), span=r.span(node))


def logic(
    r: Reader, op: Literal["and", "or"], left: cst.BaseExpression, right: cst.BaseExpression, node: cst.CSTNode
) -> Expr:
    """`and`, `or`. A known left side decides; a right side that writes statements becomes an `If`."""
    span = r.span(node)
    first = expression(r, left)
    if isinstance(first, Const):
        return expression(r, right) if bool(first.value) == (op == "and") else first
    with r.block() as late:
        second = expression(r, right)
    if not late:
        return Logic(op, (first, second), span=span)
    cell = r.fresh("t")
    r.put(cell, first, span)
    late.append(Assign(cell, second, span=second.span))
    test = Name(cell, span=span)
    r.emit(If(test if op == "and" else Unary("not", test, span=span), tuple(late), span=span))
    return Name(cell, span=span)


def conditional(r: Reader, node: cst.IfExp) -> Expr:
    """`a if cond else b` on scalars; a known condition decides, branches that write statements become an `If`."""
    span = r.span(node)
    test = expression(r, node.test)
    if isinstance(test, Const):
        return expression(r, node.body if test.value else node.orelse)
    with r.block() as yes:
        then = expression(r, node.body)
    with r.block() as no:
        other = expression(r, node.orelse)
    if not yes and not no:
        return Select(test, then, other, span=span)
    cell = r.fresh("t")
    yes.append(Assign(cell, then, span=then.span))
    no.append(Assign(cell, other, span=other.span))
    r.emit(If(test, tuple(yes), tuple(no), span=span))
    return Name(cell, span=span)


# ---- subscripts


def subscript(r: Reader, node: cst.Subscript) -> Expr:
    """`xs[i, k]` of a view, `at[0]` of an index or tuple, `x.shape[0]`."""
    span = r.span(node)
    if isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape" and local_root(r, node.value):
        (axis,) = _index(r, node) if len(node.slice) == 1 else (None,)
        if isinstance(axis, Const) and isinstance(axis.value, int) and not isinstance(axis.value, bool):
            return Extent(expression(r, node.value.value), axis.value, span=span)
        raise r.refuse("`.shape` at an axis that is no constant", node, "write the axis as a number: `x.shape[0]`")
    base = expression(r, node.value)
    match r.kind(base):
        case "view":
            before = len(r.out)
            index = _index(r, node)
            if len(r.out) > before and not isinstance(base, Name):
                raise r.refuse("a view made and indexed in one expression that calls a helper", node, "name the view")
            return OpCall("load_tile", (base, *index), span=span)
        case "index" | "tuple":
            index = _index(r, node)
            if len(index) != 1:
                raise r.refuse("a tuple indexed by several values", node, "use one position: `at[0]`")
            if isinstance(base, TupleExpr) and isinstance(index[0], Const) and isinstance(index[0].value, int):
                try:
                    return base.items[index[0].value]
                except IndexError:
                    raise r.refuse(
                        f"position {index[0].value} of a tuple of {len(base.items)}", node, None, "shape-mismatch"
                    ) from None
            return Item(base, index[0], span=span)
        case "unknown":
            _index(r, node)
            return Opaque("a part of what was not read", span=span)
        case "tensor":
            shown = base.id if isinstance(base, Name) else "x"
            raise r.refuse(
                f"`{shown}` is subscripted element by element",
                node,
                f"kernels read tiles: `{shown}.partition(BM)[i]`, or `tc.load_like({shown}, z)` at the block's own place",
            )
        case _:
            raise r.refuse("a tile or scalar is subscripted", node, "use `extract`, `reshape`, `where` or a reduction")


def _index(r: Reader, node: cst.Subscript) -> list[Expr]:
    nodes: list[cst.BaseExpression] = []
    for element in node.slice:
        if not isinstance(element.slice, cst.Index) or element.slice.star is not None:
            raise r.refuse(
                "a slice in a kernel", node, "cut the array in tiles with `partition`, or slice it on the host"
            )
        nodes.append(element.slice.value)
    return operands(r, *nodes)


# ---- calls


def call(r: Reader, node: cst.Call) -> Expr:
    """An op, a method, a device function, or one of Python's few builtins."""
    func = node.func
    if isinstance(func, cst.Attribute) and local_root(r, func):
        return op_call(r, func.attr.value, node, func.value)
    if isinstance(func, cst.Name):
        bound = r.frame.bound.get(func.value)
        if isinstance(bound, Function):
            return r.inline(r, bound, node)
        if bound is not None or func.value in r.frame.locals:
            raise r.refuse(f"`{func.value}` is a value and is called", node, None)
    if not isinstance(func, cst.Name | cst.Attribute):
        raise r.refuse("a call of what an expression gives", node, "call functions by their names")
    text = dotted(func) or ""
    found = meaning(func, r.frame.names)
    match found:
        case External(path=path) if path.startswith("tilecheck."):
            return op_call(r, path[10:], node, None)
        case External(path=path):
            raise foreign_call(r, text, path, node)
        case Function():
            return r.inline(r, found, node)
        case Unusable(reason=reason) if "enclosing function" in reason:
            for argument in node.args:
                expression(r, argument.value)
            return Opaque(f"`{text}` {reason}", span=r.span(node))
        case Unusable(reason=reason):
            raise r.refuse(f"`{text}` {reason}, which a kernel cannot call", node, None)
        case None:
            return builtin(r, text, node)
        case _:
            raise r.refuse(f"`{text}` is no function", node, None, "usage")


def op_call(r: Reader, op: str, node: cst.Call, receiver: cst.BaseExpression | None) -> Expr:
    """A row of the op table, called as a function or as a method."""
    # The op table needs NumPy, which a file without kernels must not load.
    from tilecheck.ops import OPS

    row = OPS.get(op)
    if row is not None and receiver is not None and not row.method_of:
        raise r.refuse(f"`{op}` is no method", node, f"call the function: `tc.{op}(...)`", "usage")
    if row is not None and receiver is None and not row.function:
        help = f"call it on its subject: `x.{op}(...)`" if row.method_of else None
        raise r.refuse(f"`{op}` is no function", node, help, "usage")
    args, kwargs = arguments(r, node, receiver)
    return OpCall(op, args, kwargs, span=r.span(node))


def arguments(
    r: Reader, node: cst.Call, receiver: cst.BaseExpression | None = None
) -> tuple[tuple[Expr, ...], tuple[tuple[str, Expr], ...]]:
    """The values of a call's arguments, positional and named."""
    nodes = [] if receiver is None else [receiver]
    for argument in node.args:
        if argument.star:
            raise r.refuse(f"`{argument.star}` in a call", node, "write the arguments out")
        nodes.append(argument.value)
    values = _values(r, nodes)
    first = 0 if receiver is None else 1
    positional = values[:first] + [v for a, v in zip(node.args, values[first:], strict=True) if a.keyword is None]
    named_ones = [(a.keyword.value, v) for a, v in zip(node.args, values[first:], strict=True) if a.keyword is not None]
    return tuple(positional), tuple(named_ones)


def _values(r: Reader, nodes: Sequence[cst.BaseExpression]) -> list[Expr]:
    if not any(isinstance(n, cst.Lambda) for n in nodes):
        return operands(r, *nodes)
    return [r.lift(r, n, n) if isinstance(n, cst.Lambda) else expression(r, n) for n in nodes]


def builtin(r: Reader, name: str, node: cst.Call) -> Expr:
    """Python's builtins that kernels know; the others are refused by name."""
    span = r.span(node)
    if name in _SCALAR_CASTS or name in _BUILTIN_ROWS:
        args, kwargs = arguments(r, node)
        if kwargs or not args:
            raise r.refuse(f"`{name}` called this way in a kernel", node, "give it values, without keywords")
        if name in _SCALAR_CASTS or name == "abs":
            return OpCall(name, args, span=span)
        if len(args) == 1:
            raise r.refuse(
                f"`{name}` of one value", node, f"of a tile: `tc.{name}(x)`; of several scalars: `{name}(a, b)`"
            )
        folded = args[0]
        for other in args[1:]:
            folded = OpCall(_BUILTIN_ROWS[name], (folded, other), span=span)
        return folded
    what, help = construct(node)
    if help is None:
        raise r.refuse(f"`{name}` is not defined", node, None, "usage")
    raise r.refuse(f"{what} in a kernel", node, help)
