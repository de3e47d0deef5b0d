"""Host code from mypy's tree: the plugin's front end of the host IR.

It translates syntax and says what mypy knows of names and types; it knows nothing of tensors or launches. Code that
mypy proved unreachable is left out, and a call that never returns ends its path like a `raise`.

Invariant: the IR of a file has every function of it, nested ones and methods included, in source order, whether mypy
checked their bodies or not.

A function in which nothing has a type of ours is kept without its body: reading it would take most of the time and
could not change what is found.

Worked example: see `ir/host.py`, whose example is what `read_host` returns for that source, with types added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mypy import nodes, patterns
from mypy.nodes import Block, Expression, MypyFile, Statement
from mypy.types import AnyType, CallableType, Instance, Type, TypeOfAny, UninhabitedType

from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck_mypy.expressions import ExpressionReader, Types
from tilecheck_mypy.gate import UNTYPED, is_ours, mentions
from tilecheck_mypy.shifting import shifting

TILE = ("tilecheck.kernel",)
SIMT = ("tilecheck.simt", "tilecheck.adopt", "numba.cuda.jit", "cuda.tile.kernel")


@dataclass(frozen=True, slots=True)
class Reading:
    """The host IR of a file, and its kernels, nested ones included: name, and full name of what makes it a kernel."""

    module: ir.HostModule
    kernels: tuple[tuple[str, str], ...]


def read_host(file: MypyFile, types: Types, checked: Callable[[nodes.FuncDef], bool]) -> Reading:
    """Read `file`. `checked` says of a function whether mypy checked its body, so that an expression without a type is
    unreachable there.
    """
    reader = _Reader(file, types, checked)
    reader.complete = bool(types)
    body = tuple(reader.statements(file.defs))
    module = ir.HostModule(file.fullname, file.path, body, partial(shifting, file))
    return Reading(module, tuple(reader.kernels))


def typed_lines(file: MypyFile, types: Types) -> list[int] | None:
    """The lines with an expression of one of our types, in order. None if types do not tell, because the file uses
    numba, which has none, or was not checked.
    """
    if not types or mentions(file, UNTYPED):
        return None
    # A plain class is told from ours by its name, without asking more.
    return sorted(
        {
            expression.line
            for expression, type_ in types.items()
            if (type_.type.fullname.startswith("tilecheck") if type(type_) is Instance else is_ours(type_))
        }
    )


class _Reader(ExpressionReader):
    def __init__(self, file: MypyFile, types: Types, checked: Callable[[nodes.FuncDef], bool]) -> None:
        super().__init__(file, types)
        self.checked = checked
        self.kernels: list[tuple[str, str]] = []
        self.lines = typed_lines(file, types)
        # Whether mypy has checked all of the body in hand.
        self.complete = False
        # The dotted name of what encloses the statement in hand, None inside functions.
        self.full: str | None = file.fullname

    def expr(self, node: Expression) -> ir.Expr:
        read = super().expr(node)
        if isinstance(read, ir.Call) and callee(read.func) in SIMT:
            named = [arg.value.id for arg in read.args if isinstance(arg.value, ir.Name)]
            self.kernels += [(name, callee(read.func)) for name in named]
        return read

    # ---- statements

    def block(self, block: Block | None) -> tuple[ir.Stmt, ...]:
        if block is None or block.is_unreachable:
            return ()
        return tuple(self.statements(block.body))

    def statements(self, body: Sequence[Statement]) -> Iterator[ir.Stmt]:
        for statement in body:
            if not self.unreachable(statement):
                yield from self.statement(statement)

    def unreachable(self, node: Statement) -> bool:
        """Whether mypy skipped the statement in a body that it did check."""
        value = getattr(node, "rvalue", None) or getattr(node, "expr", None)
        return (
            self.complete and isinstance(value, nodes.CallExpr) and value.analyzed is None and value not in self.types
        )

    def statement(self, node: Statement) -> Iterator[ir.Stmt]:
        at = self.span(node)
        match node:
            case nodes.ExpressionStmt(expr=value):
                if isinstance(value, nodes.StrExpr | nodes.EllipsisExpr):
                    return
                read = self.expr(value)
                never = isinstance(self.type_of(value), UninhabitedType) and isinstance(value, nodes.CallExpr)
                yield ir.Raise(read, span=at) if never else ir.Do(read, span=at)
            case nodes.AssignmentStmt():
                yield self.assignment(node)
            case nodes.OperatorAssignmentStmt(op=op, lvalue=target, rvalue=value):
                yield ir.Augment(self.expr(target), op, self.expr(value), span=at)
            case nodes.DelStmt(expr=value):
                items = value.items if isinstance(value, nodes.TupleExpr) else [value]
                yield ir.Delete(tuple(self.expr(item) for item in items), span=at)
            case nodes.ReturnStmt(expr=returned):
                yield ir.Return(self.maybe(returned), span=at)
            case nodes.RaiseStmt(expr=raised, from_expr=cause):
                yield ir.Raise(self.maybe(raised), self.maybe(cause), span=at)
            case nodes.AssertStmt(expr=test, msg=message):
                yield ir.Assert(self.expr(test), self.maybe(message), span=at)
            case nodes.BreakStmt():
                yield ir.Break(span=at)
            case nodes.ContinueStmt():
                yield ir.Continue(span=at)
            case nodes.GlobalDecl(names=declared) | nodes.NonlocalDecl(names=declared):
                yield ir.Global(tuple(declared), span=at)
            case nodes.IfStmt():
                yield from self.branch(node)
            case nodes.WhileStmt(expr=test, body=body, else_body=tail):
                yield ir.While(self.expr(test), self.block(body), self.block(tail), span=at)
            case nodes.ForStmt(index=target, expr=iterated, body=body, else_body=tail):
                source, into = self.expr(iterated), self.expr(target)
                yield ir.For(into, source, self.block(body), self.block(tail), span=at)
            case nodes.WithStmt(expr=contexts, target=targets, body=body):
                items_ = tuple(
                    ir.WithItem(self.expr(context), self.maybe(target), span=self.span(context))
                    for context, target in zip(contexts, targets, strict=True)
                )
                yield ir.With(items_, self.block(body), span=at)
            case nodes.TryStmt():
                yield self.attempt(node)
            case nodes.MatchStmt(subject=subject):
                yield ir.Match(self.expr(subject), tuple(self.cases(node)), span=at)
            case nodes.Block():
                yield from self.block(node)
            case nodes.FuncDef():
                yield self.function(node, ())
            case nodes.Decorator():
                yield self.function(node.func, node.original_decorators)
            case nodes.OverloadedFuncDef():
                yield from self.overloaded(node)
            case nodes.ClassDef():
                yield self.class_(node)
            case _:
                return

    def assignment(self, node: nodes.AssignmentStmt) -> ir.Assign:
        bare = isinstance(node.rvalue, nodes.TempNode)
        value = None if bare else self.expr(node.rvalue)
        annotation = self.annotation(node.type, node) if node.unanalyzed_type is not None else None
        return ir.Assign(tuple(self.expr(target) for target in node.lvalues), value, annotation, span=self.span(node))

    def branch(self, node: nodes.IfStmt) -> Iterator[ir.Stmt]:
        other = self.block(node.else_body)
        for test, body in reversed(list(zip(node.expr, node.body, strict=True))):
            other = (ir.If(self.expr(test), self.block(body), other, span=self.span(test)),)
        yield from other

    def attempt(self, node: nodes.TryStmt) -> ir.Try:
        handlers = tuple(
            ir.Handler(
                self.maybe(types), self.name(name) if name is not None else None, self.block(body), span=self.span(body)
            )
            for types, name, body in zip(node.types, node.vars, node.handlers, strict=True)
        )
        tail, final = self.block(node.else_body), self.block(node.finally_body)
        return ir.Try(self.block(node.body), handlers, tail, final, span=self.span(node))

    def cases(self, node: nodes.MatchStmt) -> Iterator[ir.Case]:
        for pattern, guard, body in zip(node.patterns, node.guards, node.bodies, strict=True):
            bound = tuple(self.name(name) for name in captures(pattern))
            always = isinstance(pattern, patterns.AsPattern) and pattern.pattern is None and guard is None
            none = isinstance(pattern, patterns.SingletonPattern) and pattern.value is None
            values = tuple(self.alternatives(pattern))
            yield ir.Case(bound, self.maybe(guard), self.block(body), always, none, values, span=self.span(pattern))

    def alternatives(self, pattern: patterns.Pattern) -> list[ir.Expr]:
        """The values of `case 1 | 2` or `case True`, none for any other pattern."""
        match pattern:
            case patterns.SingletonPattern(value=value):
                return [ir.Const(value, span=self.span(pattern))]
            case patterns.ValuePattern(expr=value):
                return [self.expr(value)]
            case patterns.OrPattern(patterns=parts):
                found = [self.alternatives(part) for part in parts]
                return [value for values in found for value in values] if all(found) else []
            case _:
                return []

    # ---- functions and classes

    def function(self, node: nodes.FuncDef, decorators: Sequence[Expression]) -> ir.Function:
        if not self.matters(node) and not _concerns_us(node.type) and not node.is_property:
            full = f"{self.full}.{node.name}" if self.full is not None else None
            return ir.Function(node.name, (), (), full=full, is_async=node.is_coroutine, span=self.span(node))
        outer, self.full = self.full, None
        complete, self.complete = self.complete, bool(self.types) and self.checked(node)
        # mypy checks a function with value-restricted type variables in copies, and types only those.
        body = node.expanded[0] if node.expanded else node
        # A property is read as an attribute, and what it hands on may be ours whatever it mentions.
        read = self.block(body.body) if self.matters(node) or node.is_property else ()
        self.full, self.complete = outer, complete
        signature = node.type if isinstance(node.type, CallableType) else None
        returns = signature.ret_type if signature is not None and not _is_left_out(signature.ret_type) else None
        if isinstance(returns, Instance) and node.is_coroutine and returns.args:
            returns = returns.args[-1]
        types = signature.arg_types if signature is not None else ()
        at = self.span(node)
        start = at.column + len("async def " if node.is_coroutine else "def ")
        made = tuple(self.expr(decorator) for decorator in decorators)
        self.kernels += [(node.name, full) for full in map(callee, made) if full in TILE or full in SIMT]
        name = Span(at.path, at.line, start, at.line, start + len(node.name))
        return ir.Function(
            node.name,
            tuple(self.params(node.arguments, types)),
            read,
            made,
            self.annotation(returns, node) if returns is not None else None,
            f"{outer}.{node.name}" if outer is not None else None,
            node.is_coroutine,
            span=name,
        )

    def matters(self, node: nodes.FuncDef) -> bool:
        """Whether the body may do anything with a value of ours."""
        if self.lines is None or not self.checked(node) or (node.type is None and node.arguments):
            return True
        at = bisect_left(self.lines, node.line)
        return at < len(self.lines) and self.lines[at] <= (node.end_line or node.line)

    def overloaded(self, node: nodes.OverloadedFuncDef) -> Iterator[ir.Stmt]:
        """The implementation of an overloaded function; of a property, getter and setter."""
        parts = [*node.items, *([node.impl] if node.impl is not None and node.impl not in node.items else [])]
        for part in parts:
            if not (isinstance(part, nodes.Decorator) and part.is_overload and part is not node.impl):
                yield from self.statement(part)

    def class_(self, node: nodes.ClassDef) -> ir.Class:
        outer = self.full
        self.full = f"{outer}.{node.name}" if outer is not None else None
        made = {name for name, symbol in node.info.names.items() if symbol.plugin_generated}
        written = [part for part in node.defs.body if getattr(part, "name", None) not in made]
        body = tuple(self.statements(written))
        full, self.full = self.full, outer
        bases = [*node.base_type_exprs, *node.removed_base_type_exprs]
        args = [ir.Arg(self.expr(base), span=self.span(base)) for base in bases]
        args += [ir.Arg(self.expr(value), name, span=self.span(value)) for name, value in node.keywords.items()]
        decorators = tuple(self.expr(decorator) for decorator in node.decorators)
        return ir.Class(node.name, tuple(args), body, decorators, full, span=self.span(node))


def _is_left_out(type_: Type) -> bool:
    """Whether a signature does not say the type."""
    return isinstance(type_, AnyType) and type_.type_of_any == TypeOfAny.unannotated


def _concerns_us(signature: Type | None) -> bool:
    """Whether a function takes or returns something of ours."""
    if not isinstance(signature, CallableType):
        return False
    return is_ours(signature.ret_type) or any(map(is_ours, signature.arg_types))


def callee(node: ir.Expr) -> str:
    """The full name of what a decorator is, or is a call of."""
    if isinstance(node, ir.Call):
        return callee(node.func)
    return node.full or "" if isinstance(node, ir.Name | ir.Attr) else ""


def captures(pattern: patterns.Pattern) -> Iterator[nodes.NameExpr]:
    """The names that a `case` pattern binds."""
    stack: list[Any] = [pattern]
    while stack:
        match stack.pop():
            case patterns.AsPattern(name=name, pattern=inner):
                stack.append(inner)
                if name is not None:
                    yield name
            case patterns.StarredPattern(capture=name):
                if name is not None:
                    yield name
            case patterns.MappingPattern(values=values, rest=rest):
                stack.extend(values)
                if rest is not None:
                    yield rest
            case patterns.OrPattern(patterns=inner) | patterns.SequencePattern(patterns=inner):
                stack.extend(inner)
            case patterns.ClassPattern(positionals=positional, keyword_values=named):
                stack.extend([*positional, *named])
            case _:
                continue
