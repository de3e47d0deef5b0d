"""Assignment targets and iteration, shared by statements, comprehensions and `:=`.

A name is bound to the object itself, so two names can be one place. An attribute or a constant subscript is a slot of
its object; a subscript that cannot be read goes into the object's bag. Iterating over a container lets go of what it
holds: which round sees which element is left to the run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import NOTHING, Array, Items
from tilecheck.borrow.vocabulary import canonical
from tilecheck.diagnostic import Span
from tilecheck.ir import flow
from tilecheck.ir import host as ir
from tilecheck.ir.flow import Kind, Site, Touch

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def bind(low: Expressions, target: ir.Expr, operand: Operand, node: ir.Expr) -> None:
    """`target = operand`, where `node` is the expression that `operand` was lowered from."""
    match target:
        case ir.Name(id=name):
            low.emit(flow.Bind(name, low.object_of(operand, target), span=target.span))
            low.set(target, operand.value)
        case ir.Attr(base=base, name=name):
            holder = low.expr(base)
            if holder.var is not None:
                var = low.object_of(operand, target)
                low.emit(flow.Put(holder.var, f".{name}", var, span=target.span))
            low.set(target, operand.value)
        case ir.Sub():
            _bind_item(low, target, operand, node)
        case ir.Display(items=items):
            _unpack(low, items, operand, node)
        case ir.Starred(value=value):
            low.escape(operand, target.span)
            bind(low, value, Operand(None), node)
        case _:
            low.escape(operand, target.span)


def _bind_item(low: Expressions, target: ir.Sub, operand: Operand, node: ir.Expr) -> None:
    holder = low.expr(target.base)
    if isinstance(holder.value, Array):
        part = low.subscript(target, holder)
        low.look(part, target, Touch.WRITE)
        if operand.var is not None:
            low.look(operand, node, Touch.READ)
        return
    low.read(target.index)
    if holder.var is None:
        low.escape(operand, target.span)
        return
    known = isinstance(target.index, ir.Const) and target.index.known
    if not known:
        low.look(holder, target.base, Touch.WRITE, spell(target))
    if operand.var is not None:
        field = f"[{target.index.value!r}]" if isinstance(target.index, ir.Const) and known else None
        low.emit(flow.Put(holder.var, field, operand.var, span=target.span))
    low.set(target, operand.value)


def _unpack(low: Expressions, items: tuple[ir.Expr, ...], operand: Operand, node: ir.Expr) -> None:
    values = operand.value.values if isinstance(operand.value, Items) else ()
    starred = any(isinstance(item, ir.Starred) for item in items)
    if starred or (values and len(values) != len(items)):
        low.escape(operand, node.span)
        for item in items:
            bind(low, item, Operand(None), node)
        return
    for at, item in enumerate(items):
        value = values[at] if values else NOTHING
        if operand.var is None:
            bind(low, item, Operand(None, value), node)
            continue
        var = low.temp()
        site = Site(Kind.OTHER, spell(item), item.span)
        low.emit(flow.Get(var, operand.var, f"[{at}]", site, span=item.span))
        bind(low, item, Operand(var, value), node)


def iterate(
    low: Expressions,
    target: ir.Expr,
    source: ir.Expr,
    body: Callable[[], None],
    orelse: Callable[[], None] | None,
    span: Span,
) -> None:
    """`for target in source: body` with its `else`."""
    rounds = _rounds(low, source)
    operand = low.expr(source)
    low.look(operand, source, Touch.READ)
    low.escape(operand, source.span)

    def once() -> None:
        bind(low, target, Operand(None), source)
        body()

    def loop() -> None:
        low.loops += 1
        with low.trial():
            before = dict(low.env)
            once()
            low.assume(before)
        inside = low.block_of(once)
        low.loops -= 1
        tail = low.block_of(orelse) if orelse is not None else ()
        low.emit(flow.Loop((), inside, tail, once=rounds, span=span))

    before = dict(low.env)
    loop()
    low.assume(before)


def _rounds(low: Expressions, source: ir.Expr) -> bool:
    """Whether the loop is sure to run at least once."""
    if isinstance(source, ir.Display):
        return any(not isinstance(item, ir.Starred) for item in source.items)
    if isinstance(source, ir.Call) and canonical(source.func) == "builtins.range":
        bounds = [low.whole(arg.value) for arg in source.args]
        known = [bound for bound in bounds if bound is not None]
        readable = len(known) == len(bounds) and 0 < len(known) <= 3 and 0 not in known[2:]
        return readable and len(range(*known)) > 0
    return False
