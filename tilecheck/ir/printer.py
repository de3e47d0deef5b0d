"""The kernel IR as a readable listing, for `explain FILE::KERNEL --ir` and for tests.

One statement a line, its source line in front; expressions read like the source they came from, ops by their rows:

    kernel saxpy (tile)
      z: Tensor[Mut, f32, BM]
      a: float
    10 | do store(z, a * load_like(x, z) + load_like(y, z))

Nodes of `ir/simt.py` and others print by their class and fields, so that a listing is always complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    DimDecl,
    DimRef,
    Do,
    DTypeRef,
    Expr,
    Extent,
    For,
    ForIndices,
    Func,
    If,
    Inline,
    Item,
    Kernel,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Param,
    Return,
    ScalarParam,
    Select,
    Stmt,
    TensorParam,
    TupleExpr,
    Unary,
    While,
)

# How tightly an expression binds; a looser one inside a tighter one gets brackets.
_TIGHT = {"or": 1, "and": 2, "not": 3, "<": 4, "|": 5, "^": 6, "&": 7, "<<": 8, "+": 9, "*": 10, "-x": 11, "**": 12}
_LEVEL = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "//", "%", "@"), 10),
    "|": 5,
    "^": 6,
    "&": 7,
    "**": 12,
}
_ATOM = 20


def listing(kernel: Kernel) -> str:
    """The whole kernel, head and body."""
    lines = [f"kernel {kernel.name} ({kernel.track})"]
    lines += [f"  {parameter(param, kernel.dims)}" for param in kernel.params]
    lines += [f"  option {key} = {value!r}" for key, value in kernel.options.items()]
    lines += [f"  constant {key} = {value!r}" for key, value in kernel.constants.items()]
    numbered = list(_block(kernel.body, kernel.dims, 0))
    width = max((len(str(line)) for line, _ in numbered), default=1)
    lines += [f"{line:>{width}} | {text}" for line, text in numbered]
    return "\n".join(lines)


def parameter(param: Param, dims: Mapping[str, DimDecl]) -> str:
    """`z: Tensor[Mut, f32, BM]`, `a: float`."""
    match param:
        case ScalarParam(name=name, kind=kind):
            return f"{name}: {kind or '?'}"
        case TensorParam(name=name, access=access, dtype=dtype, extents=extents):
            parts = [access.value if access is not None else "?", dtype or "Any"]
            if extents is None:
                parts.append("...")
            else:
                parts += ["Dyn" if key is None else _dim(key, dims) for key in extents]
            return f"{name}: Tensor[{', '.join(parts)}]"


def _dim(key: str, dims: Mapping[str, DimDecl]) -> str:
    decl = dims.get(key)
    if decl is None:
        return key
    return decl.name if decl.size is None else f"{decl.name}={decl.size}"


def _block(body: tuple[Stmt, ...], dims: Mapping[str, DimDecl], depth: int) -> Iterator[tuple[int, str]]:
    for statement in body:
        yield from _statement(statement, dims, depth)


def _statement(node: Stmt, dims: Mapping[str, DimDecl], depth: int) -> Iterator[tuple[int, str]]:
    pad, line = "  " * depth, node.span.line

    def show(value: Expr) -> str:
        return expression(value, dims)

    match node:
        case Assign(target=target, value=value):
            yield line, f"{pad}{target} = {show(value)}"
        case Do(value=value):
            yield line, f"{pad}do {show(value)}"
        case If(cond=cond, then=then, other=other):
            yield line, f"{pad}if {show(cond)}:"
            yield from _block(then, dims, depth + 1)
            if other:
                yield line, f"{pad}else:"
                yield from _block(other, dims, depth + 1)
        case For(target=target, start=start, stop=stop, step=step, body=body):
            yield line, f"{pad}for {target} in range({show(start)}, {show(stop)}, {show(step)}):"
            yield from _block(body, dims, depth + 1)
        case ForIndices(target=target, source=source, body=body):
            yield line, f"{pad}for {target} in {show(source)}:"
            yield from _block(body, dims, depth + 1)
        case While(cond=cond, body=body):
            yield line, f"{pad}while {show(cond)}:"
            yield from _block(body, dims, depth + 1)
        case Break():
            yield line, f"{pad}break"
        case Continue():
            yield line, f"{pad}continue"
        case Return(value=value):
            yield line, f"{pad}return" if value is None else f"{pad}return {show(value)}"
        case Inline(callee=callee, body=body, result=result, foreign=foreign):
            into = "" if result is None else f"{result} = "
            yield line, f"{pad}{into}inline {callee}{' (of another file)' if foreign else ''}:"
            yield from _block(body, dims, depth + 1)
        case Assert(cond=cond, message=message):
            yield line, f"{pad}assert {show(cond)}" + ("" if message is None else f", {message!r}")
        case _:
            yield line, f"{pad}{_other(node, dims)}"


def expression(node: Node, dims: Mapping[str, DimDecl]) -> str:
    """One expression on one line."""
    return _expression(node, dims)[0]


def _inner(node: Node, dims: Mapping[str, DimDecl], least: int) -> str:
    text, level = _expression(node, dims)
    return text if level >= least else f"({text})"


def _expression(node: Node, dims: Mapping[str, DimDecl]) -> tuple[str, int]:
    match node:
        case Const(value=value):
            negative = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
            return repr(value), _TIGHT["-x"] if negative else _ATOM
        case Name(id=id):
            return id, _ATOM
        case DimRef(key=key):
            return _dim(key, dims), _ATOM
        case DTypeRef(name=name):
            return name, _ATOM
        case Unary(op=op, operand=operand):
            level = _TIGHT["not"] if op == "not" else _TIGHT["-x"]
            return f"{op}{' ' if op == 'not' else ''}{_inner(operand, dims, level)}", level
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            level = _LEVEL[op]
            tighter = level + 1
            first, second = (tighter, level) if op == "**" else (level, tighter)
            if isinstance(node, Compare):
                first = tighter
            return f"{_inner(left, dims, first)} {op} {_inner(right, dims, second)}", level
        case Logic(op=op, operands=operands):
            level = _TIGHT[op]
            return f" {op} ".join(_inner(o, dims, level + 1) for o in operands), level
        case Select(cond=cond, then=then, other=other):
            return f"{_inner(then, dims, 1)} if {_inner(cond, dims, 1)} else {_inner(other, dims, 0)}", 0
        case TupleExpr(items=items):
            inside = ", ".join(expression(i, dims) for i in items)
            return f"({inside}{',' if len(items) == 1 else ''})", _ATOM
        case Item(base=base, index=index):
            return f"{_inner(base, dims, _ATOM)}[{expression(index, dims)}]", _ATOM
        case Extent(array=array, axis=axis):
            whole = _inner(array, dims, _ATOM)
            return (f"{whole}.size" if axis is None else f"{whole}.shape[{axis}]"), _ATOM
        case OpCall(op=op, args=args, kwargs=kwargs):
            given = [expression(a, dims) for a in args] + [f"{k}={expression(v, dims)}" for k, v in kwargs]
            return f"{op}({', '.join(given)})", _ATOM
        case Func(name=name, params=params, body=body, result=result):
            lets = "".join(f"{s.target} = {expression(s.value, dims)}; " for s in body if isinstance(s, Assign))
            return f"<{name}({', '.join(params)}): {lets}{expression(result, dims)}>", _ATOM
        case Opaque(reason=reason):
            return f"<unknown: {reason}>", _ATOM
        case _:
            return _other(node, dims), _ATOM


def _other(node: Node, dims: Mapping[str, DimDecl]) -> str:
    """A node of another track: its class and fields."""
    parts = [f"{f.name}={_field(getattr(node, f.name), dims)}" for f in fields(node) if f.name != "span"]
    return f"{type(node).__name__}({', '.join(parts)})"


def _field(value: object, dims: Mapping[str, DimDecl]) -> str:
    if isinstance(value, Node):
        return expression(value, dims)
    if isinstance(value, tuple):
        return f"[{', '.join(_field(v, dims) for v in value)}]"
    return repr(value)
