"""Device functions: a call is replaced by the body of what it calls.

Parameters and locals of the function get fresh names (`scale.x`, `scale_2.x` for the second call). Arguments that are
compile-time values (a `Dim`, a dtype, a constant, another function) are put in place of the parameter, so that a helper
may take an extent or a flag. A function passed to `reduce` or `scan` becomes a `Function` node.

Errors of rustc's kind keep their place: a helper of the same file reports inside the helper, one of another file at the
call (see `tile_reader`).
"""

from __future__ import annotations

import libcst as cst

from tilecheck.frontend.bindings import bound_names, parameters
from tilecheck.frontend.names import Function, path_of
from tilecheck.frontend.tile_expressions import expression
from tilecheck.frontend.tile_reader import Frame, Reader
from tilecheck.frontend.tile_statements import body
from tilecheck.ir.kernel import (
    Assign,
    Const,
    DimRef,
    DTypeRef,
    Expr,
    Inline,
    Name,
    Return,
    Stmt,
    walk,
)
from tilecheck.ir.kernel import Function as FunctionNode

_DEEPEST = 32


def inline(r: Reader, function: Function, call: cst.Call) -> Expr:
    """The value of a call of `function`; its statements are written to the open block. Raises `Unsupported`."""
    node, name = function.node, function.node.name.value
    _check_callable(r, function, call)
    given = _bind(r, function, call)
    caller, span = r.frame, r.span(call)
    foreign = function.source.path != caller.source.path
    at = caller.call or (span if foreign else None)
    assigned = bound_names(node.body)
    local = assigned | {p.name.value for p in parameters(node)}
    frame = Frame(function.source, function.names, local, r.prefix_for(name), {}, at, name)
    with r.block() as out:
        for param, value in given.items():
            if param not in assigned and (isinstance(value, Function) or _constant(value)):
                frame.bound[param] = value
            elif isinstance(value, Function):
                raise r.refuse(f"`{name}` assigns to `{param}`, which is a function here", call, "use another name")
            else:
                cell = frame.prefix + param
                r.kinds[cell] = r.kind(value)
                r.emit(Assign(cell, value, span=span))
        r.frame = frame
        r.stack.append(node)
        try:
            body(r, node.body)
        finally:
            r.frame = caller
            r.stack.pop()
    returns = [n for n in walk(*out) if isinstance(n, Return)]
    gives = any(n.value is not None for n in _own_returns(tuple(out)))
    result = f"{frame.prefix}result" if gives else None
    kinds = {r.kind(n.value) for n in returns if n.value is not None}
    r.emit(Inline(name, tuple(out), result, foreign, span=span))
    if result is None:
        return Const(None, span=span)
    r.kinds[result] = kinds.pop() if len(kinds) == 1 else "value"
    return Name(result, span=span)


def _own_returns(body: tuple[Stmt, ...]) -> list[Return]:
    """The returns of a body that are not those of helpers inlined in it."""
    found: list[Return] = []
    stack: list[Stmt] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, Return):
            found.append(node)
        elif not isinstance(node, Inline):
            for block in ("then", "other", "body"):
                stack.extend(getattr(node, block, ()))
    return found


def _constant(value: Expr) -> bool:
    return isinstance(value, DimRef | DTypeRef | FunctionNode | Const)


def _check_callable(r: Reader, function: Function, call: cst.CSTNode) -> None:
    node, name = function.node, function.node.name.value
    for decorator in node.decorators:
        target = decorator.decorator
        path = path_of(target.func if isinstance(target, cst.Call) else target, function.names)
        if path in ("tilecheck.kernel", "tilecheck.simt"):
            raise r.refuse(
                f"the kernel `{name}` is called in a kernel",
                call,
                f"move what both need to a function without decorator and call that, or launch `{name}` from the host",
                "usage",
            )
        raise r.refuse(
            f"`{name}` has a decorator, so a call of it is not its body", call, "call a plain function from kernels"
        )
    if node.asynchronous is not None:
        raise r.refuse(f"`{name}` is `async`", call, "device functions are plain functions")
    if any(node is open_one for open_one in r.stack):
        raise r.refuse(f"`{name}` calls itself", call, "kernels have no recursion: write a loop")
    if len(r.stack) >= _DEEPEST:
        raise r.refuse(
            f"helpers are nested more than {_DEEPEST} deep at `{name}`", call, "call fewer helpers from helpers"
        )


def _bind(r: Reader, function: Function, call: cst.Call) -> dict[str, Expr | Function]:
    """The arguments of a call by parameter name. Raises `Unsupported`."""
    params, name = function.node.params, function.node.name.value
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
        raise r.refuse(f"`{name}` takes `*args` or `**kwargs`", call, "give device functions named parameters")
    positional = [p.name.value for p in (*params.posonly_params, *params.params)]
    named = {p.name.value for p in (*params.params, *params.kwonly_params)}
    given: dict[str, Expr | Function] = {}
    at = 0
    for argument in call.args:
        if argument.star:
            raise r.refuse(f"`{argument.star}` in a call", call, "write the arguments out")
        if argument.keyword is not None:
            param = argument.keyword.value
            if param not in named:
                raise r.refuse(f"`{name}` has no parameter `{param}`", argument, None, "usage")
        elif at < len(positional):
            param, at = positional[at], at + 1
        else:
            raise r.refuse(f"`{name}` takes {len(positional)} arguments, more are given", call, None, "usage")
        if param in given:
            raise r.refuse(f"`{name}` gets `{param}` twice", argument, None, "usage")
        before = len(r.out)
        value = expression(r, argument.value)
        if len(r.out) > before:
            late = r.out[before:]
            del r.out[before:]
            given = {k: v if isinstance(v, Function) else r.spill(v) for k, v in given.items()}
            r.out.extend(late)
        given[param] = value
    for parameter in (*params.posonly_params, *params.params, *params.kwonly_params):
        key = parameter.name.value
        if key in given:
            continue
        if parameter.default is None:
            raise r.refuse(f"`{name}` needs `{key}`", call, None, "usage")
        given[key] = _default(r, function, parameter.default, call)
    return given


def _default(r: Reader, function: Function, default: cst.BaseExpression, call: cst.Call) -> Expr:
    """The value of a default, read where the function stands."""
    caller, at = r.frame, r.span(call)
    call_at = caller.call or (at if function.source.path != caller.source.path else None)
    r.frame = Frame(function.source, function.names, frozenset(), caller.prefix, {}, call_at, function.node.name.value)
    try:
        value = expression(r, default)
    finally:
        r.frame = caller
    if not _constant(value):
        raise r.refuse(f"a default of `{function.node.name.value}` is no constant", call, "pass the value")
    return value


def lift(r: Reader, function: Function | cst.Lambda, at: cst.CSTNode) -> FunctionNode:
    """A device function as a value: assignments and one result. Raises `Unsupported`."""
    caller, span = r.frame, r.span(at)
    if isinstance(function, cst.Lambda):
        name, params, source, names = "lambda", function.params, caller.source, caller.names
        captured = (caller.locals | caller.captured) - {p.name.value for p in params.params}
        assigned: frozenset[str] = frozenset()
    else:
        _check_callable(r, function, at)
        name, params = function.node.name.value, function.node.params
        source, names, captured = function.source, function.names, frozenset[str]()
        assigned = bound_names(function.node.body)
    plain = [p.name.value for p in (*params.posonly_params, *params.params)]
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params:
        raise r.refuse(f"`{name}` is passed as a value and takes more than plain parameters", at, "name its parameters")
    foreign = caller.call or (span if source.path != caller.source.path else None)
    frame = Frame(source, names, assigned | set(plain), r.prefix_for(name), {}, foreign, name, captured)
    r.frame = frame
    try:
        with r.block() as out:
            if isinstance(function, cst.Lambda):
                r.emit(Return(expression(r, function.body), span=span))
            else:
                r.stack.append(function.node)
                try:
                    body(r, function.node.body)
                finally:
                    r.stack.pop()
    finally:
        r.frame = caller
    result = frame.prefix + "result"
    return FunctionNode(name, tuple(frame.prefix + p for p in plain), tuple(out), result, span=span)
