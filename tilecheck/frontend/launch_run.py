"""A cautious run of host code, to see the launches it makes: values that are plain are followed, the rest is UNKNOWN.

Statements run in order. A branch whose condition is unknown runs both ways and the results are merged; a loop over a
short literal sequence runs item by item, any other loop once, with everything that it assigns unknown. Calls of
functions of the file are followed to a small depth. Nothing of the user's is ever executed.

Invariant: what is reported as known holds in every real run that reaches the launch (loops cut short and merges make
values unknown, never wrong); contents of an array are forgotten once something may have written it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tilecheck.frontend.fold import binary, fold
from tilecheck.frontend.launch_effects import arrays_in, bound_by_pattern, made_of, mentioned
from tilecheck.frontend.launch_objects import Activation, Seen, Stop
from tilecheck.frontend.launch_states import HostStates, Loop, State, assigned_names, imported_names, same
from tilecheck.frontend.launch_values import FUEL
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, Instance, Ref, Scope, parameters
from tilecheck.ir.host_array import Derived, HostArray

_DEPTH = 6
_MAX_ROUNDS = 64
_MAX_CALLS = 32
# Rounds of a loop after which what it may do to values from outside is known.
_ROUNDS_TO_SETTLE = 3


class HostRun(HostStates):
    """One file being run."""

    def everything(self) -> tuple[Seen, ...]:
        """Run the module, then every function that nothing else calls, and return the launches.

        Functions may be called in any order: an array of the module that one of them writes is unknown in all.
        """
        self._protected(self.module.node.body)
        top, called = list(self.seen), set(self.called)
        self._all_functions()
        names = self.stack[0].names
        shared = {array.buffer for value in names.values() for array in arrays_in(value)}
        changed = self.tainted | self.moved.keys()
        if self.classes_changed or shared & changed or any(id(value) in self.spoiled for value in names.values()):
            self.seen, self.called = top, called
            self._all_functions()
        return tuple(self.seen)

    def _all_functions(self) -> None:
        for needs_arguments in (False, True):
            for scope, node in _functions(self.module):
                if (
                    self.kernel_of(FunctionValue(node, scope)) is not None
                    or node in self.called
                    or bool(_required(node)) != needs_arguments
                ):
                    continue
                self.fuel = max(self.fuel, FUEL // 4)
                self._enter(scope, node)

    def _protected(self, body: object) -> None:
        """Run statements; leaving them early is not a failure."""
        try:
            self._suite(body)
        except Stop:
            return

    def _enter(self, scope: Scope, node: cst.FunctionDef) -> None:
        """Run `node` as if someone called it with arguments that are not known."""
        function = FunctionValue(node, scope)
        arguments: list[object] = []
        if isinstance(scope.node, cst.ClassDef) and parameters(node):
            cls = ClassValue(scope.node, scope)
            owner = Instance(cls)
            setup = scope.own("setUp") if "setUp" in scope.bindings else UNKNOWN
            if isinstance(setup, FunctionValue) and setup.node is not node:
                self.call_function(setup, [owner], {})
            arguments.append(owner)
        for given in self._parametrized(function):
            self.call_function(function, arguments, given)

    def _parametrized(self, function: FunctionValue) -> list[dict[str, object]]:
        """The arguments that `pytest.mark.parametrize` passes, one dict per call; one empty dict without it."""
        calls: list[dict[str, object]] = [{}]
        for decorator in function.node.decorators:
            call = decorator.decorator
            if not isinstance(call, cst.Call) or len(call.args) < 2:
                continue
            if fold(call.func, function.scope.lookup) != Ref("pytest.mark.parametrize"):
                continue
            names, values = (fold(argument.value, function.scope.lookup) for argument in call.args[:2])
            listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
            if not isinstance(listed, list | tuple) or not isinstance(values, list | tuple):
                continue
            rows = [value if len(listed) > 1 else (value,) for value in values]
            if len(calls) * len(rows) > _MAX_CALLS or not all(isinstance(row, tuple | list) for row in rows):
                continue
            calls = [{**given, **dict(zip(listed, row, strict=False))} for given in calls for row in rows]
        return calls

    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""
        self.called.add(function.node)
        if len(self.stack) > _DEPTH or function.scope.source is not self.module.source or self.fuel <= 0:
            self.disturb(*args, *kwargs.values())
            return made_of(*args, *kwargs.values(), folded=True)
        names: dict[str, object] = {}
        for place, param in enumerate(parameters(function.node)):
            name = param.name.value
            if place < len(args):
                names[name] = args[place]
            elif name in kwargs:
                names[name] = kwargs[name]
            else:
                names[name] = UNKNOWN if param.default is None else fold(param.default, function.scope.lookup)
        for extra in (function.node.params.star_arg, function.node.params.star_kwarg):
            if isinstance(extra, cst.Param):
                names[extra.name.value] = UNKNOWN
        outer = next((at for at in reversed(self.stack) if at.scope is function.scope), None)
        activation = Activation(function.scope.child(function.node), names, outer, function.name)
        self.stack.append(activation)
        try:
            self._suite(function.node.body.body)
            activation.returned.append(None)
        except Stop:
            pass
        finally:
            self.stack.pop()
        first, *rest = activation.returned or [UNKNOWN]
        return first if all(same(first, other) for other in rest) else made_of(first, *rest)

    # ---- statements

    def _suite(self, body: object) -> None:
        for statement in body:  # type: ignore[attr-defined]
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._simple(small)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._simple(statement)
            else:
                self._compound(statement)

    def _simple(self, node: cst.CSTNode) -> None:
        self.fuel -= 1
        if self.fuel <= 0:
            raise Stop("raise")
        match node:
            case cst.Expr(value=value):
                self.value(value)
            case cst.Assign(targets=targets, value=value):
                result = self.value(value)
                for target in targets:
                    self._store(target.target, result)
            case cst.AnnAssign(target=target, value=given):
                if given is not None:
                    self._store(target, self.value(given))
            case cst.AugAssign(target=target, operator=op, value=value):
                self._augmented(target, op, self.value(value))
            case cst.Return(value=value):
                self.here.returned.append(None if value is None else self.value(value))
                raise Stop("return")
            case cst.Break():
                raise Stop("break")
            case cst.Continue():
                raise Stop("continue")
            case cst.Raise():
                raise Stop("raise")
            case cst.Assert(test=test):
                self._guard(test, self.value(test))
            case cst.Del(target=target):
                self._store(target, UNKNOWN)
            case cst.Import() | cst.ImportFrom():
                for name in imported_names(node) & self.here.names.keys():
                    self.here.names[name] = UNKNOWN
            case _:
                return

    def _augmented(self, target: cst.BaseExpression, op: cst.BaseAugOp, value: object) -> None:
        old = self.value(target)
        plain = getattr(cst, type(op).__name__.removesuffix("Assign"))
        if isinstance(old, HostArray | list | dict | Derived):
            self.put_in(old, value)
        elif isinstance(target, cst.Name | cst.Attribute):
            self._store(target, binary(plain, old, value))
        else:
            self._store(target, UNKNOWN)

    def _store(self, target: cst.BaseExpression, value: object) -> None:
        match target:
            case cst.Name(value=name):
                self.here.names[name] = value
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                starred = any(isinstance(element, cst.StarredElement) for element in elements)
                known = isinstance(value, tuple | list) and len(value) == len(elements) and not starred
                for index, element in enumerate(elements):
                    self._store(element.value, value[index] if known else made_of(value))  # type: ignore[index]
            case cst.Attribute(value=base, attr=cst.Name(value=name)):
                owner = self.value(base)
                if isinstance(owner, Instance):
                    owner.attributes[name] = value
                else:
                    if isinstance(owner, ClassValue):
                        owner.scope.forget(name)
                    self.moving(owner, value)
            case cst.Subscript(value=base):
                self.put_in(self.value(base), value)
            case _:
                return

    def _compound(self, node: cst.CSTNode) -> None:
        match node:
            case cst.If():
                self._if(node)
            case cst.For():
                self._for(node)
            case cst.While():
                self._while(node)
            case cst.With():
                for item in node.items:
                    value = self.value(item.item)
                    if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                        self._store(item.asname.name, value)
                self._suite(node.body.body)
            case cst.Try() | cst.TryStar():
                self._try(node)
            case cst.FunctionDef(name=name):
                self.here.names[name.value] = FunctionValue(node, self.here.scope)
            case cst.Match():
                subject = made_of(self.value(node.subject))
                captured = {name for case in node.cases for name in bound_by_pattern(case.pattern)}
                self.here.names.update(dict.fromkeys(captured, subject))
                self._branches(self.snapshot(), [*(case.body.body for case in node.cases), ()])
            case cst.ClassDef(name=name) if len(self.stack) > 1:
                self.here.names[name.value] = UNKNOWN
            case _:
                return

    # ---- branches

    def _guard(self, node: cst.BaseExpression, value: object) -> None:
        """What comes next may be for other contents only of the arrays that an unknown condition mentions."""
        if not (value is None or isinstance(value, int | float | str | tuple)):
            self.taint(*(self.lookup(name) for name in sorted(mentioned(node))))

    def _if(self, node: cst.If) -> None:
        test = self.value(node.test)
        other: object = ()
        if isinstance(node.orelse, cst.If):
            other = (node.orelse,)
        elif node.orelse is not None:
            other = node.orelse.body.body
        if _is_main_guard(node.test):
            self._suite(node.body.body)
        elif test is None or isinstance(test, int | float | str | tuple):
            self._suite(node.body.body if test else other)
        else:
            self._guard(node.test, test)
            self._branches(self.snapshot(), [node.body.body, other])

    def _branches(self, before: State, bodies: Sequence[object]) -> None:
        """Run each body from the same state and go on with what the ones that come out agree on."""
        after: list[State] = []
        stops: list[Stop] = []
        for body in bodies:
            self.restore(before)
            try:
                self._suite(body)
            except Stop as stop:
                stops.append(stop)
                if self.loops and stop.kind in ("break", "continue"):
                    loop = self.loops[-1]
                    (loop.breaks if stop.kind == "break" else loop.continues).append(self.snapshot())
            else:
                after.append(self.snapshot())
        if not after:
            kinds = [stop.kind for stop in stops]
            raise next(
                (s for kind in ("continue", "break", "return") for s in stops if s.kind == kind and kind in kinds),
                stops[0],
            )
        self.merge(*after)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        before = self.snapshot()
        left: Stop | None = None
        try:
            self._suite(node.body.body)
        except Stop as stop:
            if stop.kind != "raise":
                left = stop
        after = self.snapshot()
        if node.handlers:
            self.merge(before, after)  # anywhere in the body
            middle = self.snapshot()
            out = [] if left is not None else [after]
            for handler in node.handlers:
                self.restore(middle)
                if handler.name is not None and isinstance(handler.name.name, cst.Name):
                    self.here.names[handler.name.name.value] = UNKNOWN
                try:
                    self._suite(handler.body.body)
                except Stop:
                    continue
                out.append(self.snapshot())
            self.merge(*out)
            left = None if out else left
        if node.finalbody is not None:
            self._suite(node.finalbody.body.body)
        if left is not None:
            raise left

    # ---- loops

    def _round(self, body: object) -> bool:
        """One round of a loop body; False if it left the loop for good."""
        loop = self.loops[-1]
        loop.continues = []
        try:
            self._suite(body)
        except Stop as stop:
            if stop.kind == "break":
                loop.breaks.append(self.snapshot())
                return False
            if stop.kind != "continue":
                raise
        if loop.continues:
            self.merge(self.snapshot(), *loop.continues)
        return True

    def _leave(self, *, completed: bool) -> None:
        """Leave the innermost loop: by its end if `completed`, or by any of its breaks."""
        loop = self.loops.pop()
        states = [*loop.breaks, self.snapshot()] if completed else loop.breaks
        self.merge(*states)

    def _for(self, node: cst.For) -> None:
        sequence = self.value(node.iter)
        if not isinstance(sequence, tuple | list | range) or len(sequence) > _MAX_ROUNDS:
            self._unknown_loop(node, node.body.body)
            return
        self.loops.append(Loop())
        completed = True
        for item in list(sequence):
            self._store(node.target, item)
            completed = self._round(node.body.body)
            if not completed:
                break
        self._leave(completed=completed)

    def _while(self, node: cst.While) -> None:
        """A `while` whose condition stays known runs for real, for a while."""
        self.loops.append(Loop())
        for _ in range(_MAX_ROUNDS):
            test = self.value(node.test)
            if not (test is None or isinstance(test, int | float | str)):
                break
            if not test:
                self._leave(completed=True)
                return
            if not self._round(node.body.body):
                self._leave(completed=False)
                return
        self._leave(completed=True)
        self._unknown_loop(node, node.body.body)

    def _unknown_loop(self, node: cst.For | cst.While, body: object) -> None:
        """Run a body once as any of its rounds: all that the loop may change is unknown in it and after it."""
        changed, attributes = assigned_names(node)
        self.havoc(changed, attributes)
        self.taint(*(v for at in self.stack for v in at.names.values() if isinstance(v, HostArray | list)))
        for _ in range(_ROUNDS_TO_SETTLE):
            before = len(self.moved), len(self.spoiled), len(self.tainted)
            self.loops.append(Loop())
            try:
                self._round(body)
            finally:
                self.loops.pop()
            self.havoc(changed, attributes)
            if before == (len(self.moved), len(self.spoiled), len(self.tainted)):
                return


def _required(node: cst.FunctionDef) -> list[str]:
    """The parameters, `self` aside, that a call must give."""
    return [p.name.value for p in parameters(node) if p.default is None and p.name.value not in ("self", "cls")]


def _functions(scope: Scope) -> Iterator[tuple[Scope, cst.FunctionDef]]:
    """The functions and methods of a module, not those nested in functions."""
    body = scope.node.body if isinstance(scope.node, cst.Module) else scope.node.body.body
    for node in _definitions(body):
        if isinstance(node, cst.FunctionDef):
            yield scope, node
        else:
            yield from _functions(scope.child(node))


def _definitions(body: object) -> Iterator[cst.FunctionDef | cst.ClassDef]:
    for node in body:  # type: ignore[attr-defined]
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            yield node
        elif isinstance(node, cst.If | cst.Try):
            yield from _definitions(node.body.body)


def _is_main_guard(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
