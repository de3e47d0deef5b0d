"""What a name in host code stands for: Python's scoping rules over libcst, without types.

A name is a *variable* if its scope assigns it, and then nothing is said about it; otherwise it stands for an import
(`cuda` is `numba.cuda`), for a definition of this file (`scale` is `m.scale`) or for a builtin. Two habits are read
as imports although a variable is assigned as well: an import with a fallback (`except ImportError: cuda = None`) and a
module-level alias that is bound once (`jit = cuda.jit`).

Invariant: a wrong answer is never given for a name that is rebound; None is given instead.

Worked example: with `from numba import cuda as cu` at the top of module `m`, in

    def main(cu): cu.to_device(x)

`cu` is a parameter, so it stands for nothing; outside of `main` it is `numba.cuda`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from tilecheck.frontend.source import Source, Unreadable

Resolve = Callable[[str], Source | None]
"""Finds the source of a module of the checked files by its dotted name."""


def dotted(node: cst.BaseExpression | None) -> str | None:
    """`a.b.c` of a chain of attributes over a name, None for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    return ".".join((node.value, *reversed(parts)))


@dataclass
class Scope:
    """The bindings of one module, class or function. `full` is the dotted name of a module or class, else None."""

    kind: Literal["module", "class", "function"]
    parent: Scope | None
    full: str | None
    imports: dict[str, str] = field(default_factory=dict)
    definitions: set[str] = field(default_factory=set)
    variables: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, cst.BaseExpression] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)

    def assign(self, name: str) -> None:
        self.variables[name] = self.variables.get(name, 0) + 1

    def lookup(self, name: str) -> str | None:
        """The dotted name that `name` stands for here, None for a variable."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope.kind != "class" or scope is self
            if visible and name in scope.globals:
                scope = scope.module
            if visible:
                if name in scope.imports:
                    return scope.imports[name]
                if name in scope.variables:
                    return scope._alias(name)
                if name in scope.definitions:
                    return f"{scope.full}.{name}" if scope.full is not None else None
            scope = scope.parent
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def _alias(self, name: str) -> str | None:
        value = self.aliases.get(name)
        if value is None or self.variables[name] != 1 or name in self.definitions:
            return None
        path = dotted(value)
        if path is None or path.split(".")[0] == name:
            return None
        head, _, rest = path.partition(".")
        full = self.lookup(head)
        if full is None or full.startswith("builtins."):
            return None
        return f"{full}.{rest}" if rest else full

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


class Binder:
    """Fills a scope with the names that a body binds, imports resolved against `module`.

    `walrus=False` says that the text holds no `:=`, which saves the search for it.
    """

    def __init__(self, module: str, is_package: bool, resolve: Resolve, walrus: bool = True) -> None:
        self.walrus = walrus
        self.package = module if is_package else module.rpartition(".")[0]
        self.resolve = resolve

    def bind(self, scope: Scope, body: Sequence[cst.BaseStatement | cst.BaseSmallStatement]) -> None:
        """Bind everything that the statements of `body` bind in `scope`, nested blocks included."""
        for statement in body:
            self._statement(scope, statement)

    def _block(self, scope: Scope, block: cst.BaseSuite | None) -> None:
        if isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite):
            self.bind(scope, block.body)

    def _statement(self, scope: Scope, node: cst.CSTNode) -> None:
        match node:
            case cst.SimpleStatementLine(body=body):
                self.bind(scope, body)
            case cst.FunctionDef() | cst.ClassDef():
                scope.definitions.add(node.name.value)
            case cst.Import(names=names):
                for alias in names:
                    self._import(scope, alias)
            case cst.ImportFrom():
                self._import_from(scope, node)
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target.target, cst.Name):
                        scope.aliases[target.target.value] = value
                    self.target(scope, target.target)
                self._walrus(scope, value)
            case cst.AnnAssign(target=into, value=annotated):
                if annotated is not None:
                    self.target(scope, into)
                    self._walrus(scope, annotated)
            case cst.AugAssign(target=into):
                self.target(scope, into)
            case cst.Global(names=items) | cst.Nonlocal(names=items):
                if isinstance(node, cst.Global):
                    scope.globals.update(item.name.value for item in items)
                    for item in items:
                        scope.module.assign(item.name.value)
            case cst.If(body=then, orelse=other, test=test):
                self._walrus(scope, test)
                self._block(scope, then)
                if other is not None:
                    self._statement(scope, other)
            case cst.Else(body=then) | cst.Finally(body=then):
                self._block(scope, then)
            case cst.While(test=test, body=then, orelse=tail):
                self._walrus(scope, test)
                self._block(scope, then)
                self._block(scope, tail.body if tail else None)
            case cst.For(target=into, body=then, orelse=tail):
                self.target(scope, into)
                self._block(scope, then)
                self._block(scope, tail.body if tail else None)
            case cst.With(items=withs, body=then):
                for entered in withs:
                    if entered.asname is not None:
                        self.target(scope, entered.asname.name)
                self._block(scope, then)
            case cst.Try() | cst.TryStar():
                self._try(scope, node)
            case cst.Match(cases=cases):
                for case in cases:
                    for captured in captures(case.pattern):
                        scope.assign(captured.value)
                    self._block(scope, case.body)
            case cst.Expr(value=value) | cst.Return(value=value) if value is not None:
                self._walrus(scope, value)
            case _:
                pass

    def _try(self, scope: Scope, node: cst.Try | cst.TryStar) -> None:
        self._block(scope, node.body)
        for handler in node.handlers:
            if handler.name is not None:
                self.target(scope, handler.name.name)
            self._block(scope, handler.body)
        for part in (node.orelse, node.finalbody):
            if part is not None:
                self._block(scope, part.body)

    def target(self, scope: Scope, node: cst.BaseExpression) -> None:
        """Bind the names of an assignment target."""
        match node:
            case cst.Name(value=name):
                scope.assign(name)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for element in elements:
                    self.target(scope, element.value)
            case _:
                pass

    def _walrus(self, scope: Scope, node: cst.CSTNode) -> None:
        if not self.walrus:
            return
        for named in _named_expressions(node):
            self.target(scope, named.target)

    def _import(self, scope: Scope, alias: cst.ImportAlias) -> None:
        name = dotted(alias.name)
        if name is None:
            return
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            scope.imports[alias.asname.name.value] = name
        else:
            head = name.split(".")[0]
            scope.imports[head] = head

    def _import_from(self, scope: Scope, node: cst.ImportFrom) -> None:
        module = dotted(node.module) or ""
        if node.relative:
            base = self.package.split(".") if self.package else []
            keep = len(base) - (len(node.relative) - 1)
            module = ".".join([*base[: max(keep, 0)], *([module] if module else [])])
        if isinstance(node.names, cst.ImportStar):
            # A module's own names are bound already, and what they stand for is not "this module's".
            for name in self._public_names(module) if module != scope.module.full else ():
                scope.imports[name] = f"{module}.{name}"
            return
        for alias in node.names:
            imported = dotted(alias.name)
            asname = alias.asname.name if alias.asname is not None else None
            local = asname.value if isinstance(asname, cst.Name) else imported
            if imported is not None and local is not None:
                scope.imports[local] = f"{module}.{imported}" if module else imported

    def _public_names(self, module: str) -> Iterator[str]:
        source = self.resolve(module)
        if source is None:
            return
        inner = Scope("module", None, module)
        try:
            Binder(module, source.path.endswith("__init__.py"), lambda _: None).bind(inner, source.module.body)
        except Unreadable:
            return
        for name in (*inner.imports, *inner.definitions, *inner.variables):
            if not name.startswith("_"):
                yield name


def _named_expressions(node: cst.CSTNode) -> Iterator[cst.NamedExpr]:
    if isinstance(node, cst.NamedExpr):
        yield node
    for child in node.children:
        if isinstance(child, cst.BaseExpression | cst.Arg | cst.BaseElement | cst.ComparisonTarget):
            yield from _named_expressions(child)


def alternatives(pattern: cst.MatchPattern) -> tuple[cst.BaseExpression, ...]:
    """The values of `case 1 | 2` or `case True`, none for any other pattern."""
    match pattern:
        case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
            return (value,)
        case cst.MatchOr(patterns=patterns):
            found = [alternatives(part.pattern) for part in patterns]
            return tuple(value for values in found for value in values) if all(found) else ()
        case _:
            return ()


def captures(pattern: cst.MatchPattern) -> Iterator[cst.Name]:
    """The names that a `case` pattern binds."""
    stack: list[cst.CSTNode] = [pattern]
    while stack:
        node = stack.pop()
        match node:
            case cst.MatchAs(name=name, pattern=inner):
                if name is not None:
                    yield name
                if inner is not None:
                    stack.append(inner)
            case cst.MatchStar(name=name):
                if name is not None:
                    yield name
            case cst.MatchMapping(rest=rest):
                if rest is not None:
                    yield rest
                stack.extend(node.children)
            case cst.MatchValue() | cst.Name():
                pass
            case _:
                stack.extend(node.children)
