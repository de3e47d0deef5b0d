"""Values of host code on its way to a launch: names, expressions, calls, and the launches themselves.

`HostValues` evaluates expressions over the activations of a run (`launch_run.py` runs the statements). What may have
happened to arrays and containers meanwhile is kept by `launch_memory.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, holds_what_it_is_given, lineage
from tilecheck.frontend.fold import call_ref, fold, item_of
from tilecheck.frontend.host_arrays import array_method
from tilecheck.frontend.launch_counters import HostCounters, LeftBy
from tilecheck.frontend.launch_effects import (
    READING_BUILTINS,
    Effect,
    any_item,
    bound_by_expressions,
    effect,
    made_of,
    mentioned,
    outcome,
    unpacked,
    walk,
)
from tilecheck.frontend.launch_objects import Configured, Contracted, Cut, Jitted, Op, Seen
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    Parent,
    Ref,
    Resolve,
    Scope,
    parameters,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import Derived, HostArray, Stranger

FUEL = 20_000
# The decorator's options of a kernel, None for a function that is none; `block` says that it has a launch contract.
KernelOf = Callable[[FunctionValue], Mapping[str, object] | None]
_MOST_ROUNDS = 1024
_MOST_ARGUMENTS = 32
# Builtins that lead to any variable in reach.
_REFLECTION = frozenset({"globals", "locals", "vars", "eval", "exec"})


class HostValues(HostCounters):
    """The state of a run, and what expressions are worth in it."""

    def __init__(self, source: Source, resolve: Resolve, kernel_of: KernelOf, left_by: LeftBy) -> None:
        super().__init__(source, resolve, left_by)
        self.kernel_of = kernel_of
        self.seen: list[Seen] = []
        self.fuel = FUEL
        self.called: set[cst.FunctionDef] = set()
        # Functions that a call did not enter because too many were running, and whether the run came to its end early.
        self.cut: dict[cst.FunctionDef, Scope] = {}
        self.spent = False
        # Expressions without `:=`, so that the links of a chain are not searched for it again and again.
        self._binding_nothing: set[cst.CSTNode] = set()

    @abstractmethod
    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""

    @abstractmethod
    def store(self, target: cst.BaseExpression, value: object) -> None:
        """Assign `value` to `target`."""

    # ---- expressions

    def value(self, node: cst.BaseExpression) -> object:
        """The value of an expression; calls in it are followed."""
        if node not in self._binding_nothing:
            bound = bound_by_expressions(node)
            self.here.names.update(dict.fromkeys(bound, UNKNOWN))
            if not bound:
                self._binding_nothing.update(walk(node))
        if isinstance(node, cst.Subscript):
            owner = self.value(node.value)
            kernel = self._kernel(owner)
            found = (
                item_of(owner, node, self.lookup, self._beyond) if kernel is None else self._configured(kernel, node)
            )
            return self.fresh(found)
        return self.fresh(fold(node, self.lookup, self._beyond))

    # ---- calls

    def _beyond(self, node: cst.BaseExpression) -> object:
        """The value of what folding leaves aside: calls, comprehensions, and expressions that are not followed."""
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.FormattedString):
            for part in walk(node):
                if isinstance(part, cst.FormattedStringExpression):
                    self.value(part.expression)
            return UNKNOWN
        if isinstance(node, cst.Attribute):
            owner = self.value(node.value)
            read = attribute_of(owner, node.attr.value)
            return self.call_function(read.function, [read.owner], {}) if isinstance(read, Method) else made_of(owner)
        if isinstance(node, cst.ListComp | cst.GeneratorExp):
            over = self.value(node.for_in.iter)
            items = self._comprehension(node, over)
            if items is not None:
                return items
            return self._loosely(node, over)
        if isinstance(node, cst.NamedExpr):
            made = made_of(self.value(node.value))
            if isinstance(node.target, cst.Name):
                self.here.names[node.target.value] = made
            return made
        return self._loosely(node)

    def _loosely(self, node: cst.BaseExpression, over: object = None) -> object:
        """The value of an expression whose parts run any number of times; `over` is what a comprehension runs over."""
        inner = self._once(node, over)
        values = [self.lookup(name) for name in sorted(mentioned(node))]
        if any(self._opaque(at) for at in walk(node)):
            self.disturb(*values)
            values = [self.lookup(name) for name in sorted(mentioned(node))]
        return made_of(*values, *inner)

    def _once(self, node: cst.BaseExpression, over: object) -> list[object]:
        """The values of the parts of `node` that may be evaluated any number of times, for the launches in them."""
        outside = dict(self.here.names)
        made: list[object] = []
        match node:
            case cst.IfExp(body=body, orelse=other):
                made = [self.value(body), self.value(other)]
            case cst.BooleanOperation(right=right):
                made = [self.value(right)]
            case cst.Await(expression=waited) | cst.Yield(value=cst.BaseExpression() as waited):
                return [self.value(waited)]
            case cst.Lambda(params=params, body=body):
                listed = (*params.posonly_params, *params.params, *params.kwonly_params)
                self.here.names.update({param.name.value: Stranger() for param in listed})
                made = [self.value(body)]
            case cst.ListComp() | cst.GeneratorExp() | cst.SetComp() | cst.DictComp():
                loop: cst.CompFor | None = node.for_in
                while loop is not None:
                    known = over is not None and loop is node.for_in
                    self.store(loop.target, any_item(over if known else self.value(loop.iter)))
                    made += [self.value(condition.test) for condition in loop.ifs]
                    loop = loop.inner_for_in
                made += [
                    self.value(part)
                    for part in ((node.key, node.value) if isinstance(node, cst.DictComp) else (node.elt,))
                ]
        self.here.names.clear()
        self.here.names.update(outside)
        return made

    def _opaque(self, node: cst.CSTNode) -> bool:
        """Whether `node`, of which it is not known if it runs, may change a value that it mentions."""
        if isinstance(node, cst.Call):
            callee = self._function(node.func) if isinstance(node.func, cst.Name) else UNKNOWN
            return not (isinstance(callee, Ref) and effect(callee, None, "", 0, {}) is Effect.READS)
        return isinstance(node, cst.Lambda | cst.Await | cst.NamedExpr | cst.Yield)

    def _function(self, node: cst.BaseExpression) -> object:
        """What is called by a name or an expression."""
        found = self.value(node)
        if found is UNKNOWN and isinstance(node, cst.Name) and node.value in READING_BUILTINS:
            return Ref(f"builtins.{node.value}") if self.is_builtin(node.value) else UNKNOWN
        return found

    def _comprehension(self, node: cst.ListComp | cst.GeneratorExp, items: object) -> list[object] | None:
        """A list over the plain sequence `items`; None with conditions, nesting, or if the sequence is not known."""
        loop = node.for_in
        if loop.ifs or loop.inner_for_in is not None or not isinstance(loop.target, cst.Name):
            return None
        if not isinstance(items, range | list | tuple) or len(items) > _MOST_ROUNDS:
            return None
        outside = dict(self.here.names)
        result: list[object] = []
        for item in list(items):
            self.here.names[loop.target.value] = item
            result.append(self.value(node.elt))
        self.here.names.pop(loop.target.value, None)
        if loop.target.value in outside:
            self.here.names[loop.target.value] = outside[loop.target.value]
        return result

    def _call(self, node: cst.Call) -> object:
        self.fuel -= 1
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
            callee = self._function(func)
        if isinstance(callee, Configured):
            return self._launch(callee, node)
        if isinstance(func, cst.Name) and func.value == "super" and not node.args and self.is_builtin("super"):
            return self._parent()
        if isinstance(owner, Parent) and callee is UNKNOWN:
            owner = owner.owner
        if isinstance(callee, Ref) and callee.path == "functools.partial" and node.args:
            first = self.value(node.args[0].value)
            if isinstance(first, Configured):
                return replace(first, given=(*first.given, *self._launch_arguments(node.args[1:])))
        if isinstance(callee, Ref) and callee.path in ("numba.cuda.jit", "numba.cuda.jit()", "tilecheck.simt"):
            return self._jitted(node)
        if isinstance(callee, Ref) and callee.path == "cuda.tile.launch":
            return self._tile_launch(node)
        contracted = self._contracted(callee, node)
        if contracted is not None:
            return contracted
        if any(owner is module for module in self.modules):
            owner = None
        positional, keyword = self._arguments(node)
        if isinstance(callee, Instance) and isinstance(method := attribute_of(callee, "__call__"), Method):
            callee = method
        if isinstance(callee, FunctionValue | Method | ClassValue):
            if any(argument.star for argument in node.args):
                self._open(callee)
                self.disturb(*positional, *keyword.values())
                return made_of(*positional, *keyword.values())
            return self._user_call(callee, positional, keyword)
        values = (*positional, *keyword.values())
        stale = any(isinstance(v, HostArray) and v.buffer in self.tainted for v in (owner, *values))
        if isinstance(callee, Ref) and not any(argument.star for argument in node.args):
            result = call_ref(callee, positional, keyword)
        elif isinstance(owner, HostArray):
            result = array_method(owner, name, positional, keyword)
        else:
            result = UNKNOWN
        done = effect(callee, owner, name, len(positional), keyword)
        if done is Effect.ANYTHING and isinstance(owner, list | dict):
            self.put_in(owner, *values)
        elif done is Effect.ANYTHING:
            self.disturb(callee, owner, *values)
        elif done is Effect.WRITES:
            self.taint(owner, *values)
        if done is not Effect.READS:
            self.set_again(owner, *values)
        loose = any(isinstance(value, Derived) and value.folded for value in values)
        if loose and isinstance(result, HostArray) and result.shape is None:
            result = UNKNOWN
        if isinstance(func, cst.Name) and func.value in _REFLECTION and self.is_builtin(func.value):
            values = (*values, *(value for at in self.stack for value in at.names.values()))
        if result is UNKNOWN and "copy" in keyword:
            return made_of(owner, *values)
        if result is UNKNOWN or "out" in keyword or "to" in keyword:
            result = outcome(callee, owner, name, tuple(self.fresh(value) for value in values))
        return result.vague() if stale and isinstance(result, HostArray) else result

    def _parent(self) -> object:
        """`super()` here."""
        scope = self.here.scope
        held = list(self.here.names.values())
        inside = scope.parent is not None and isinstance(scope.parent.node, cst.ClassDef)
        if not inside or not held or not isinstance(held[0], Instance) or scope.parent is None:
            return UNKNOWN
        return Parent(held[0], scope.parent.node) if isinstance(scope.parent.node, cst.ClassDef) else UNKNOWN

    def _open(self, callee: FunctionValue | Method | ClassValue) -> None:
        """`callee` may be called with any arguments."""
        made = attribute_of(callee, "__init__") if isinstance(callee, ClassValue) else callee
        function = made.function if isinstance(made, Method) else made
        if isinstance(function, FunctionValue) and function.scope.source is self.module.source:
            self.cut.setdefault(function.node, function.scope)

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
            frozenset(at for at, v in enumerate(values) if isinstance(v, Cut) and v.exact and v.blocks is None),
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

    def is_kernel(self, function: FunctionValue) -> bool:
        return self.kernel_of(function) is not None

    def _kernel(self, value: object) -> FunctionValue | None:
        """The kernel that `value` is, None if it is none."""
        if isinstance(value, Jitted):
            value = value.function
        if isinstance(value, Method):
            value = value.function
        return value if isinstance(value, FunctionValue) and self.kernel_of(value) is not None else None

    def _configured(self, kernel: FunctionValue, node: cst.Subscript) -> Configured:
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
        self._see(configured, node, (*configured.given, *self._launch_arguments(node.args)))
        return None

    def _launch_arguments(self, nodes: Sequence[cst.Arg]) -> list[object]:
        arguments: list[object] = []
        for argument in nodes:
            value = self.value(argument.value)
            if argument.star == "*":
                if not isinstance(value, tuple | list) and argument is not nodes[-1]:
                    rest = [self.value(at.value) for at in nodes]
                    return [made_of(*arguments, *rest) for _ in range(_MOST_ARGUMENTS)]
                arguments.extend(value if isinstance(value, tuple | list) else unpacked(value, _MOST_ARGUMENTS))
            elif isinstance(value, Ref) or argument.keyword is None:
                arguments.append(value)
        return arguments

    def _see(
        self, configured: Configured, node: cst.Call, arguments: tuple[object, ...], exact: frozenset[int] = frozenset()
    ) -> Op:
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
            exact=exact,
            counted=self.count(configured.function, arguments),
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
        if isinstance(callee, ClassValue) and not holds_what_it_is_given(callee):
            self.disturb(*args, *kwargs.values())
            return Stranger()
        if isinstance(callee, ClassValue):
            instance = Instance(callee)
            init = attribute_of(callee, "__init__")
            if isinstance(init, FunctionValue):
                self.call_function(init, [instance, *args], kwargs)
            else:
                fields = [name for cls in reversed(lineage(callee)) for name in _fields(cls)]
                instance.attributes.update(zip(dict.fromkeys(fields), args, strict=False))
                instance.attributes.update(kwargs)
            return instance
        if isinstance(callee, Method):
            return self.call_function(callee.function, [callee.owner, *args], kwargs)
        return self.call_function(callee, args, kwargs)


def _fields(cls: ClassValue) -> list[str]:
    """The annotated names of a class body: the parameters of a dataclass or named tuple."""
    found: list[str] = []
    for statement in cls.node.body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    found.append(small.target.value)
    return found
