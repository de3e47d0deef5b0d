"""Which threads a plain kernel lets work: the guards of kernels that give each thread one element.

A guard is `if i < bound:` or `if i >= bound: return` at the top of the body, where `i` is the position of the thread
along one axis of the grid, never changed, and something is subscripted with `i` itself behind the guard. It says what
the kernel was written for: an element for each `i` below `bound`. What strides, loops or computes its position in
another way has no guards.

Worked example: of

    def scale(x, by):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= by

the one guard is axis 0 with the bound `x.size`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class Guard:
    """Threads at `bound` or beyond along `axis` do nothing; `test` is where the kernel says so."""

    axis: int
    bound: ir.Expr
    test: ir.Expr


def guards_of(function: ir.Function) -> tuple[Guard, ...]:
    """The guards of `function`, none if it may reach elements in another way."""
    if any(isinstance(node, ir.While) for node in ir.walk(*function.body)):
        return ()
    bound = Counter(_bound_names(function))
    positions: dict[str, int] = {}
    found: list[Guard] = []
    for at, statement in enumerate(function.body):
        match statement:
            case ir.Assign(targets=(target,), value=value) if value is not None:
                positions.update({name: axis for name, axis in _positions(target, value) if bound[name] == 1})
            case ir.If(test=test, then=then, other=()):
                for guard, name in _guards(test, positions, True):
                    if _subscripted(then, name):
                        found.append(guard)
                if len(then) == 1 and isinstance(then[0], ir.Return):
                    rest = function.body[at + 1 :]
                    found.extend(guard for guard, name in _guards(test, positions, False) if _subscripted(rest, name))
            case _:
                pass
    return tuple(found)


def _bound_names(function: ir.Function) -> Iterator[str]:
    for param in function.params:
        yield param.name
    for node in ir.walk(*function.body):
        match node:
            case ir.Assign(targets=targets):
                for target in targets:
                    yield from _names(target)
            case ir.Augment(target=target) | ir.For(target=target) | ir.Walrus(target=target):
                yield from _names(target)
            case _:
                pass


def _names(target: ir.Expr) -> Iterator[str]:
    match target:
        case ir.Name(id=name):
            yield name
        case ir.Display(items=items):
            for item in items:
                yield from _names(item)
        case _:
            pass


def _positions(target: ir.Expr, value: ir.Expr) -> Iterator[tuple[str, int]]:
    """The names that `target = value` makes positions in the grid, each with its axis."""
    if isinstance(value, ir.Call) and canonical(value.func) == "numba.cuda.grid":
        if isinstance(target, ir.Display):
            for axis, item in enumerate(target.items):
                if isinstance(item, ir.Name):
                    yield item.id, axis
        elif isinstance(target, ir.Name):
            yield target.id, 0
    elif isinstance(target, ir.Name) and (computed := _computed(value)) is not None:
        yield target.id, computed
    elif isinstance(target, ir.Display) and isinstance(value, ir.Display) and len(target.items) == len(value.items):
        for item, part in zip(target.items, value.items, strict=True):
            yield from _positions(item, part)


def _computed(value: ir.Expr) -> int | None:
    """The axis of `threadIdx.x + blockIdx.x * blockDim.x`, in any order."""
    if not isinstance(value, ir.Operation) or value.op != "+" or len(value.operands) != 2:
        return None
    for thread, block in (value.operands, value.operands[::-1]):
        if isinstance(block, ir.Operation) and block.op == "*":
            names = sorted(canonical(operand) or "" for operand in block.operands)
            for at, letter in enumerate(_AXES):
                wanted = [f"numba.cuda.blockDim.{letter}", f"numba.cuda.blockIdx.{letter}"]
                if canonical(thread) == f"numba.cuda.threadIdx.{letter}" and names == wanted:
                    return at
    return None


def _guards(test: ir.Expr, positions: dict[str, int], holds: bool) -> Iterator[tuple[Guard, str]]:
    """The guards that hold where `test` does, or where it does not."""
    if isinstance(test, ir.Logic) and test.op == ("and" if holds else "or"):
        for operand in test.operands:
            yield from _guards(operand, positions, holds)
        return
    below, above = ("<", ">") if holds else (">=", "<=")
    match test:
        case ir.Operation(op=op, operands=(ir.Name(id=name), bound)) if op == below and name in positions:
            yield Guard(positions[name], bound, test), name
        case ir.Operation(op=op, operands=(bound, ir.Name(id=name))) if op == above and name in positions:
            yield Guard(positions[name], bound, test), name
        case _:
            pass


def _subscripted(statements: tuple[ir.Stmt, ...], name: str) -> bool:
    """Whether the elements touched are those at `name`: all that are stored, if any are, and some that are read."""
    nodes = list(ir.walk(*statements))
    if any(isinstance(node, ir.For) and _mentions(node.source, name) for node in nodes):
        return False
    stores = [target for node in nodes for target in _targets(node) if isinstance(target, ir.Sub)]
    if stores:
        return all(_at(store, name) for store in stores)
    return any(isinstance(node, ir.Sub) and _at(node, name) for node in nodes)


def _targets(node: ir.HostNode) -> tuple[ir.Expr, ...]:
    match node:
        case ir.Assign(targets=targets):
            return targets
        case ir.Augment(target=target):
            return (target,)
        case _:
            return ()


def _at(node: ir.Sub, name: str) -> bool:
    parts = node.index.items if isinstance(node.index, ir.Display) else (node.index,)
    return any(isinstance(part, ir.Name) and part.id == name for part in parts)


def _mentions(expr: ir.Expr, name: str) -> bool:
    return any(isinstance(node, ir.Name) and node.id == name for node in ir.walk(expr))
