"""Loops of numba kernels.

Loops over `range` stay loops; a loop over a tuple, an array, `enumerate` or `zip` of them counts an index and takes the
items by it. A `while` whose condition needs statements of its own becomes `while True` with a `break`. An `else` clause
hangs on a flag that every `break` clears.

Worked example: `for d in (4, 2, 1): ...` is `For("%1", 0, 3, 1, (Assign("d", Item((4, 2, 1), %1)), ...))`.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.numba_build import LoopFrame, settled
from tilecheck.frontend.numba_stmts import Statements
from tilecheck.frontend.scopes import Ref
from tilecheck.frontend.syntax import parts
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Break,
    Const,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    OpCall,
    TupleExpr,
    Unary,
    While,
)
from tilecheck.ir.simt import Load

# What a loop runs over: its length, and its item at an index.
Run = tuple[Expr, Callable[[Expr], Expr]]


class Loops(Statements):
    """Lowering of loops; inlining is left to the subclass."""

    def _loop_body(self, node: cst.While | cst.For, span: Span, completed: str | None) -> None:
        self._forget(node)
        self.frame.loops.append(LoopFrame(completed))
        self.suite(node.body)
        self.frame.loops.pop()
        self._forget(node)

    def _forget(self, node: cst.While | cst.For) -> None:
        """What is assigned in a loop is not known at its head, nor after it."""
        for name in assigned_below(node):
            self.known.pop(self.local(name) or name, None)

    def _completed(self, node: cst.While | cst.For, span: Span) -> str | None:
        if node.orelse is None:
            return None
        name = self.fresh()
        self.emit(Assign(name, Const(True, span=span), span=span))
        return name

    def _else(self, node: cst.While | cst.For, span: Span, completed: str | None) -> None:
        if completed is None or node.orelse is None:
            return
        with self.block() as body:
            self.suite(node.orelse.body)
        self.emit(If(Name(completed, span=span), tuple(body), span=span))

    def while_loop(self, node: cst.While, span: Span) -> None:
        completed = self._completed(node, span)
        self._forget(node)
        with self.block() as before:
            cond = self.expr(node.test)
        with self.block() as body:
            self._loop_body(node, span, completed)
        if before:
            leave = If(Unary("not", cond, span=cond.span), (Break(span=cond.span),), span=cond.span)
            self.emit(While(Const(True, span=span), (*before, leave, *body), span=span))
        else:
            self.emit(While(cond, tuple(body), span=span))
        self._else(node, span, completed)

    def for_loop(self, node: cst.For, span: Span) -> None:
        bounds = self._range(node.iter)
        if bounds is not None:
            completed = self._completed(node, span)
            simple = isinstance(node.target, cst.Name)
            name = (
                self.local(node.target.value) or node.target.value
                if isinstance(node.target, cst.Name)
                else self.fresh()
            )
            self.known.pop(name, None)
            with self.block() as body:
                if not simple:
                    self.store(node.target, Name(name, span=span), span)
                self._loop_body(node, span, completed)
            self.emit(For(name, *bounds, tuple(body), span=span))
            self._else(node, span, completed)
            return
        sequence = self._sequence(node.iter)
        if sequence is None:
            text = self.source_text(node.iter)
            self.unread(f"a loop over `{text}`, which could not be read", span, None, barrier=True)
            return
        completed = self._completed(node, span)
        length, item = sequence
        counter = self.fresh()
        with self.block() as body:
            self.store(node.target, item(Name(counter, span=span)), span)
            self._loop_body(node, span, completed)
        zero, one = Const(0, span=span), Const(1, span=span)
        self.emit(For(counter, zero, length, one, tuple(body), span=span))
        self._else(node, span, completed)

    def _range(self, node: cst.BaseExpression) -> tuple[Expr, Expr, Expr] | None:
        """Start, stop, step of a `range(...)`, None for anything else."""
        if not isinstance(node, cst.Call) or not 1 <= len(node.args) <= 3 or any(a.star for a in node.args):
            return None
        function = self.static(node.func)
        if not isinstance(function, Ref) or function.path not in ("builtins.range", "numba.prange"):
            return None
        span = self.span(node)
        values = [self.named(v) if not settled(v) else v for v in self.arguments(node)]
        if len(values) == 1:
            return Const(0, span=span), values[0], Const(1, span=span)
        return values[0], values[1], values[2] if len(values) == 3 else Const(1, span=span)

    def _sequence(self, node: cst.BaseExpression) -> Run | None:
        """Length and items of what a loop runs over, None if it is not read."""
        span = self.span(node)
        bounds = self._range(node)
        if bounds is not None:
            start, stop, step = bounds
            if not (isinstance(step, Const) and step.value == 1):
                return None
            return Binary("-", stop, start, span=span), lambda k: Binary("+", start, k, span=span)
        if isinstance(node, cst.Call):
            function = self.static(node.func)
            path = function.path if isinstance(function, Ref) else ""
            if path == "builtins.enumerate" and len(node.args) == 1:
                inner = self._sequence(node.args[0].value)
                if inner is None:
                    return None
                return inner[0], lambda k: TupleExpr((k, inner[1](k)), span=span)
            if path == "builtins.zip" and node.args:
                parts = [self._sequence(a.value) for a in node.args]
                found = [part for part in parts if part is not None]
                if len(found) < len(parts):
                    return None
                length = found[0][0] if len(found) == 1 else OpCall("min", tuple(p[0] for p in found), span=span)
                return length, lambda k: TupleExpr(tuple(p[1](k) for p in found), span=span)
            if path.rpartition(".")[2] == "literal_unroll" and len(node.args) == 1:
                return self._sequence(node.args[0].value)
            return None
        value = self.array(node)
        items = self.tuple_items(value)
        if items is not None:
            if not items:
                return None
            kept = TupleExpr(items, span=span)
            return Const(len(items), span=span), lambda k: Item(kept, k, span=span)
        if isinstance(value, Name):
            return Extent(value, 0, span=span), lambda k: Load(value, (k,), span=span)
        return None


def assigned_below(node: cst.CSTNode) -> set[str]:
    """The names that the statements below `node` assign."""
    names: set[str] = set()

    def target(at: cst.CSTNode) -> None:
        if isinstance(at, cst.Name):
            names.add(at.value)
        elif isinstance(at, cst.Tuple | cst.List):
            for element in at.elements:
                target(element.value)

    def visit(at: cst.CSTNode) -> None:
        if isinstance(at, cst.Assign):
            for t in at.targets:
                target(t.target)
        elif isinstance(at, cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr):
            target(at.target)
        for child in parts(at):
            visit(child)

    visit(node)
    return names
