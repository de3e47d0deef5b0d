"""Assignment targets and iteration, shared by statements, comprehensions and `:=`.

A name is bound to the object itself, so two names can be one place. An attribute or a constant subscript is a slot of
its object; a subscript that cannot be read goes into the object's bag. Iterating over a container lets go of what it
holds: which round sees which element is left to the run time. A loop that does the same to every element is the
exception: over a few known elements its rounds are written out, and elsewhere what it moved is moved for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from tilecheck.borrow.containers import unpacked
from tilecheck.borrow.context import Operand
from tilecheck.borrow.decisions import count_rounds, rebound
from tilecheck.borrow.permissions import refuse_write
from tilecheck.borrow.spell import spell
from tilecheck.borrow.subscripts import subscript
from tilecheck.borrow.values import NOTHING, Array, Items, Many, Nothing, Table, Value, grown, item_of, join
from tilecheck.borrow.vocabulary import canonical
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind, Site, Touch, Var

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def bind(low: Expressions, target: ir.Expr, operand: Operand, node: ir.Expr) -> None:
    """`target = operand`, where `node` is the expression that `operand` was lowered from."""
    match target:
        case ir.Name(id=name):
            low.emit(instructions.Bind(low.renamed.get(name, name), low.object_of(operand, target), span=target.span))
            low.set(target, operand.value)
            low.set_at[name] = max(low.loops, low.set_at.get(name, 0))
            rebound(low, name, node, target.span)
        case ir.Attr(base=base, name=name):
            holder = low.expr(base)
            if holder.var is not None:
                var = low.object_of(operand, target)
                low.emit(instructions.Put(holder.var, f".{name}", var, span=target.span))
            low.set(target, operand.value)
        case ir.Sub(base=ir.Attr(base=owner, name="__dict__"), index=ir.Const(value=str() as name)):
            bind(low, ir.Attr(owner, name, span=target.span), operand, node)
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
        part = subscript(low, target, holder)
        low.look(part, target, Touch.WRITE)
        refuse_write(low, target.base, holder.value, "write", target.span)
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
    if isinstance(target.base, ir.Attr) and target.base.name == "__dict__":
        low.escape(holder, target.span)
    if operand.var is not None:
        field = f"[{target.index.value!r}]" if isinstance(target.index, ir.Const) and known else None
        low.emit(instructions.Put(holder.var, field, operand.var, span=target.span))
    if isinstance(holder.value, Table) or (isinstance(holder.value, Items | Many) and not known):
        keyed = isinstance(holder.value, Table) or (isinstance(holder.value, Many) and holder.value.keyed)
        low.set(target.base, NOTHING if known else grown(holder.value, operand.value, keyed))
    low.set(target, operand.value)


def _unpack(low: Expressions, items: tuple[ir.Expr, ...], operand: Operand, node: ir.Expr) -> None:
    values = operand.value.values if isinstance(operand.value, Items) else ()
    starred = any(isinstance(item, ir.Starred) for item in items)
    spread = unpacked(low, items, operand, node) if starred else None
    if spread is not None:
        for item, part in zip(items, spread, strict=True):
            bind(low, item.value if isinstance(item, ir.Starred) else item, part, node)
        return
    if starred or (values and len(values) != len(items)):
        low.escape(operand, node.span)
        for item in items:
            bind(low, item, Operand(None), node)
        return
    for at, item in enumerate(items):
        value = values[at] if values else item_of(operand.value, at) if isinstance(operand.value, Many) else NOTHING
        if operand.var is None:
            bind(low, item, Operand(None, value), node)
            continue
        var = low.temp()
        site = Site(Kind.OTHER, spell(item), item.span)
        low.emit(instructions.Get(var, operand.var, f"[{at}]", site, span=item.span))
        bind(low, item, Operand(var, value), node)


MOST_WRITTEN_OUT = 8
"""How many rounds of a loop over known elements are written out."""


def is_even(source: ir.Expr, body: tuple[ir.Stmt | ir.Expr, ...]) -> bool:
    """Whether a loop does the same to every element: its body has no branches, and does not touch the container."""
    container = source.id if isinstance(source, ir.Name) else None
    return all(isinstance(node, (*_STRAIGHT, ir.Expr)) for node in body) and not any(
        isinstance(node, _BRANCHING) or (isinstance(node, ir.Name) and node.id == container) for node in ir.walk(*body)
    )


def indexed_by(target: ir.Expr, source: ir.Expr, body: tuple[ir.Stmt, ...]) -> list[ir.Name]:
    """The variables that a loop over numbers subscripts by its own: such a loop goes through them as one over them does."""
    if not isinstance(target, ir.Name) or not isinstance(source, ir.Call) or canonical(source.func) != "builtins.range":
        return []
    found: dict[str, ir.Name] = {}
    for node in ir.walk(*body):
        if not isinstance(node, ir.Sub) or not isinstance(node.base, ir.Name) or node.base.full is not None:
            continue
        if any(isinstance(part, ir.Name) and part.id == target.id for part in ir.walk(node.index)):
            found.setdefault(node.base.id, node.base)
    return list(found.values())


_STRAIGHT = (ir.Do, ir.Assign, ir.Augment, ir.Delete)
_BRANCHING = (ir.Choice, ir.Logic, ir.Comprehension, ir.Lambda, ir.Await, ir.Yield)


def iterate(
    low: Expressions,
    target: ir.Expr,
    source: ir.Expr,
    body: Callable[[], None],
    orelse: Callable[[], None] | None,
    span: Span,
    even: bool = False,
) -> None:
    """`for target in source: body` with its `else`; `even` as `is_even` says."""
    rounds = _rounds(low, source)
    operand = low.expr(source)
    low.look(operand, source, Touch.READ)
    if even and isinstance(operand.value, Items):
        values = operand.value.values
        if len(values) <= MOST_WRITTEN_OUT:
            low.loops += 1
            for at, value in enumerate(values):
                of = operand.var
                each_one = Operand(None, value) if of is None else _element(low, target, of, f"[{at}]", value)
                bind(low, target, each_one, source)
                body()
            low.loops -= 1
            if orelse is not None:
                orelse()
            return
    first = ""
    if isinstance(operand.value, Many) and not operand.value.keyed and operand.var is not None:
        # Of the arrays in it the first round gets one that stands for all, the others nobody knows which.
        element = _element(low, target, operand.var, instructions.ANY, operand.value.of)
        first = element.var or ""
    known = operand.value.values if isinstance(operand.value, Items) and operand.var is None else ()
    every = reduce(join, known) if known else NOTHING
    container = operand.var if even and isinstance(operand.value, Nothing | Items) else None
    if container is not None:
        # That all elements were moved before is still true in the loop.
        former = _element(low, target, container, instructions.ANY, NOTHING)
        low.escape(operand, source.span)
        low.emit(instructions.Put(container, instructions.ANY, low.object_of(former, target), span=source.span))
    elif not first:
        low.escape(operand, source.span)
    # What the last round made of its element; nothing is known of it if there was no round.
    each = low.make(Kind.OTHER, spell(target), target.span) if container is not None else ""

    begin = count_rounds(low, target, source)

    def once() -> None:
        if first and isinstance(operand.value, Many):
            bind(low, target, Operand(first, operand.value.of), source)
            site = Site(Kind.OTHER, spell(target), target.span)
            low.emit(instructions.Make(first, site, span=target.span))
            body()
            return
        if container is None or not isinstance(target, ir.Name):
            bind(low, target, Operand(None, every), source)
            if begin is not None:
                begin()
            body()
            return
        bind(low, target, _element(low, target, container, instructions.ANY, NOTHING), source)
        body()
        low.emit(instructions.Bind(each, low.renamed.get(target.id, target.id), span=target.span))

    def loop() -> None:
        low.loops += 1
        low.settle(once)
        inside = low.block_of(once)
        low.loops -= 1
        tail = low.block_of(orelse) if orelse is not None else ()
        low.emit(flow.Loop((), inside, tail, once=rounds, span=span))

    before = dict(low.env)
    loop()
    low.assume(before)
    if container is not None and isinstance(target, ir.Name):
        low.emit(instructions.Put(container, instructions.ANY, each, span=span))


def _element(low: Expressions, target: ir.Expr, container: Var, field: str, value: Value) -> Operand:
    var = low.temp()
    low.emit(instructions.Get(var, container, field, Site(Kind.OTHER, spell(target), target.span), span=target.span))
    return Operand(var, value)


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
