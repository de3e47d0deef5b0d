"""Values of host code on its way to a launch: names, expressions, calls, and the launches themselves.

`HostValues` evaluates expressions over the activations of a run (`launch_run.py` runs the statements). Arrays whose
contents may have been written are `tainted`, lists that may have been changed `spoiled`: from then on their contents
are unknown.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

import libcst as cst

from tilecheck.frontend.fold import attribute_of, call_ref, fold, module_scope
from tilecheck.frontend.host_arrays import array_method
from tilecheck.frontend.launch_objects import Activation, Configured, Contracted, Cut, Jitted, Op, Seen
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    ModuleValue,
    Ref,
    Resolve,
    parameters,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray

FUEL = 20_000
# The decorator's options of a kernel, None for a function that is none; `block` says that it has a launch contract.
KernelOf = Callable[[FunctionValue], Mapping[str, object] | None]
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


class HostValues(ABC):
    """The state of a run, and what expressions are worth in it."""

    def __init__(self, source: Source, resolve: Resolve, kernel_of: KernelOf) -> None:
        self.module = module_scope(source, resolve)
        self.kernel_of = kernel_of
        self.seen: list[Seen] = []
        self.fuel = FUEL
        self.called: set[cst.FunctionDef] = set()
        self.tainted: set[int] = set()
        self.spoiled: dict[int, object] = {}
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
        if isinstance(value, list | dict) and id(value) in self.spoiled:
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
            ours = self._known_method(owner, name, node)
            if ours is not None:
                return ours
            callee = attribute_of(owner, name)
        else:
            callee = self.value(func)
        if isinstance(callee, Configured):
            return self._launch(callee, node)
        if isinstance(callee, Ref) and callee.path in ("numba.cuda.jit", "numba.cuda.jit()", "tilecheck.simt"):
            return self._jitted(node)
        if isinstance(callee, Ref) and callee.path == "cuda.tile.launch":
            return self._tile_launch(node)
        contracted = self._contracted(callee, node)
        if contracted is not None:
            return contracted
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

    def _known_method(self, owner: object, name: str, node: cst.Call) -> object:
        """Methods of dicts, of our tensors, partitions, kernels and ops; None for any other call."""
        if isinstance(owner, dict) and name in ("items", "keys", "values") and not node.args:
            return {"items": list(owner.items()), "keys": list(owner), "values": list(owner.values())}[name]
        if isinstance(owner, HostArray) and name in ("partition", "into_partition"):
            positional, _ = self._arguments(node)
            one = len(positional) == 1 and isinstance(positional[0], tuple)
            return Cut(owner, positional[0] if one else tuple(positional))
        if isinstance(owner, Cut):
            _, keyword = self._arguments(node)
            if name == "map":
                return replace(owner, blocks=keyword.get("blocks", UNKNOWN))
            return replace(owner, exact=False) if name == "prefix" else UNKNOWN
        if name in ("where", "with_hints") and (isinstance(owner, Contracted) or self._kernel(owner) is not None):
            return owner
        if isinstance(owner, Op) and name == "with_grid":
            positional, _ = self._arguments(node)
            self.seen[owner.place] = replace(self.seen[owner.place], grid=tuple(positional))
            return owner
        return owner if isinstance(owner, Op) else None

    def _contracted(self, callee: object, node: cst.Call) -> object:
        """A call of a kernel under its contract, or `tc.adopt(kernel, block=...)`; None for any other call."""
        if callee == Ref("tilecheck.adopt"):
            positional, keyword = self._arguments(node)
            kernel = self._kernel(positional[0]) if positional else None
            if kernel is None:
                return UNKNOWN
            return Contracted(kernel, keyword.get("block", UNKNOWN), keyword.get("shared", 0))
        if isinstance(callee, FunctionValue):
            options = self.kernel_of(callee)
            if options is None or "block" not in options:
                return None
            callee = Contracted(callee, options["block"], options.get("shared", 0))
        if not isinstance(callee, Contracted):
            return None
        positional, keyword = self._arguments(node)
        names = [param.name.value for param in parameters(callee.function.node)]
        values = [*positional, *(keyword.get(name, UNKNOWN) for name in names[len(positional) :])]
        cuts = [v for v in values if isinstance(v, Cut) and v.exact]
        arguments = tuple(v.array if isinstance(v, Cut) else v for v in values)
        return self._see(
            Configured(callee.function, cuts[0].grid() if cuts else UNKNOWN, callee.block, callee.dynamic),
            node,
            arguments,
        )

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
        return value if isinstance(value, FunctionValue) and self.kernel_of(value) is not None else None

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
        self._see(configured, node, tuple(arguments))
        return None

    def _see(self, configured: Configured, node: cst.Call, arguments: tuple[object, ...]) -> Op:
        """Note a launch; what it gets may have been written afterwards."""
        host = next((at.name for at in reversed(self.stack) if at.name is not None), None)
        found = Seen(
            configured.function,
            node,
            host,
            configured.grid,
            configured.block,
            configured.dynamic,
            arguments,
            configured.forall,
        )
        self.seen.append(found)
        self.taint(*arguments)
        return Op(len(self.seen) - 1)

    def _tile_launch(self, node: cst.Call) -> object:
        """`ct.launch(stream, grid, kernel, arguments)`: a block is one logical thread."""
        positional, given = self._arguments(node)
        given.update(zip(("stream", "grid", "kernel", "kernel_args"), positional, strict=False))
        kernel = self._kernel(given.get("kernel"))
        if kernel is None:
            return UNKNOWN
        values = given.get("kernel_args")
        arguments = tuple(values) if isinstance(values, tuple | list) else ()
        self._see(Configured(kernel, given.get("grid", UNKNOWN), (1, 1, 1), 0), node, arguments)
        return None

    def _user_call(
        self, callee: FunctionValue | Method | ClassValue, args: list[object], kwargs: dict[str, object]
    ) -> object:
        if isinstance(callee, ClassValue):
            instance = Instance(callee)
            init = attribute_of(callee, "__init__")
            if isinstance(init, FunctionValue):
                self.call_function(init, [instance, *args], kwargs)
            else:
                instance.attributes.update(zip(_fields(callee), args, strict=False))
                instance.attributes.update(kwargs)
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
            elif isinstance(value, list | dict):
                self.taint(*(value if isinstance(value, list) else value.values()))
                self.spoiled[id(value)] = value
            elif isinstance(value, Instance):
                for name in value.attributes:
                    self.taint(value.attributes[name])
                    value.attributes[name] = UNKNOWN


def _fields(cls: ClassValue) -> list[str]:
    """The annotated names of a class body: the parameters of a dataclass or named tuple."""
    found: list[str] = []
    for statement in cls.node.body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    found.append(small.target.value)
    return found


def _harmless(callee: object, owner: object, name: str) -> bool:
    """Whether a call writes none of its arguments: library functions do not, nor do methods known to only read."""
    if isinstance(callee, Ref):
        return callee.path.startswith(_LIBRARIES) and callee not in _WRITERS
    return isinstance(owner, HostArray) and name in _READ_ONLY_METHODS
