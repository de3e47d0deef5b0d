"""What a name means, read from the source alone: no import, no execution.

`Scope` answers for one module or one enclosing function: imports and their aliases, `import tilecheck as tc`,
`from tilecheck import kernel as k`, re-exports of sibling modules, functions, `Dim` classes, constants, and aliases of
any of these. The answer is a `Meaning`; what cannot be known is `Unusable` with the reason in words, so that an error
can say why.

Invariant: a meaning is the same at every point of the file. A name that is assigned more than once, or through
`global`, has no such meaning and is `Unusable`, so folding a constant is always right.

    import tilecheck as tc                      # scope.name("tc")           External("tilecheck")
    from dims import BM as ROWS                 # scope.name("ROWS")         DimClass(key="dims.py::BM", name="BM")
    SCALE = 1 / 8                               # scope.name("SCALE")        Constant(0.125)
    jit = tc.kernel                             # scope.name("jit")          External("tilecheck.kernel")

Modules are found by a `Resolver`: `resolve("dims", importer)` gives the `Source` of the module `dims` as seen from the
file `importer`, or None; relative imports keep their dots (`".dims"`). Modules of tilecheck, numba, cuda, numpy and the
standard library are never opened. At run time `frontend/tile_live.py` answers the same questions from live objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import libcst as cst

from tilecheck.frontend.bindings import Binding, Class, Def, Import, Value, bindings, parameters, statements_of
from tilecheck.frontend.constants import NotConstant, fold, literal
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.ir.kernel import DimDecl, TypeVariable
from tilecheck.surface.dtypes import DTYPES

# Modules whose source is never opened.
CLOSED = frozenset({"tilecheck", "numba", "cuda", "numpy", "torch", "cupy", *sys.stdlib_module_names})

# Its key is the one that the live class has.
_ONE = DimDecl("tilecheck.surface.dims.One", "One", 1)
_TYPE_VARS = ("typing.TypeVar", "typing_extensions.TypeVar")


class Resolver(Protocol):
    """Finds the source of the module `module` as imported by the file `importer`; None if there is none to read."""

    def __call__(self, module: str, importer: str) -> Source | None: ...


@dataclass(frozen=True, slots=True)
class External:
    """A thing of a module that is not read: its dotted path, such as `tilecheck.kernel` or `statistics.mean`."""

    path: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module whose source is at hand."""

    name: str
    names: Names


@dataclass(frozen=True, slots=True)
class Function:
    """A function with source. `names` resolves what its body mentions and does not assign."""

    node: cst.FunctionDef
    source: Source
    names: Names
    method: bool = False


@dataclass(frozen=True, slots=True)
class DimClass:
    """A `Dim` class."""

    decl: DimDecl


@dataclass(frozen=True, slots=True)
class Constant:
    """An int, float, bool, str, None, or a tuple of these."""

    value: object


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for an expression that is no constant, such as `Vector = Tensor[Mut, f32, BM]`."""

    node: cst.BaseExpression
    names: Names


@dataclass(frozen=True, slots=True)
class Unusable:
    """No meaning that a checker may rely on; `reason` follows the name in a message: "`COUNT` is assigned twice"."""

    reason: str


Meaning = External | Module | Function | DimClass | TypeVariable | Constant | Alias | Unusable


class Names(Protocol):
    """Whoever can say what a bare name means; None if the name is not bound at all."""

    def name(self, name: str) -> Meaning | None: ...


def meaning(node: cst.BaseExpression, names: Names) -> Meaning | None:
    """What the dotted or constant expression `node` means; None if it is unbound or no such expression."""
    match node:
        case cst.Name(value="True" | "False" | "None"):
            return Constant(literal(node))
        case cst.Name(value=name):
            return names.name(name)
        case cst.Attribute(value=base, attr=cst.Name(value=attr)):
            return _attribute(meaning(base, names), attr)
        case _:
            return _constant(node, names)


def path_of(node: cst.BaseExpression, names: Names) -> str | None:
    """The dotted path of what `node` means, if it is `External`: `tc.kernel` gives `tilecheck.kernel`."""
    found = meaning(node, names)
    return found.path if isinstance(found, External) else None


def external(path: str) -> External | DimClass:
    """A thing of a module that is not read; the one `Dim` that tilecheck itself declares is known."""
    return DimClass(_ONE) if path == "tilecheck.One" else External(path)


def type_variable(node: cst.BaseExpression, names: Names) -> TypeVariable | None:
    """What `TypeVar("T", f16, f32)` declares: an open dtype, among those it lists. A bound says nothing of dtypes."""
    if not isinstance(node, cst.Call) or path_of(node.func, names) not in _TYPE_VARS or not node.args:
        return None
    name = literal(node.args[0].value) if isinstance(node.args[0].value, cst.SimpleString) else None
    listed = [path_of(arg.value, names) for arg in node.args[1:] if arg.keyword is None]
    return TypeVariable(str(name), dtypes_among(listed))


def dtypes_among(paths: Iterable[str | None]) -> tuple[str, ...]:
    """The short names of the dtypes in a list of types."""
    short = [path.removeprefix("tilecheck.") for path in paths if path is not None and path.startswith("tilecheck.")]
    return tuple(name for name in short if name in DTYPES)


def _attribute(base: Meaning | None, attr: str) -> Meaning | None:
    match base:
        case External(path=path):
            return external(f"{path}.{attr}")
        case Module(name=name, names=names):
            found = names.name(attr)
            return found if found is not None else Unusable(f"is not defined in `{name}`")
        case Unusable():
            return base
        case _:
            return None


def _constant(node: cst.BaseExpression, names: Names) -> Meaning | None:
    def lookup(inner: cst.BaseExpression) -> object:
        found = meaning(inner, names)
        if isinstance(found, Constant):
            return found.value
        if isinstance(found, DimClass) and found.decl.size is not None:
            return found.decl.size
        raise NotConstant

    try:
        return Constant(fold(node, lookup))
    except NotConstant:
        return None


class Scope:
    """The names of one module (`function` is None) or of one enclosing function, backed by its `parent`."""

    def __init__(
        self,
        source: Source,
        resolve: Resolver,
        parent: Scope | None = None,
        function: cst.FunctionDef | None = None,
        modules: dict[str, Scope] | None = None,
    ) -> None:
        self.source = source
        self.resolve = resolve
        self.parent = parent
        self.function = function
        # One scope per file, shared by all scopes that came from one, so that circles are noticed.
        self.modules = {} if modules is None else modules
        if function is None:
            self.modules[source.path] = self
        self._known: dict[str, Meaning | None] = {}
        self._asked: set[str] = set()

    @cached_property
    def _bound(self) -> dict[str, list[Binding]]:
        body = self.source.module if self.function is None else self.function.body
        found: dict[str, list[Binding]] = {}
        for name, binding in bindings(statements_of(body)):
            found.setdefault(name, []).append(binding)
        if self.function is not None:
            for param in parameters(self.function):
                found.setdefault(param.name.value, []).append(Value(None))
        return found

    @cached_property
    def _globals(self) -> frozenset[str]:
        """The module names that some function of this file declares `global`."""
        if "global " not in self.source.text:
            return frozenset()
        found: set[str] = set()
        queue = list(statements_of(self.source.module))
        while queue:
            statement = queue.pop()
            if isinstance(statement, cst.Global):
                found.update(item.name.value for item in statement.names)
            elif isinstance(statement, cst.FunctionDef | cst.ClassDef):
                queue.extend(statements_of(statement.body))
        return frozenset(found)

    def name(self, name: str) -> Meaning | None:
        """What `name` means here; None if nothing binds it."""
        if name in self._asked:
            return Unusable("is defined in a circle")
        if name not in self._known:
            self._asked.add(name)
            try:
                self._known[name] = self._meaning(name)
            finally:
                self._asked.discard(name)
        return self._known[name]

    def inside(self, function: cst.FunctionDef) -> Scope:
        """The scope of the functions defined in the body of `function`."""
        return Scope(self.source, self.resolve, self, function, self.modules)

    def _meaning(self, name: str) -> Meaning | None:
        bindings = self._bound.get(name)
        if bindings is None:
            return self.parent.name(name) if self.parent is not None else self._starred(name)
        if self.function is not None and name in {p.name.value for p in parameters(self.function)}:
            return Unusable(f"is a parameter of the enclosing function `{self.function.name.value}`")
        fixed = [b for b in bindings if not isinstance(b, Value)]
        if fixed:
            return self._fixed(name, fixed[0] if isinstance(fixed[0], Import) else fixed[-1])
        if len(bindings) > 1 or (self.function is None and name in self._globals):
            return Unusable("is assigned more than once, so it is no constant")
        value = bindings[0]
        assert isinstance(value, Value)
        if value.node is None:
            return Unusable("is bound by a loop, a `with` or an unpacking, so it is no constant")
        return meaning(value.node, self) or type_variable(value.node, self) or Alias(value.node, self)

    def _fixed(self, name: str, binding: Binding) -> Meaning:
        match binding:
            case Import(module=module, item=item):
                return self._imported(module, item)
            case Def(node=node):
                return Function(node, self.source, self)
            case Class(node=node):
                return self._class(node)
            case Value():
                raise AssertionError(name)

    def _class(self, node: cst.ClassDef) -> Meaning:
        name = node.name.value
        if not any(path_of(base.value, self) == "tilecheck.Dim" for base in node.bases):
            return Unusable("is a class")
        size: int | None = None
        for keyword in node.keywords:
            if keyword.keyword is not None and keyword.keyword.value == "size":
                found = meaning(keyword.value, self)
                if isinstance(found, Constant) and isinstance(found.value, int) and not isinstance(found.value, bool):
                    size = found.value
                elif not (isinstance(found, Constant) and found.value is None):
                    return Unusable("is a `Dim` whose `size=` is no int known before the launch")
        home = "" if self.function is None else f"{self.function.name.value}."
        return DimClass(DimDecl(f"{self.source.path}::{home}{name}", name, size))

    def _imported(self, module: str, item: str | None) -> Meaning:
        found = self._module(module)
        if item is None:
            return found
        if isinstance(found, Unusable):
            return found
        if isinstance(found, Module):
            inner = found.names.name(item)
            if inner is not None:
                return inner
            deeper = self._module(f"{module}{'' if module.endswith('.') else '.'}{item}")
            return deeper if isinstance(deeper, Module) else external(f"{module}.{item}")
        if module.startswith(".") and isinstance(deeper := self._module(f"{module}{item}"), Module):
            return deeper
        return external(f"{module}.{item}")

    def _module(self, module: str) -> Meaning:
        if module.partition(".")[0] in CLOSED:
            return External(module)
        source = self.resolve(module, self.source.path)
        if source is None:
            return External(module)
        if source.path not in self.modules:
            try:
                source.module  # noqa: B018  (parses now)
            except Unreadable as error:
                return Unusable(f"comes from `{module}`, which does not parse ({error.span})")
            Scope(source, self.resolve, modules=self.modules)
        return Module(module, self.modules[source.path])

    def _starred(self, name: str) -> Meaning | None:
        for key in self._bound:
            if key.startswith("*"):
                found = self._module(key[1:])
                if isinstance(found, Module) and (inner := found.names.name(name)) is not None:
                    return inner
                if isinstance(found, External) and found.path in ("tilecheck", "numba") and name not in _BUILTINS:
                    return external(f"{found.path}.{name}")
        return None


_BUILTINS = frozenset(__builtins__ if isinstance(__builtins__, dict) else vars(__builtins__))


def module_scope(source: Source, resolve: Resolver) -> Scope:
    """The scope of a whole file. Raises `Unreadable` if it is not Python."""
    scope = Scope(source, resolve)
    scope.source.module  # noqa: B018  (parses now, so that the error comes from here)
    return scope


def functions(source: Source, resolve: Resolver) -> Iterator[tuple[cst.FunctionDef, Scope]]:
    """Every function of the file in order, with the scope that it is defined in; methods see the class's surroundings."""
    queue: list[tuple[cst.CSTNode, Scope]] = [(source.module, module_scope(source, resolve))]
    while queue:
        owner, scope = queue.pop(0)
        body = owner if isinstance(owner, cst.Module) else getattr(owner, "body", None)
        if not isinstance(body, cst.Module | cst.BaseSuite):
            continue
        for statement in statements_of(body):
            if isinstance(statement, cst.FunctionDef):
                yield statement, scope
                queue.append((statement, scope.inside(statement)))
            elif isinstance(statement, cst.ClassDef):
                queue.append((statement, scope))
