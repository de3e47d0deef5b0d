"""A cautious run of host code, to see the launches it makes: values that are plain are followed, the rest is UNKNOWN.

The module runs first, then every function that nothing else calls; statements (`launch_statements.py`) run in order,
loops (`launch_loops.py`) item by item over a short literal sequence. Nothing of the user's is ever executed.

Invariant: what is reported as known holds in every real run that reaches the launch (loops cut short and merges make
values unknown, never wrong); contents of an array are forgotten once something may have written it.

Worked example: of `def go(n=64): k[2, 32](room(n))`, which nothing in the file calls, two launches are reported: one with
64 elements, and one with a size that is not known.
"""

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, holds_what_it_is_given
from tilecheck.frontend.launch_effects import (
    arrays_in,
)
from tilecheck.frontend.launch_entries import (
    FIRST_METHODS,
    called_names,
    defaults,
    functions,
    is_wrapped,
    parametrized,
    passed_on,
    required,
    settled_later,
)
from tilecheck.frontend.launch_objects import Seen, Stop
from tilecheck.frontend.launch_statements import HostStatements
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, Instance, Method, Scope, parameters
from tilecheck.ir.host_array import Stranger


class HostRun(HostStatements):
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
        optional = any(defaults(node) or self._varies(scope, node) for scope, node in hosts)
        elsewhere = passed_on(self.module.source.module) if optional else frozenset()
        for scope, node in hosts:
            passed = node.name.value in elsewhere and (defaults(node) or self._varies(scope, node))
            if is_wrapped(node) or passed:
                self.cut.setdefault(node, scope)
        while left := [(node, scope) for node, scope in self.cut.items() if node not in done]:
            node, scope = left[0]
            done.add(node)
            self.refuel()
            self._enter(scope, node, open=True)
        if self.spent:
            kernels = {seen.kernel.node: seen for seen in self.seen}
            for seen in kernels.values():
                arguments = tuple(Stranger() for _ in parameters(seen.kernel.node))
                unknown = Seen(seen.kernel, seen.call, seen.host, UNKNOWN, UNKNOWN, UNKNOWN, arguments)
                self.seen.append(unknown)

    def _all_functions(self) -> None:
        """Enter what no call of the file names first, so that the calls in it are seen before what they call."""
        named = called_names(self.module.source.module)
        for kind in ((False, False), (False, True), (True, False), (True, True)):
            for scope, node in functions(self.module):
                if (
                    self.kernel_of(FunctionValue(node, scope)) is not None
                    or node in self.called
                    or (node.name.value in named, bool(required(node))) != kind
                ):
                    continue
                self.refuel()
                self._enter(scope, node)
                if (defaults(node) and not node.name.value.startswith("test")) or self._varies(scope, node):
                    # Defaults are for callers who say nothing else, and none is seen.
                    self.cut.setdefault(node, scope)

    def _protected(self, body: object) -> None:
        """Run statements; leaving them early is not a failure."""
        try:
            self.suite(body)
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
                    free: dict[str, object] = dict.fromkeys(defaults(made.function.node), UNKNOWN)
                    self.call_function(made.function, [owner], free if open else {})
            if open and owner is not None and node.name.value not in FIRST_METHODS:
                owner.attributes.update({name: Stranger() for name in settled_later(cls.node)})
            arguments.append(Stranger() if owner is None else owner)
        for given in parametrized(function):
            if open:
                given = dict.fromkeys(defaults(node), UNKNOWN) | given
            self.call_function(function, arguments, given)
        if owner is not None and node.name.value != "__init__" and self._still_counted(scope, owner, node):
            self.call_function(function, arguments, {})

    def _varies(self, scope: Scope, node: cst.FunctionDef) -> bool:
        """Whether `self` may have other attributes, when `node` is called, than a new object made of the defaults."""
        if not isinstance(scope.node, cst.ClassDef) or node.name.value in FIRST_METHODS or not parameters(node):
            return False
        made = attribute_of(ClassValue(scope.node, scope), "__init__")
        return bool(settled_later(scope.node)) or (isinstance(made, FunctionValue) and bool(defaults(made.node)))

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
