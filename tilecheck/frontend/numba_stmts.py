"""Statements of numba kernels, and inlining of device functions.

Loops over `range` stay loops; a loop over a tuple, an array, `enumerate` or `zip` of them counts an index and takes the
items by it. `raise` and a failing `assert` end the thread (numba without debug mode). A statement that is not
understood becomes `Unread`, which may touch the arrays that it names and may hold a barrier.

Worked example: `for d in (4, 2, 1): ...` is `For("%1", 0, 3, 1, (Assign("d", Item((4, 2, 1), %1)), ...))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.numba_build import MAX_DEPTH, MAX_INLINES, Frame, LoopFrame, settled, usage_of
from tilecheck.frontend.numba_calls import Calls
from tilecheck.frontend.numba_exprs import binary_symbol, names_in
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, ModuleValue, Ref, parameters
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Const,
    Continue,
    Do,
    Expr,
    Extent,
    For,
    If,
    Inline,
    Item,
    Name,
    Opaque,
    OpCall,
    Return,
    Stmt,
    TupleExpr,
    Unary,
    While,
)
from tilecheck.ir.simt import Atomic, BarrierValue, FillSlice, Load, SliceExpr, Store, SubArray, Warp

# A sequence to loop over: its length, and its item at an index.
Sequence_ = tuple[Expr, Callable[[Expr], Expr]]


class Statements(Calls):
    """Lowering of statements and of whole functions."""

    def suite(self, body: cst.BaseSuite | Sequence[cst.CSTNode]) -> None:
        """Lower the statements of a body."""
        statements = body.body if isinstance(body, cst.BaseSuite) else body
        for statement in statements:
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
                self._while(node, span)
            case cst.For():
                self._for(node, span)
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
        known = dict(self.known)
        with self.block() as then:
            self.suite(node.body)
        after = self.known
        self.known = known
        with self.block() as otherwise:
            if isinstance(other, cst.If):
                self._if(other, self.span(other))
            elif other is not None:
                self.suite(other.body)
        self.known = {name: value for name, value in self.known.items() if after.get(name) is value}
        self.emit(If(cond, tuple(then), tuple(otherwise), span=span))

    def _loop_body(self, node: cst.While | cst.For, span: Span, completed: str | None) -> None:
        self._forget(node)
        self.frame.loops.append(LoopFrame(completed))
        self.suite(node.body)
        self.frame.loops.pop()
        self._forget(node)

    def _forget(self, node: cst.While | cst.For) -> None:
        """What is assigned in a loop is not known at its head, nor after it."""
        for name in usage_names(node):
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

    def _while(self, node: cst.While, span: Span) -> None:
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

    def _for(self, node: cst.For, span: Span) -> None:
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

    def _sequence(self, node: cst.BaseExpression) -> Sequence_ | None:
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
            if path == "numba.literal_unroll" and len(node.args) == 1:
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

    # ---- helpers

    def inline(self, function: FunctionValue, node: cst.Call) -> Expr:
        span = self.span(node)
        name = function.name
        if any(frame.function.node is function.node for frame in self.frames):
            return self.unread_call(f"{name}` recursively: `{name}", node, span)
        if len(self.frames) >= MAX_DEPTH or self.inlines >= MAX_INLINES:
            return self.unread_call(name, node, span)
        params = parameters(function.node)
        given = self._match(params, node)
        if given is None or isinstance(function.node.params.star_arg, cst.Param) or function.node.asynchronous:
            return self.unread_call(name, node, span)
        self.inlines += 1
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
        result = frame.result if _returns_value(function.node) else None
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
        from tilecheck.frontend.fold import fold

        value = fold(param.default, function.scope.lookup)
        if value is UNKNOWN:
            return Opaque(f"the default of `{param.name.value}`", span=span)
        return self.constant(value, span, param.name.value)


def _ellipsis(part: object) -> bool:
    return isinstance(part, Const) and part.value == "..."


def _returns_value(node: cst.FunctionDef) -> bool:
    """Whether a `return` of `node` itself carries a value other than None."""
    found = False

    def visit(at: cst.CSTNode) -> None:
        nonlocal found
        if isinstance(at, cst.FunctionDef | cst.Lambda | cst.ClassDef) and at is not node:
            return
        if isinstance(at, cst.Return) and at.value is not None:
            found = found or not (isinstance(at.value, cst.Name) and at.value.value == "None")
        for child in at.children:
            visit(child)

    visit(node)
    return found


def usage_names(node: cst.CSTNode) -> set[str]:
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
        for child in at.children:
            visit(child)

    visit(node)
    return names
