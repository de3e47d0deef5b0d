"""Where host code may be entered: the functions of a file, and what is known of the arguments that a call of one gives.

Worked example: a test with `@pytest.mark.parametrize("n", [8, 64])` is entered twice, with `n` 8 and 64.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tilecheck.frontend.fold import fold
from tilecheck.frontend.scopes import FunctionValue, Ref, Scope, dotted, parameters
from tilecheck.frontend.syntax import parts

_MAX_CALLS = 32


def parametrized(function: FunctionValue) -> list[dict[str, object]]:
    """The arguments that `pytest.mark.parametrize` passes, one dict per call; one empty dict without it."""
    calls: list[dict[str, object]] = [{}]
    for decorator in function.node.decorators:
        call = decorator.decorator
        if not isinstance(call, cst.Call) or len(call.args) < 2:
            continue
        if fold(call.func, function.scope.lookup) != Ref("pytest.mark.parametrize"):
            continue
        names, values = (fold(argument.value, function.scope.lookup) for argument in call.args[:2])
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        if not isinstance(listed, list | tuple) or not isinstance(values, list | tuple):
            continue
        rows = [value if len(listed) > 1 else (value,) for value in values]
        if len(calls) * len(rows) > _MAX_CALLS or not all(isinstance(row, tuple | list) for row in rows):
            continue
        calls = [{**given, **dict(zip(listed, row, strict=False))} for given in calls for row in rows]
    return calls


def is_number(param: cst.Param) -> bool:
    """Whether `param` is annotated as something that holds no memory."""
    said = None if param.annotation is None else param.annotation.annotation
    return isinstance(said, cst.Name) and said.value in ("int", "float", "bool", "str")


def required(node: cst.FunctionDef) -> list[str]:
    """The parameters, `self` aside, that a call must give."""
    return [p.name.value for p in parameters(node) if p.default is None and p.name.value not in ("self", "cls")]


def defaults(node: cst.FunctionDef) -> list[str]:
    """The parameters that a call may leave out."""
    return [p.name.value for p in parameters(node) if p.default is not None]


def passed_on(module: cst.Module) -> frozenset[str]:
    """The names that stand in `module` for something that is not called there and then: callbacks, items, aliases."""
    return frozenset(_mentions(module))


def _mentions(node: cst.CSTNode) -> Iterator[str]:
    for child in parts(node):
        if isinstance(node, cst.Call) and child is node.func:
            yield from _mentions(child)
        elif isinstance(child, cst.Name) and not isinstance(node, cst.Attribute | cst.FunctionDef | cst.Param):
            yield child.value
        elif isinstance(child, cst.Attribute):
            yield child.attr.value
            yield from _mentions(child)
        else:
            yield from _mentions(child)


def is_wrapped(node: cst.FunctionDef) -> bool:
    """Whether a decorator that is not known to leave the arguments alone stands above `node`."""
    names = [
        dotted(at.decorator.func if isinstance(at.decorator, cst.Call) else at.decorator) for at in node.decorators
    ]
    return any(name is None or not name.startswith(_TRANSPARENT) for name in names)


_TRANSPARENT = (
    "pytest",
    "staticmethod",
    "classmethod",
    "property",
    "unittest",
    "functools",
    "typing",
    "override",
    "torch",
    "contextlib",
    "cached_property",
    "lru_cache",
    "cache",
    "skip",
)


def functions(scope: Scope) -> Iterator[tuple[Scope, cst.FunctionDef]]:
    """The functions and methods of a module, not those nested in functions."""
    body = scope.node.body if isinstance(scope.node, cst.Module) else scope.node.body.body
    for node in _definitions(body):
        if isinstance(node, cst.FunctionDef):
            yield scope, node
        else:
            yield from functions(scope.child(node))


def _definitions(body: object) -> Iterator[cst.FunctionDef | cst.ClassDef]:
    for node in body:  # type: ignore[attr-defined]
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            yield node
        elif isinstance(node, cst.If | cst.Try):
            yield from _definitions(node.body.body)


def is_main_guard(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
