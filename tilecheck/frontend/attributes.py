"""Attributes of what host code holds: of modules, classes and their objects, arrays.

Methods and class attributes are inherited along a line of classes that were read; a class with several bases, or with one
that was not read, ends the line, and what is not found before is unknown.

Worked example: for `class Q(R): n = 100` the attribute `n` of a `Q()` is 100, whatever `R` says, and a method `go` that
only `R` has runs with that object.
"""

from __future__ import annotations

import math

import libcst as cst

from tilecheck.frontend.host_arrays import array_attribute
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    ModuleValue,
    Parent,
    Ref,
    canonical,
    dotted,
)
from tilecheck.ir.host_array import HostArray

_CONSTANTS: dict[str, object] = {
    "math.pi": math.pi,
    "math.e": math.e,
    "math.inf": math.inf,
    "math.nan": math.nan,
    "math.tau": math.tau,
    "numpy.pi": math.pi,
    "numpy.e": math.e,
    "numpy.inf": math.inf,
    "numpy.nan": math.nan,
    "numpy.newaxis": None,
    "numba.cuda.warpsize": 32,
}


def attribute_of(base: object, name: str) -> object:
    """`base.name`."""
    if isinstance(base, Ref):
        path = canonical(f"{base.path}.{name}")
        return _CONSTANTS.get(path, Ref(path))
    if isinstance(base, ModuleValue):
        return UNKNOWN if base.scope.world.sets(name) else base.scope.lookup(name)
    if isinstance(base, ClassValue):
        if base.scope.world.sets(name):
            return UNKNOWN
        owner = next((cls for cls in lineage(base) if name in cls.scope.bindings), None)
        return UNKNOWN if owner is None else owner.scope.own(name)
    if isinstance(base, HostArray):
        return array_attribute(base, name)
    if isinstance(base, Parent):
        rest = lineage(base.owner.cls)
        after = [cls for at, cls in enumerate(rest) if any(before.node is base.cls for before in rest[:at])]
        found = next((cls.scope.own(name) for cls in after if name in cls.scope.bindings), UNKNOWN)
        return Method(found, base.owner) if isinstance(found, FunctionValue) else found
    if isinstance(base, Instance):
        if name in base.attributes:
            return base.attributes[name]
        found = attribute_of(base.cls, name)
        return Method(found, base) if isinstance(found, FunctionValue) else found
    return UNKNOWN


def lineage(cls: ClassValue) -> tuple[ClassValue, ...]:
    """A class and those that it inherits from, nearest first, as far as each was read and has one base."""
    found: dict[cst.ClassDef, ClassValue] = {}
    at: object = cls
    while isinstance(at, ClassValue) and at.node not in found:
        found[at.node] = at
        outside = at.scope.parent.lookup if at.scope.parent is not None else at.scope.lookup
        at = at.scope.world.evaluate(at.node.bases[0].value, outside) if len(at.node.bases) == 1 else None
    return tuple(found.values())


# Methods that decide what an object is, or what its attributes are.
_BEHIND = frozenset({"__new__", "__getattribute__", "__setattr__"})


def holds_what_it_is_given(cls: ClassValue) -> bool:
    """Whether the attributes of an object of `cls` are those that its methods assign."""
    return not any(at.node.keywords or at.scope.bindings.keys() & _BEHIND for at in lineage(cls))


def is_property(function: FunctionValue) -> bool:
    """Whether reading the attribute calls `function`."""
    return any(
        isinstance(at.decorator, cst.Name | cst.Attribute) and (dotted(at.decorator) or "").endswith("property")
        for at in function.node.decorators
    )
