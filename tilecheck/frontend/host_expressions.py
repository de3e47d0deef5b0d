"""Expressions of host code from libcst: names resolved, everything else translated as it stands.

Invariant: every child expression is kept, in evaluation order; what has no form of its own becomes an `Opaque`.

Worked example: `f(z[0:4])` in a module where `f` is a function is
`Call(Name("f", full="m.f"), (Arg(Sub(Name("z"), Slice(Const(0), Const(4), None))),))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.host_scopes import Binder, Resolve, Scope
from tilecheck.frontend.source import Source
from tilecheck.ir import host as ir

OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
    cst.Minus: "-",
    cst.Plus: "+",
    cst.BitInvert: "~",
    cst.Not: "not",
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
}


class ExpressionReader:
    """Reads the expressions of one file; `scope` is where the expression stands."""

    def __init__(self, source: Source, module: str, resolve: Resolve) -> None:
        self.source = source
        self.binder = Binder(module, source.path.endswith("__init__.py"), resolve, ":=" in source.text)

    def span(self, node: cst.CSTNode) -> Span:
        return self.source.span(node)

    def maybe(self, scope: Scope, node: cst.BaseExpression | None) -> ir.Expr | None:
        return self.expr(scope, node) if node is not None else None

    def name(self, scope: Scope, node: cst.Name) -> ir.Name:
        return ir.Name(node.value, scope.lookup(node.value), span=self.span(node))

    def expr(self, scope: Scope, node: cst.BaseExpression) -> ir.Expr:
        read = _EXPRESSIONS.get(type(node))
        if read is not None:
            return read(self, scope, node)
        inner = tuple(self.expr(scope, child) for child in _expressions_below(node))
        return ir.Opaque(inner, isinstance(node, cst.FormattedString), span=self.span(node))

    def arg(self, scope: Scope, node: cst.Arg) -> ir.Arg:
        star: Literal["", "*", "**"] = "*" if node.star == "*" else "**" if node.star == "**" else ""
        name = node.keyword.value if node.keyword is not None else None
        return ir.Arg(self.expr(scope, node.value), name, star, span=self.span(node.value))

    def params(self, scope: Scope, node: cst.Parameters) -> Iterator[ir.HostParam]:
        named = {id(param) for param in node.kwonly_params}
        for param in params_of(node):
            kind: Literal["plain", "keyword", "*", "**"] = "keyword" if id(param) in named else "plain"
            if param is node.star_arg:
                kind = "*"
            elif param is node.star_kwarg:
                kind = "**"
            annotation = self.annotation(scope, param.annotation) if param.annotation is not None else None
            default = self.maybe(scope, param.default)
            yield ir.HostParam(param.name.value, annotation, default, kind, span=self.span(param.name))

    def annotation(self, scope: Scope, node: cst.Annotation) -> ir.Expr:
        written = node.annotation
        if isinstance(written, cst.SimpleString) and isinstance(text := written.evaluated_value, str):
            return ir.Const(text, span=self.span(written))
        return self.expr(scope, written)


def params_of(node: cst.Parameters) -> Iterator[cst.Param]:
    yield from node.posonly_params
    yield from node.params
    if isinstance(node.star_arg, cst.Param):
        yield node.star_arg
    yield from node.kwonly_params
    if node.star_kwarg is not None:
        yield node.star_kwarg


def _expressions_below(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for child in node.children:
        if isinstance(child, cst.BaseExpression):
            yield child
        elif not isinstance(child, cst.BaseParenthesizableWhitespace):
            yield from _expressions_below(child)


# ---- one function per kind of expression; `expr` finds it by the node's class


def _number(reader: ExpressionReader, scope: Scope, node: cst.Integer | cst.Float) -> ir.Expr:
    return ir.Const(node.evaluated_value, span=reader.span(node))


def _string(reader: ExpressionReader, scope: Scope, node: cst.SimpleString | cst.ConcatenatedString) -> ir.Expr:
    value = node.evaluated_value
    if value is None:
        inner = tuple(reader.expr(scope, child) for child in _expressions_below(node))
        return ir.Opaque(inner, True, span=reader.span(node))
    known = isinstance(value, str)
    return ir.Const(value if isinstance(value, str) else None, known, span=reader.span(node))


def _unknown_literal(reader: ExpressionReader, scope: Scope, node: cst.BaseExpression) -> ir.Expr:
    return ir.Const(None, False, span=reader.span(node))


_LITERAL_NAMES: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def _name(reader: ExpressionReader, scope: Scope, node: cst.Name) -> ir.Expr:
    if node.value in _LITERAL_NAMES:
        return ir.Const(_LITERAL_NAMES[node.value], span=reader.span(node))
    return reader.name(scope, node)


def _attribute(reader: ExpressionReader, scope: Scope, node: cst.Attribute) -> ir.Expr:
    base = reader.expr(scope, node.value)
    name = node.attr.value
    full = f"{base.full}.{name}" if isinstance(base, ir.Name | ir.Attr) and base.full is not None else None
    return ir.Attr(base, name, full, span=reader.span(node))


def _call(reader: ExpressionReader, scope: Scope, node: cst.Call) -> ir.Expr:
    func = reader.expr(scope, node.func)
    return ir.Call(func, tuple(reader.arg(scope, arg) for arg in node.args), span=reader.span(node))


def _subscript(reader: ExpressionReader, scope: Scope, node: cst.Subscript) -> ir.Expr:
    base = reader.expr(scope, node.value)
    parts: list[ir.Expr] = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            value = reader.expr(scope, part.value)
            parts.append(ir.Starred(value, span=value.span) if part.star else value)
        elif isinstance(part, cst.Slice):
            bounds = (reader.maybe(scope, bound) for bound in (part.lower, part.upper, part.step))
            parts.append(ir.Slice(*bounds, span=reader.span(part)))
    many = len(parts) != 1 or isinstance(node.slice[0].comma, cst.Comma)
    index = ir.Display("tuple", tuple(parts), span=reader.span(node.slice[0])) if many else parts[0]
    return ir.Sub(base, index, span=reader.span(node))


def _binary(reader: ExpressionReader, scope: Scope, node: cst.BinaryOperation) -> ir.Expr:
    operands = (reader.expr(scope, node.left), reader.expr(scope, node.right))
    return ir.Operation(OPERATORS[type(node.operator)], operands, span=reader.span(node))


def _unary(reader: ExpressionReader, scope: Scope, node: cst.UnaryOperation) -> ir.Expr:
    return ir.Operation(OPERATORS[type(node.operator)], (reader.expr(scope, node.expression),), span=reader.span(node))


def _comparison(reader: ExpressionReader, scope: Scope, node: cst.Comparison) -> ir.Expr:
    right = [reader.expr(scope, target.comparator) for target in node.comparisons]
    op = OPERATORS[type(node.comparisons[0].operator)]
    return ir.Operation(op, (reader.expr(scope, node.left), *right), span=reader.span(node))


def _logic(reader: ExpressionReader, scope: Scope, node: cst.BooleanOperation) -> ir.Expr:
    op: Literal["and", "or"] = "and" if isinstance(node.operator, cst.And) else "or"
    return ir.Logic(op, (reader.expr(scope, node.left), reader.expr(scope, node.right)), span=reader.span(node))


def _choice(reader: ExpressionReader, scope: Scope, node: cst.IfExp) -> ir.Expr:
    parts = (reader.expr(scope, part) for part in (node.test, node.body, node.orelse))
    return ir.Choice(*parts, span=reader.span(node))


def _element(reader: ExpressionReader, scope: Scope, node: cst.BaseElement | cst.BaseDictElement) -> ir.Expr:
    value = reader.expr(scope, node.value)
    if isinstance(node, cst.StarredElement | cst.StarredDictElement):
        return ir.Starred(value, span=value.span)
    return value


def _display(reader: ExpressionReader, scope: Scope, node: cst.Tuple | cst.List | cst.Set) -> ir.Expr:
    kind: Literal["tuple", "list", "set"] = "tuple"
    if isinstance(node, cst.List):
        kind = "list"
    elif isinstance(node, cst.Set):
        kind = "set"
    return ir.Display(
        kind, tuple(_element(reader, scope, element) for element in node.elements), span=reader.span(node)
    )


def _dict(reader: ExpressionReader, scope: Scope, node: cst.Dict) -> ir.Expr:
    keys = tuple(
        reader.expr(scope, element.key) if isinstance(element, cst.DictElement) else None for element in node.elements
    )
    items = tuple(_element(reader, scope, element) for element in node.elements)
    return ir.Display("dict", items, keys, span=reader.span(node))


def _lambda(reader: ExpressionReader, scope: Scope, node: cst.Lambda) -> ir.Expr:
    inner = Scope("function", scope, None)
    for param in params_of(node.params):
        inner.assign(param.name.value)
    params = tuple(reader.params(scope, node.params))
    return ir.Lambda(params, reader.expr(inner, node.body), span=reader.span(node))


def _comprehension(
    reader: ExpressionReader, scope: Scope, node: cst.ListComp | cst.SetComp | cst.DictComp | cst.GeneratorExp
) -> ir.Expr:
    inner = Scope("function", scope, None)
    clauses: list[ir.Clause] = []
    part: cst.CompFor | None = node.for_in
    while part is not None:
        read = reader.expr(inner if clauses else scope, part.iter)
        reader.binder.target(inner, part.target)
        target = reader.expr(inner, part.target)
        conditions = tuple(reader.expr(inner, test.test) for test in part.ifs)
        clauses.append(ir.Clause(target, read, conditions, span=reader.span(part)))
        part = part.inner_for_in
    kinds: dict[type[cst.CSTNode], Literal["list", "set", "dict", "generator"]] = {
        cst.ListComp: "list",
        cst.SetComp: "set",
        cst.DictComp: "dict",
        cst.GeneratorExp: "generator",
    }
    elements = [node.key, node.value] if isinstance(node, cst.DictComp) else [node.elt]
    read_elements = tuple(reader.expr(inner, element) for element in elements)
    return ir.Comprehension(kinds[type(node)], tuple(clauses), read_elements, span=reader.span(node))


def _await(reader: ExpressionReader, scope: Scope, node: cst.Await) -> ir.Expr:
    return ir.Await(reader.expr(scope, node.expression), span=reader.span(node))


def _yield(reader: ExpressionReader, scope: Scope, node: cst.Yield) -> ir.Expr:
    from_ = isinstance(node.value, cst.From)
    value = node.value.item if isinstance(node.value, cst.From) else node.value
    return ir.Yield(reader.maybe(scope, value), from_, span=reader.span(node))


def _walrus(reader: ExpressionReader, scope: Scope, node: cst.NamedExpr) -> ir.Expr:
    value = reader.expr(scope, node.value)
    if not isinstance(node.target, cst.Name):
        return ir.Opaque((value,), span=reader.span(node))
    return ir.Walrus(reader.name(scope, node.target), value, span=reader.span(node))


# Each entry takes the class it stands under; the table is the one place that knows.
_EXPRESSIONS: dict[type[cst.CSTNode], Callable[..., ir.Expr]] = {
    cst.Integer: _number,
    cst.Float: _number,
    cst.Imaginary: _unknown_literal,
    cst.Ellipsis: _unknown_literal,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _string,
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Call: _call,
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.Comparison: _comparison,
    cst.BooleanOperation: _logic,
    cst.IfExp: _choice,
    cst.Tuple: _display,
    cst.List: _display,
    cst.Set: _display,
    cst.Dict: _dict,
    cst.Lambda: _lambda,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.DictComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.NamedExpr: _walrus,
}
