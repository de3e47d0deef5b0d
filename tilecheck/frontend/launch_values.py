"""Values of host code on its way to a launch: names, expressions, calls.

`HostValues` evaluates expressions over the activations of a run (`launch_statements.py` runs the statements). What may
have happened to arrays and containers meanwhile is kept by `launch_memory.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, holds_what_it_is_given, lineage
from tilecheck.frontend.fold import call_ref, fold, item_of
from tilecheck.frontend.host_arrays import array_method
from tilecheck.frontend.launch_counters import LeftBy
from tilecheck.frontend.launch_effects import (
    READING_BUILTINS,
    Effect,
    any_item,
    bound_by_expressions,
    effect,
    made_of,
    mentioned,
    outcome,
    walk,
)
from tilecheck.frontend.launch_entries import fields_of
from tilecheck.frontend.launch_kernels import HostKernels, KernelOf
from tilecheck.frontend.launch_objects import Configured, Contracted, Cut, Op
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    Parent,
    Ref,
    Resolve,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import Derived, HostArray, Stranger

_MOST_ROUNDS = 1024
# Builtins that lead to any variable in reach.
_REFLECTION = frozenset({"globals", "locals", "vars", "eval", "exec"})


class HostValues(HostKernels):
    """What expressions are worth in the state of a run."""

    def __init__(self, source: Source, resolve: Resolve, kernel_of: KernelOf, left_by: LeftBy) -> None:
        super().__init__(source, resolve, kernel_of, left_by)
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
            kernel = self.kernel(owner)
            found = item_of(owner, node, self.lookup, self._beyond) if kernel is None else self.configured(kernel, node)
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
            given = self.value(node.value)
            self.store(node.target, given)
            return given
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
        if isinstance(node, cst.GeneratorExp):
            # Who asks for its items may stop before the last one.
            self.here.names.update(dict.fromkeys(bound_by_expressions(node.elt), UNKNOWN))
        return result

    def _call(self, node: cst.Call) -> object:
        self.step()
        func = node.func
        owner: object = None
        name = ""
        if isinstance(func, cst.Attribute):
            owner, name = self.value(func.value), func.attr.value
            kernel = self.kernel(owner) if name in ("forall", "configure") else None
            if kernel is not None:
                return self.configured_by_call(kernel, name, node)
            ours = self._known_method(owner, name, node)
            if ours is not None:
                return ours
            callee = attribute_of(owner, name)
        else:
            callee = self._function(func)
        if isinstance(callee, Configured):
            return self.launch(callee, node)
        if isinstance(func, cst.Name) and func.value == "super" and not node.args and self.is_builtin("super"):
            return self._parent()
        if isinstance(owner, Parent) and callee is UNKNOWN:
            owner = owner.owner
        if isinstance(callee, Ref) and callee.path == "functools.partial" and node.args:
            first = self.value(node.args[0].value)
            if isinstance(first, Configured):
                return replace(first, given=(*first.given, *self.launch_arguments(node.args[1:])))
        if isinstance(callee, Ref) and callee.path in ("numba.cuda.jit", "numba.cuda.jit()", "tilecheck.simt"):
            return self.jitted(node)
        if isinstance(callee, Ref) and callee.path == "cuda.tile.launch":
            return self.tile_launch(node)
        contracted = self.contracted(callee, node)
        if contracted is not None:
            return contracted
        if any(owner is module for module in self.modules):
            owner = None
        positional, keyword = self.arguments_of(node)
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

    def _known_method(self, owner: object, name: str, node: cst.Call) -> object:
        """Methods of dicts, of our tensors, partitions, kernels and ops; None for any other call."""
        if isinstance(owner, dict) and name in ("items", "keys", "values") and not node.args:
            return {"items": list(owner.items()), "keys": list(owner), "values": list(owner.values())}[name]
        if isinstance(owner, HostArray) and name in ("partition", "into_partition"):
            positional, _ = self.arguments_of(node)
            one = len(positional) == 1 and isinstance(positional[0], tuple)
            return Cut(owner, positional[0] if one else tuple(positional))
        if isinstance(owner, Cut):
            _, keyword = self.arguments_of(node)
            if name == "map":
                return replace(owner, blocks=keyword.get("blocks", UNKNOWN))
            return replace(owner, exact=False) if name == "prefix" else UNKNOWN
        if name in ("where", "with_hints") and (isinstance(owner, Contracted) or self.kernel(owner) is not None):
            return owner
        if isinstance(owner, Op) and name == "with_grid":
            positional, _ = self.arguments_of(node)
            self.seen[owner.place] = replace(self.seen[owner.place], grid=tuple(positional))
            return owner
        return owner if isinstance(owner, Op) else None

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
                fields = [name for cls in reversed(lineage(callee)) for name in fields_of(cls.node)]
                instance.attributes.update(zip(dict.fromkeys(fields), args, strict=False))
                instance.attributes.update(kwargs)
                after = attribute_of(callee, "__post_init__")
                if isinstance(after, FunctionValue):
                    self.call_function(after, [instance], {})
            return instance
        if isinstance(callee, Method):
            return self.call_function(callee.function, [callee.owner, *args], kwargs)
        return self.call_function(callee, args, kwargs)
