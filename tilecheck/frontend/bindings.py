"""What statements bind, read syntactically: imports, functions, classes, values. What the names mean is `names.py`'s.

import tilecheck as tc      ("tc", Import("tilecheck", None))
A, B = 1, f()               ("A", Value(1)), ("B", Value(f()))
N += 1                      ("N", Value(None)) twice: a name bound twice has no one meaning
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst


@dataclass(frozen=True, slots=True)
class Import:
    """A module, or an item of one."""

    module: str
    item: str | None  # None: the module itself


@dataclass(frozen=True, slots=True)
class Def:
    """A function."""

    node: cst.FunctionDef


@dataclass(frozen=True, slots=True)
class Class:
    """A class."""

    node: cst.ClassDef


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an assignment."""

    node: cst.BaseExpression | None  # None: bound by a loop, a `with`, an unpacking


Binding = Import | Def | Class | Value


def bindings(statements: Iterator[cst.CSTNode]) -> Iterator[tuple[str, Binding]]:
    """What each statement binds, in order; a name that is updated in place comes twice, `*module` is a star import."""
    for statement in statements:
        match statement:
            case cst.FunctionDef(name=cst.Name(value=name)):
                yield name, Def(statement)
            case cst.ClassDef(name=cst.Name(value=name)):
                yield name, Class(statement)
            case cst.Import() | cst.ImportFrom():
                yield from _imports(statement)
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _targets(target.target, value)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                yield from _targets(target, value)
            case cst.AugAssign(target=target):
                yield from ((name, Value(None)) for _ in range(2) for name, _ in _targets(target, None))
            case cst.For(target=target):
                yield from _targets(target, None)
            case cst.With(items=items):
                for item in items:
                    if item.asname is not None:
                        yield from _targets(item.asname.name, None)
            case _:
                pass


def _imports(statement: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, Binding]]:
    if isinstance(statement, cst.Import):
        for alias in statement.names:
            path = dotted(alias.name) or ""
            if alias.asname is None:
                yield path.partition(".")[0], Import(path.partition(".")[0], None)
            elif (name := _as_name(alias)) is not None:
                yield name, Import(path, None)
        return
    module = "." * len(statement.relative) + (dotted(statement.module) or "" if statement.module else "")
    if isinstance(statement.names, cst.ImportStar):
        yield f"*{module}", Import(module, None)
        return
    for alias in statement.names:
        item = dotted(alias.name) or ""
        yield _as_name(alias) or item, Import(module, item)


def _as_name(alias: cst.ImportAlias) -> str | None:
    name = alias.asname.name if alias.asname is not None else None
    return name.value if isinstance(name, cst.Name) else None


def _targets(target: cst.BaseExpression, value: cst.BaseExpression | None) -> Iterator[tuple[str, Binding]]:
    match target:
        case cst.Name(value=name):
            yield name, Value(value)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            parts: list[cst.BaseExpression | None] = [None] * len(elements)
            if isinstance(value, cst.Tuple) and len(value.elements) == len(elements):
                parts = [e.value for e in value.elements]
            for element, part in zip(elements, parts, strict=True):
                yield from _targets(element.value, part)
        case _:
            pass


def statements_of(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of a block in order, those of nested `if`, `try`, `with` and loops included, defs not entered."""
    blocks: list[cst.CSTNode] = [body]
    while blocks:
        block = blocks.pop()
        match block:
            case cst.SimpleStatementLine(body=small) | cst.SimpleStatementSuite(body=small):
                yield from small
            case cst.FunctionDef() | cst.ClassDef():
                yield block
            case _:
                if isinstance(block, cst.For | cst.With | cst.While | cst.Try | cst.If):
                    yield block
                inner = [child for child in block.children if isinstance(child, _BLOCKS)]
                blocks.extend(reversed(inner))


def bound_names(*nodes: cst.CSTNode) -> frozenset[str]:
    """The names that the statements at or below `nodes` bind, nested functions not entered."""
    found: set[str] = set()
    for node in nodes:
        inner = statements_of(node) if isinstance(node, (*_BLOCKS, cst.Module)) else iter((node,))
        found.update(name for name, _ in bindings(inner))
    return frozenset(found)


_BLOCKS = (cst.BaseStatement, cst.BaseSuite, cst.Else, cst.Finally, cst.ExceptHandler, cst.SimpleStatementLine)


def dotted(node: cst.BaseExpression) -> str | None:
    """`a.b.c` as text, None for any other expression."""
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(value=base, attr=cst.Name(value=attr)):
            inner = dotted(base)
            return None if inner is None else f"{inner}.{attr}"
        case _:
            return None


def parameters(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """All parameters of `function`, in order."""
    params = function.params
    star = params.star_arg if isinstance(params.star_arg, cst.Param) else None
    rest = (p for p in (star, *params.kwonly_params, params.star_kwarg) if p is not None)
    return (*params.posonly_params, *params.params, *rest)
