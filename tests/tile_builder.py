"""Kernel IR by hand, for tests of what comes after the frontend.

store = do("store", "z", binary("*", "a", call("load_like", "x", "z")))
scale = build("scale", [mut("z"), shared("x"), scalar("a")], [store])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import (
    Access,
    Assign,
    Binary,
    Compare,
    Const,
    DimDecl,
    DimRef,
    Do,
    DTypeRef,
    Expr,
    For,
    ForIndices,
    If,
    Item,
    Kernel,
    Name,
    OpCall,
    Param,
    ScalarParam,
    Stmt,
    TensorParam,
    TupleExpr,
)
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.verify.tile import TileReport

_lines = iter(range(1, 10**9))


def span() -> Span:
    """A new line for each node, so that traps and races can be told apart."""
    line = next(_lines)
    return Span("kernels.py", line, 1, line, 2)


def expr(value: Any) -> Expr:
    """An expression of a Python value: a name for a lower-case string, a `Dim` for an upper-case one, a constant."""
    if isinstance(value, str):
        if value.isupper() or value[0].isupper():
            return DimRef(key=value, span=span())
        return Name(id=value, span=span())
    if isinstance(value, tuple):
        return TupleExpr(items=tuple(map(expr, value)), span=span())
    if isinstance(value, DTypeClass):
        return DTypeRef(name=value.name, span=span())
    if isinstance(value, int | float | bool | None):
        return Const(value=value, span=span())
    return value


def text(value: str) -> Const:
    return Const(value=value, span=span())


def call(op: str, *args: Any, **kwargs: Any) -> OpCall:
    return OpCall(
        op=op, args=tuple(map(expr, args)), kwargs=tuple((k, expr(v)) for k, v in kwargs.items()), span=span()
    )


def binary(op: Any, left: Any, right: Any) -> Binary:
    return Binary(op=op, left=expr(left), right=expr(right), span=span())


def compare(op: Any, left: Any, right: Any) -> Compare:
    return Compare(op=op, left=expr(left), right=expr(right), span=span())


def item(base: Any, index: Any) -> Item:
    return Item(base=expr(base), index=expr(index), span=span())


def let(target: str, value: Any) -> Assign:
    return Assign(target=target, value=expr(value), span=span())


def do(op: str, *args: Any, **kwargs: Any) -> Do:
    return Do(value=call(op, *args, **kwargs), span=span())


def when(cond: Any, then: Sequence[Stmt], other: Sequence[Stmt] = ()) -> If:
    return If(cond=expr(cond), then=tuple(then), other=tuple(other), span=span())


def loop(target: str, stop: Any, body: Sequence[Stmt], start: Any = 0, step: Any = 1) -> For:
    return For(target=target, start=expr(start), stop=expr(stop), step=expr(step), body=tuple(body), span=span())


def each(target: str, source: OpCall, body: Sequence[Stmt]) -> ForIndices:
    return ForIndices(target=target, source=source, body=tuple(body), span=span())


def tensor(name: str, access: Access) -> TensorParam:
    return TensorParam(name=name, access=access, span=span())


def shared(name: str) -> TensorParam:
    return tensor(name, Access.SHARED)


def mut(name: str) -> TensorParam:
    return tensor(name, Access.MUT)


def mapped(name: str) -> TensorParam:
    return tensor(name, Access.MAPPED)


def atomic(name: str) -> TensorParam:
    return tensor(name, Access.ATOMIC)


def scalar(name: str) -> ScalarParam:
    return ScalarParam(name=name, span=span())


def build(name: str, params: Sequence[Param], body: Sequence[Stmt], dims: Sequence[str] = ()) -> TileReport:
    """A report of a kernel without types; `dims` are the `Dim`s that it mentions."""
    decls = {key: DimDecl(key, key) for key in dims}
    kernel = Kernel(name, "kernels.py", "tile", tuple(params), tuple(body), span(), dims=decls)
    return TileReport(kernel)
