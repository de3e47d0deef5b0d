"""Helpers that give a tensor of their own making and leave nothing behind: at a call, only the line that makes it counts.

    def fill(n: int) -> Tensor[Owned, f32, Dyn]:
        x, z = tc.zeros(n), tc.empty(n)
        for _ in range(3):
            scale(z.partition(128), x).sync()
        return z

takes no tensor, waits for all that it starts and keeps nothing, so `z = fill(8)` is `z = tc.empty(8)` to the caller. The
rest of the body is checked where it stands. Invariant: where this is not certain the body is read whole, so a finding
can get lost only if reading it whole would not find it either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tilecheck.borrow.values import KernelValue, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

_MAKERS: Final = frozenset(f"tilecheck.{name}" for name in ("zeros", "ones", "empty", "full", "arange"))
_PLAIN: Final = frozenset({"builtins.bool", "builtins.int", "builtins.float", "builtins.str"})
# Attributes and methods that neither keep a tensor nor leave work under way.
_QUIET: Final = frozenset({"partition", "sync", "where", "with_hints", "shape", "size", "ndim", "dtype"})
_CALLED: Final = _MAKERS | {"builtins.range", "builtins.len", "builtins.min", "builtins.max", "builtins.int"}
_PARTS: Final = (
    *(ir.Const, ir.Name, ir.Attr, ir.Sub, ir.Arg, ir.Call, ir.Operation, ir.Logic, ir.Choice, ir.Display),
    *(ir.Do, ir.Assign, ir.Augment, ir.Return, ir.Assert, ir.Break, ir.Continue, ir.If, ir.While, ir.For, ir.HostParam),
)


def shortened(function: ir.Function, value: Callable[[str], Value | None]) -> ir.Function:
    """`function` with the making of its result as its only statement if it is a helper of that kind, itself otherwise.
    `value` is what stands behind a dotted name.
    """
    if function.is_async or function.decorators or not function.body or not all(map(_is_plain, function.params)):
        return function
    last = function.body[-1]
    if not isinstance(last, ir.Return) or not isinstance(last.value, ir.Name) or last.value.full is not None:
        return function
    maker = _maker(function, last.value.id)
    if maker is None or not all(_is_quiet(node, value) for node in ir.walk(*function.body)):
        return function
    return replace(function, body=(ir.Return(maker, span=last.span),))


def _is_plain(param: ir.HostParam) -> bool:
    annotation = param.annotation
    return param.kind in ("plain", "keyword") and isinstance(annotation, ir.Name) and annotation.full in _PLAIN


def _maker(function: ir.Function, name: str) -> ir.Call | None:
    """The call that makes what the variable `name` holds, if it is made once and from parameters alone."""
    found: list[ir.Expr | None] = []
    changed: set[str] = set()
    for node in ir.walk(*function.body):
        match node:
            case ir.Assign(targets=targets, value=value):
                for target in targets:
                    found += _given(target, value, name) if node in function.body else [None] * _binds(target, name)
                    changed |= {each.id for each in ir.walk(target) if isinstance(each, ir.Name)}
            case ir.Augment(target=target) | ir.For(target=target):
                found += [None] * _binds(target, name)
                changed |= {each.id for each in ir.walk(target) if isinstance(each, ir.Name)}
            case _:
                pass
    if len(found) != 1 or not isinstance(found[0], ir.Call) or canonical(found[0].func) not in _MAKERS:
        return None
    free = {each.id for each in ir.walk(found[0]) if isinstance(each, ir.Name) and each.full is None}
    return found[0] if free <= {param.name for param in function.params} - changed else None


def _given(target: ir.Expr, value: ir.Expr | None, name: str) -> list[ir.Expr | None]:
    """What an assignment gives the variable, an entry for each time; None for what is not seen."""
    match target, value:
        case ir.Name(id=id_), _:
            return [value] if id_ == name else []
        case ir.Display(items=into), ir.Display(items=given) if len(into) == len(given):
            return [one for part, item in zip(into, given, strict=True) for one in _given(part, item, name)]
        case _:
            return [None] * _binds(target, name)


def _binds(target: ir.Expr, name: str) -> int:
    return sum(isinstance(each, ir.Name) and each.id == name for each in ir.walk(target))


def _is_quiet(node: ir.HostNode, value: Callable[[str], Value | None]) -> bool:
    """Whether a part of a body neither keeps what it meets nor leaves work under way."""
    match node:
        case ir.Attr(full=None, name=name):
            return name in _QUIET
        case ir.Call(func=ir.Name(full=str() as full) | ir.Attr(full=str() as full)):
            return canonical(full) in _CALLED or isinstance(value(full), KernelValue)
        case ir.Call(func=func):
            return isinstance(func, ir.Attr)
        case ir.Name(full=None):
            return True
        case _:
            return isinstance(node, _PARTS)
