"""A cautious run of host code, to see the launches it makes: values that are plain are followed, the rest is UNKNOWN.

Statements run in order. A branch whose condition is unknown runs both ways and the results are merged; a loop over a
short literal sequence runs item by item, any other loop once, with everything that it assigns unknown. Calls of
functions of the file are followed to a small depth. Nothing of the user's is ever executed.

Invariant: what is reported as known holds in every real run that reaches the launch (loops cut short and merges make
values unknown, never wrong); contents of an array are forgotten once something may have written it.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, holds_what_it_is_given, lineage
from tilecheck.frontend.fold import binary, fold
from tilecheck.frontend.kernel_counters import Left
from tilecheck.frontend.launch_counters import joined
from tilecheck.frontend.launch_effects import (
    any_item,
    arrays_in,
    bound_by_pattern,
    hands_over,
    made_of,
    mentioned,
    unpacked,
)
from tilecheck.frontend.launch_entries import (
    defaults,
    functions,
    is_main_guard,
    is_number,
    is_wrapped,
    parametrized,
    passed_on,
    required,
)
from tilecheck.frontend.launch_objects import Activation, Seen, Stop
from tilecheck.frontend.launch_states import HostStates, Loop, State, assigned_names, imported_names, same, settled
from tilecheck.frontend.launch_values import FUEL
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, Instance, Method, Scope, parameters
from tilecheck.ir.host_array import Derived, HostArray, Stranger

_DEPTH = 6
_MAX_ROUNDS = 64
# With less left, a loop is no longer run round by round.
_ENOUGH_FOR_LOOPS = FUEL // 8
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
        self._what_was_cut()
        return tuple(self.seen)

    def _what_was_cut(self) -> None:
        """Functions that calls did not enter again, as if someone called them with arguments that are not known; and
        launches of any kind where the run came to its end early.
        """
        done: set[cst.FunctionDef] = set()
        hosts = [at for at in functions(self.module) if self.kernel_of(FunctionValue(at[1], at[0])) is None]
        optional = any(defaults(node) for _, node in hosts)
        elsewhere = passed_on(self.module.source.module) if optional else frozenset()
        for scope, node in hosts:
            if is_wrapped(node) or (defaults(node) and node.name.value in elsewhere):
                self.cut.setdefault(node, scope)
        while left := [(node, scope) for node, scope in self.cut.items() if node not in done]:
            node, scope = left[0]
            done.add(node)
            self.fuel = max(self.fuel, FUEL // 4)
            self._enter(scope, node, open=True)
        if self.spent:
            kernels = {seen.kernel.node: seen for seen in self.seen}
            for seen in kernels.values():
                arguments = tuple(Stranger() for _ in parameters(seen.kernel.node))
                unknown = Seen(seen.kernel, seen.call, seen.host, UNKNOWN, UNKNOWN, UNKNOWN, arguments)
                self.seen.append(unknown)

    def _all_functions(self) -> None:
        for needs_arguments in (False, True):
            for scope, node in functions(self.module):
                if (
                    self.kernel_of(FunctionValue(node, scope)) is not None
                    or node in self.called
                    or bool(required(node)) != needs_arguments
                ):
                    continue
                self.fuel = max(self.fuel, FUEL // 4)
                self._enter(scope, node)
                if defaults(node) and not node.name.value.startswith("test"):
                    # Defaults are for callers who say nothing else, and none is seen.
                    self.cut.setdefault(node, scope)

    def _protected(self, body: object) -> None:
        """Run statements; leaving them early is not a failure."""
        try:
            self._suite(body)
        except Stop:
            return

    def _enter(self, scope: Scope, node: cst.FunctionDef, *, open: bool = False) -> None:
        """Run `node` as if someone called it with arguments that are not known, `open` also in place of defaults."""
        function = FunctionValue(node, scope)
        arguments: list[object] = []
        owner: Instance | None = None
        if isinstance(scope.node, cst.ClassDef) and parameters(node):
            cls = ClassValue(scope.node, scope)
            owner = Instance(cls) if holds_what_it_is_given(cls) else None
            for name in ("__init__", "setUp") if owner is not None else ():
                made = attribute_of(owner, name)
                if isinstance(made, Method) and made.function.node is not node:
                    self.call_function(made.function, [owner], {})
            arguments.append(Stranger() if owner is None else owner)
        for given in parametrized(function):
            if open:
                given = dict.fromkeys(defaults(node), UNKNOWN) | given
            self.call_function(function, arguments, given)
        if owner is not None and node.name.value != "__init__" and self._still_counted(scope, owner, node):
            self.call_function(function, arguments, {})

    def _still_counted(self, scope: Scope, owner: Instance, node: cst.FunctionDef) -> bool:
        """Whether the method `node` has counted in arrays of `owner` that none of the other methods sets back."""
        marks, held, called, launches = self.marks, dict(owner.attributes), set(self.called), len(self.seen)
        left = {array.buffer for array in arrays_in(owner)} & marks.keys()
        for _, other in functions(scope) if left else ():
            if other is node or other.name.value == "__init__" or required(other):
                continue
            self.call_function(FunctionValue(other, scope), [owner], {})
            left &= {array.buffer for array in arrays_in(owner)} & self.marks.keys()
            self.marks = marks
            owner.attributes.update(held)
        del self.seen[launches:]
        self.called = called
        return bool(left)

    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""
        self.called.add(function.node)
        if len(self.stack) > _DEPTH or function.scope.source is not self.module.source or self.fuel <= 0:
            if function.scope.source is self.module.source:
                self.cut.setdefault(function.node, function.scope)
            self.disturb(*args, *kwargs.values())
            return made_of(*args, *kwargs.values(), folded=True)
        names: dict[str, object] = {}
        for place, param in enumerate(parameters(function.node)):
            name = param.name.value
            if place < len(args):
                given = args[place]
            elif name in kwargs:
                given = kwargs[name]
            else:
                given = UNKNOWN if param.default is None else fold(param.default, function.scope.lookup)
            names[name] = Stranger() if given is UNKNOWN and not is_number(param) else given
        star, double = function.node.params.star_arg, function.node.params.star_kwarg
        if isinstance(star, cst.Param):
            names[star.name.value] = tuple(args[len(names) :]) or Stranger()
        if isinstance(double, cst.Param):
            names[double.name.value] = {key: value for key, value in kwargs.items() if key not in names} or Stranger()
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
            self.marks = joined([self.marks, *activation.marks])
        if not hands_over(function.node):
            own = self.strangers.setdefault(function.node, Stranger()) if function.node.decorators else None
            return made_of(own, *activation.names.values(), *activation.returned, folded=True)
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
                self._for(node)
            case cst.While():
                self._while(node)
            case cst.With():
                for item in node.items:
                    value = self.entered(self.value(item.item))
                    if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                        self.store(item.asname.name, value)
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
        between: list[State] = []
        left: Stop | None = None
        try:
            for statement in node.body.body:
                start = self.snapshot()
                self._suite((statement,))
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

    def _within(self, statement: cst.CSTNode, start: State) -> State:
        """What holds anywhere inside `statement`, which has just run from `start`."""
        here = self.snapshot()
        if isinstance(statement, cst.SimpleStatementLine):
            return start
        for name in assigned_names(statement)[0]:
            here.names[name] = made_of(start.names.get(name), here.names.get(name))
        return here

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
        known = isinstance(sequence, tuple | list | range) and len(sequence) <= _MAX_ROUNDS
        if not known or self.fuel < _ENOUGH_FOR_LOOPS or not isinstance(sequence, tuple | list | range):
            self._unknown_loop(node, node.body.body, sequence)
            return
        self.loops.append(Loop())
        completed = True
        for item in list(sequence):
            self.store(node.target, item)
            completed = self._round(node.body.body)
            if not completed:
                break
        self._leave(completed=completed)

    def _while(self, node: cst.While) -> None:
        """A `while` whose condition stays known runs for real, for a while."""
        self.loops.append(Loop())
        for _ in range(_MAX_ROUNDS if self.fuel >= _ENOUGH_FOR_LOOPS else 0):
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

    def _unknown_loop(self, node: cst.For | cst.While, body: object, sequence: object = UNKNOWN) -> None:
        """Run a body as any of its rounds: of what the loop may change only the memory is known in it and after it.

        A variable that a round assigns may hold, at the start of any round, what it held before the loop or after a
        round. Variables whose arrays only trade places hold different ones at any time. Where a second round adds to
        what they hold, the last one starts from all that any of them holds.
        """
        changed, attributes = assigned_names(node)
        self.taint(*(v for at in self.stack for v in at.names.values() if isinstance(v, HostArray | list)))
        slots, launches = self.slots(changed, attributes), len(self.seen)
        start = [self.fresh(self.held_by(slot)) for slot in slots]
        known: list[object] = [v if isinstance(v, HostArray | Stranger) else made_of(v) for v in start]
        exits: list[State] = []
        born = HostArray(None).buffer
        for number in range(_ROUNDS_TO_SETTLE):
            del self.seen[launches:]
            for slot, value in zip(slots, known, strict=True):
                self.put(slot, value)
            self.loops.append(Loop())
            try:
                if isinstance(node, cst.For):
                    self.store(node.target, self._item(node.iter, sequence))
                again = self._round(body)
            except Stop:
                again = False
            finally:
                exits += self.loops.pop().breaks
            after = [self.held_by(slot) for slot in slots] if again else known
            before, known = known, settled(known, after, first=number == 0)
            grown = [at for at, value in enumerate(known) if not _reach(value, born) <= _reach(before[at], born)]
            if number and not grown:
                break
            if number:
                everything = [known[at] for at in grown]
                known = [made_of(*everything) if at in grown else value for at, value in enumerate(known)]
        for slot, value in zip(slots, known, strict=True):
            left = [ended for state in exits if not same(value, ended := state.held_by(slot))]
            self.put(slot, made_of(value, *left) if left else value)

    def _item(self, node: cst.BaseExpression, sequence: object) -> object:
        """What any round of a loop over `node` gets."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and self.is_builtin(node.func.value):
            items = [any_item(self.value(argument.value)) for argument in node.args]
            if node.func.value == "zip":
                return tuple(items)
            if node.func.value == "enumerate" and items:
                return (UNKNOWN, items[0])
        return any_item(sequence)


def _is_property(cls: ClassValue, name: str) -> bool:
    """Whether `object.name = value` runs a function of the class."""
    given = [binding.value for at in lineage(cls) for binding in at.scope.bindings.get(name, ())]
    return any(isinstance(value, cst.FunctionDef) for value in given)


def _fills(index: Sequence[cst.SubscriptElement], array: HostArray) -> bool:
    """Whether `array[index] = number` leaves no element as it was."""
    parts = [element.slice for element in index]
    return array.size == 1 or all(isinstance(p, cst.Slice) and p.lower is p.upper is p.step is None for p in parts)


def _reach(value: object, born: int) -> frozenset[int]:
    """The buffers that `value` reaches, those made after `born` aside."""
    return frozenset(array.buffer for array in arrays_in(value) if array.buffer < born)
