"""What a free name of a kernel means: imports, constants, functions, looked up as Python does, without running anything.

A `Scope` is a module, function or class body. A name bound once to something that folds to a constant is that
constant; a name bound in several ways that disagree is `UNKNOWN`, never a guess. Imported names are `Ref`s, spelled by
their canonical dotted path, so that `from numba import cuda as c; c.grid` is `numba.cuda.grid` however it is written.
Modules that the caller's `resolve` can find are entered; others stay `Ref`s.

Worked example: in `N = 4 * 8` followed by a kernel with `cuda.shared.array(N, float32)`, `lookup("N")` is 32 and
`lookup("float32")` is `Ref("numba.float32")`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.frontend.source import Source, Unreadable
from tilecheck.frontend.syntax import parts

Resolve = Callable[[str], Source | None]
Evaluate = Callable[[cst.BaseExpression, Callable[[str], object]], object]


class Unknown:
    """The value of what cannot be folded."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Ref:
    """Something of a module that is not read: `path` is its canonical dotted name."""

    path: str


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function of a file that was read, or a method of it."""

    node: cst.FunctionDef
    scope: Scope

    @property
    def name(self) -> str:
        return self.node.name.value


@dataclass(frozen=True, slots=True, eq=False)
class ClassValue:
    """A class of a file that was read; `scope` is its body's."""

    node: cst.ClassDef
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class ModuleValue:
    """A module that was read."""

    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An object of a class that was read; its attributes as far as they were assigned."""

    cls: ClassValue
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of an instance."""

    function: FunctionValue
    owner: Instance


@dataclass(frozen=True, slots=True, eq=False)
class Parent:
    """`super()` in a method of the class `cls` that runs for `owner`."""

    owner: Instance
    cls: cst.ClassDef


@dataclass(frozen=True, slots=True)
class Binding:
    """One way a name gets its value: `value` is the expression, `path` the index inside an unpacked tuple."""

    value: cst.BaseExpression | cst.FunctionDef | cst.ClassDef | Ref | None
    path: tuple[int, ...] = ()


# Same things under several names; the longest prefix wins.
_CANONICAL = (
    ("numba_cuda.numba.cuda", "numba.cuda"),
    ("numba.cuda.stubs", "numba.cuda"),
    ("numba.cuda.types", "numba"),
    ("numba.core.types", "numba"),
    ("numba.types", "numba"),
    ("tilecheck.surface.dtypes", "tilecheck"),
    ("tilecheck.surface.access", "tilecheck"),
    ("tilecheck.surface.tensor", "tilecheck"),
    ("tilecheck.surface.dims", "tilecheck"),
    ("tilecheck.surface.unsafe", "tilecheck"),
    ("tilecheck.surface.kernel", "tilecheck"),
)
# What may bind any name of a module: its dictionary in hand, or text run as code.
_ANY_NAME = re.compile(r"(?<!globals=)(?<![.\w])(?:globals|vars)\s*\(\s*\)|(?<![.\w])exec\s*\(|\bsys\.modules\s*\[")
_GLOBAL = re.compile(r"(?:^|[:;])[ \t]*global[ \t]+([\w, \t]+)", re.MULTILINE)
_OPAQUE_ROOTS = frozenset({"numba", "numba_cuda", "numpy", "math", "operator", "tilecheck", "cuda", "cupy", "torch"})


def canonical(path: str) -> str:
    """`path` with known aliases of modules replaced."""
    for alias, name in _CANONICAL:
        if path == alias or path.startswith(alias + "."):
            return name + path[len(alias) :]
    return path


def dotted(node: cst.BaseExpression) -> str | None:
    """`a.b.c` as text, None if `node` is anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return None


@dataclass
class World:
    """The files that may be read: one `Scope` per module, made on first use. `evaluate` folds an expression over the
    names of a scope.
    """

    resolve: Resolve
    evaluate: Evaluate
    modules: dict[str, Scope | None] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    _set: dict[Source, frozenset[str]] = field(default_factory=dict)

    def sets(self, attribute: str) -> bool:
        """Whether a file that was read sets `x.attribute` of anything but `self`: what the body of a class or a module
        says of it need not hold then.
        """
        return any(attribute in self._set_in(source) for source in self.sources if attribute in source.text)

    def _set_in(self, source: Source) -> frozenset[str]:
        if source not in self._set:
            self._set[source] = frozenset(_set_attributes(source.module))
        return self._set[source]

    def module(self, name: str) -> Scope | None:
        """The scope of module `name`, None if it is not to be read."""
        if name.lstrip(".").partition(".")[0] in _OPAQUE_ROOTS:
            return None
        if name not in self.modules:
            self.modules[name] = None
            source = self.resolve(name)
            if source is not None:
                try:
                    self.modules[name] = Scope(source, source.module, None, self)
                except Unreadable:
                    return None
        return self.modules[name]

    def enter(self, ref: Ref) -> object:
        """What `ref` stands for: a value of a file that can be read, else `ref` itself."""
        module = self.module(ref.path)
        if module is not None:
            return ModuleValue(module)
        head, _, name = ref.path.rpartition(".")
        if head.strip(".") or head:
            outer = self.module(head or ".")
            if outer is not None:
                found = outer.lookup(name)
                return ref if found is UNKNOWN else found
        return ref


class Scope:
    """The names of one body."""

    def __init__(
        self, source: Source, node: cst.Module | cst.FunctionDef | cst.ClassDef, parent: Scope | None, world: World
    ) -> None:
        self.source = source
        self.node = node
        self.parent = parent
        self.world = world
        self.bindings: dict[str, list[Binding]] = {}
        for name, binding in _bindings(node):
            self.bindings.setdefault(name, []).append(binding)
        if isinstance(node, cst.Module):
            world.sources.append(source)
            for names in _GLOBAL.findall(source.text):  # a function may rebind these at any time
                for name in names.split(","):
                    self.bindings.setdefault(name.strip(), []).append(Binding(None))
        # Whether any name of this scope may be bound by a way that its text does not show.
        self._loose = isinstance(node, cst.Module) and _ANY_NAME.search(source.text) is not None
        self._cache: dict[str, object] = {}
        self._children: dict[cst.CSTNode, Scope] = {}

    def child(self, node: cst.FunctionDef | cst.ClassDef) -> Scope:
        """The scope of a function or class defined in this one."""
        if node not in self._children:
            self._children[node] = Scope(self.source, node, self, self.world)
        return self._children[node]

    def lookup(self, name: str) -> object:
        """The value of `name` as seen from inside this scope; `UNKNOWN` if it cannot be told."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not isinstance(scope.node, cst.ClassDef)):
                return scope.own(name)
            scope = scope.parent
        return UNKNOWN

    def own(self, name: str) -> object:
        """The value of `name` bound in this very scope."""
        if name not in self._cache:
            self._cache[name] = UNKNOWN  # a name that needs itself is unknown
            values = [self._value(binding) for binding in self.bindings[name]]
            value = _agreed(values) if self._settled(values) else UNKNOWN
            defined = isinstance(value, Ref | FunctionValue | ClassValue | ModuleValue)
            self._cache[name] = value if defined or not self._loose else UNKNOWN
        return self._cache[name]

    def _settled(self, values: list[object]) -> bool:
        """Whether a name defined several times is the last definition, whichever branches were taken."""
        last = values[-1]
        body = self.node.body if isinstance(self.node, cst.Module) else self.node.body.body
        return len(values) == 1 or not isinstance(last, FunctionValue) or last.node in body

    def forget(self, name: str) -> None:
        """`name` may have been bound from outside this body."""
        self.bindings.setdefault(name, []).append(Binding(None))
        self._cache[name] = UNKNOWN

    def _value(self, binding: Binding) -> object:
        value = binding.value
        if value is None:
            return UNKNOWN
        if isinstance(value, Ref):
            return self.world.enter(value)
        if isinstance(value, cst.FunctionDef):
            return FunctionValue(value, self)
        if isinstance(value, cst.ClassDef):
            return ClassValue(value, self.child(value))
        result = self.world.evaluate(value, self.lookup)
        for index in binding.path:
            if not isinstance(result, tuple) or index >= len(result):
                return UNKNOWN
            result = result[index]
        return result


class LiveScope(Scope):
    """A scope whose names have live values: globals and closure of a function object. What a live value cannot say
    (a library's object, say) is looked up in the text."""

    def __init__(self, base: Scope, values: Mapping[str, object], convert: Callable[[object], object]) -> None:
        super().__init__(base.source, base.node, base.parent, base.world)
        self._values = values
        self._convert = convert

    def lookup(self, name: str) -> object:
        if name in self._values:
            found = self._convert(self._values[name])
            if found is not UNKNOWN:
                return found
        return super().lookup(name)


def _agreed(values: list[object]) -> object:
    """The one value of a name bound several times: all equal, or all definitions (the last one), or a choice between
    an import and its fallback (the import)."""
    if len(values) == 1:
        return values[0]
    if all(isinstance(v, FunctionValue) for v in values):
        return values[-1]
    refs = [v for v in values if isinstance(v, Ref | ModuleValue)]
    if refs:
        return refs[0]
    first = values[0]
    if all(type(v) is type(first) and v == first for v in values[1:]):
        return first
    return UNKNOWN


def _bindings(node: cst.Module | cst.FunctionDef | cst.ClassDef) -> Iterator[tuple[str, Binding]]:
    if isinstance(node, cst.FunctionDef):
        for param in parameters(node):
            yield param.name.value, Binding(None)
    body = node.body if isinstance(node, cst.Module) else node.body.body
    for statement in body:
        yield from _statement(statement)


def _set_attributes(node: cst.CSTNode) -> Iterator[str]:
    """The attributes of anything but `self` that statements below `node` set."""
    match node:
        case cst.AssignTarget(target=target) | cst.AnnAssign(target=target) | cst.AugAssign(target=target):
            yield from _attributes_of_target(target)
        case cst.For(target=target) | cst.CompFor(target=target):
            yield from _attributes_of_target(target)
        case cst.Call(func=cst.Name(value="setattr"), args=[_, cst.Arg(value=cst.SimpleString() as name), *_]):
            yield str(name.evaluated_value)
    for child in parts(node):
        yield from _set_attributes(child)


def _attributes_of_target(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, cst.Attribute) and dotted(target.value) != "self":
        yield target.attr.value
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _attributes_of_target(element.value)


def parameters(node: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """All parameters that take one argument, in order."""
    return (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)


def _statement(node: cst.CSTNode) -> Iterator[tuple[str, Binding]]:
    """The bindings that a statement makes in its own scope."""
    match node:
        case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
            yield name.value, Binding(node)
        case cst.Assign(targets=targets, value=value):
            for target in targets:
                yield from _target(target.target, value, ())
        case cst.AnnAssign(target=ann_target, value=ann_value):
            yield from _target(ann_target, ann_value, ())
        case cst.AugAssign(target=aug_target):
            yield from _target(aug_target, None, ())
        case cst.Import(names=aliases):
            for alias in aliases:
                path = dotted(alias.name) or ""
                if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                    yield alias.asname.name.value, Binding(Ref(canonical(path)))
                else:
                    root = path.partition(".")[0]
                    yield root, Binding(Ref(canonical(root)))
        case cst.ImportFrom(module=module, names=names, relative=dots):
            head = "." * len(dots) + ((dotted(module) or "") if module is not None else "")
            if not isinstance(names, cst.ImportStar):
                for alias in names:
                    imported = dotted(alias.name) or ""
                    bound = alias.asname.name if alias.asname is not None else alias.name
                    if isinstance(bound, cst.Name):
                        joined = head + imported if head and not head.strip(".") else f"{head}.{imported}"
                        yield bound.value, Binding(Ref(canonical(joined)))
        case cst.For(target=for_target):
            yield from _target(for_target, None, ())
            yield from _nested(node)
        case cst.With(items=items):
            for item in items:
                if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                    yield from _target(item.asname.name, None, ())
            yield from _nested(node)
        case cst.NamedExpr(target=cst.Name(value=text)):
            yield text, Binding(None)
        case cst.BaseExpression() | cst.Lambda():
            return
        case _:
            yield from _nested(node)


def _nested(node: cst.CSTNode) -> Iterator[tuple[str, Binding]]:
    for child in parts(node):
        yield from _statement(child)


def _target(
    target: cst.BaseExpression, value: cst.BaseExpression | None, path: tuple[int, ...]
) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, cst.Name):
        yield target.value, Binding(value, path)
    elif isinstance(target, cst.Tuple | cst.List):
        for index, element in enumerate(target.elements):
            yield from _target(element.value, value, (*path, index))
