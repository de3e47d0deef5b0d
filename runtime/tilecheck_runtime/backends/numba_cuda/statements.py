"""The statements of a kernel as lines of the generated module: the user's control flow around one line per op.

An inlined helper becomes its statements; one that returns early is a loop of one round, which its `return` breaks. Every
statement is uniform over the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Break,
    Const,
    Continue,
    Do,
    Expr,
    For,
    ForIndices,
    If,
    Inline,
    Node,
    OpCall,
    Return,
    Stmt,
    TupleExpr,
    While,
)
from tilecheck.ir.types import (
    DimType,
    IndexType,
    ScalarType,
    TileType,
    TupleType,
)
from tilecheck_runtime.backends.numba_cuda import accesses, mapped, reductions, tiles
from tilecheck_runtime.backends.numba_cuda.pipeline import pipelined, stand
from tilecheck_runtime.backends.numba_cuda.scalars import literal
from tilecheck_runtime.backends.numba_cuda.table import TILE_OPS
from tilecheck_runtime.backends.numba_cuda.tiles import cast_held

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering


def statement(low: Lowering, node: Stmt) -> None:
    """Spell out one statement. Raises `NoLowering`."""
    if isinstance(node, If | For | ForIndices | While):
        with low.recipes.forgotten():
            _controlled(low, node)
        return
    match node:
        case Assign(target=target, value=value):
            _assign(low, target, value)
        case Do(value=OpCall(op="store") as call):
            accesses.store(low, call)
        case Do(value=OpCall(op="device_assert", args=args)):
            _check(low, args[0], node)
        case Do(value=OpCall(op="print", args=args)):
            _print(low, args)
        case Do(value=OpCall(op=op) as call) if op in TILE_OPS:
            low.tile(call, None)
        case Assert(cond=cond):
            _check(low, cond, node)
        case Break():
            low.out.line("break")
        case Continue():
            low.out.line("continue")
        case Return(value=value):
            _return(low, value, node)
        case Inline():
            _inline(low, node)
        case _:
            what = node.value.op if isinstance(node, Do) and isinstance(node.value, OpCall) else type(node).__name__
            raise low.refuse(f"`{what}`", node)


def _controlled(low: Lowering, node: If | For | ForIndices | While) -> None:
    match node:
        case If(cond=cond, then=then, other=other):
            with low.out.block(f"if {low.scalar(cond)}:"):
                low.body(then)
            if other:
                with low.out.block("else:"):
                    low.body(other)
        case For(target=target, start=start, stop=stop, step=step, body=inner):
            _before(low, node)
            if node in low.stagings:
                pipelined(low, node, low.stagings[node])
                return
            bounds = ", ".join(f"int64({low.scalar(e)})" for e in (start, stop, step))
            with low.out.block(f"for {low.variable(target)} in range({bounds}):"):
                low.loop(inner)
        case ForIndices():
            _before(low, node)
            mapped.for_indices(low, node)
        case While(cond=cond, body=inner):
            _before(low, node)
            with low.out.block(f"while {low.scalar(cond)}:"):
                low.loop(inner)


def _before(low: Lowering, loop: Node) -> None:
    """The asserts that were moved out of a loop."""
    for check in low.hoisted.get(loop, ()):
        tiles = accesses.tile_count(low, check.array, check.array_axis, low.extent(check.tile), check.local)
        inside = f"(0 <= {low.scalar(check.low)} and {low.scalar(check.high)} < {tiles})"
        guards = [f"not {low.scalar(guard)}" for guard in check.guards]
        low.fault_unless(f"({' or '.join([*guards, inside])})", check.node.span.line)


def _assign(low: Lowering, target: str, value: Expr) -> None:
    if value in low.unspoken:
        return
    if target in low.standing:
        stand(low, low.standing[target])
        return
    kind = low.types.get(value)
    if isinstance(kind, TileType):
        layout = low.plan.variables[target]
        held = tiles.convert(low, low.tile(value, layout), layout)
        low.out.line(f"{low.variable(target)} = {held.name}")
        low.recipes.note_name(low.variable(target), held.name)
    elif isinstance(kind, ScalarType):
        cast = {"int": "int64", "float": "float64", "bool": "bool"}[kind.kind]
        low.out.line(f"{low.variable(target)} = {cast}({low.scalar(value)})")
    elif isinstance(kind, DimType):
        low.out.line(f"{low.variable(target)} = int64({low.scalar(value)})")
    elif isinstance(kind, IndexType) or (isinstance(kind, TupleType) and _is_plain(kind)):
        low.out.line(f"{low.variable(target)} = {low.scalar(value)}")
    elif isinstance(kind, TupleType) and isinstance(value, TupleExpr):
        raise low.refuse("a tuple that holds tiles", value)
    # Views, dtypes and functions have no value at run time: their uses are resolved by type.


def _return(low: Lowering, value: Expr | None, node: Node) -> None:
    inlined = [r for r in low.returns if not r[1]]
    if not inlined:
        low.out.line("return")
        return
    if low.returns[-1][1]:
        raise low.refuse("a `return` inside a loop of a helper", node)
    result = inlined[-1][0]
    if value is not None and result is not None:
        _assign(low, result, value)
    low.out.line("break")


def _inline(low: Lowering, node: Inline) -> None:
    # One round of a loop, so that a `Return` anywhere in the helper leaves it by `break`.
    early = any(isinstance(s, Return) for s in _flat(node.body[:-1])) or not isinstance(
        node.body[-1] if node.body else None, Return
    )
    if early:
        with low.recipes.forgotten(), low.out.block("for _once in range(1):"):
            low.returns.append((node.result, False))
            low.body(node.body)
            low.returns.pop()
        return
    low.body(node.body[:-1])
    last = node.body[-1]
    assert isinstance(last, Return)
    if last.value is not None and node.result is not None:
        _assign(low, node.result, last.value)


def _print(low: Lowering, values: Sequence[Expr]) -> None:
    """One line per block for scalars and text; of a tile, the first thread's first element stands for it."""
    texts: list[str] = []
    for value in values:
        kind = low.types[value]
        if isinstance(kind, TileType):
            held = low.tile(value, None)
            texts.append(f"{cast_held(low, held, 'f64').name}[0]")
        elif isinstance(value, Const) and isinstance(value.value, str):
            texts.append(literal(value.value))
        else:
            texts.append(low.scalar(value))
    with low.out.block("if cuda.threadIdx.x == 0:"):
        low.out.line(f"print({', '.join(texts)})")


def _check(low: Lowering, cond: Expr, node: Node) -> None:
    """Note line and block in the fault record and leave, unless `cond` holds."""
    whole = isinstance(low.types[cond], TileType)
    test = reductions.all_of(low, low.tile(cond, None)) if whole else low.scalar(cond)
    low.fault_unless(test, node.span.line)


def _is_plain(kind: TupleType) -> bool:
    return all(isinstance(item, ScalarType | DimType) for item in kind.items)


def _flat(body: Sequence[Stmt]) -> Sequence[Stmt]:
    """The statements of `body` and of its blocks, not of helpers inlined in it."""
    found: list[Stmt] = []
    for node in body:
        found.append(node)
        match node:
            case If(then=then, other=other):
                found += _flat((*then, *other))
            case For(body=inner) | ForIndices(body=inner) | While(body=inner):
                found += _flat(inner)
    return found
