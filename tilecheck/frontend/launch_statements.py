"""The statements of host code, run in order over the values of `launch_values.py`.

A branch whose condition is unknown runs both ways and the results are merged. Calls of functions of the file are followed
to a small depth.

Invariant: merges and handlers make values unknown, never wrong.

Worked example: after `if fast: n = 8` and `else: n = 64` the name `n` is unknown if `fast` is.
"""

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, lineage
from tilecheck.frontend.fold import binary, fold
from tilecheck.frontend.kernel_counters import Left
from tilecheck.frontend.launch_counters import joined
from tilecheck.frontend.launch_effects import (
    bound_by_expressions,
    bound_by_pattern,
    hands_over,
    made_of,
    mentioned,
    unpacked,
)
from tilecheck.frontend.launch_entries import (
    is_main_guard,
    is_number,
    passed_on,
)
from tilecheck.frontend.launch_loops import HostLoops
from tilecheck.frontend.launch_objects import Activation, Stop
from tilecheck.frontend.launch_states import State, assigned_names, imported_names, same
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, Instance, Method, parameters
from tilecheck.ir.host_array import Derived, HostArray, Stranger

_DEPTH = 6


class HostStatements(HostLoops):
    """Statements, branches, and calls of functions of the file."""

    @cached_property
    def handed(self) -> frozenset[str]:
        """The names of what the file hands on to be called by others."""
        return passed_on(self.module.source.module)

    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""
        self.called.add(function.node)
        if len(self.stack) > _DEPTH or function.scope.source is not self.module.source or self.fuel <= 0:
            if function.scope.source is self.module.source:
                self.cut.setdefault(function.node, function.scope)
            self.disturb(*args, *kwargs.values())
            return made_of(*args, *kwargs.values(), folded=True)
        names: dict[str, object] = {}
        by_place = len(function.node.params.posonly_params) + len(function.node.params.params)
        for place, param in enumerate(parameters(function.node)):
            name = param.name.value
            if place < min(len(args), by_place):
                given = args[place]
            elif name in kwargs:
                given = kwargs[name]
            else:
                given = UNKNOWN if param.default is None else fold(param.default, function.scope.lookup)
            names[name] = Stranger() if given is UNKNOWN and not is_number(param) else given
        star, double = function.node.params.star_arg, function.node.params.star_kwarg
        if isinstance(star, cst.Param):
            names[star.name.value] = tuple(args[by_place:]) or Stranger()
        if isinstance(double, cst.Param):
            names[double.name.value] = {key: value for key, value in kwargs.items() if key not in names} or Stranger()
        outer = next((at for at in reversed(self.stack) if at.scope is function.scope), None)
        activation = Activation(function.scope.child(function.node), names, outer, function.name)
        self.stack.append(activation)
        try:
            self.suite(function.node.body.body)
            activation.returned.append(None)
        except Stop:
            pass
        finally:
            self.stack.pop()
            self.marks = joined([self.marks, *activation.marks])
        if not hands_over(function.node):
            own = self.strangers.setdefault(function.node, Stranger()) if function.node.decorators else None
            return made_of(own, *activation.names.values(), *activation.returned, folded=True)
        first, *rest = activation.returned or [UNKNOWN]
        return first if all(same(first, other) for other in rest) else made_of(first, *rest)

    def suite(self, body: object) -> None:
        """Run statements."""
        for statement in body:  # type: ignore[attr-defined]
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._simple(small)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._simple(statement)
            else:
                self._compound(statement)

    def _simple(self, node: cst.CSTNode) -> None:
        self.step()
        if self.fuel <= 0:
            self.spent = True
            raise Stop("raise")
        match node:
            case cst.Expr(value=value):
                self.value(value)
            case cst.Assign(targets=targets, value=value):
                result = self.value(value)
                for target in targets:
                    self.store(target.target, result)
            case cst.AnnAssign(target=target, value=given):
                if given is not None:
                    self.store(target, self.value(given))
            case cst.AugAssign(target=target, operator=op, value=value):
                self._augmented(target, op, self.value(value))
            case cst.Return(value=value):
                self.here.returned.append(None if value is None else self.value(value))
                self.here.marks.append(self.marks)
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
                self.store(target, UNKNOWN)
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
            self.set_again(old)
        elif isinstance(target, cst.Name | cst.Attribute):
            self.store(target, binary(plain, old, value))
        else:
            self.store(target, UNKNOWN)

    def store(self, target: cst.BaseExpression, value: object) -> None:
        match target:
            case cst.Name(value=name):
                self.here.names[name] = Stranger() if value is UNKNOWN else value
                if name in self.rebound:
                    self.bound_anywhere.setdefault(name, []).append(self.here.names[name])
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                starred = any(isinstance(element, cst.StarredElement) for element in elements)
                parts = [made_of(value) for _ in elements] if starred else unpacked(value, len(elements))
                for element, part in zip(elements, parts, strict=True):
                    self.store(element.value, part)
            case cst.Attribute(value=base, attr=cst.Name(value=name)):
                owner = self.value(base)
                if isinstance(owner, Instance) and _is_property(owner.cls, name):
                    self.disturb(owner, value)
                elif isinstance(owner, Instance):
                    owner.attributes[name] = Stranger() if value is UNKNOWN else value
                else:
                    if isinstance(owner, ClassValue):
                        owner.scope.forget(name)
                    self.moving(owner, value)
            case cst.Subscript(value=base, slice=index):
                owner = self.value(base)
                for part in index if bound_by_expressions(target) else ():
                    self.here.names.update(dict.fromkeys(bound_by_expressions(part), UNKNOWN))
                self.put_in(owner, value)
                self.set_again(owner)
                if isinstance(value, int | float) and value and isinstance(owner, HostArray) and _fills(index, owner):
                    self.mark(owner, Left.LOWERED if value < 0 else Left.RAISED)
            case _:
                return

    def _compound(self, node: cst.CSTNode) -> None:
        match node:
            case cst.If():
                self._if(node)
            case cst.For():
                self.run_for(node)
            case cst.While():
                self.run_while(node)
            case cst.With():
                for item in node.items:
                    value = self.entered(self.value(item.item))
                    if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                        self.store(item.asname.name, value)
                self.suite(node.body.body)
            case cst.Try() | cst.TryStar():
                self._try(node)
            case cst.FunctionDef(name=name):
                function = FunctionValue(node, self.here.scope)
                self.here.names[name.value] = function
                if len(self.stack) > 1 and name.value in self.handed and self.kernel_of(function) is None:
                    # Who gets a nested function calls it with what is not seen here.
                    self.cut.setdefault(node, self.here.scope)
            case cst.Match():
                subject = made_of(self.value(node.subject))
                captured = {name for case in node.cases for name in bound_by_pattern(case.pattern)}
                self.here.names.update(dict.fromkeys(captured, subject))
                self._branches(self.snapshot(), [*(case.body.body for case in node.cases), ()])
            case cst.ClassDef(name=name) if len(self.stack) > 1:
                self.here.names[name.value] = UNKNOWN
            case _:
                return

    def entered(self, value: object) -> object:
        """What `with value as` gives."""
        if not isinstance(value, Instance):
            return value
        made = attribute_of(value, "__enter__")
        if isinstance(made, Method):
            return self.call_function(made.function, [value], {})
        self.disturb(value)
        return made_of(value)

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
        if is_main_guard(node.test):
            self.suite(node.body.body)
        elif test is None or isinstance(test, int | float | str | tuple):
            self.suite(node.body.body if test else other)
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
                self.suite(body)
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
        between: list[State] = []
        left: Stop | None = None
        try:
            for statement in node.body.body:
                start = self.snapshot()
                self.suite((statement,))
                between += [self.snapshot(), self._within(statement, start)]
        except Stop as stop:
            if stop.kind != "raise":
                left = stop
        after = self.snapshot()
        if node.handlers:
            self.merge(before, after, *between)  # anywhere in the body
            middle = self.snapshot()
            out = [] if left is not None else [after]
            for handler in node.handlers:
                self.restore(middle)
                if handler.name is not None and isinstance(handler.name.name, cst.Name):
                    self.here.names[handler.name.name.value] = UNKNOWN
                try:
                    self.suite(handler.body.body)
                except Stop:
                    continue
                out.append(self.snapshot())
            self.merge(*out)
            left = None if out else left
        if node.finalbody is not None:
            self.suite(node.finalbody.body.body)
        if left is not None:
            raise left

    def _within(self, statement: cst.CSTNode, start: State) -> State:
        """What holds anywhere inside `statement`, which has just run from `start`."""
        here = self.snapshot()
        if isinstance(statement, cst.SimpleStatementLine):
            return start
        for name in assigned_names(statement)[0]:
            here.names[name] = made_of(start.names.get(name), here.names.get(name))
        return here


def _is_property(cls: ClassValue, name: str) -> bool:
    """Whether `object.name = value` runs a function of the class."""
    given = [binding.value for at in lineage(cls) for binding in at.scope.bindings.get(name, ())]
    return any(isinstance(value, cst.FunctionDef) for value in given)


def _fills(index: Sequence[cst.SubscriptElement], array: HostArray) -> bool:
    """Whether `array[index] = number` leaves no element as it was."""
    parts = [element.slice for element in index]
    return array.size == 1 or all(isinstance(p, cst.Slice) and p.lower is p.upper is p.step is None for p in parts)
