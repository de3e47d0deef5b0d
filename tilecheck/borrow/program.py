"""The definitions that one file's host code refers to: kernels, host functions, constants, here and in other files.

Invariant: `find` answers only for names that are bound once; a variable that is assigned twice stands for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from tilecheck.borrow.contracts import Definition, KernelFacts, function_of, kernel_of
from tilecheck.borrow.decisions import Conditions, conditions
from tilecheck.borrow.fields import apart, given_field, made_fields
from tilecheck.borrow.fresh import shortened
from tilecheck.borrow.readable import is_readable
from tilecheck.borrow.survey import Survey, survey
from tilecheck.borrow.values import Array, Callee, Closure, Handle, Items, KernelValue, Launcher, Number, Thing, Value
from tilecheck.borrow.vocabulary import (
    HARMLESS,
    LIBRARIES,
    NUMBA_ARRAYS,
    OUR_METHODS,
    PINNED_ARRAYS,
    TENSOR_MAKERS,
    canonical,
)
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind
from tilecheck.ir.kernel import Access, TensorParam

Outside = Callable[[str], Definition | None]
"""The definition behind a dotted name of another file, None if it is not among the checked ones."""


class Program:
    """One file with what it can see of the others. Contracts are read on demand and kept."""

    def __init__(self, module: ir.HostModule, outside: Outside) -> None:
        self.module = module
        self.outside = outside
        self._kernels: dict[int, KernelFacts | None] = {}
        self._known: dict[str, bool] = {}
        self._made: dict[int, dict[str, tuple[Kind, Value]]] = {}
        self._surveys: dict[int, Survey] | None = None
        self._values: dict[str, Value | None] = {}
        self._callables: dict[ir.Function, Value | None] = {}
        self._free: dict[ir.Function, tuple[ir.Name, ...]] = {}
        self._short: dict[ir.Function, ir.Function] = {}

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """What this file defines at its top level and in its classes, by dotted name."""
        found: dict[str, Definition] = {}
        for part in self.survey.units():
            if isinstance(part.unit, ir.Function | ir.Class) and part.unit.full is not None:
                found[part.unit.full] = part.unit
        return found

    @cached_property
    def survey(self) -> Survey:
        return survey(self.module)

    @cached_property
    def shifting(self) -> frozenset[str]:
        """The variables that a function declares `global` or `nonlocal`, and with a dot before them the fields that one
        sets that is no constructor.
        """
        if self.module.shifting is not None:
            return self.module.shifting()
        return frozenset(self.survey.declared | {f".{name}" for name in self.survey.stored})

    def conditions(self, function: ir.Function) -> Conditions:
        """The conditions of `function`; it may stand in another file."""
        return conditions(self.survey_of(function), lambda: self.shifting)

    def local(self, function: ir.Function) -> set[str]:
        """The names that `function` binds; it may stand in another file."""
        return self.survey_of(function).local

    def free(self, function: ir.Function) -> tuple[ir.Name, ...]:
        """A mention of each variable that `function` does not bind; it may stand in another file."""
        if function not in self._free:
            own = self.local(function)
            named = [name for name in ir.walk(*function.body) if isinstance(name, ir.Name) and name.full is None]
            self._free[function] = tuple({name.id: name for name in named if name.id not in own}.values())
        return self._free[function]

    def survey_of(self, function: ir.Function) -> Survey:
        """What `function` mentions; it may stand in another file."""
        if self._surveys is None:
            self._surveys = {id(part.unit): part for part in self.survey.units()}
        if id(function) not in self._surveys:
            self._surveys[id(function)] = survey(ir.HostModule("", "", (function,))).nested[0]
        return self._surveys[id(function)]

    def class_of(self, full: str) -> ir.Class | None:
        """The class behind a dotted name, here or in another file."""
        found = None if full.startswith((*HARMLESS, *LIBRARIES)) else self.find(full)
        return found if isinstance(found, ir.Class) else None

    def method(self, full: str, name: str, depth: int = 0) -> ir.Function | None:
        """The method `name` of the class `full`, or of the base that it comes from."""
        cls = self.class_of(full)
        if cls is None:
            return None
        for part in cls.body:
            if isinstance(part, ir.Function) and part.name == name:
                return part
        for base in cls.bases:
            at = base.value.full if isinstance(base.value, ir.Name | ir.Attr) else None
            if at is not None and base.name is None and depth < _DEEPEST:
                found = self.method(at, name, depth + 1)
                if found is not None:
                    return found
        return None

    def owner(self, part: Survey) -> str | None:
        """The dotted name of the class whose method the unit is."""
        owner = self._owners.get(id(part.unit))
        return owner.unit.full if owner is not None and isinstance(owner.unit, ir.Class) else None

    @cached_property
    def derived(self) -> set[str]:
        """The classes that a class of this file derives from."""
        classes = (part.unit for part in self.survey.units() if isinstance(part.unit, ir.Class))
        bases = (base.value for cls in classes for base in cls.bases)
        return {base.full for base in bases if isinstance(base, ir.Name | ir.Attr) and base.full is not None}

    @cached_property
    def properties(self) -> set[str]:
        """The names of the functions of this file that are read as attributes, but for those that keep what they gave."""
        functions = (part.unit for part in self.survey.units() if isinstance(part.unit, ir.Function))
        return {
            function.name
            for function in functions
            for decorator in function.decorators
            if isinstance(decorator, ir.Name | ir.Attr) and canonical(decorator) == "builtins.property"
        }

    def fields_of(self, full: str) -> dict[str, tuple[Kind, Value]]:
        """What the methods of a class of this file make its fields."""
        owner = next((part for part in self._owners.values() if part.unit is self.definitions.get(full)), None)
        return self._fields(owner) if owner is not None else {}

    def shortened(self, function: ir.Function) -> ir.Function:
        """`function`, or what counts of it at a call if it makes a tensor and leaves nothing behind."""
        if function not in self._short:
            self._short[function] = shortened(function, self.value)
        return self._short[function]

    def is_readable(self, function: ir.Function) -> bool:
        return is_readable(function)

    def attributes(self, part: Survey) -> dict[str, tuple[Kind, Value]]:
        """What the fields of `self` are in a method: those that the class makes in one way only, by `self.name`."""
        owner = self._owners.get(id(part.unit))
        if owner is None or not isinstance(part.unit, ir.Function) or not part.unit.params:
            return {}
        own = part.unit.params[0].name
        return {f"{own}.{name}": made for name, made in self._fields(owner).items()}

    @cached_property
    def _owners(self) -> dict[int, Survey]:
        classes = [part for part in self.survey.units() if isinstance(part.unit, ir.Class)]
        return {id(inner.unit): part for part in classes for inner in part.nested}

    def _fields(self, owner: Survey) -> dict[str, tuple[Kind, Value]]:
        if id(owner.unit) not in self._made:
            self._made[id(owner.unit)] = made_fields(owner, self._maker)
        return self._made[id(owner.unit)]

    def is_given(self, part: Survey, field: ir.Attr) -> bool:
        """Whether `field`, one of `self` in the method `part`, is only ever set to a parameter as it came, or to an extent
        of one; true of a field of anything else.
        """
        owner = self._owners.get(id(part.unit))
        if owner is None or not part.params or not isinstance(field.base, ir.Name):
            return True
        return field.base.id != part.params[0].name or given_field(owner, field.name)

    def _maker(self, value: ir.Expr) -> tuple[Kind, Value] | None:
        """What a field is that is assigned `value`, None if that is not known."""
        if isinstance(value, ir.Display) and value.kind in ("tuple", "list"):
            made = [self._maker(item) for item in value.items]
            known = tuple(each[1] for each in made if each is not None)
            return (Kind.CONTAINER, Items(known)) if known and len(known) == len(made) else None
        if not isinstance(value, ir.Call):
            return None
        if isinstance(value.func, ir.Attr) and value.func.name == "on":
            base = value.func.base.full if isinstance(value.func.base, ir.Name | ir.Attr) else None
            kernel = self.value(base) if base is not None else None
            return (Kind.OTHER, Launcher(kernel)) if isinstance(kernel, KernelValue) else None
        full = canonical(value.func) or ""
        if full in _MAKERS:
            return _MAKERS[full]
        return (Kind.OTHER, Thing(full)) if full and self.class_of(full) is not None else None

    def matters(self, part: Survey) -> bool:
        """Whether the unit can hold host code for us at all; if not, it is not lowered."""
        if part.typed or part.attributes & OUR_METHODS or self.attributes(part):
            return True
        return any(full.startswith(LIBRARIES) or self.known(full) for full in part.full)

    def known(self, full: str) -> bool:
        """Whether `full` is a kernel, a function with a contract, or one (or a class) that does something with what is ours."""
        if full.startswith(HARMLESS):
            return False
        if full not in self._known:
            self._known[full] = False
            value = self.value(full)
            cls = self.class_of(full)
            methods = [part for part in cls.body if isinstance(part, ir.Function)] if cls is not None else []
            self._known[full] = (
                isinstance(value, KernelValue | Callee)
                or (isinstance(value, Closure) and isinstance(value.node, ir.Function) and self.concerns(value.node))
                or any(map(self.concerns, methods))
            )
        return self._known[full]

    def concerns(self, function: ir.Function) -> bool:
        """Whether the body of `function` does anything with what is ours."""
        part = self.survey_of(function)
        return bool(part.attributes & OUR_METHODS) or any(
            full.startswith(LIBRARIES) or self.known(full) for full in part.full
        )

    @cached_property
    def constants(self) -> dict[str, ir.Expr]:
        """The values of module variables that are assigned once in the whole file."""
        counts, changed = self.survey.assigned, self.survey.declared
        found: dict[str, ir.Expr] = {}
        for statement in self.module.body:
            if not isinstance(statement, ir.Assign) or statement.value is None or len(statement.targets) != 1:
                continue
            for name, value in _pairs(statement.targets[0], statement.value):
                if counts[name] == 1 and name not in changed:
                    found[name] = value
        return found

    def find(self, full: str) -> Definition | None:
        """The definition behind a dotted name."""
        if full in self.definitions:
            return self.definitions[full]
        prefix = self.module.name + "."
        if full.startswith(prefix) and full.removeprefix(prefix) in self.constants:
            return self.constants[full.removeprefix(prefix)]
        owner, _, name = full.rpartition(".")
        if isinstance(cls := self.definitions.get(owner), ir.Class):
            return self._class_constant(cls, name)
        return self.outside(full)

    def _class_constant(self, cls: ir.Class, name: str) -> ir.Expr | None:
        """What a plain class sets `name` to, if nobody sets it again."""
        if cls.bases or cls.decorators or name in self.survey.stored:
            return None
        found = [
            value
            for part in cls.body
            if isinstance(part, ir.Assign) and part.value is not None
            for target in part.targets
            for field, value in _pairs(target, part.value)
            if field == name
        ]
        return found[0] if len(found) == 1 else None

    def value(self, full: str) -> Value | None:
        """A kernel, a function with a contract or a literal constant behind a dotted name."""
        if full not in self._values:
            self._values[full] = self._value(full)
        return self._values[full]

    def _value(self, full: str) -> Value | None:
        found = self.find(full)
        for _ in range(_DEEPEST):
            # Another file may call it differently: `scale = kernels.scale`.
            if not isinstance(found, ir.Name | ir.Attr) or found.full in (None, full):
                break
            found = self.find(found.full or "")
        if isinstance(found, ir.Function):
            return self.callable(found)
        return Number(found.value) if isinstance(found, ir.Const) and found.known else None

    def callable(self, function: ir.Function) -> Value | None:
        """The kernel or the contract that `function` defines."""
        if function not in self._callables:
            self._callables[function] = self._callable(function)
        return self._callables[function]

    def _callable(self, function: ir.Function) -> Value | None:
        kernel = self.kernel(function)
        if kernel is not None:
            return KernelValue(kernel)
        contract = function_of(function, self.find)
        if contract is not None:
            owned = any(isinstance(param, TensorParam) and param.access is Access.OWNED for param in contract.params)
            open_end = function.returns is None and not owned and is_readable(function)
            return Callee(contract, function if open_end else None)
        return Closure(function) if is_readable(function) else None

    def kernel(self, function: ir.Function) -> KernelFacts | None:
        if id(function) not in self._kernels:
            facts = kernel_of(function, lambda: self.local(function), self.find) if function.decorators else None
            self._kernels[id(function)] = facts
        return self._kernels[id(function)]


_DEEPEST = 8
"""Bases are followed this far."""

_MAKERS: dict[str, tuple[Kind, Value]] = {
    "tilecheck.Stream": (Kind.STREAM, Handle("stream")),
    "numba.cuda.stream": (Kind.STREAM, Handle("stream")),
    "torch.cuda.Stream": (Kind.STREAM, Handle("stream")),
    "numba.cuda.event": (Kind.EVENT, Handle("event")),
    "torch.cuda.Event": (Kind.EVENT, Handle("event")),
    **dict.fromkeys(NUMBA_ARRAYS, (Kind.DEVICE, Array("numba"))),
    **dict.fromkeys(PINNED_ARRAYS, (Kind.PINNED, Array("numpy", pinned=True))),
    **dict.fromkeys(TENSOR_MAKERS, (Kind.TENSOR, Array("tilecheck"))),
}


def _pairs(target: ir.Expr, value: ir.Expr) -> list[tuple[str, ir.Expr]]:
    """`name, value` for each plain name of an assignment."""
    return [(name.id, item) for name, item in apart(target, value) if isinstance(name, ir.Name)]
