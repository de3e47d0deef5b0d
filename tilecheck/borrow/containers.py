"""Containers whose elements are known: displays, `*` and `**`, `[t] * 2`, `zip`, `enumerate`, the views of a dict.

A container that is written out is followed element by element, however it is taken apart again: an element taken from
it is the object that was put in. What cannot be counted lets go of what it holds.

Invariant: a new container holds the objects of the old one, never copies.

Worked example: after `pair = [t] * 2`, `copy(pair[0].partition(8), pair[1])` gets `t` twice; so it does after
`a, b = zip([t], [t])`, and with `copy(*args)` for `args = (t.partition(8), t)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import NOTHING, Items, Number, Table, Value, grown
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Kind, Site

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

MOST_ELEMENTS = 32
"""Longer containers are not followed."""


def elements(low: Expressions, operand: Operand, node: ir.Expr) -> list[Operand] | None:
    """What a container of known length holds, in order; None if that is not known."""
    if not isinstance(operand.value, Items):
        return None
    found: list[Operand] = []
    for at, value in enumerate(operand.value.values):
        found.append(_taken(low, operand, f"[{at}]", value, node))
    return found


def entries(low: Expressions, operand: Operand, node: ir.Expr) -> list[tuple[object, Operand]] | None:
    """The keys and values of a dict that is known."""
    if not isinstance(operand.value, Table):
        return None
    pairs = zip(operand.value.keys, operand.value.values, strict=True)
    return [(key, _taken(low, operand, f"[{key!r}]", value, node)) for key, value in pairs]


def _taken(low: Expressions, operand: Operand, field: str, value: Value, node: ir.Expr) -> Operand:
    if operand.var is None or isinstance(value, Number):
        return Operand(None, value)
    var = low.temp()
    site = Site(Kind.OTHER, f"{spell(node)}{field}", node.span)
    low.emit(instructions.Get(var, operand.var, field, site, span=node.span))
    return Operand(var, value)


def sequence(low: Expressions, node: ir.Expr, items: list[Operand]) -> Operand:
    """A new list or tuple of `items`."""
    fixed = isinstance(node, ir.Display) and node.kind == "tuple"
    values = Items(tuple(item.value for item in items), loose=not fixed)
    if all(item.var is None for item in items):
        return Operand(None, values)
    var = low.make(Kind.CONTAINER, spell(node), node.span)
    _put(low, node, var, [(f"[{at}]", item) for at, item in enumerate(items)])
    return Operand(var, values)


def display(low: Expressions, node: ir.Display) -> Operand:
    """`(a, *b)`, `[a, b]`, `{a}` and `{"k": a, **d}`."""
    if node.kind == "dict":
        return _dict(low, node)
    items: list[Operand] = []
    counted = node.kind in ("tuple", "list")
    loose: list[Operand] = []
    for item in node.items:
        operand = low.expr(item)
        if not isinstance(item, ir.Starred):
            (items if counted else loose).append(operand)
            continue
        found = elements(low, operand, item.value)
        if found is None:
            counted = False
            low.escape(operand, item.span)
        else:
            (items if counted else loose).extend(found)
    if counted:
        return sequence(low, node, items)
    if all(part.var is None for part in (*items, *loose)):
        return Operand(None)
    var = low.make(Kind.CONTAINER, spell(node), node.span)
    _put(low, node, var, [(f"[{at}]", part) for at, part in enumerate(items)])
    _put(low, node, var, [(None, part) for part in loose])
    return Operand(var)


def _put(low: Expressions, node: ir.Expr, var: str, parts: list[tuple[str | None, Operand]]) -> None:
    for field, part in parts:
        if part.var is not None:
            low.emit(instructions.Put(var, field, part.var, span=node.span))


def _dict(low: Expressions, node: ir.Display) -> Operand:
    found: dict[object, Operand] = {}
    loose: list[Operand] = []
    known = True
    for at, item in enumerate(node.items):
        operand = low.expr(item)
        key = node.keys[at] if at < len(node.keys) else None
        if key is None:
            given = entries(low, operand, item)
            known = known and given is not None
            if given is None:
                low.escape(operand, item.span)
            found.update(given or [])
            continue
        low.read(key)
        if isinstance(key, ir.Const) and key.known:
            found[key.value] = operand
        else:
            known = False
            loose.append(operand)
    value: Value = Table(tuple(found), tuple(part.value for part in found.values())) if known else NOTHING
    if all(part.var is None for part in (*found.values(), *loose)):
        return Operand(None, value)
    var = low.make(Kind.CONTAINER, spell(node), node.span)
    _put(low, node, var, [(f"[{name!r}]", part) for name, part in found.items()])
    _put(low, node, var, [(None, part) for part in loose])
    return Operand(var, value)


def repeated(low: Expressions, node: ir.Operation) -> Operand | None:
    """`[t] * 2`: the same objects again; None if it is none."""
    if node.op != "*" or len(node.operands) != 2:
        return None
    left, right = node.operands
    listed, count = (left, right) if isinstance(left, ir.Display) else (right, left)
    times = low.whole(count)
    if not isinstance(listed, ir.Display) or listed.kind not in ("list", "tuple") or times is None:
        return None
    operand = low.expr(listed)
    found = elements(low, operand, listed)
    if found is None or not 0 <= times * len(found) <= MOST_ELEMENTS:
        low.escape(operand, node.span)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    return sequence(low, node, found * times)


def counted(low: Expressions, node: ir.Comprehension) -> Operand | None:
    """`[cuda.stream() for _ in range(2)]`: as many new objects as it says; None for any other comprehension."""
    if node.kind != "list" or len(node.clauses) != 1 or node.clauses[0].conditions:
        return None
    (clause,), (element,) = node.clauses, node.elements
    source = clause.source
    if not isinstance(element, ir.Call) or canonical(element.func) not in _MADE or not isinstance(source, ir.Call):
        return None
    bounds = source.args
    plain = canonical(source.func) == "builtins.range" and len(bounds) == 1 and not (bounds[0].star or bounds[0].name)
    times = low.whole(bounds[0].value) if plain else None
    if times is None or not 0 <= times <= MOST_ELEMENTS or not isinstance(clause.target, ir.Name):
        return None
    if any(isinstance(part, ir.Name) and part.id == clause.target.id for part in ir.walk(element)):
        return None
    return sequence(low, node, [low.expr(element) for _ in range(times)])


_MADE = frozenset(
    {"tilecheck.Stream", "numba.cuda.stream", "torch.cuda.Stream", "numba.cuda.event", "torch.cuda.Event"}
)


def rebuilt(low: Expressions, node: ir.Call, full: str) -> Operand | None:
    """`list`, `tuple`, `reversed`, `enumerate` and `zip` of known containers, `dict(z=z)`; None for any other call."""
    if full == "builtins.dict" and node.args and all(arg.name for arg in node.args):
        keys = tuple(ir.Const(arg.name, span=arg.span) for arg in node.args)
        return display(low, ir.Display("dict", tuple(arg.value for arg in node.args), keys, span=node.span))
    if full not in _REBUILT or any(arg.name or arg.star for arg in node.args) or not node.args:
        return None
    if not all(isinstance(low.known(arg.value), Items) or isinstance(arg.value, ir.Display) for arg in node.args):
        return None
    parts = [elements(low, low.expr(arg.value), arg.value) for arg in node.args]
    counted = [part for part in parts if part is not None]
    if len(counted) != len(parts) or any(len(part) > MOST_ELEMENTS for part in counted):
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if full == "builtins.zip":
        return sequence(low, node, [sequence(low, node, list(row)) for row in zip(*counted, strict=False)])
    (items,) = counted[:1]
    if full == "builtins.enumerate":
        pairs = [[Operand(None, Number(at)), item] for at, item in enumerate(items)]
        return sequence(low, node, [sequence(low, node, pair) for pair in pairs])
    return sequence(low, node, items[::-1] if full == "builtins.reversed" else items)


_REBUILT = frozenset(f"builtins.{name}" for name in ("list", "tuple", "reversed", "enumerate", "zip"))


def extend(low: Expressions, target: ir.Expr, holder: Operand, more: ir.Expr) -> None:
    """`holder += more`: what is in `more` is in the list as well, nobody asks where."""
    given = low.expr(more)
    found = elements(low, given, more)
    if found is None:
        low.escape(given, more.span)
        low.escape(holder, more.span)
        low.set(target, NOTHING)
        return
    if holder.var is not None:
        _put(low, more, holder.var, [(None, part) for part in found])
    low.set(target, grown(holder.value, tuple(part.value for part in found), keyed=False))


def dict_method(low: Expressions, node: ir.Call, method: str, receiver: Operand, base: ir.Expr) -> Operand | None:
    """`values()`, `items()` and `get(key)` of a dict that is known; None for any other method."""
    if method in ("values", "items") and not node.args:
        found = entries(low, receiver, base) or []
        if method == "values":
            return sequence(low, node, [item for _, item in found])
        pairs = [[Operand(None, Number(key) if isinstance(key, _PLAIN) else NOTHING), item] for key, item in found]
        return sequence(low, node, [sequence(low, node, pair) for pair in pairs])
    if method == "get" and len(node.args) == 1 and isinstance(key_node := node.args[0].value, ir.Const):
        taken = dict(entries(low, receiver, base) or [])
        return taken.get(key_node.value, Operand(None, Number(None)))
    return None


_PLAIN = (int, float, bool, str)


def unpacked(low: Expressions, items: tuple[ir.Expr, ...], operand: Operand, node: ir.Expr) -> list[Operand] | None:
    """What each of the targets `items`, one of them starred, gets of a known container; None if that is not known."""
    found = elements(low, operand, node)
    stars = [at for at, item in enumerate(items) if isinstance(item, ir.Starred)]
    if found is None or len(stars) != 1 or len(found) < len(items) - 1:
        return None
    at, after = stars[0], len(items) - stars[0] - 1
    middle = found[at : len(found) - after]
    return [*found[:at], sequence(low, node, middle), *found[len(found) - after :]]
