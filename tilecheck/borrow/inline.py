"""Functions without a contract of their own, read where they are called: lambdas, and small helpers whose signature says
nothing about tensors.

A helper that is annotated is its signature. One that is not has none, and is read like a plain kernel: its body says
what it borrows, returns and leaves in flight. That is done for bodies without an early way out and without code that
runs at another time; any other helper stays code that is not read.

Invariant: reading a body at a call adds no finding that the body has by itself, and none that needs more than one call
to show. What breaks is told at the call, by the names that the caller uses.

Worked example: with

    def begin(z, x):
        return copy(z.partition(8), x).run()

the call `r = begin(a, b)` starts an op on `a` and `b` that `r` is the running form of, and reading `a` before `r.wait()`
is *use-in-flight* at the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand, Reading
from tilecheck.borrow.decisions import rebound
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import NOTHING, Closure, Nothing
from tilecheck.ir import host as ir

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

MOST_NESTED = 4
"""How deep calls are read in calls."""

MOST_READ = 100
"""How many calls of one function are read."""


def read_call(
    low: Expressions,
    node: ir.Call,
    closure: Closure,
    name: str | None,
    first: Operand | None = None,
    take: Callable[[str, Operand, ir.Expr], Operand] | None = None,
) -> Operand | None:
    """The call `node` of a function as its body; `first` is what a method is called on, `name` what the user calls the
    result, `take` what becomes of an argument on its way to a parameter. None if that cannot be read.
    """
    if first is None and take is None and isinstance(closure.node, ir.Function):
        closure = replace(closure, node=low.program.shortened(closure.node))
    params = closure.node.params[1:] if first is not None else closure.node.params
    args = _by_param(params, node)
    if args is None or not may_be_read(low, closure.node):
        return None
    operands = {param: (low.expr(arg), arg) for param, arg in args.items()}
    if take is not None:
        operands = {param: (take(param, *given), given[1]) for param, given in operands.items()}
    if first is not None:
        operands[closure.node.params[0].name] = (first, node.func)
    return read_body(low, node, closure, operands, name)


def may_be_read(low: Expressions, called: ir.Lambda | ir.Function) -> bool:
    """Whether the body can be read here."""
    if called in low.inlined or len(low.inlined) >= MOST_NESTED or len(low.called) > MOST_READ:
        return False
    return isinstance(called, ir.Lambda) or _is_closed(low, called)


def read_body(
    low: Expressions,
    node: ir.Expr,
    closure: Closure,
    given: dict[str, tuple[Operand, ir.Expr]],
    name: str | None,
    apart: bool = False,
) -> Operand:
    """The body of a function that `node` calls, with what each parameter is `given`; `apart` says that a lambda is also read
    for itself.
    """
    called = closure.node
    own: dict[str, str] = {}
    for param, (operand, arg) in given.items():
        own[param] = low.object_of(operand, arg)
        low.env[own[param]] = operand.value
    if isinstance(called, ir.Lambda):
        told = low.called_as or ((spell(node), spell(node)) if apart else None)
        with low.reading(Reading(called, low.at or node.span, {**closure.renamed, **own}, told, node.span)):
            return low.expr(called.body)
    for local in low.program.local(called) - own.keys():
        own[local] = low.temp()
        low.env[own[local]] = NOTHING
    with _told_at(low, node, called, own, name):
        for param, (_, arg) in given.items():
            rebound(low, param, arg, node.span)
        *body, last = called.body
        if not isinstance(last, ir.Return):
            low.statements(called.body)
            return Operand(None)
        low.statements(tuple(body))
        result = low.expr(last.value, name) if last.value is not None else Operand(None)
    if isinstance(result.value, Nothing) and result.value.expr is not None:
        computed = _seen_from(result.value.expr, {param: arg for param, (_, arg) in given.items()})
        return replace(result, value=Nothing(computed or node))
    return result


def _seen_from(expr: ir.Expr, given: dict[str, ir.Expr]) -> ir.Expr | None:
    """`expr` of a function's body in terms of what its parameters are given, None if it is about other variables."""
    match expr:
        case ir.Const():
            return expr
        case ir.Name(id=name, full=None):
            return given.get(name)
        case ir.Name() | ir.Attr(full=str()):
            return expr
        case ir.Operation(operands=operands):
            parts = [part for operand in operands if (part := _seen_from(operand, given)) is not None]
            return replace(expr, operands=tuple(parts)) if len(parts) == len(operands) else None
        case ir.Call(func=func, args=args):
            values = [value for arg in args if (value := _seen_from(arg.value, given)) is not None]
            if len(values) != len(args) or not isinstance(func, ir.Name | ir.Attr) or func.full is None:
                return None
            changed = tuple(replace(arg, value=value) for arg, value in zip(args, values, strict=True))
            return replace(expr, args=changed)
        case _:
            return None


@contextmanager
def _told_at(
    low: Expressions, node: ir.Expr, called: ir.Function, own: dict[str, str], name: str | None
) -> Iterator[None]:
    """What the body does is told at the call; the faults that it has by itself are told where it stands."""
    mark, opened, shown = len(low.faults), len(low.opened), len(low.shown)
    what = low.called_as or (name or spell(node), spell(node))
    with low.reading(Reading(called, low.at or node.span, own, what, node.span)):
        yield
    del low.faults[mark:], low.opened[opened:], low.shown[shown:]


def _by_param(params: tuple[ir.HostParam, ...], node: ir.Call) -> dict[str, ir.Expr] | None:
    """The argument of each parameter, a constant default where there is none; None if they do not fit."""
    if any(arg.star for arg in node.args):
        return None
    found: dict[str, ir.Expr] = {}
    places = [param.name for param in params if param.kind == "plain"]
    for at, arg in enumerate(node.args):
        key = arg.name if arg.name is not None else places[at] if at < len(places) else None
        if key is None or key in found:
            return None
        found[key] = arg.value
    names = {param.name for param in params}
    for param in params:
        if param.name not in found:
            if not isinstance(param.default, ir.Const):
                return None
            found[param.name] = param.default
    return found if found.keys() == names else None


def _is_closed(low: Expressions, called: ir.Function) -> bool:
    """Whether the variables of `called` mean the same at the call: its own, constants of the file, and for a function
    that is defined in the caller, those of the caller.
    """
    if called.full is None:
        return True
    own_file = low.program.definitions.get(called.full) is called
    return all(
        own_file and name.id not in low.env and not isinstance(low.known(name), Nothing)
        for name in low.program.free(called)
    )
