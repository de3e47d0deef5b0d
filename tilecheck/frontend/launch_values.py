"""Values of host code on its way to a launch: names, expressions, calls, and the launches themselves.

`HostValues` evaluates expressions over the activations of a run (`launch_run.py` runs the statements). Arrays whose
contents may have been written are `tainted`, lists that may have been changed `spoiled`: from then on their contents
are unknown.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.frontend.fold import attribute_of, call_ref, fold
from tilecheck.frontend.host_arrays import array_method
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    ModuleValue,
    Ref,
    Resolve,
    Scope,
    World,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray

FUEL = 20_000
_REBOUND = re.compile(r"^\s+(?:global|nonlocal)\s+([\w, ]+)$", re.MULTILINE)
_WRITERS = (
    Ref("numpy.copyto"),
    Ref("numpy.random.shuffle"),
    Ref("numpy.put"),
    Ref("numpy.place"),
    Ref("numpy.fill_diagonal"),
)
_LIBRARIES = ("numpy.", "numba.cuda.", "builtins.", "math.", "torch.", "cuda.tile.")
_READ_ONLY_METHODS = frozenset(
    {"copy", "astype", "sum", "mean", "min", "max", "copy_to_host", "reshape", "ravel", "view"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Jitted:
    """The result of `cuda.jit(f)`."""

    function: FunctionValue


@dataclass(frozen=True, slots=True, eq=False)
class Configured:
    """`kernel[grid, block, stream, shared]` or `kernel.forall(n)`, not yet called."""

    function: FunctionValue
    grid: object
    block: object
    dynamic: object
    forall: object = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A launch that was reached."""

    kernel: FunctionValue
    call: cst.Call
    host: str | None
    grid: object
    block: object
    dynamic: object
    arguments: tuple[object, ...]
    forall: object = UNKNOWN


@dataclass
class Activation:
    """One running function, or the module."""

    scope: Scope
    names: dict[str, object]
    outer: Activation | None
    name: str | None
    returned: list[object] = field(default_factory=list)


class Stop(Exception):
    """Leaves the statements being run: `kind` is return, break, continue or raise."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class HostValues(ABC):
    """The state of a run, and what expressions are worth in it."""

    def __init__(self, source: Source, resolve: Resolve, is_kernel: Callable[[FunctionValue], bool]) -> None:
        self.module = Scope(source, source.module, None, World(resolve))
        self.is_kernel = is_kernel
        self.seen: list[Seen] = []
        self.fuel = FUEL
        self.called: set[cst.FunctionDef] = set()
        self.tainted: set[int] = set()
        self.spoiled: dict[int, list[object]] = {}
        self.stack: list[Activation] = [Activation(self.module, {}, None, None)]
        found = _REBOUND.findall(source.text)
        self.rebound = frozenset(name.strip() for names in found for name in names.split(","))

    @abstractmethod
    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""

    # ---- names and expressions

    @property
    def here(self) -> Activation:
        return self.stack[-1]

    def lookup(self, name: str) -> object:
        """The value of `name` here and now."""
        if name in self.rebound:
            return UNKNOWN
        at: Activation | None = self.here
        while at is not None:
            if name in at.names:
                return self.fresh(at.names[name])
            at = at.outer
        return self.fresh(self.here.scope.lookup(name))

    def fresh(self, value: object) -> object:
        """`value` without what may have changed since."""
        if isinstance(value, HostArray) and value.buffer in self.tainted:
            return value.vague()
        if isinstance(value, list) and id(value) in self.spoiled:
            return UNKNOWN
        return value

    def value(self, node: cst.BaseExpression) -> object:
        """The value of an expression; calls in it are followed."""
        if isinstance(node, cst.Subscript):
            configured = self._configured(node)
            if configured is not None:
                return configured
        return self.fresh(fold(node, self.lookup, self._call))

    # ---- calls

    def _call(self, node: cst.Call) -> object:
        func = node.func
        owner: object = None
        name = ""
        if isinstance(func, cst.Attribute):
            owner, name = self.value(func.value), func.attr.value
            kernel = self._kernel(owner) if name in ("forall", "configure") else None
            if kernel is not None:
                return self._configured_by_call(kernel, name, node)
            callee = attribute_of(owner, name)
        else:
            callee = self.value(func)
        if isinstance(callee, Configured):
            return self._launch(callee, node)
        if isinstance(callee, Ref) and callee.path in ("numba.cuda.jit", "numba.cuda.jit()", "tilecheck.simt"):
            return self._jitted(node)
        if isinstance(callee, Ref) and callee.path == "cuda.tile.launch":
            return self._tile_launch(node)
        positional, keyword = self._arguments(node)
        if isinstance(callee, FunctionValue | Method | ClassValue):
            if any(argument.star for argument in node.args):
                self.taint(*positional)
                return UNKNOWN
            return self._user_call(callee, positional, keyword)
        values = (*positional, *keyword.values())
        stale = any(isinstance(v, HostArray) and v.buffer in self.tainted for v in (owner, *values))
        if isinstance(callee, Ref) and not any(argument.star for argument in node.args):
            result = call_ref(callee, positional, keyword)
        elif isinstance(owner, HostArray):
            result = array_method(owner, name, positional, keyword)
        else:
            result = UNKNOWN
        if not _harmless(callee, owner, name):
            self.taint(*values)
            if not isinstance(owner, Ref | ModuleValue):
                self.taint(owner)
        return result.vague() if stale and isinstance(result, HostArray) else result

    def _arguments(self, node: cst.Call) -> tuple[list[object], dict[str, object]]:
        positional: list[object] = []
        keyword: dict[str, object] = {}
        for argument in node.args:
            value = self.value(argument.value)
            if argument.keyword is not None:
                keyword[argument.keyword.value] = value
            else:
                positional.append(value)
        return positional, keyword

    def _configured_by_call(self, kernel: FunctionValue, name: str, node: cst.Call) -> Configured:
        arguments, _ = self._arguments(node)
        if name == "forall":
            return Configured(kernel, UNKNOWN, UNKNOWN, 0, arguments[0] if arguments else UNKNOWN)
        grid, block, _, dynamic = [*arguments, *[UNKNOWN] * 2, 0, 0][:4]
        return Configured(kernel, grid, block, dynamic)

    def _jitted(self, node: cst.Call) -> object:
        for argument in node.args:
            value = self.value(argument.value)
            kernel = self._kernel(value)
            if kernel is not None or isinstance(value, FunctionValue):
                return Jitted(kernel if kernel is not None else value)  # type: ignore[arg-type]
        return Ref("numba.cuda.jit()")

    def _kernel(self, value: object) -> FunctionValue | None:
        """The kernel that `value` is, None if it is none."""
        if isinstance(value, Jitted):
            value = value.function
        if isinstance(value, Method):
            value = value.function
        return value if isinstance(value, FunctionValue) and self.is_kernel(value) else None

    def _configured(self, node: cst.Subscript) -> Configured | None:
        base = self.value(node.value)
        kernel = self._kernel(base)
        if kernel is None:
            return None
        elements = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        values: list[object]
        if len(elements) == 1 and not isinstance(elements[0], cst.Tuple):
            whole = self.value(elements[0])
            values = list(whole) if isinstance(whole, tuple) else [UNKNOWN, UNKNOWN]
        else:
            if len(elements) == 1 and isinstance(elements[0], cst.Tuple):
                elements = [e.value for e in elements[0].elements]
            values = [self.value(element) for element in elements]
        grid, block, _, dynamic = [*values, 0, 0, 0, 0][:4] if len(values) >= 2 else (UNKNOWN, UNKNOWN, 0, UNKNOWN)
        return Configured(kernel, grid, block, dynamic)

    def _launch(self, configured: Configured, node: cst.Call) -> object:
        arguments: list[object] = []
        for argument in node.args:
            value = self.value(argument.value)
            if argument.star == "*":
                arguments.extend(value if isinstance(value, tuple | list) else [UNKNOWN] * 32)
            elif isinstance(value, Ref) or argument.keyword is None:
                arguments.append(value)
        host = next((at.name for at in reversed(self.stack) if at.name is not None), None)
        self.seen.append(
            Seen(
                configured.function,
                node,
                host,
                configured.grid,
                configured.block,
                configured.dynamic,
                tuple(arguments),
                configured.forall,
            )
        )
        self.tainted.update(a.buffer for a in arguments if isinstance(a, HostArray))
        return None

    def _tile_launch(self, node: cst.Call) -> object:
        """`ct.launch(stream, grid, kernel, arguments)`: a block is one logical thread."""
        positional, given = self._arguments(node)
        given.update(zip(("stream", "grid", "kernel", "kernel_args"), positional, strict=False))
        kernel = self._kernel(given.get("kernel"))
        if kernel is None:
            return UNKNOWN
        values = given.get("kernel_args")
        arguments = tuple(values) if isinstance(values, tuple | list) else ()
        host = next((at.name for at in reversed(self.stack) if at.name is not None), None)
        self.seen.append(Seen(kernel, node, host, given.get("grid", UNKNOWN), (1, 1, 1), 0, arguments))
        self.tainted.update(a.buffer for a in arguments if isinstance(a, HostArray))
        return None

    def _user_call(
        self, callee: FunctionValue | Method | ClassValue, args: list[object], kwargs: dict[str, object]
    ) -> object:
        if isinstance(callee, ClassValue):
            instance = Instance(callee)
            init = attribute_of(callee, "__init__")
            if isinstance(init, FunctionValue):
                self.call_function(init, [instance, *args], kwargs)
            return instance
        if isinstance(callee, Method):
            return self.call_function(callee.function, [callee.owner, *args], kwargs)
        return self.call_function(callee, args, kwargs)

    def taint(self, *values: object) -> None:
        """Something unknown may have written these."""
        for value in values:
            if isinstance(value, HostArray):
                self.tainted.add(value.buffer)
            elif isinstance(value, tuple):
                self.taint(*value)
            elif isinstance(value, list):
                self.taint(*value)
                self.spoiled[id(value)] = value
            elif isinstance(value, Instance):
                for name in value.attributes:
                    self.taint(value.attributes[name])
                    value.attributes[name] = UNKNOWN


def _harmless(callee: object, owner: object, name: str) -> bool:
    """Whether a call writes none of its arguments: library functions do not, nor do methods known to only read."""
    if isinstance(callee, Ref):
        return callee.path.startswith(_LIBRARIES) and callee not in _WRITERS
    return isinstance(owner, HostArray) and name in _READ_ONLY_METHODS
