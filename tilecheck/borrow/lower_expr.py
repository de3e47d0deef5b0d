"""Expressions of the host IR as flow: operands, views, containers, conditional evaluation.

Reading a value in an operation, a test or a formatted string is a read of its memory; naming it, passing it on or asking
for its shape is not. Calls are in `calls.py`, subscripts in `subscripts.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilecheck.borrow.binding import bind, is_even, iterate
from tilecheck.borrow.calls import lower_call
from tilecheck.borrow.containers import counted, display, repeated
from tilecheck.borrow.context import Context, Operand
from tilecheck.borrow.continuations import run_on
from tilecheck.borrow.narrowing import suppose
from tilecheck.borrow.numbers import applied, plain
from tilecheck.borrow.objects import computed, field_of
from tilecheck.borrow.shapes import check_run, check_slice, reshaped, sliced_shape, viewed_dtype
from tilecheck.borrow.spell import spell
from tilecheck.borrow.subscripts import is_element, subscript
from tilecheck.borrow.types import value_of_type
from tilecheck.borrow.values import (
    NOTHING,
    Array,
    Closure,
    Handle,
    Items,
    KernelValue,
    Nothing,
    Number,
    Op,
    Pieces,
    Thing,
    Value,
    grown,
    join,
)
from tilecheck.borrow.vocabulary import LOOKED_AT, RUNNING, VIEWS
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Hold, Kind, Range, Site, Touch


class Expressions(Context):
    """Lowers expressions of one function."""

    def statements(self, statements: tuple[ir.Stmt, ...]) -> None:
        """Lower the statements of a function that is read where it is called; `lower_stmt.py` knows how."""
        raise TypeError("expressions hold no statements")

    def expr(self, node: ir.Expr, name: str | None = None) -> Operand:
        """Lower `node`; `name` is what the user is about to call its value."""
        found = self._expr(node, name)
        if isinstance(found.value, Nothing) and node.type is not None:
            typed = value_of_type(node.type)
            return Operand(found.var, typed) if typed is not None else found
        return found

    def read(self, node: ir.Expr) -> Operand:
        """Lower `node` where its value is read."""
        operand = self.expr(node)
        if not isinstance(operand.value, Number | KernelValue):
            self.look(operand, node, Touch.READ)
        return operand

    def ask(self, node: ir.Expr) -> Operand:
        """Lower `node` where only what is known without its memory is asked for."""
        operand = self.expr(node)
        self.look(operand, node)
        return operand

    def show(self, node: ir.Expr, otherwise: Touch = Touch.READ) -> Operand:
        """Lower `node` where its value is printed: of ours that says what is known of them, of NumPy it reads memory."""
        operand = self.expr(node)
        match operand.value:
            case Pieces() | Op() | Handle() | Number() | KernelValue() | Array(library="tilecheck"):
                pass
            case Array(library=library):
                self.look(operand, node, Touch.READ if library == "numpy" else Touch.LOOK)
            case _:
                self.look(operand, node, otherwise)
        return operand

    def _expr(self, node: ir.Expr, name: str | None) -> Operand:
        match node:
            case ir.Const(value=constant, known=known):
                return Operand(None, Number(constant) if known else NOTHING)
            case ir.Name(id=var, full=full):
                return Operand(self.renamed.get(var, var) if full is None else None, self.known(node))
            case ir.Attr():
                return self._attribute(node)
            case ir.Sub(base=ir.Attr(base=owner, name="__dict__"), index=ir.Const(value=str() as field)):
                return self._attribute(ir.Attr(owner, field, span=node.span))
            case ir.Sub():
                base = self.expr(node.base)
                if is_element(self, node, base.value):
                    self.look(base, node, Touch.READ)
                    return Operand(None)
                return subscript(self, node, base)
            case ir.Call():
                return lower_call(self, node, name)
            case ir.Operation():
                return self._operation(node)
            case ir.Logic():
                return self._logic(node)
            case ir.Choice(test=test, then=then_expr, other=other_expr):
                self.read(test)
                return self._either(node, test, then_expr, other_expr)
            case ir.Display():
                return display(self, node)
            case ir.Lambda():
                self.lambdas.setdefault(node)
                return Operand(None, Closure(node, self.renamed))
            case ir.Comprehension():
                return self._comprehension(node)
            case ir.Await(value=awaited):
                return self._await(node, awaited)
            case ir.Yield(value=given):
                if given is not None:
                    self.escape(self.expr(given), node.span)
                self.emit(instructions.Clobber(span=node.span))
                return Operand(self.make(Kind.OTHER, "yield", node.span))
            case ir.Walrus(target=target, value=value):
                operand = self.expr(value, target.id)
                bind(self, target, operand, value)
                return operand
            case ir.Starred(value=inner):
                return self.expr(inner)
            case ir.Opaque(children=children, printed=True):
                for part in children:
                    self.show(part)
                return Operand(None)
            case ir.Slice():
                for bound in (node.start, node.stop, node.step):
                    if bound is not None:
                        self.read(bound)
                return Operand(None)
            case _:
                for child in ir.children(node):
                    if isinstance(child, ir.Expr):
                        self.read(child)
                return Operand(None)

    # ---- parts of objects

    def _attribute(self, node: ir.Attr) -> Operand:
        known = self.known(node)
        if node.full is not None and (not isinstance(known, Nothing) or isinstance(node.base, ir.Name)):
            return Operand(None, known)
        base = self.expr(node.base)
        if node.name == "__dict__":
            # What is done to it is done to the object.
            return Operand(base.var)
        of_running = isinstance(base.value, Handle) and base.value.kind == "running" and node.name == "stream"
        if (
            node.name in LOOKED_AT
            and not (of_running or self.key(node) in self.attributes)
            and not isinstance(base.value, KernelValue)
        ):
            # The grid of an op that has no name is what it was built for.
            asked = isinstance(base.value, Op) and (self.asserting or isinstance(node.base, ir.Call))
            self.look(base, node.base, Touch.ASK if asked else Touch.LOOK, spell(node))
            return Operand(None, _extent(base.value, node) if isinstance(base.value, Array) else NOTHING)
        if isinstance(base.value, Array):
            if node.name in VIEWS and base.var is not None:
                return self.view(base, node)
            self.look(base, node.base, by=spell(node))
            return Operand(None)
        if isinstance(base.value, Handle) and base.value.kind == "scope" and node.name == "graph":
            return Operand(base.var, Handle("graph"))
        if base.var is None:
            return Operand(None)
        made_anew = computed(self, node, base)
        if made_anew is not None:
            return made_anew
        if (isinstance(base.value, Op) and node.name in RUNNING) or (
            isinstance(base.value, Handle) and base.value.kind == "running" and node.name == "wait"
        ):
            # A bound method that somebody else may call, on whatever thread: `executor.submit(op.sync)`.
            self.escape(base, node.span)
            return Operand(None)
        var = self.temp()
        kind, made = self.attributes.get(self.key(node) or "", (Kind.OTHER, NOTHING))
        if isinstance(base.value, Thing) and isinstance(made, Nothing):
            kind, made = field_of(self, base.value, node.name)
        self.emit(instructions.Get(var, base.var, f".{node.name}", Site(kind, spell(node), node.span), span=node.span))
        if of_running:
            made = Handle("stream")
        return Operand(var, made if isinstance(known, Nothing) else known)

    def view(self, base: Operand, node: ir.Expr, part: tuple[Range, ...] | None = None) -> Operand:
        """A further handle on the memory of `base`: a slice if `part` is given, the same elements otherwise."""
        var = self.temp()
        value = base.value
        shape, dtype = None, value.dtype if isinstance(value, Array) else None
        if isinstance(value, Array) and isinstance(node, ir.Sub):
            check_slice(self, node, value)
            shape = sliced_shape(self, node.index, value)
        elif isinstance(value, Array) and isinstance(node, ir.Call) and spell(node.func).endswith("reshape"):
            shape = reshaped(self, node, value)
        elif isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name == "view":
            dtype = viewed_dtype(self, node, dtype)
        reshape = self.number_of_site() if part is None else None
        site = Site(Kind.VIEW, spell(node), node.span)
        if base.var is not None:
            self.emit(
                instructions.Borrow(var, base.var, Hold.SHARED, site, part or (), reshape=reshape, span=node.span)
            )
        if isinstance(value, Array):
            return Operand(var, Array(value.library, dtype, shape, value.access, value.pinned, made=node))
        return Operand(var)

    # ---- operations and containers

    def _operation(self, node: ir.Operation) -> Operand:
        again = repeated(self, node)
        if again is not None:
            return again
        quiet = node.op in ("is", "is not", "in", "not in")
        shown = node.op == "%" and isinstance(node.operands[0], ir.Const) and isinstance(node.operands[0].value, str)
        lower = self.expr if quiet else self.show if shown else self.read
        operands = [lower(operand) for operand in node.operands]
        found = applied(node.op, [self._number_of(*pair) for pair in zip(node.operands, operands, strict=True)])
        if found is not None:
            return Operand(None, Number(found))
        arrays = [operand.value for operand in operands if isinstance(operand.value, Array)]
        if arrays and not quiet and arrays[0].library in ("numpy", "foreign"):
            kind = Kind.HOST if arrays[0].library == "numpy" else Kind.FOREIGN
            return Operand(self.make(kind, spell(node), node.span), Array(arrays[0].library, made=node))
        return Operand(None, Nothing(node))

    def _number_of(self, node: ir.Expr, operand: Operand) -> int | float | None:
        """The number of a lowered operand; an operation's is known from its own operands, so long sums take no longer
        than their length.
        """
        if isinstance(node, ir.Operation):
            return plain(operand.value)
        return self.number(node)

    def _arm_of(self, test: ir.Expr, holds: bool, lower: Callable[[], object]) -> None:
        suppose(self, test, holds)
        lower()

    def _logic(self, node: ir.Logic) -> Operand:
        """`a and b`, `a or b`: one of them, which matters if the last is an op, a running one or a tensor."""
        first = self.read(node.operands[0])
        last, result = Operand(None), None
        binds = any(isinstance(part, ir.Walrus) for part in ir.walk(*node.operands[1:]))
        if binds:
            self.evaluated[node] = tuple(f"{self.temp()} evaluated" for _ in node.operands[1:])
        for at, later in enumerate(node.operands[1:]):
            key = self.evaluated[node][at] if binds else None
            if key is not None:
                self.emit(instructions.Forget(key, span=node.span))
            with self.gather() as then:
                if key is not None:
                    self.emit(instructions.Decide(key, True, span=node.span))
                suppose(self, node.operands[at], node.op == "and")
                last = self.read(later)
            with self.gather() as skip:
                if key is not None:
                    self.emit(instructions.Decide(key, False, span=node.span))
                if at == 0:
                    suppose(self, node.operands[0], node.op != "and")
                if (
                    at == len(node.operands) - 2
                    and last.var is not None
                    and isinstance(last.value, Op | Handle | Array)
                ):
                    result = self.temp()
                    then.append(instructions.Bind(result, last.var, span=node.span))
                    self.emit(instructions.Bind(result, self.object_of(first, node), span=node.span))
            self.emit(flow.Branch((tuple(then), tuple(skip)), span=node.span))
        if result is None:
            return Operand(None, Nothing(node))
        return Operand(result, last.value if node.op == "and" else join(first.value, last.value))

    def _either(self, node: ir.Expr, test: ir.Expr, then: ir.Expr, other: ir.Expr) -> Operand:
        var = self.temp()
        values: list[Value] = []

        def arm(part: ir.Expr) -> None:
            operand = self.expr(part)
            values.append(operand.value)
            self.emit(instructions.Bind(var, self.object_of(operand, part), span=part.span))

        before = dict(self.env)
        first = self.block_of(lambda: self._arm_of(test, True, lambda: arm(then)))
        after, self.env = self.env, before
        second = self.block_of(lambda: self._arm_of(test, False, lambda: arm(other)))
        self.assume(after)
        self.emit(flow.Branch((first, second), span=node.span))
        return Operand(var, join(*values))

    def _comprehension(self, node: ir.Comprehension) -> Operand:
        if (made := counted(self, node)) is not None:
            return made
        lazy = node.kind == "generator"
        var = self.make(Kind.OTHER if lazy else Kind.CONTAINER, spell(node), node.span)
        before = dict(self.env)
        values: list[Value] = []
        self._clauses(node, 0, var, values)
        self.env = before
        keyed = node.kind == "dict"
        return Operand(var, NOTHING if lazy else grown(Items(()), tuple(values[-1:]), keyed))

    def _clauses(self, node: ir.Comprehension, at: int, into: str, values: list[Value]) -> None:
        if at == len(node.clauses):
            for element in node.elements:
                operand = self.expr(element)
                values.append(operand.value)
                if operand.var is not None:
                    self.emit(instructions.Put(into, None, operand.var, span=element.span))
            return
        clause = node.clauses[at]

        def body() -> None:
            for condition in clause.conditions:
                self.read(condition)
            inner = self.block_of(lambda: self._clauses(node, at + 1, into, values))
            if clause.conditions:
                self.emit(flow.Branch((inner, ()), span=node.span))
            else:
                self.code.extend(inner)

        even = len(node.clauses) == 1 and node.kind != "generator" and not clause.conditions
        even = even and is_even(clause.source, node.elements)
        iterate(self, clause.target, clause.source, body, None, node.span, even)

    def _await(self, node: ir.Await, awaited: ir.Expr) -> Operand:
        operand = self.expr(awaited)
        if isinstance(operand.value, Op) and operand.value.calls and operand.var is not None:
            operand = run_on(self, node, operand.value, operand.var, spell(awaited), None)
        if isinstance(operand.value, Op):
            check_run(self, node, operand.value)
        refused = isinstance(operand.value, Handle) and operand.value.refused
        if self.where == "scope" and isinstance(operand.value, Op | Handle) and not refused:
            self.reentrant(node, spell(node))
        if operand.var is not None:
            waits = isinstance(operand.value, Handle)
            self.emit(instructions.Finish(operand.var, waits=waits, span=node.span))
        self.emit(instructions.Clobber(span=node.span))
        return Operand(self.make(Kind.OTHER, spell(node), node.span))

    def make_in_scope(self, node: ir.Expr) -> None:
        """`node` makes memory, which a graph scope cannot record."""
        if self.where == "scope":
            message = f"`{spell(node)}` makes memory inside a graph scope"
            self.fault("capture", message, node.span, "make it before the scope: a replay would not make it again")

    def reentrant(self, node: ir.Expr, what: str) -> None:
        """`node` runs device work where none may run."""
        inside = "a function of `then`" if self.where == "then" else "a graph scope"
        way_out = "return the op, `then` runs it on the same stream" if self.where == "then" else "record it instead"
        self.fault("reentrant-sync", f"`{what}` inside {inside}", node.span, way_out)


def _extent(array: Array, node: ir.Attr) -> Value:
    if node.name == "shape" and array.shape is not None:
        return Items(tuple(Number(extent) if extent is not None else NOTHING for extent in array.shape))
    if node.name == "ndim" and array.shape is not None:
        return Number(len(array.shape))
    return NOTHING
