"""Host code from libcst: the linter's front end of the host IR.

It translates syntax and says what names stand for (`host_scopes.py`); it knows nothing of tensors or launches. What it
cannot express becomes an `Opaque` over what it can. `read_host` never fails on a file that parses.

Worked example: see `ir/host.py`, whose example is what `read_host` returns for that source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tilecheck.frontend.host_expressions import OPERATORS, ExpressionReader, params_of
from tilecheck.frontend.host_scopes import Resolve, Scope, alternatives, captures
from tilecheck.frontend.source import Source
from tilecheck.ir import host as ir


def read_host(source: Source, module: str = "__main__", resolve: Resolve = lambda _: None) -> ir.HostModule:
    """The host IR of `source`, whose dotted name is `module`. Raises `Unreadable` if it does not parse."""
    reader = _Reader(source, module, resolve)
    scope = Scope("module", None, module)
    body = source.module.body
    reader.binder.bind(scope, body)
    return ir.HostModule(module, source.path, tuple(reader.statements(scope, body)))


def read_exports(source: Source, module: str, resolve: Resolve) -> dict[str, str]:
    """What the imports at the top of `source` bind, by local name. Raises `Unreadable` if it does not parse."""
    scope = Scope("module", None, module)
    _Reader(source, module, resolve).binder.bind(scope, source.module.body)
    return scope.imports


class _Reader(ExpressionReader):
    # ---- statements

    def statements(self, scope: Scope, body: Sequence[cst.BaseStatement | cst.BaseSmallStatement]) -> Iterator[ir.Stmt]:
        for statement in body:
            yield from self.statement(scope, statement)

    def block(self, scope: Scope, block: cst.BaseSuite) -> tuple[ir.Stmt, ...]:
        if isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite):
            return tuple(self.statements(scope, block.body))
        return ()

    def statement(self, scope: Scope, node: cst.BaseStatement | cst.BaseSmallStatement) -> Iterator[ir.Stmt]:
        at = self.span(node)
        match node:
            case cst.SimpleStatementLine(body=body):
                yield from self.statements(scope, body)
            case cst.Expr(value=value):
                if not isinstance(value, cst.SimpleString | cst.Ellipsis):
                    yield ir.Do(self.expr(scope, value), span=at)
            case cst.Assign(targets=targets, value=value):
                read = self.expr(scope, value)
                yield ir.Assign(tuple(self.expr(scope, target.target) for target in targets), read, span=at)
            case cst.AnnAssign(target=target, annotation=annotation, value=annotated):
                yield ir.Assign(
                    (self.expr(scope, target),),
                    self.expr(scope, annotated) if annotated is not None else None,
                    self.annotation(scope, annotation),
                    span=at,
                )
            case cst.AugAssign(target=target, operator=operator, value=value):
                op = OPERATORS[type(operator)]
                yield ir.Augment(self.expr(scope, target), op, self.expr(scope, value), span=at)
            case cst.Del(target=target):
                parts = target.elements if isinstance(target, cst.Tuple) else None
                items = [part.value for part in parts] if parts is not None else [target]
                yield ir.Delete(tuple(self.expr(scope, item) for item in items), span=at)
            case cst.Return(value=returned):
                yield ir.Return(self.maybe(scope, returned), span=at)
            case cst.Raise(exc=exc, cause=cause):
                yield ir.Raise(self.maybe(scope, exc), self.maybe(scope, cause.item if cause else None), span=at)
            case cst.Assert(test=test, msg=message):
                yield ir.Assert(self.expr(scope, test), self.maybe(scope, message), span=at)
            case cst.Break():
                yield ir.Break(span=at)
            case cst.Continue():
                yield ir.Continue(span=at)
            case cst.Global(names=names) | cst.Nonlocal(names=names):
                yield ir.Global(tuple(item.name.value for item in names), span=at)
            case cst.If():
                yield self.branch(scope, node)
            case cst.While(test=test, body=body, orelse=tail):
                yield ir.While(self.expr(scope, test), self.block(scope, body), self.tail(scope, tail), span=at)
            case cst.For(target=target, iter=iterated, body=body, orelse=tail):
                read = self.expr(scope, iterated)
                into = self.expr(scope, target)
                yield ir.For(into, read, self.block(scope, body), self.tail(scope, tail), span=at)
            case cst.With(items=items, body=body):
                yield ir.With(tuple(self.with_item(scope, item) for item in items), self.block(scope, body), span=at)
            case cst.Try() | cst.TryStar():
                yield self.attempt(scope, node)
            case cst.Match(subject=subject, cases=cases):
                read = self.expr(scope, subject)
                yield ir.Match(read, tuple(self.case(scope, case) for case in cases), span=at)
            case cst.FunctionDef():
                yield self.function(scope, node)
            case cst.ClassDef():
                yield self.class_(scope, node)
            case _:
                pass

    def tail(self, scope: Scope, node: cst.Else | None) -> tuple[ir.Stmt, ...]:
        return self.block(scope, node.body) if node is not None else ()

    def branch(self, scope: Scope, node: cst.If) -> ir.If:
        other: tuple[ir.Stmt, ...] = ()
        if isinstance(node.orelse, cst.If):
            other = (self.branch(scope, node.orelse),)
        elif node.orelse is not None:
            other = self.block(scope, node.orelse.body)
        return ir.If(self.expr(scope, node.test), self.block(scope, node.body), other, span=self.span(node))

    def with_item(self, scope: Scope, node: cst.WithItem) -> ir.WithItem:
        name = node.asname.name if node.asname is not None else None
        return ir.WithItem(self.expr(scope, node.item), self.maybe(scope, name), span=self.span(node))

    def attempt(self, scope: Scope, node: cst.Try | cst.TryStar) -> ir.Try:
        handlers: list[ir.Handler] = []
        for handler in node.handlers:
            name = handler.name.name if handler.name is not None else None
            bound = self.name(scope, name) if isinstance(name, cst.Name) else None
            body = self.block(scope, handler.body)
            handlers.append(ir.Handler(self.maybe(scope, handler.type), bound, body, span=self.span(handler)))
        final = self.block(scope, node.finalbody.body) if node.finalbody is not None else ()
        body = self.block(scope, node.body)
        return ir.Try(body, tuple(handlers), self.tail(scope, node.orelse), final, span=self.span(node))

    def case(self, scope: Scope, node: cst.MatchCase) -> ir.Case:
        names = tuple(self.name(scope, name) for name in captures(node.pattern))
        plain = isinstance(node.pattern, cst.MatchAs) and node.pattern.pattern is None
        guard = self.maybe(scope, node.guard)
        none = isinstance(node.pattern, cst.MatchSingleton) and node.pattern.value.value == "None"
        values = tuple(self.expr(scope, value) for value in alternatives(node.pattern))
        always = plain and guard is None
        return ir.Case(names, guard, self.block(scope, node.body), always, none, values, span=self.span(node))

    # ---- functions and classes

    def function(self, scope: Scope, node: cst.FunctionDef) -> ir.Function:
        name = node.name.value
        inner = Scope("function", scope, None)
        for param in params_of(node.params):
            inner.assign(param.name.value)
        self.binder.bind(inner, node.body.body)
        return ir.Function(
            name,
            tuple(self.params(scope, node.params)),
            self.block(inner, node.body),
            tuple(self.expr(scope, decorator.decorator) for decorator in node.decorators),
            self.annotation(scope, node.returns) if node.returns is not None else None,
            f"{scope.full}.{name}" if scope.full is not None else None,
            node.asynchronous is not None,
            span=self.span(node.name),
        )

    def class_(self, scope: Scope, node: cst.ClassDef) -> ir.Class:
        name = node.name.value
        full = f"{scope.full}.{name}" if scope.full is not None else None
        inner = Scope("class", scope, full)
        self.binder.bind(inner, node.body.body)
        return ir.Class(
            name,
            tuple(self.arg(scope, base) for base in (*node.bases, *node.keywords)),
            self.block(inner, node.body),
            tuple(self.expr(scope, decorator.decorator) for decorator in node.decorators),
            full,
            span=self.span(node.name),
        )
