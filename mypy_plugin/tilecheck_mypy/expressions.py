"""Expressions of host code from mypy's tree, with names and types as mypy resolved them.

Invariant: every child expression is kept, in evaluation order; what has no form of its own becomes an `Opaque`. mypy's
visitors cannot be subclassed from interpreted code, so dispatch is a table by class.

Worked example: `f(z[0:4])`, where `f` is a function of this module `m` and `z` a tensor, is
`Call(Name("f", full="m.f"), (Arg(Sub(Name("z", type=HostType("tilecheck.Tensor", ...)), Slice(...))),))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal

from mypy import nodes
from mypy.nodes import ArgKind, Context, Expression, MypyFile, Var
from mypy.types import AnyType, Instance, NoneType, ProperType, Type, UnionType, UnpackType, get_proper_type

from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck_mypy import names

Types = Mapping[Expression, Type]


class ExpressionReader:
    """Reads the expressions of one file. `types` is mypy's type map, empty where it did not check."""

    def __init__(self, file: MypyFile, types: Types) -> None:
        self.file = file
        self.types = types
        self.imports = imports_of(file)
        self.path = file.path

    def span(self, node: Context) -> Span:
        """Where `node` stands, in our counting."""
        line, column = node.line, node.column + 1
        if column < 1:
            column = 1
        end_line, end = node.end_line or line, (node.end_column or column) + 1
        if end <= column and end_line == line:
            end = column + 1
        return Span(self.path, line, column, end_line, end)

    def maybe(self, node: Expression | None) -> ir.Expr | None:
        return self.expr(node) if node is not None else None

    def expr(self, node: Expression) -> ir.Expr:
        read = _EXPRESSIONS.get(type(node))
        return read(self, node) if read is not None else self.opaque(node)

    def opaque(self, node: Expression) -> ir.Opaque:
        return ir.Opaque(tuple(self.expr(child) for child in below(node)), span=self.span(node))

    def type_of(self, node: Expression) -> ProperType | None:
        """mypy's type of `node`; in code that it does not check, the declared type of what the name refers to."""
        found = self.types.get(node)
        if found is not None:
            return get_proper_type(found)
        return names.declared(node.node) if isinstance(node, nodes.RefExpr) else None

    def name(self, node: nodes.NameExpr) -> ir.Name:
        full = names.full_name(node.node, node, self.imported(node.name, node.node))
        type_ = names.host_type(self.type_of(node), node.name, defined(node))
        return ir.Name(node.name, full, span=self.span(node), type=type_)

    def imported(self, name: str, node: nodes.SymbolNode | None) -> str | None:
        """What the imports of the file say about `name`, if `node` can be what they bind."""
        if isinstance(node, Var) and not node.is_suppressed_import and "." not in node.fullname:
            return None
        return self.imports.get(name)

    def params(self, arguments: list[nodes.Argument], types: Sequence[Type] = ()) -> Iterator[ir.HostParam]:
        """The parameters; `types` are the declared ones, which for `*args` is the type of one argument."""
        kinds: dict[ArgKind, Literal["plain", "keyword", "*", "**"]] = {
            nodes.ARG_STAR: "*",
            nodes.ARG_STAR2: "**",
            nodes.ARG_NAMED: "keyword",
            nodes.ARG_NAMED_OPT: "keyword",
        }
        for argument, type_ in zip_longest(arguments, types):
            declared = type_ if type_ is not None else argument.variable.type
            written = argument.type_annotation
            yield ir.HostParam(
                argument.variable.name,
                self.annotation(declared, written) if written is not None else None,
                self.maybe(argument.initializer),
                kinds.get(argument.kind, "plain"),
                names.host_type(declared),
                span=self.span(argument),
            )

    def annotation(self, type_: Type | None, at: Context) -> ir.Expr:
        """An annotation as the expression that would say it: `Tensor[Mut, f32, BM]`."""
        span = self.span(at)
        proper = get_proper_type(type_) if type_ is not None else None
        if isinstance(proper, NoneType):
            return ir.Const(None, span=span)
        if isinstance(proper, AnyType):
            return ir.Name("Dyn", "tilecheck.Dyn", span=span)
        if isinstance(proper, UnionType):
            return ir.Operation("|", tuple(self.annotation(item, at) for item in proper.items), span=span)
        if not isinstance(proper, Instance):
            return ir.Opaque(span=span)
        full = names.public(proper.type.fullname)
        base = ir.Name(proper.type.name, full, span=span)
        if not proper.args:
            return base
        shown = [a for a in map(get_proper_type, proper.args) if not isinstance(a, UnpackType)]
        inner = tuple(self.annotation(arg, at) for arg in shown)
        return ir.Sub(base, inner[0] if len(inner) == 1 else ir.Display("tuple", inner, span=span), span=span)


def imports_of(file: MypyFile) -> dict[str, str]:
    """What the import statements of the file bind: local name to dotted name."""
    bound: dict[str, str] = {}
    for statement in file.imports:
        if isinstance(statement, nodes.Import):
            for module, alias in statement.ids:
                bound[alias or module.partition(".")[0]] = module if alias else module.partition(".")[0]
        elif isinstance(statement, nodes.ImportFrom) and not statement.relative:
            for name, alias in statement.names:
                bound[alias or name] = f"{statement.id}.{name}"
    return bound


# Where a class of mypy's tree keeps its expressions, in evaluation order.
_CHILDREN = ("cond", "left", "expr", "base", "index", "right", "value", "if_expr", "else_expr", "target", "call")
_LISTS = ("items", "operands", "args")


def below(node: Expression) -> Iterator[Expression]:
    """The expressions directly below `node`."""
    for name in _CHILDREN:
        child = getattr(node, name, None)
        if isinstance(child, Expression):
            yield child
    for name in _LISTS:
        for child in getattr(node, name, None) or ():
            parts = child if isinstance(child, tuple) else (child,)
            yield from (part for part in parts if isinstance(part, Expression))


# ---- one function per kind of expression; `expr` finds it by the node's class


def _literal(reader: ExpressionReader, node: Any) -> ir.Expr:
    return ir.Const(node.value, span=reader.span(node))


def _unknown_literal(reader: ExpressionReader, node: Expression) -> ir.Expr:
    return ir.Const(None, False, span=reader.span(node))


_LITERALS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def _name(reader: ExpressionReader, node: nodes.NameExpr) -> ir.Expr:
    if node.name in _LITERALS:
        return ir.Const(_LITERALS[node.name], span=reader.span(node))
    return reader.name(node)


def _member(reader: ExpressionReader, node: nodes.MemberExpr) -> ir.Expr:
    base = reader.expr(node.expr)
    full: str | None = None
    if isinstance(base, ir.Name | ir.Attr) and base.full is not None:
        full = f"{base.full}.{node.name}"
        # A module of the user's that hands on a name of ours.
        ours = names.public(node.node.fullname) if node.node is not None else ""
        full = ours if ours.startswith("tilecheck.") else full
    read = ir.Attr(base, node.name, full, span=reader.span(node))
    return replace(read, type=names.host_type(reader.type_of(node), spelled(read), defined(node)))


def _call(reader: ExpressionReader, node: nodes.CallExpr) -> ir.Expr:
    callee = node.callee
    if isinstance(callee, nodes.MemberExpr) and isinstance(callee.expr, nodes.StrExpr):
        return ir.Opaque(tuple(_pieces(reader, node)), True, span=reader.span(node))
    func = reader.expr(callee)
    args = tuple(
        ir.Arg(reader.expr(value), name if kind.is_named() else None, _star(kind), span=reader.span(value))
        for value, kind, name in zip(node.args, node.arg_kinds, node.arg_names, strict=True)
    )
    contract: ir.Contract | None = None
    # mypy gives the parameters of a lambda the types of the arguments: no signature says that it takes them over.
    if not isinstance(callee, nodes.LambdaExpr) and not _local(reader, callee):
        contract = names.contract(reader.type_of(callee), spelled(func), defined(callee))
    type_ = names.host_type(reader.types.get(node))
    return ir.Call(func, args, contract, span=reader.span(node), type=type_)


def spelled(node: ir.Expr) -> str:
    """A dotted name as written; the last part of it where something else comes before."""
    match node:
        case ir.Name(id=name):
            return name
        case ir.Attr(base=base, name=name):
            before = spelled(base)
            return f"{before}.{name}" if before else name
        case _:
            return ""


def _pieces(reader: ExpressionReader, node: Expression) -> Iterator[ir.Expr]:
    """The values inside an f-string, which mypy builds from `"".join([...])` and `"{}".format(...)`."""
    inner = node.callee.expr if isinstance(node, nodes.CallExpr) and isinstance(node.callee, nodes.MemberExpr) else None
    if isinstance(node, nodes.CallExpr) and isinstance(inner, nodes.StrExpr):
        parts = node.args
    elif isinstance(node, nodes.ListExpr):
        parts = node.items
    else:
        if not isinstance(node, nodes.StrExpr):
            yield reader.expr(node)
        return
    for part in parts:
        yield from _pieces(reader, part)


def defined(node: Expression) -> str | None:
    """The dotted name of the decorated function that `node` refers to."""
    found = node.node if isinstance(node, nodes.RefExpr) else None
    return found.fullname if isinstance(found, nodes.Decorator) else None


def _local(reader: ExpressionReader, callee: Expression) -> bool:
    """Whether the callee is defined in this file, where its own `Function` says what it borrows."""
    node = callee.node if isinstance(callee, nodes.RefExpr) else None
    if not isinstance(node, nodes.FuncDef | nodes.Decorator | nodes.OverloadedFuncDef):
        return False
    return node.fullname.startswith(f"{reader.file.fullname}.") or "." not in node.fullname


def _star(kind: ArgKind) -> Literal["", "*", "**"]:
    if kind == nodes.ARG_STAR:
        return "*"
    return "**" if kind == nodes.ARG_STAR2 else ""


def _index(reader: ExpressionReader, node: nodes.IndexExpr) -> ir.Expr:
    base, index = reader.expr(node.base), reader.expr(node.index)
    return ir.Sub(base, index, span=reader.span(node), type=names.host_type(reader.types.get(node)))


def _slice(reader: ExpressionReader, node: nodes.SliceExpr) -> ir.Expr:
    bounds = (reader.maybe(bound) for bound in (node.begin_index, node.end_index, node.stride))
    return ir.Slice(*bounds, span=reader.span(node))


def _binary(reader: ExpressionReader, node: nodes.OpExpr) -> ir.Expr:
    operands = (reader.expr(node.left), reader.expr(node.right))
    if node.op == "and":
        return ir.Logic("and", operands, span=reader.span(node))
    if node.op == "or":
        return ir.Logic("or", operands, span=reader.span(node))
    return ir.Operation(node.op, operands, span=reader.span(node))


def _unary(reader: ExpressionReader, node: nodes.UnaryExpr) -> ir.Expr:
    return ir.Operation(node.op, (reader.expr(node.expr),), span=reader.span(node))


def _comparison(reader: ExpressionReader, node: nodes.ComparisonExpr) -> ir.Expr:
    operands = tuple(reader.expr(operand) for operand in node.operands)
    return ir.Operation(node.operators[0], operands, span=reader.span(node))


def _choice(reader: ExpressionReader, node: nodes.ConditionalExpr) -> ir.Expr:
    parts = (reader.expr(part) for part in (node.cond, node.if_expr, node.else_expr))
    return ir.Choice(*parts, span=reader.span(node))


def _star_expr(reader: ExpressionReader, node: nodes.StarExpr) -> ir.Expr:
    return ir.Starred(reader.expr(node.expr), span=reader.span(node))


def _display(reader: ExpressionReader, node: nodes.TupleExpr | nodes.ListExpr | nodes.SetExpr) -> ir.Expr:
    kind: Literal["tuple", "list", "set"] = "tuple"
    if isinstance(node, nodes.ListExpr):
        kind = "list"
    elif isinstance(node, nodes.SetExpr):
        kind = "set"
    return ir.Display(kind, tuple(reader.expr(item) for item in node.items), span=reader.span(node))


def _dict(reader: ExpressionReader, node: nodes.DictExpr) -> ir.Expr:
    keys = tuple(reader.maybe(key) for key, _ in node.items)
    items = tuple(
        reader.expr(value) if key is not None else ir.Starred(reader.expr(value), span=reader.span(value))
        for key, value in node.items
    )
    return ir.Display("dict", items, keys, span=reader.span(node))


def _lambda(reader: ExpressionReader, node: nodes.LambdaExpr) -> ir.Expr:
    params = tuple(reader.params(node.arguments))
    result = node.body.body[-1] if node.body.body else None
    value = result.expr if isinstance(result, nodes.ReturnStmt) else None
    body = reader.expr(value) if value is not None else ir.Const(None, span=reader.span(node))
    return ir.Lambda(params, body, span=reader.span(node))


Kind = Literal["list", "set", "dict", "generator"]


def _comprehension(kind: Kind) -> Callable[[ExpressionReader, Any], ir.Expr]:
    def read(reader: ExpressionReader, node: Any) -> ir.Expr:
        loops = node.generator if isinstance(node, nodes.ListComprehension | nodes.SetComprehension) else node
        clauses = tuple(
            ir.Clause(
                reader.expr(target),
                reader.expr(source),
                tuple(reader.expr(condition) for condition in conditions),
                span=reader.span(target),
            )
            for target, source, conditions in zip(loops.indices, loops.sequences, loops.condlists, strict=True)
        )
        parts = (node.key, node.value) if kind == "dict" else (loops.left_expr,)
        return ir.Comprehension(kind, clauses, tuple(reader.expr(part) for part in parts), span=reader.span(node))

    return read


def _await(reader: ExpressionReader, node: nodes.AwaitExpr) -> ir.Expr:
    return ir.Await(reader.expr(node.expr), span=reader.span(node), type=names.host_type(reader.types.get(node)))


def _yield(reader: ExpressionReader, node: nodes.YieldExpr) -> ir.Expr:
    return ir.Yield(reader.maybe(node.expr), span=reader.span(node))


def _yield_from(reader: ExpressionReader, node: nodes.YieldFromExpr) -> ir.Expr:
    return ir.Yield(reader.expr(node.expr), True, span=reader.span(node))


def _walrus(reader: ExpressionReader, node: nodes.AssignmentExpr) -> ir.Expr:
    value = reader.expr(node.value)
    return ir.Walrus(reader.name(node.target), value, span=reader.span(node))


_EXPRESSIONS: dict[type[Expression], Callable[[ExpressionReader, Any], ir.Expr]] = {
    nodes.IntExpr: _literal,
    nodes.FloatExpr: _literal,
    nodes.StrExpr: _literal,
    nodes.BytesExpr: _unknown_literal,
    nodes.ComplexExpr: _unknown_literal,
    nodes.EllipsisExpr: _unknown_literal,
    nodes.NameExpr: _name,
    nodes.MemberExpr: _member,
    nodes.CallExpr: _call,
    nodes.IndexExpr: _index,
    nodes.SliceExpr: _slice,
    nodes.OpExpr: _binary,
    nodes.UnaryExpr: _unary,
    nodes.ComparisonExpr: _comparison,
    nodes.ConditionalExpr: _choice,
    nodes.StarExpr: _star_expr,
    nodes.TupleExpr: _display,
    nodes.ListExpr: _display,
    nodes.SetExpr: _display,
    nodes.DictExpr: _dict,
    nodes.LambdaExpr: _lambda,
    nodes.ListComprehension: _comprehension("list"),
    nodes.SetComprehension: _comprehension("set"),
    nodes.DictionaryComprehension: _comprehension("dict"),
    nodes.GeneratorExpr: _comprehension("generator"),
    nodes.AwaitExpr: _await,
    nodes.YieldExpr: _yield,
    nodes.YieldFromExpr: _yield_from,
    nodes.AssignmentExpr: _walrus,
}
