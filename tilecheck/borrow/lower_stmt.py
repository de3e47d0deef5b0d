"""Statements of the host IR as flow: bindings, branches, loops, `try`, `with` and `match`.

A statement that runs others hands over their blocks (`ir/flow.py`), and what is known of a variable after it is what all
its ways agree on. Expressions are in `lower_expr.py`.

Worked example. `if a: op.sync()` is the test, then `Branch(((Finish("op"),), ()))`; that `a` is true is supposed inside of
the first arm, that it is false inside of the second.
"""

from __future__ import annotations

from functools import partial

from tilecheck.borrow.binding import bind, indexed_by, is_even, iterate
from tilecheck.borrow.blocks import check_decorator
from tilecheck.borrow.containers import extend
from tilecheck.borrow.context import Operand, Where
from tilecheck.borrow.contracts import tensor_annotation
from tilecheck.borrow.decisions import conditions
from tilecheck.borrow.expected import expects_refusal, must_raise, never
from tilecheck.borrow.kernel_language import is_of_host
from tilecheck.borrow.lower_expr import Expressions
from tilecheck.borrow.managers import may_wait
from tilecheck.borrow.narrowing import decided, suppose, suppose_none
from tilecheck.borrow.program import Program
from tilecheck.borrow.remainders import bindings_of, tested_in, zero_tests
from tilecheck.borrow.spell import spell
from tilecheck.borrow.survey import Survey, compared, target_names
from tilecheck.borrow.types import value_of_annotation, value_of_type
from tilecheck.borrow.values import NOTHING, Array, Handle, Items, KernelValue, Many, Nothing, Number, Thing, Value
from tilecheck.borrow.vocabulary import HOST_ONLY, canonical
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind, Site, Touch


class Statements(Expressions):
    """Lowers the statements of one function."""

    def __init__(self, program: Program, part: Survey) -> None:
        super().__init__(program)
        self.part = part
        self.tested = tested_in(part)
        self.bindings = partial(bindings_of, part)
        self.mentions, self.aliased = part.reads, part.renamed
        self.mentions.update(param.name for param in part.params)
        self.on_host = isinstance(part.unit, ir.HostModule) or part.launches or bool(part.full & HOST_ONLY)
        self.is_of_host = partial(is_of_host, program, part)
        self.conditions = conditions(part, lambda: program.shifting)
        self.expected: list[Span] = []
        # The functions that a test gets to see them raise.
        self.raising: set[str] = set()
        self.outer: frozenset[str] = frozenset()
        self.captured: frozenset[str] = frozenset()
        self.rebound = frozenset(self.program.survey.declared & part.names.keys() - _own(part))

    def enter(self) -> None:
        """Bind the parameters, and find out which variables other code shares."""
        for param in self.part.params:
            self._param(param)
        owner = self.program.owner(self.part)
        unit = self.part.unit
        if owner is not None and isinstance(unit, ir.Function) and unit.params and not unit.decorators:
            self.env[unit.params[0].name] = Thing(owner, owner not in self.program.derived)
        local = self.part.local
        shared = {name for inner in self.part.nested for name in inner.names}
        self.outer = frozenset((self.part.names.keys() - local) | self.part.declared)
        self.captured = frozenset(shared - self.outer)
        self.attributes = self.program.attributes(self.part)
        self.is_given = partial(self.program.is_given, self.part)
        self.in_async = isinstance(self.part.unit, ir.Function) and self.part.unit.is_async
        # A local of the same name as a constant of the module is not the constant.
        for name in local:
            self.env.setdefault(name, NOTHING)

    def _param(self, param: ir.HostParam) -> None:
        value: Value = NOTHING
        if param.annotation is not None:
            tensor = tensor_annotation(param.name, param.annotation, self.program.find, {})
            if tensor is not None:
                value = Array("tilecheck", tensor.dtype, None, tensor.access)
            else:
                value = value_of_annotation(param.annotation) or self._thing(param.annotation)
        if param.type is not None:
            value = value_of_type(param.type) or value
        kind = Kind.TENSOR if isinstance(value, Array) and value.library == "tilecheck" else Kind.OTHER
        if value == Handle("stream"):
            kind = Kind.GIVEN_STREAM
        self.env[param.name] = value
        self.emit(instructions.Make(param.name, Site(kind, param.name, param.span), span=param.span))

    def _thing(self, note: ir.Expr) -> Value:
        full = note.full if isinstance(note, ir.Name | ir.Attr) else None
        return Thing(full) if full is not None and self.program.class_of(full) is not None else NOTHING

    def body(self, statements: tuple[ir.Stmt, ...]) -> None:
        """Lower a whole body; the function leaves at its end if not before."""
        self.statements(statements)
        if statements:
            self.emit(instructions.Leave(None, span=_end(statements)))

    def statements(self, statements: tuple[ir.Stmt, ...]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ir.Stmt) -> None:
        match node:
            case ir.Do(value=value):
                if isinstance(value, ir.Call) and must_raise(value):
                    self.expected += [arg.span for arg in value.args[1:]]
                    self.raising.update(arg.value.id for arg in value.args[1:] if isinstance(arg.value, ir.Name))
                self._do(value)
            case ir.Assign(targets=targets, value=value):
                if value is not None:
                    self._assign(targets, value)
            case ir.Augment():
                self._augment(node)
            case ir.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ir.Name):
                        self.emit(instructions.Unbind(self.renamed.get(target.id, target.id), span=node.span))
                    else:
                        self.escape(self.expr(target), node.span)
                    if isinstance(target, ir.Sub):
                        self.set(target.base, NOTHING)
            case ir.Return(value=returned):
                operand = self.expr(returned) if returned is not None else Operand(None)
                self.emit(instructions.Leave(operand.var, span=node.span))
                self.emit(flow.Exit("return", span=node.span))
            case ir.Raise(value=raised):
                if raised is not None:
                    self.escape(self.expr(raised), node.span)
                self.emit(flow.Exit("raise", span=node.span))
            case ir.Assert(test=test):
                with self.asserted():
                    self.read(test)
                suppose(self, test, True)
            case ir.Break():
                self.emit(flow.Exit("break", span=node.span))
            case ir.Continue():
                self.emit(flow.Exit("continue", span=node.span))
            case ir.If(test=test, then=then, other=other):
                self._if(node, test, then, other)
            case ir.While():
                self._while(node)
            case ir.For(target=target, source=source, body=body, orelse=orelse):
                tail = (lambda: self.statements(orelse)) if orelse else None
                for operand in map(self.expr, indexed_by(target, source, body)):
                    if not isinstance(operand.value, Array):
                        self.escape(operand, source.span)
                iterate(self, target, source, lambda: self.statements(body), tail, node.span, is_even(source, body))
            case ir.Try():
                self._try(node)
            case ir.With(items=items, body=body):
                self._with(items, body, node.span)
            case ir.Match():
                self._match(node)
            case ir.Function(name=name) | ir.Class(name=name):
                self._define(node, name)
            case _:
                pass

    def _define(self, node: ir.Function | ir.Class, name: str) -> None:
        for decorator in node.decorators:
            check_decorator(self, decorator)
            self.expr(decorator)
        if isinstance(node, ir.Function):
            for param in node.params:
                if param.default is not None:
                    self.escape(self.expr(param.default), param.span)
            if node.full is None:
                self.env[name] = self.program.callable(node) or NOTHING

    def _do(self, value: ir.Expr) -> None:
        self.unread = value
        operand = self.expr(value)
        kernel = operand.value if isinstance(operand.value, KernelValue) else None
        if kernel is not None and kernel.config is not None and isinstance(value, ir.Sub):
            message = f"`{spell(value)}` is not called, nothing is launched"
            self.fault("launch-contract", message, value.span, f"pass the arguments: `{spell(value)}(...)`")
        if isinstance(value, ir.Call | ir.Await | ir.Comprehension | ir.Display) or kernel is not None:
            return
        self.look(operand, value)

    def _assign(self, targets: tuple[ir.Expr, ...], value: ir.Expr) -> None:
        first = targets[0]
        together = (
            len(targets) == 1
            and isinstance(first, ir.Display)
            and isinstance(value, ir.Display)
            and len(first.items) == len(value.items)
            and not any(isinstance(item, ir.Starred) for item in (*first.items, *value.items))
        )
        if together and isinstance(first, ir.Display) and isinstance(value, ir.Display):
            names = [target.id if isinstance(target, ir.Name) else None for target in first.items]
            operands = [
                self._settled(self.expr(item, name), item) for item, name in zip(value.items, names, strict=True)
            ]
            for target, operand, item in zip(first.items, operands, value.items, strict=True):
                bind(self, target, operand, item)
            return
        bound = [name for target in targets for name in target_names(target)]
        inner = not isinstance(self.part.unit, ir.HostModule)
        plain = all(isinstance(target, ir.Name | ir.Display) for target in targets)
        self.unread = value if inner and plain and not any(self.mentions[name] > 0 for name in bound) else None
        operand = self.expr(value, first.id if isinstance(first, ir.Name) else None)
        for target in targets:
            bind(self, target, operand, value)

    def _settled(self, operand: Operand, node: ir.Expr) -> Operand:
        """The object itself, so that `a, b = b, a` reads both before it binds one."""
        own = operand.var in self.renamed.values()
        if operand.var is None or (operand.var.startswith("%") and not own):
            return operand
        var = self.temp()
        self.emit(instructions.Bind(var, operand.var, span=node.span))
        return Operand(var, operand.value)

    def _augment(self, node: ir.Augment) -> None:
        var = self.renamed.get(node.target.id, node.target.id) if isinstance(node.target, ir.Name) else ""
        known = self.env.get(var, NOTHING)
        if node.op == "+" and isinstance(known, Items | Many):
            extend(self, node.target, Operand(var, known), node.value)
            return
        self.read(node.value)
        if isinstance(node.target, ir.Name):
            operand = Operand(var, known)
            if isinstance(known, Array | Items):
                self.look(operand, node.target, Touch.WRITE if isinstance(known, Array) else Touch.READ)
                return
            self.look(operand, node.target, Touch.READ)
            found = self.number(ir.Operation(node.op, (node.target, node.value), span=node.span))
            # What it was before is not there to be read any more.
            value = Number(found) if found is not None else Nothing(ir.Opaque((node.value,), span=node.span))
            bind(self, node.target, Operand(None, value), node.value)
            return
        target = self.expr(node.target)
        self.look(target, node.target, Touch.WRITE)
        self.set(node.target, NOTHING)

    # ---- control flow

    def _if(self, node: ir.Stmt, test: ir.Expr, then: tuple[ir.Stmt, ...], other: tuple[ir.Stmt, ...]) -> None:
        self.read(test)
        holds = decided(self, test) if self.inlined else None
        if holds is not None:
            # At this call only one way is open.
            self.statements(then if holds else other)
            return
        before = dict(self.env)
        outside, self.tested = self.tested, self.tested | zero_tests(node)
        first = self.block_of(lambda: self._arm(test, True, then))
        self.tested = outside
        after, self.env = self.env, before
        second = self.block_of(lambda: self._arm(test, False, other))
        self.assume(after)
        self.emit(flow.Branch((first, second), span=node.span))

    def _arm(self, test: ir.Expr, holds: bool, body: tuple[ir.Stmt, ...]) -> None:
        suppose(self, test, holds)
        self.statements(body)

    def _while(self, node: ir.While) -> None:
        self.loops += 1
        before = dict(self.env)
        self.settle(partial(self._round, node))
        test = self.block_of(lambda: self.read(node.test))
        body = self.block_of(lambda: self._arm(node.test, True, node.body))
        self.loops -= 1
        self.assume(before)
        tail = self.block_of(lambda: self._arm(node.test, False, node.orelse))
        endless = isinstance(node.test, ir.Const) and bool(node.test.value)
        self.emit(flow.Loop(test, body, tail, endless=endless, span=node.span))

    def _round(self, node: ir.While) -> None:
        self.read(node.test)
        self.statements(node.body)

    def _try(self, node: ir.Try) -> None:
        if len(node.body) == 1 and any(map(expects_refusal, node.handlers)):
            self.expected.append(node.body[0].span)
        before = dict(self.env)
        body = self.block_of(lambda: self.statements(node.body))
        after = dict(self.env)
        self.assume(before)
        thrown = dict(self.env)
        handlers: list[flow.Block] = []
        ends: list[dict[str, Value]] = []
        for handler in node.handlers:
            self.env = dict(thrown)
            handlers.append(self.block_of(partial(self._handler, handler)))
            ends.append(self.env)
        self.env = after
        orelse = self.block_of(lambda: self.statements(node.orelse))
        for end in ends:
            self.assume(end)
        settled = dict(self.env)
        self.assume(thrown)
        final = self.block_of(lambda: self.statements(node.final))
        if not node.final:
            self.env = settled
        self.emit(flow.Guard(body, tuple(handlers), orelse, final, span=node.span))

    def _handler(self, handler: ir.Handler) -> None:
        if handler.name is not None:
            bind(self, handler.name, Operand(None), handler.name)
        self.statements(handler.body)

    def _with(self, items: tuple[ir.WithItem, ...], body: tuple[ir.Stmt, ...], span: Span) -> None:
        if not items:
            self.statements(body)
            return
        item, rest = items[0], items[1:]
        operand = self.expr(item.context)
        if item.target is not None:
            bind(self, item.target, operand, item.context)
        kind = operand.value.kind if isinstance(operand.value, Handle) else None
        if isinstance(item.context, ir.Call) and canonical(item.context.func) == "tilecheck.streams":
            outer_policy, self.policy = self.policy, self.make(Kind.OTHER, "stream", item.span)
            self._with(rest, body, span)
            self.policy = outer_policy
        elif must_raise(item.context):
            self.expected += [statement.span for statement in body]
            inside = self.block_of(lambda: self._with(rest, body, span))
            self.emit(flow.Guard((*inside, *never(span)), ((),), span=span))
        elif kind == "current stream":
            before, self.stream = self.stream, operand.var
            self._with(rest, body, span)
            self.stream = before
        elif kind == "synced stream" and operand.var is not None:
            inside = self.block_of(lambda: self._with(rest, body, span))
            leave: flow.Block = (instructions.SyncStream(operand.var, span=item.span),)
            self.emit(flow.Guard(inside, (), (), leave, span=span))
        elif kind == "scope":
            outer: tuple[Where, str] = self.where, self.scope
            self.where, self.scope = "scope", spell(item.target) if item.target is not None else "scope"
            self._with(rest, body, span)
            self.where, self.scope = outer
            if operand.var is not None:
                self.emit(instructions.Seal(operand.var, span=item.span))
        elif may_wait(self.program, item.context, operand.value):
            inside = self.block_of(lambda: self._with(rest, body, span))
            with self.gather() as left:
                self.escape(operand, item.span)
                self.emit(instructions.Clobber(span=item.span))
            self.emit(flow.Guard(inside, (), (), tuple(left), span=span))
        else:
            self._with(rest, body, span)

    def _match(self, node: ir.Match) -> None:
        subject = self.read(node.subject)
        before = dict(self.env)
        arms: list[flow.Block] = []
        ends: list[dict[str, Value]] = []
        left = True
        passed: tuple[ir.Expr, ...] = ()
        for case in node.cases:
            self.env = dict(before)
            arms.append(self.block_of(partial(self._case, case, node.subject, subject, left, passed)))
            ends.append(self.env)
            left = left and not (case.none and case.guard is None)
            passed += () if case.guard is not None else case.values
        both = {value.value for value in passed if isinstance(value, ir.Const) and isinstance(value.value, bool)}
        if not any(case.always for case in node.cases) and len(both) < 2:
            self.env = dict(before)
            arms.append(self.block_of(partial(self._passed, passed, node.subject, left)))
            ends.append(before)
        self.env = ends[0]
        for end in ends[1:]:
            self.assume(end)
        self.emit(flow.Branch(tuple(arms), span=node.span))

    def _passed(self, passed: tuple[ir.Expr, ...], subject: ir.Expr, may_be_none: bool) -> None:
        """`subject` was none of the values `passed`."""
        if not may_be_none:
            suppose_none(self, subject, False)
        for value in passed:
            suppose(self, compared(subject, value), False)

    def _case(
        self, case: ir.Case, subject: ir.Expr, operand: Operand, may_be_none: bool, passed: tuple[ir.Expr, ...]
    ) -> None:
        self._passed(passed, subject, may_be_none or case.none)
        if case.none:
            suppose_none(self, subject, True)
        if case.values:
            either = tuple(compared(subject, value) for value in case.values)
            suppose(self, ir.Logic("or", either, span=case.span) if len(either) > 1 else either[0], True)
        for name in case.names:
            bind(self, name, operand if case.always else Operand(None), name)
        if case.guard is not None:
            self.read(case.guard)
        self.statements(case.body)


def _own(part: Survey) -> set[str]:
    """The variables of a function that no nested one and no other shares, whatever they are called."""
    return part.local - part.declared if isinstance(part.unit, ir.Function | ir.Lambda) else set()


def _end(statements: tuple[ir.Stmt, ...]) -> Span:
    return statements[-1].span
