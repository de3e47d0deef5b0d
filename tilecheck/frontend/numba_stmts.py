"""Statements of numba kernels: assignments, stores, branches.

The right side is evaluated before the target, and `a, b = b, a` names every value before the first target changes.
`raise` and a failing `assert` end the thread (numba without debug mode). A statement that is not understood becomes
`Unread`, which may touch the arrays that it names and may hold a barrier.

Worked example: `x[i] += v` is `Store(x, (i,), Binary("+", Load(x, (i,)), v), update=True)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.numba_build import names_in, settled
from tilecheck.frontend.numba_calls import Calls
from tilecheck.frontend.numba_exprs import binary_symbol
from tilecheck.frontend.scopes import ClassValue, FunctionValue, ModuleValue, Ref
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Const,
    Continue,
    Do,
    Expr,
    If,
    Name,
    Opaque,
    OpCall,
    Return,
)
from tilecheck.ir.simt import Atomic, BarrierValue, FillSlice, Load, SliceExpr, Store, SubArray, Warp


class Statements(Calls):
    """Lowering of statements; loops are left to the subclass."""

    @abstractmethod
    def while_loop(self, node: cst.While, span: Span) -> None:
        """Lower a `while`."""

    @abstractmethod
    def for_loop(self, node: cst.For, span: Span) -> None:
        """Lower a `for`."""

    def suite(self, body: cst.BaseSuite | Sequence[cst.CSTNode]) -> None:
        """Lower the statements of a body."""
        statements = body.body if isinstance(body, cst.BaseSuite) else body
        for statement in statements:
            self.folded.clear()
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._simple(small)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._simple(statement)
            else:
                self._compound(statement)

    def _simple(self, node: cst.CSTNode) -> None:
        span = self.span(node)
        match node:
            case cst.Pass() | cst.Global() | cst.Nonlocal() | cst.Import() | cst.ImportFrom() | cst.Del():
                return
            case cst.Expr(value=value):
                self._effect(value)
            case cst.Assign(targets=targets, value=value):
                self._assign([target.target for target in targets], value, span)
            case cst.AnnAssign(target=target, value=value):
                if value is not None:
                    self._assign([target], value, span)
            case cst.AugAssign(target=target, operator=op, value=value):
                self._augmented(target, binary_symbol(op), value, span)
            case cst.Return(value=value):
                self.emit(Return(None if value is None else self.expr(value), span=span))
            case cst.Break():
                loops = self.frame.loops
                if loops and loops[-1].completed is not None:
                    self.emit(Assign(loops[-1].completed, Const(False, span=span), span=span))
                self.emit(Break(span=span))
            case cst.Continue():
                self.emit(Continue(span=span))
            case cst.Assert(test=test, msg=message):
                text = None if message is None else self.static(message)
                self.emit(Assert(self.expr(test), text if isinstance(text, str) else None, span=span))
            case cst.Raise():
                self.emit(Assert(Const(False, span=span), "raise", span=span))
            case _:
                self.unread(f"a statement not read ({type(node).__name__})", span, None, barrier=True)

    def _effect(self, value: cst.BaseExpression) -> None:
        """An expression statement."""
        if isinstance(value, cst.SimpleString | cst.ConcatenatedString | cst.Ellipsis):
            return
        before = len(self.out)
        result = self.expr(value)
        last = self.out[-1] if len(self.out) > before else None
        if isinstance(last, Assign) and isinstance(result, Name) and last.target == result.id:
            if isinstance(last.value, Atomic | Warp | BarrierValue):  # the value is not wanted
                self.out[-1] = Do(last.value, span=last.span)
        elif not settled(result):
            self.emit(Do(result, span=self.span(value)))

    # ---- assignment

    def _assign(self, targets: list[cst.BaseExpression], node: cst.BaseExpression, span: Span) -> None:
        first = targets[0]
        if len(targets) == 1 and isinstance(first, cst.Name) and self._bind_name(first.value, node, span):
            return
        if len(targets) == 1 and isinstance(first, cst.Tuple) and self._unpack_display(first, node, span):
            return
        value = self.array_value(first.value if isinstance(first, cst.Name) else None, node)
        if len(targets) > 1:
            value = self.named(value)
        for target in targets:
            self.store(target, value, span)

    def _bind_name(self, name: str, node: cst.BaseExpression, span: Span) -> bool:
        """`name = node` where node is an allocation, a namespace or a function; False for ordinary values."""
        target = self.local(name) or name
        once = self.frame.usage.assigned.get(name, 0) == 1
        static = self.static(node)
        namespace = isinstance(static, FunctionValue | ClassValue | ModuleValue) or (
            isinstance(static, Ref) and isinstance(self.reference(static, span), Opaque)
        )
        if once and namespace:
            self.frame.statics[name] = static
            return True
        wanted = self._shared_name(target, name) if once else None
        made = self.allocation(node, wanted)
        if made is None:
            return False
        if not (isinstance(made, Name) and made.id == target):
            self.assign(target, made, span)
        return True

    def _shared_name(self, target: str, name: str) -> str:
        """Shared memory of a helper belongs to the helper, whichever call reaches it."""
        return target if not self.frame.prefix else f"{self.frame.function.name}.{name}"

    def array_name(self, target: str | None) -> str:
        if target is not None and self.frame.prefix:
            return target
        return super().array_name(target)

    def _unpack_display(self, target: cst.Tuple, node: cst.BaseExpression, span: Span) -> bool:
        """`a, b = x, y` without a tuple in between: every value is named before the first target changes."""
        if not isinstance(node, cst.Tuple) or len(node.elements) != len(target.elements):
            return False
        elements = [*node.elements, *target.elements]
        if any(not isinstance(element, cst.Element) for element in elements):
            return False
        pairs = list(zip(target.elements, node.elements, strict=True))
        thunks = [self._right_side(to.value, value.value) for to, value in pairs]
        values = self.in_order(thunks)
        kept = [self._frozen(value) for value in values]
        for (to, _), value in zip(pairs, kept, strict=True):
            self.store(to.value, value, span)
        return True

    def _right_side(self, target: cst.BaseExpression, node: cst.BaseExpression) -> Callable[[], Expr]:
        name = target.value if isinstance(target, cst.Name) else None
        return lambda: self.array_value(name, node)

    def _frozen(self, value: Expr) -> Expr:
        """`value` under a fresh name unless it is constant."""
        if isinstance(value, Const) or not names_in(value):
            return value if settled(value) else self.named(value)
        name = self.fresh()
        self.assign(name, value, value.span)
        return Name(name, span=value.span)

    def store(self, target: cst.BaseExpression, value: Expr, span: Span) -> None:
        """`target = value`, the value already lowered."""
        match target:
            case cst.Name(value=name):
                self.assign(self.local(name) or name, value, span)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                self._unpack([element.value for element in elements], value, span)
            case cst.Subscript():
                if self.tuple_items(value) is None and not settled(value):
                    value = self._before_index(target, value)
                array, index, field = self.subscript_parts(target)
                if any(isinstance(part, SliceExpr) or _ellipsis(part) for part in index):
                    self.emit(FillSlice(array, index, value, span=span))
                else:
                    self.emit(Store(array, index, value, field, span=span))
            case cst.Attribute(value=base, attr=cst.Name(value=name)):
                array = self.array(base)
                if isinstance(array, SubArray):
                    self.emit(Store(array.array, array.index, value, name, span=span))
                else:
                    self.emit(Store(array, (), value, name, span=span))
            case _:
                self.unread("an assignment target that is not read", span, None, barrier=False)

    def _before_index(self, target: cst.Subscript, value: Expr) -> Expr:
        """Python evaluates the right side before the target's index: name it if the index has statements of its own."""
        with self.block() as emitted:
            self.subscript_parts(target)
        return self.named(value) if emitted else value

    def _unpack(self, targets: list[cst.BaseExpression], value: Expr, span: Span) -> None:
        items = self.tuple_items(value)
        if any(isinstance(target, cst.StarredElement) for target in targets):
            self.unread("a starred assignment", span, names_in(value), barrier=False)
            return
        if items is None and not (isinstance(value, OpCall) and value.op == "shape") and not isinstance(value, Name):
            name = self.fresh()
            self.assign(name, value, span)
            value = Name(name, span=span)
        parts = [self.item(value, index, span) for index in range(len(targets))]
        if len(targets) > 1 and any(names_in(part) for part in parts) and items is not None:
            parts = [self._frozen(part) for part in parts]
        for target, part in zip(targets, parts, strict=True):
            self.store(target, part, span)

    def _augmented(self, target: cst.BaseExpression, op: str, value: cst.BaseExpression, span: Span) -> None:
        if isinstance(target, cst.Name):
            name = self.local(target.value) or target.value
            old = Name(name, span=self.span(target))
            self.assign(name, Binary(op, old, self.expr(value), span=span), span)  # type: ignore[arg-type]
            return
        if isinstance(target, cst.Attribute):
            array: Expr = self.array(target.value)
            index: tuple[Expr, ...] = ()
            field: str | None = target.attr.value
            if isinstance(array, SubArray):
                index, array = array.index, array.array
        elif isinstance(target, cst.Subscript):
            array, parts, field = self.subscript_parts(target)
            if any(isinstance(part, SliceExpr) or _ellipsis(part) for part in parts):
                old_value = Opaque("an updated slice", span=span)
                self.emit(FillSlice(array, parts, Binary(op, old_value, self.expr(value), span=span), span=span))  # type: ignore[arg-type]
                return
            index = tuple(part if settled(part) else self.named(part) for part in parts)
        else:
            self.unread("an augmented assignment that is not read", span, None, barrier=False)
            return
        load = Load(array, index, field, span=self.span(target))
        a, b = self.in_order([lambda: load, lambda: self.expr(value)])
        self.emit(Store(array, index, Binary(op, a, b, span=span), field, update=True, span=span))  # type: ignore[arg-type]

    # ---- control flow

    def _compound(self, node: cst.CSTNode) -> None:
        span = self.span(node)
        match node:
            case cst.If():
                self._if(node, span)
            case cst.While():
                self.while_loop(node, span)
            case cst.For():
                self.for_loop(node, span)
            case cst.With():
                for item in node.items:
                    self.expr(item.item)
                self.suite(node.body)
            case cst.FunctionDef() | cst.ClassDef():
                return
            case cst.Try() | cst.TryStar():
                self.suite(node.body)
                self.unread("handlers of a `try` statement", span, None, barrier=True)
            case _:
                self.unread(f"a statement not read ({type(node).__name__})", span, None, barrier=True)

    def _if(self, node: cst.If, span: Span) -> None:
        chosen = self.static(node.test)
        other = node.orelse
        if isinstance(chosen, int | float | str) or chosen is None:
            if chosen:
                self.suite(node.body)
            elif isinstance(other, cst.If):
                self._if(other, self.span(other))
            elif other is not None:
                self.suite(other.body)
            return
        cond = self.expr(node.test)
        before = self.remembered()
        with self.block() as then:
            self.suite(node.body)
        after = self.remembered()
        self.recall(before)
        with self.block() as otherwise:
            if isinstance(other, cst.If):
                self._if(other, self.span(other))
            elif other is not None:
                self.suite(other.body)
        self.meet(after)
        self.emit(If(cond, tuple(then), tuple(otherwise), span=span))

    # ---- what is known where ways part and meet

    def remembered(self) -> tuple[dict[str, object], ...]:
        """Copies of the tables of what names stand for."""
        return (dict(self.known),)

    def recall(self, tables: tuple[dict[str, object], ...]) -> None:
        """Go back to what was `remembered`."""
        self.known = dict(tables[0])  # type: ignore[arg-type]

    def meet(self, tables: tuple[dict[str, object], ...]) -> None:
        """Keep what is the same here and in `tables`, which another way has brought."""
        self.known = {name: value for name, value in self.known.items() if tables[0].get(name) is value}


def _ellipsis(part: object) -> bool:
    return isinstance(part, Const) and part.value == "..."
