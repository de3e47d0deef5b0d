"""The variables of a run of host code, and what may have happened to the arrays and containers that they hold.

Arrays whose contents may have been written are `tainted`, those whose shape or memory may have changed `moved`,
containers that may have been changed `spoiled`.

Invariant: these marks are never taken back, so that a fact that was dropped stays dropped on every path; what is read
through `lookup` or `fresh` holds none of the facts that its marks deny.

Worked example: after `a.resize(64)` the name `a` is something made of the array that it was, of no known shape.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod

import libcst as cst

from tilecheck.frontend.fold import module_scope
from tilecheck.frontend.launch_effects import arrays_in, captured_names, inside, made_of, mentioned, walk
from tilecheck.frontend.launch_objects import Activation
from tilecheck.frontend.scopes import UNKNOWN, Binding, ClassValue, FunctionValue, Instance, Ref, Resolve, parameters
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import Derived, HostArray, Stranger, Unseen

# Modules whose names are known for what they are, or lead to no array of the program.
_LIBRARIES = sys.stdlib_module_names | {"numba", "numpy", "cupy", "torch", "tilecheck", "cuda", "pytest", "builtins"}
# What may bind any name of a module.
_ANY_NAME = re.compile(r"\b(?:globals|vars)\s*\(\s*\)|\bexec\s*\(")
_REBOUND = re.compile(r"(?:^|[:;])[ \t]*(?:global|nonlocal)[ \t]+([\w, \t]+)", re.MULTILINE)


class HostMemory(ABC):
    """The activations of a run, and the marks on what their variables hold."""

    def __init__(self, source: Source, resolve: Resolve) -> None:
        self.module = module_scope(source, resolve)
        self.tainted: set[int] = set()
        self.moved: dict[int, tuple[HostArray, ...]] = {}
        self.spoiled: dict[int, object] = {}
        self.strangers: dict[object, Stranger] = {}
        self.modules: list[Stranger] = []
        self.classes_changed = False
        self.stack: list[Activation] = [Activation(self.module, {}, None, None)]
        found = _REBOUND.findall(source.text)
        loose = {name for name, at in self.module.bindings.items() if all(_is_value(each) for each in at)}
        anywhere = loose if _ANY_NAME.search(source.text) else set()
        self.rebound = frozenset({name.strip() for names in found for name in names.split(",")} | anywhere)
        # What was bound to such a name, in whichever scope.
        self.bound_anywhere: dict[str, list[object]] = {}
        # The names that its assignments mention.
        self._given_to = {name: frozenset[str]() for name in self.rebound}
        for at in walk(self.module.node) if self.rebound else ():
            if isinstance(at, cst.Assign):
                for name in _names_of(at) & self.rebound:
                    self._given_to[name] |= mentioned(at.value)
        self._made: dict[str, tuple[list[object], object]] = {}
        self._captured: dict[cst.CSTNode, frozenset[str]] = {}

    @abstractmethod
    def is_kernel(self, function: FunctionValue) -> bool:
        """Whether `function` runs on the device."""

    @property
    def here(self) -> Activation:
        return self.stack[-1]

    def lookup(self, name: str) -> object:
        """The value of `name` here and now."""
        found = self._bound(name)
        if name in self.rebound:
            found = self._one_of(name, found)
        if found is UNKNOWN and not self.is_builtin(name):
            return self.strangers.setdefault(name, Stranger())
        if isinstance(found, Ref) and found.path.lstrip(".").partition(".")[0] not in _LIBRARIES:
            stranger = self.strangers.setdefault(found, Stranger())
            if "." not in found.path.lstrip("."):
                self.modules.append(stranger)
            return stranger
        if not isinstance(found, FunctionValue) and self._is_captured(name):
            self.disturb(found)
        return self.fresh(found)

    def _one_of(self, name: str, here: object) -> object:
        """`here` or anything else that `name` was bound to; one object for one name as long as nothing is added."""
        given = (self._bound(other) for other in sorted(self._given_to[name]))
        values = [here, *self.bound_anywhere.get(name, ()), *given]
        known, made = self._made.get(name, ([], UNKNOWN))
        if len(known) != len(values) or any(old is not new for old, new in zip(known, values, strict=True)):
            made = made_of(*values)
            self._made[name] = (values, made)
        return made

    def is_builtin(self, name: str) -> bool:
        """Whether nothing in reach binds `name`."""
        at: Activation | None = self.here
        scope = self.here.scope
        while at is not None:
            if name in at.names:
                return False
            at = at.outer
        while scope.parent is not None and name not in scope.bindings:
            scope = scope.parent
        return name not in scope.bindings

    def _is_captured(self, name: str) -> bool:
        """Whether a lambda of the scope that binds `name` may change what it holds, whenever it runs."""
        at: Activation | None = self.here
        while at is not None and name not in at.names:
            at = at.outer
        node = self.module.node if at is None else at.scope.node
        if node not in self._captured:
            self._captured[node] = captured_names(node)
        return name in self._captured[node]

    def _bound(self, name: str) -> object:
        at: Activation | None = self.here
        while at is not None:
            if name in at.names:
                return at.names[name]
            at = at.outer
        return self.here.scope.lookup(name)

    def fresh(self, value: object) -> object:
        """`value` without what may have changed since; containers stay the same objects."""
        return self._fresh(value, set())

    def _fresh(self, value: object, done: set[int]) -> object:
        if isinstance(value, HostArray):
            if value.buffer in self.moved:
                return Derived((value, *self.moved[value.buffer]), folded=True)
            return value.vague() if value.buffer in self.tainted else value
        if isinstance(value, list | dict) and id(value) in self.spoiled:
            return made_of(value, *arrays_in(value), folded=True)
        if not isinstance(value, tuple | list | dict | Instance) or id(value) in done:
            return value
        done.add(id(value))
        if isinstance(value, tuple):
            kept = tuple(self._fresh(item, done) for item in value)
            return kept if any(new is not old for new, old in zip(kept, value, strict=True)) else value
        if isinstance(value, list):
            value[:] = [self._fresh(item, done) for item in value]
        elif isinstance(value, dict):
            value.update({key: self._fresh(item, done) for key, item in value.items()})
        else:
            value.attributes.update({key: self._fresh(item, done) for key, item in value.attributes.items()})
        return value

    def taint(self, *values: object) -> None:
        """Something unknown may have written these, and all that they hold."""
        todo, done = list(values), set[int]()
        while todo:
            value = todo.pop()
            if id(value) in done:
                continue
            done.add(id(value))
            todo += inside(value)
            if isinstance(value, HostArray):
                self.tainted.add(value.buffer)
            elif isinstance(value, list | dict):
                self.spoiled[id(value)] = value
            elif isinstance(value, Instance):
                value.attributes.update({key: made_of(held, folded=True) for key, held in value.attributes.items()})

    def disturb(self, *values: object) -> None:
        """Something unknown may have done anything to these: written them, resized them, made them share memory."""
        for value in values:
            if isinstance(value, FunctionValue) and not self.is_kernel(value):
                names = mentioned(value.node.body)
                values = (*values, *(self._bound(name) for name in names if name not in _parameter_names(value)))
        arrays = tuple(dict.fromkeys(array for value in values for array in arrays_in(value)))
        self.taint(*(value for value in values if not isinstance(value, FunctionValue)))
        for array in arrays:
            if isinstance(array, Unseen):  # of which nothing is known that could change
                continue
            known = self.moved.get(array.buffer, ())
            self.moved[array.buffer] = tuple(dict.fromkeys((*known, *arrays)))

    def moving(self, owner: object, value: object) -> None:
        """An attribute of `owner` was set to `value`: its shape, dtype or memory may be another, perhaps that of `value`."""
        if isinstance(owner, ClassValue):
            self.classes_changed = True
        elif not isinstance(owner, HostArray):
            self.disturb(owner, value)
        if not isinstance(owner, HostArray):
            return
        kin = tuple(arrays_in((owner, value)))
        self.tainted.add(owner.buffer)
        self.moved[owner.buffer] = tuple(dict.fromkeys((*self.moved.get(owner.buffer, ()), *kin)))

    def put_in(self, container: object, *values: object) -> None:
        """`values` were put somewhere in `container`, of which nothing is known from then on."""
        self.disturb(*(value for value in values if isinstance(value, FunctionValue)))
        if isinstance(container, list):
            container.extend(values)
        elif isinstance(container, dict):
            container[f"item {len(container)}"] = values
        elif not isinstance(container, HostArray):
            self.disturb(*values)
        self.taint(container)


def _parameter_names(function: FunctionValue) -> set[str]:
    return {param.name.value for param in parameters(function.node)}


def _names_of(node: cst.Assign) -> set[str]:
    return {target.target.value for target in node.targets if isinstance(target.target, cst.Name)}


def _is_value(binding: Binding) -> bool:
    return not isinstance(binding.value, Ref | cst.FunctionDef | cst.ClassDef)
