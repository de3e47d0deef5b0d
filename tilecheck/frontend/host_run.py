"""A cautious run of host code, to see the launches it makes: values that are plain are followed, the rest is UNKNOWN.

Statements run in order. A branch whose condition is unknown runs both ways and the results are merged; a loop over a
short literal sequence runs item by item, any other loop once, with everything that it assigns unknown. Calls of
functions of the file are followed to a small depth. Nothing of the user's is ever executed.

Invariant: what is reported as known holds in every real run that reaches the launch (loops cut short and merges make
values unknown, never wrong); contents of an array are forgotten once something may have written it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.frontend.fold import attribute_of, binary, fold, fold_call
from tilecheck.frontend.scopes import (
    UNKNOWN,
    ClassValue,
    FunctionValue,
    Instance,
    Method,
    Ref,
    Resolve,
    Scope,
    World,
    parameters,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray

_FUEL = 20_000
_DEPTH = 6
_MAX_ROUNDS = 64
_WRITERS = (
    Ref("numpy.copyto"),
    Ref("numpy.random.shuffle"),
    Ref("numpy.put"),
    Ref("numpy.place"),
    Ref("numpy.fill_diagonal"),
)
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


class HostRun:
    """One file being run."""

    def __init__(self, source: Source, resolve: Resolve, kernels: frozenset[cst.FunctionDef]) -> None:
        self.module = Scope(source, source.module, None, World(resolve))
        self.kernels = kernels
        self.seen: list[Seen] = []
        self.fuel = _FUEL
        self.called: set[cst.FunctionDef] = set()
        self.tainted: set[int] = set()
        self.stack: list[Activation] = [Activation(self.module, {}, None, None)]

    def everything(self) -> tuple[Seen, ...]:
        """Run the module, then every function that nothing else calls, and return the launches."""
        self._suite(self.module.node.body)
        waiting = list(_functions(self.module))
        for needs_arguments in (False, True):
            for scope, node in waiting:
                if node in self.kernels or node in self.called or bool(_required(node)) != needs_arguments:
                    continue
                self.tainted.clear()
                self.fuel = max(self.fuel, _FUEL // 4)
                self._enter(scope, node)
        return tuple(self.seen)

    def _enter(self, scope: Scope, node: cst.FunctionDef) -> None:
        """Run `node` as if someone called it with arguments that are not known."""
        function = FunctionValue(node, scope)
        arguments: list[object] = []
        if isinstance(scope.node, cst.ClassDef) and parameters(node):
            cls = ClassValue(scope.node, scope)
            owner = Instance(cls)
            setup = scope.own("setUp") if "setUp" in scope.bindings else UNKNOWN
            if isinstance(setup, FunctionValue) and setup.node is not node:
                self.call_function(setup, [owner], {})
            arguments.append(owner)
        self.call_function(function, arguments, {})

    # ---- names and expressions

    @property
    def here(self) -> Activation:
        return self.stack[-1]

    def lookup(self, name: str) -> object:
        """The value of `name` here and now."""
        at: Activation | None = self.here
        while at is not None:
            if name in at.names:
                return self._fresh(at.names[name])
            at = at.outer
        value = self.here.scope.lookup(name)
        return self._fresh(value)

    def _fresh(self, value: object) -> object:
        if isinstance(value, HostArray) and value.buffer in self.tainted:
            return value.vague()
        return value

    def value(self, node: cst.BaseExpression) -> object:
        """The value of an expression; calls in it are followed."""
        return self._fresh(fold(node, self._resolve, self._call))

    def _resolve(self, name: str) -> object:
        return self.lookup(name)

    # ---- calls

    def _call(self, node: cst.Call) -> object:
        func = node.func
        if isinstance(func, cst.Subscript):
            configured = self._configured(func)
            if configured is not None:
                return self._launch(configured, node)
        if isinstance(func, cst.Attribute):
            kernel = self._kernel(self.value(func.value)) if func.attr.value in ("forall", "configure") else None
            if kernel is not None:
                arguments = [self.value(a.value) for a in node.args]
                if func.attr.value == "forall":
                    return Configured(kernel, UNKNOWN, UNKNOWN, 0, arguments[0] if arguments else UNKNOWN)
                grid, block, _, dynamic = [*arguments, *[UNKNOWN] * 2, 0, 0][:4]
                return Configured(kernel, grid, block, dynamic)
        callee = self.value(func)
        if isinstance(callee, Configured):
            return self._launch(callee, node)
        if isinstance(callee, Ref) and callee.path in ("numba.cuda.jit", "numba.cuda.jit()", "tilecheck.simt"):
            return self._jitted(callee, node)
        if isinstance(callee, FunctionValue | Method | ClassValue):
            return self._user_call(callee, node)
        result = fold_call(node, self._resolve, self._call)
        self._taint_arguments(node, callee)
        if isinstance(result, HostArray) and result.contents is not None and self._reads_tainted(node):
            return result.vague()
        return result

    def _jitted(self, callee: Ref, node: cst.Call) -> object:
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
        return value if isinstance(value, FunctionValue) and value.node in self.kernels else None

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

    def _user_call(self, callee: FunctionValue | Method | ClassValue, node: cst.Call) -> object:
        if any(argument.star for argument in node.args):
            return UNKNOWN
        args = [self.value(a.value) for a in node.args if a.keyword is None]
        kwargs = {a.keyword.value: self.value(a.value) for a in node.args if a.keyword is not None}
        if isinstance(callee, ClassValue):
            instance = Instance(callee)
            init = attribute_of(callee, "__init__")
            if isinstance(init, FunctionValue):
                self.call_function(init, [instance, *args], kwargs)
            return instance
        if isinstance(callee, Method):
            args = [callee.owner, *args]
            callee = callee.function
        return self.call_function(callee, args, kwargs)

    def call_function(self, function: FunctionValue, args: list[object], kwargs: dict[str, object]) -> object:
        """Run `function`; parameters that are not given are their defaults or unknown."""
        self.called.add(function.node)
        if len(self.stack) > _DEPTH or function.scope.source is not self.module.source or self.fuel <= 0:
            self._taint(*args, *kwargs.values())
            return UNKNOWN
        names: dict[str, object] = {}
        for place, param in enumerate(parameters(function.node)):
            name = param.name.value
            if place < len(args):
                names[name] = args[place]
            elif name in kwargs:
                names[name] = kwargs[name]
            else:
                names[name] = UNKNOWN if param.default is None else fold(param.default, function.scope.lookup)
        for extra in (function.node.params.star_arg, function.node.params.star_kwarg):
            if isinstance(extra, cst.Param):
                names[extra.name.value] = UNKNOWN
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
        first, *rest = activation.returned or [UNKNOWN]
        return first if all(_same(first, other) for other in rest) else UNKNOWN

    def _taint(self, *values: object) -> None:
        for value in values:
            if isinstance(value, HostArray):
                self.tainted.add(value.buffer)
            elif isinstance(value, tuple | list):
                self._taint(*value)

    def _taint_arguments(self, node: cst.Call, callee: object) -> None:
        """A call of something unknown may write the arrays that it gets; library constructors do not."""
        library = isinstance(callee, Ref) and callee.path.startswith(("numpy.", "numba.cuda.", "builtins.", "math."))
        if library and callee not in _WRITERS:
            return
        self._taint(*(self.value(a.value) for a in node.args))
        if isinstance(node.func, cst.Attribute) and node.func.attr.value not in _READ_ONLY_METHODS:
            self._taint(self.value(node.func.value))

    def _reads_tainted(self, node: cst.Call) -> bool:
        values = [self.value(a.value) for a in node.args]
        if isinstance(node.func, cst.Attribute):
            values.append(self.value(node.func.value))
        return any(isinstance(v, HostArray) and v.buffer in self.tainted for v in values)

    # ---- statements

    def _suite(self, body: object) -> None:
        for statement in body:  # type: ignore[attr-defined]
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._simple(small)
            else:
                self._compound(statement)

    def _simple(self, node: cst.CSTNode) -> None:
        self.fuel -= 1
        if self.fuel <= 0:
            raise Stop("raise")
        match node:
            case cst.Expr(value=value):
                self.value(value)
            case cst.Assign(targets=targets, value=value):
                result = self._assigned(value)
                for target in targets:
                    self._store(target.target, result)
            case cst.AnnAssign(target=target, value=given):
                if given is not None:
                    self._store(target, self._assigned(given))
            case cst.AugAssign(target=target, operator=op, value=value):
                old = self.value(target)
                plain = getattr(cst, type(op).__name__.removesuffix("Assign"))
                new = binary(plain, old, self.value(value))
                if isinstance(old, HostArray):
                    self.tainted.add(old.buffer)
                elif isinstance(target, cst.Name):
                    self._store(target, new)
                else:
                    self._store(target, UNKNOWN)
            case cst.Return(value=value):
                self.here.returned.append(None if value is None else self._assigned(value))
                raise Stop("return")
            case cst.Break():
                raise Stop("break")
            case cst.Continue():
                raise Stop("continue")
            case cst.Raise():
                raise Stop("raise")
            case cst.Assert(test=test):
                self.value(test)
            case _:
                return

    def _assigned(self, node: cst.BaseExpression) -> object:
        if isinstance(node, cst.Subscript):
            configured = self._configured(node)
            if configured is not None:
                return configured
        return self.value(node)

    def _store(self, target: cst.BaseExpression, value: object) -> None:
        match target:
            case cst.Name(value=name):
                self.here.names[name] = value
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                known = isinstance(value, tuple | list) and len(value) == len(elements)
                for index, element in enumerate(elements):
                    self._store(element.value, value[index] if known else UNKNOWN)  # type: ignore[index]
            case cst.Attribute(value=base, attr=cst.Name(value=name)):
                owner = self.value(base)
                if isinstance(owner, Instance):
                    owner.attributes[name] = value
            case cst.Subscript(value=base):
                owner = self.value(base)
                self._taint(owner)
                if isinstance(owner, list):
                    owner[:] = [UNKNOWN] * len(owner)
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
                    value = self.value(item.item)
                    if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                        self._store(item.asname.name, value)
                self._suite(node.body.body)
            case cst.Try():
                self._try(node)
            case cst.FunctionDef(name=name):
                self.here.names[name.value] = FunctionValue(node, self.here.scope)
            case _:
                return

    def _if(self, node: cst.If) -> None:
        test = self.value(node.test)
        other = (
            [] if node.orelse is None else [node.orelse] if isinstance(node.orelse, cst.If) else node.orelse.body.body
        )
        if _is_main_guard(node.test):
            self._suite(node.body.body)
        elif test is None or isinstance(test, int | float | str | tuple | list):
            self._suite(node.body.body if test else other)
        else:
            self._both(node.body.body, other)

    def _both(self, then: object, other: object) -> None:
        """Run two branches from one state and keep what they agree on."""
        before = dict(self.here.names)
        stops: list[Stop | None] = []
        results: list[dict[str, object]] = []
        for branch in (then, other):
            self.here.names = dict(before)
            stop = None
            try:
                self._suite(branch)
            except Stop as reached:
                stop = reached
            stops.append(stop)
            results.append(self.here.names)
        if stops[0] is not None and stops[1] is not None:
            raise stops[0] if stops[0].kind != "raise" else stops[1]
        if stops[0] is not None or stops[1] is not None:
            left = stops[0] if stops[0] is not None else stops[1]
            self.here.names = results[1] if stops[0] is not None else results[0]
            if left is not None and left.kind in ("break", "continue"):
                self._forget(set(results[0]) | set(results[1]) - set(before))
            return
        self.here.names = _merged(*results)

    def _forget(self, names: set[str]) -> None:
        for name in names:
            if name in self.here.names:
                self.here.names[name] = UNKNOWN

    def _for(self, node: cst.For) -> None:
        sequence = self.value(node.iter)
        if isinstance(sequence, tuple | list | range) and len(sequence) <= _MAX_ROUNDS:
            for item in sequence:
                self._store(node.target, item)
                try:
                    self._suite(node.body.body)
                except Stop as stop:
                    if stop.kind == "break":
                        return
                    if stop.kind != "continue":
                        raise
            return
        self._unknown_loop(node, node.body.body)

    def _while(self, node: cst.While) -> None:
        """A `while` whose condition stays known runs for real, for a while."""
        for _ in range(_MAX_ROUNDS):
            test = self.value(node.test)
            if not (test is None or isinstance(test, int | float | str)):
                break
            if not test:
                return
            try:
                self._suite(node.body.body)
            except Stop as stop:
                if stop.kind == "break":
                    return
                if stop.kind != "continue":
                    raise
        self._unknown_loop(node, node.body.body)

    def _unknown_loop(self, node: cst.For | cst.While, body: object) -> None:
        """Run a body once as any of its rounds: all that the loop assigns is unknown in it and after it."""
        changed = assigned_names(node)
        for name in changed:
            self.here.names[name] = UNKNOWN
        self.tainted.update(v.buffer for at in self.stack for v in at.names.values() if isinstance(v, HostArray))
        try:
            self._suite(body)
        except Stop as stop:
            if stop.kind == "raise":
                raise
        for name in changed:
            self.here.names[name] = UNKNOWN

    def _try(self, node: cst.Try) -> None:
        before = dict(self.here.names)
        try:
            self._suite(node.body.body)
        except Stop as stop:
            if stop.kind != "raise":
                raise
        for handler in node.handlers:
            after = self.here.names
            self.here.names = {n: v if _same(v, before.get(n, UNKNOWN)) else UNKNOWN for n, v in after.items()}
            try:
                self._suite(handler.body.body)
            except Stop as stop:
                if stop.kind in ("break", "continue"):
                    raise
                self.here.names = after
            else:
                self.here.names = _merged(after, self.here.names)
        if node.finalbody is not None:
            self._suite(node.finalbody.body.body)


def _merged(a: dict[str, object], b: dict[str, object]) -> dict[str, object]:
    """What two states agree on."""
    return {name: a[name] if _same(a.get(name, UNKNOWN), b.get(name, UNKNOWN)) else UNKNOWN for name in {**a, **b}}


def _same(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, HostArray) and isinstance(b, HostArray):
        return a == b
    return type(a) is type(b) and isinstance(a, int | float | str | tuple | list | Ref) and a == b


def _required(node: cst.FunctionDef) -> list[str]:
    """The parameters, `self` aside, that a call must give."""
    return [p.name.value for p in parameters(node) if p.default is None and p.name.value not in ("self", "cls")]


def _functions(scope: Scope) -> Iterator[tuple[Scope, cst.FunctionDef]]:
    """The functions and methods of a module, not those nested in functions."""
    body = scope.node.body if isinstance(scope.node, cst.Module) else scope.node.body.body
    for node in _definitions(body):
        if isinstance(node, cst.FunctionDef):
            yield scope, node
        else:
            yield from _functions(scope.child(node))


def _definitions(body: object) -> Iterator[cst.FunctionDef | cst.ClassDef]:
    for node in body:  # type: ignore[attr-defined]
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            yield node
        elif isinstance(node, cst.If | cst.Try):
            yield from _definitions(node.body.body)


def _is_main_guard(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"


def assigned_names(node: cst.CSTNode) -> set[str]:
    """The names that `node` may assign, in any of the statements below it."""
    names: set[str] = set()

    def bind(target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            names.add(target.value)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                bind(element.value)

    def visit(at: cst.CSTNode) -> None:
        if isinstance(at, cst.Assign):
            for target in at.targets:
                bind(target.target)
        elif isinstance(at, cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr):
            bind(at.target)
        elif isinstance(at, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            return
        for child in at.children:
            visit(child)

    visit(node)
    return names
