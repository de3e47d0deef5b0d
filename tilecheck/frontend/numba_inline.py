"""Device functions, inlined where they are called.

A call becomes an `Inline` whose body first assigns the parameters under fresh names (`scale.x`, then `scale#2.x`), so a
name means one thing in the whole kernel. A nested function sees the variables of the functions around it. Recursion and
calls that do not fit the signature are `Unread`.

Worked example: `y = scale(v, 2)` is `Inline("scale", (scale.x = v, scale.by = 2, Return(scale.x * scale.by)),
result="scale.()")` and `y = scale.()`.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.fold import fold
from tilecheck.frontend.numba_build import MAX_DEPTH, MAX_INLINES, Frame, usage_of
from tilecheck.frontend.numba_loops import Loops
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, Ref, parameters
from tilecheck.frontend.syntax import parts
from tilecheck.ir.kernel import (
    Const,
    Expr,
    Inline,
    Item,
    Name,
    Opaque,
    Return,
    Stmt,
    TupleExpr,
)


class Lowering(Loops):
    """Lowering of whole kernels."""

    def inline(self, function: FunctionValue, node: cst.Call) -> Expr:
        span = self.span(node)
        name = function.name
        if any(frame.function.node is function.node for frame in self.frames):
            return self.unread_call(f"{name}` recursively: `{name}", node, span)
        if len(self.frames) >= MAX_DEPTH or len(self.inlined) >= MAX_INLINES:
            return self.unread_call(name, node, span)
        params = parameters(function.node)
        given = self._match(params, node)
        if given is None or isinstance(function.node.params.star_arg, cst.Param) or function.node.asynchronous:
            return self.unread_call(name, node, span)
        self.inlined.append(function.node)
        statics = {key: self.static(argument) for key, argument in given.items()}
        thunks = [self._passed(n) for n in given.values()]
        values = dict(zip(given, self.in_order(thunks), strict=True))
        prefix = self.call_prefix(name)
        frame = Frame(function, prefix, usage_of(function.node), self._outer(function), result=f"{prefix}()")
        for key, static in statics.items():
            if isinstance(static, Ref | FunctionValue | ClassValue) and isinstance(values[key], Opaque):
                frame.statics[key] = static
        foreign = function.scope.source is not self.source
        with self.block() as body:
            for param in params:
                text = param.name.value
                if text in frame.statics:
                    continue
                value = values[text] if text in values else self._default(param, function, span)
                self.assign(prefix + text, value, value.span)
            self.frames.append(frame)
            self.suite(function.node.body)
            self.frames.pop()
        result = frame.result if returns_value(function.node) else None
        self.emit(Inline(name, tuple(body), result, foreign, span=span))
        if result is None:
            return Const(None, span=span)
        self._know_result(result, body)
        return Name(result, span=span)

    def _know_result(self, result: str, body: list[Stmt]) -> None:
        """A helper with one return, at its end: its tuple or view is the call's."""
        last = body[-1] if body else None
        self.known.pop(result, None)
        if isinstance(last, Return) and last.value is not None and isinstance(last.value, TupleExpr):
            count = len(last.value.items)
            span = last.span
            self.known[result] = TupleExpr(
                tuple(Item(Name(result, span=span), Const(i, span=span), span=span) for i in range(count)), span=span
            )

    def _passed(self, node: cst.BaseExpression) -> Callable[[], Expr]:
        return lambda: self.array(node) if isinstance(node, cst.Subscript) and self._is_view(node) else self.expr(node)

    def _is_view(self, node: cst.Subscript) -> bool:
        return any(isinstance(element.slice, cst.Slice) for element in node.slice)

    def _outer(self, function: FunctionValue) -> Frame | None:
        """The frame whose variables a nested function sees."""
        for frame in reversed(self.frames):
            if function.node in frame.usage.functions.values():
                return frame
        return None

    def _match(self, params: tuple[cst.Param, ...], node: cst.Call) -> dict[str, cst.BaseExpression] | None:
        """Arguments by parameter, None if the call does not fit."""
        names = [param.name.value for param in params]
        given: dict[str, cst.BaseExpression] = {}
        for place, argument in enumerate(node.args):
            if argument.star or (argument.keyword is None and place >= len(names)):
                return None
            key = argument.keyword.value if argument.keyword is not None else names[place]
            if key not in names or key in given:
                return None
            given[key] = argument.value
        missing = [p for p in params if p.name.value not in given and p.default is None]
        return None if missing else given

    def _default(self, param: cst.Param, function: FunctionValue, span: Span) -> Expr:
        assert param.default is not None
        value = fold(param.default, function.scope.lookup)
        if value is UNKNOWN:
            return Opaque(f"the default of `{param.name.value}`", span=span)
        return self.constant(value, span, param.name.value)


def returns_value(node: cst.FunctionDef) -> bool:
    """Whether a `return` of `node` itself carries a value other than None."""
    found = False

    def visit(at: cst.CSTNode) -> None:
        nonlocal found
        if isinstance(at, cst.FunctionDef | cst.Lambda | cst.ClassDef) and at is not node:
            return
        if isinstance(at, cst.Return) and at.value is not None:
            found = found or not (isinstance(at.value, cst.Name) and at.value.value == "None")
        for child in parts(at):
            visit(child)

    visit(node)
    return found
