"""States of a run of host code: what holds where branches, breaks and rounds of loops come together.

Invariant: after a merge a name is known only if every state that may reach the place agrees on its value.

Worked example: merging `{"n": 1, "m": 2}` with `{"n": 1, "m": 3}` leaves `n` 1 and `m` unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from tilecheck.frontend.launch_counters import LeftBy, joined
from tilecheck.frontend.launch_effects import bound_by_pattern, held, made_of
from tilecheck.frontend.launch_kernels import KernelOf
from tilecheck.frontend.launch_objects import Marks
from tilecheck.frontend.launch_values import HostValues
from tilecheck.frontend.scopes import UNKNOWN, Instance, Ref, Resolve
from tilecheck.frontend.source import Source
from tilecheck.frontend.syntax import parts
from tilecheck.ir.host_array import Derived, HostArray, Stranger

Slot = tuple[Instance | None, str]


@dataclass(frozen=True, slots=True)
class State:
    """The variables of the running function, the attributes of the objects in reach, and what was counted in."""

    names: dict[str, object]
    objects: tuple[tuple[Instance, dict[str, object]], ...]
    marks: Marks

    def held_by(self, slot: Slot) -> object:
        """What the variable or attribute holds."""
        owner, name = slot
        found = [self.names] if owner is None else [attributes for other, attributes in self.objects if other is owner]
        return found[0].get(name, UNKNOWN) if found else UNKNOWN


@dataclass(slots=True)
class Loop:
    """States in which a `break` or `continue` of unknown conditions may have left the body."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class HostStates(HostValues):
    """Taking, restoring and merging states."""

    def __init__(self, source: Source, resolve: Resolve, kernel_of: KernelOf, left_by: LeftBy) -> None:
        super().__init__(source, resolve, kernel_of, left_by)
        self.loops: list[Loop] = []

    def instances(self) -> list[Instance]:
        """The objects that variables hold."""
        found: dict[int, Instance] = {}
        for activation in self.stack:
            for value in activation.names.values():
                if isinstance(value, Instance):
                    found[id(value)] = value
        return list(found.values())

    def snapshot(self) -> State:
        """The state here and now."""
        objects = tuple((owner, dict(owner.attributes)) for owner in self.instances())
        return State(dict(self.here.names), objects, self.marks)

    def restore(self, state: State) -> None:
        """Go back to `state`."""
        self.here.names = dict(state.names)
        self.marks = state.marks
        for owner, attributes in state.objects:
            owner.attributes.clear()
            owner.attributes.update(attributes)

    def merge(self, *states: State) -> None:
        """Go on with what all of `states` agree on."""
        if not states:
            return
        self.here.names = agreed([state.names for state in states])
        self.marks = joined([state.marks for state in states])
        owners = {id(owner): owner for state in states for owner, _ in state.objects}
        for key, owner in owners.items():
            versions = [attrs for state in states for other, attrs in state.objects if id(other) == key]
            merged = agreed(versions)
            owner.attributes.clear()
            owner.attributes.update(merged)

    def slots(self, names: set[str], attributes: set[str]) -> list[Slot]:
        """The variables of the running function and the attributes of objects in reach that have one of these names."""
        owned = [(owner, name) for owner in self.instances() for name in sorted(attributes & owner.attributes.keys())]
        return [*((None, name) for name in sorted(names)), *owned]

    def held_by(self, slot: Slot) -> object:
        """What the variable or attribute holds here and now."""
        owner, name = slot
        return (self.here.names if owner is None else owner.attributes).get(name, UNKNOWN)

    def put(self, slot: Slot, value: object) -> None:
        """Assign it."""
        owner, name = slot
        (self.here.names if owner is None else owner.attributes)[name] = Stranger() if value is UNKNOWN else value


def settled(known: list[object], after: list[object], *, first: bool) -> list[object]:
    """What variables may hold at the start of any round, if they held `known` at the start of one and `after` at its end.

    In the `first` round it is seen which of them only trade places.
    """
    marked = [at for at, value in enumerate(known) if isinstance(value, Derived) and value.turn is not None]
    places = [at for at, v in enumerate(known) if isinstance(v, HostArray | Stranger)] if first else marked
    while True:
        kept = [at for at in places if _once(after[at], known, places) and _once(known[at], after, places)]
        if len(kept) == len(places):
            break
        places = kept
    trading = [at for at in places if not (first and same(known[at], after[at]))]
    if not first and len(trading) < len(marked):
        trading = []
    result = [old if same(old, new) else made_of(old, new) for old, new in zip(known, after, strict=True)]
    arrays = tuple(part for at in trading for part in held(known[at]))
    token = object()
    for number, at in enumerate(trading):
        result[at] = Derived(arrays, turn=(token, number)) if first else known[at]
    return result


def _once(value: object, values: list[object], places: list[int]) -> bool:
    return sum(same(value, values[at]) for at in places) == 1


def agreed(versions: list[dict[str, object]]) -> dict[str, object]:
    """What several versions of some names agree on; the rest is unknown."""
    first, *rest = versions
    result = dict(first)
    for other in rest:
        for name in {**result, **other}:
            if not same(result.get(name, UNKNOWN), other.get(name, UNKNOWN)):
                result[name] = made_of(result.get(name), other.get(name))
    return result


def same(a: object, b: object) -> bool:
    """Whether two values are known to be equal."""
    if a is b:
        return True
    if isinstance(a, HostArray) and isinstance(b, HostArray):
        return a == b
    if isinstance(a, Derived) and isinstance(b, Derived) and a.turn is not None:
        return a.turn == b.turn
    return type(a) is type(b) and isinstance(a, int | float | str | tuple | list | Ref) and a == b


def assigned_names(node: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names and the attributes that `node` may assign, in any of the statements below it."""
    names: set[str] = set()
    attributes: set[str] = set()

    def bind(target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            names.add(target.value)
        elif isinstance(target, cst.Attribute):
            attributes.add(target.attr.value)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                bind(element.value)
        elif isinstance(target, cst.StarredElement):
            bind(target.value)

    def visit(at: cst.CSTNode) -> None:
        if isinstance(at, cst.Assign):
            for target in at.targets:
                bind(target.target)
        elif isinstance(at, cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr):
            bind(at.target)
        elif isinstance(at, cst.AsName):
            bind(at.name)
        elif isinstance(at, cst.Import | cst.ImportFrom):
            names.update(imported_names(at))
        elif isinstance(at, cst.MatchCase):
            names.update(bound_by_pattern(at.pattern))
        elif isinstance(at, cst.FunctionDef | cst.ClassDef):
            names.add(at.name.value)
            return
        elif isinstance(at, cst.Lambda):
            return
        for child in parts(at):
            visit(child)

    visit(node)
    return names, attributes


def imported_names(node: cst.Import | cst.ImportFrom) -> set[str]:
    """The names that an import binds, those of `import *` aside."""
    names: set[str] = set()
    for alias in node.names if not isinstance(node.names, cst.ImportStar) else ():
        first: cst.BaseExpression = alias.name
        while isinstance(first, cst.Attribute):
            first = first.value
        bound = first if alias.asname is None else alias.asname.name
        if isinstance(bound, cst.Name):
            names.add(bound.value)
    return names
