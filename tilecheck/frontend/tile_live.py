"""What a name means to a live function: its closure, its globals, and the objects behind them.

The counterpart of `names.Scope` at run time. Source text comes from `linecache`, so files and notebook cells work; code
that was never text in a file or cell (`exec`, a plain prompt) has none, and the error says so.

Invariant: constants are the values at the time of reading. Whoever caches a kernel keys it by `Kernel.constants`.
"""

from __future__ import annotations

import builtins
import linecache
import weakref
from types import FunctionType, ModuleType
from typing import TypeVar

from tilecheck.diagnostic import Span
from tilecheck.frontend.names import (
    CLOSED,
    Alias,
    Constant,
    DimClass,
    External,
    Function,
    Meaning,
    Module,
    Names,
    Unusable,
    functions,
)
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.ir.kernel import DimDecl, TypeVariable, Unsupported
from tilecheck.surface.dims import DimClass as LiveDim
from tilecheck.surface.dims import Dyn
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.surface.kernel import Kernel as LiveKernel

_OURS = ("tilecheck", "tilecheck_runtime")
_DIMS: dict[str, list[weakref.ref[LiveDim]]] = {}
_SOURCES: dict[str, tuple[int, Source]] = {}


class LiveNames:
    """Names of one live function; what is not bound live is asked of its source file."""

    def __init__(self, fn: FunctionType, lexical: Names) -> None:
        self._lexical = lexical
        self._closure: dict[str, object] = {}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                self._closure[name] = cell.cell_contents
            except ValueError:  # a name of the enclosing function that is not assigned yet
                continue
        self._globals = fn.__globals__
        # A class of an enclosing function that only annotations mention is in no closure.
        self._annotated: dict[str, object] = {}
        for annotation in fn.__annotations__.values():
            for part in getattr(annotation, "__args__", ()):
                self._annotated.setdefault(getattr(part, "__name__", ""), part)

    def name(self, name: str) -> Meaning | None:
        """What `name` means to the function now."""
        for bound in (self._closure, self._globals, self._annotated):
            if name in bound:
                written = self._lexical.name(name) if hasattr(bound[name], "__origin__") else None
                return Alias(written.node, self) if isinstance(written, Alias) else meaning_of(bound[name])
        return None


class _ModuleNames:
    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def name(self, name: str) -> Meaning | None:
        try:
            return meaning_of(getattr(self._module, name))
        except AttributeError:
            return None


def meaning_of(value: object) -> Meaning:
    """What a live object means in a kernel."""
    match value:
        case LiveDim():
            return DimClass(DimDecl(_key(value), value.__name__, value.size))
        case DTypeClass():
            return External(f"tilecheck.{value.name}")
        case bool() | int() | float() | str() | None:
            return Constant(value)
        case tuple() if all(isinstance(item, bool | int | float | str) for item in value):
            return Constant(value)
        case ModuleType():
            return _module(value)
        case LiveKernel():
            return _function(value.fn)
        case FunctionType():
            return _function(value)
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if isinstance(value, TypeVar):
        listed = [c.name for c in value.__constraints__ if isinstance(c, DTypeClass)]
        return TypeVariable(value.__name__, tuple(listed))
    if value is Dyn:
        return External("tilecheck.Dyn")
    if isinstance(name, str) and isinstance(module, str) and module != builtins.__name__:
        root = module.partition(".")[0]
        return External(f"{'tilecheck' if root in _OURS else module}.{name}")
    return Unusable(f"is a `{type(value).__name__}`, which a kernel cannot use")


def _key(dim: LiveDim) -> str:
    """The identity of a live `Dim`: its place, and a number for a second class of that place (a cell run again)."""
    place = f"{dim.__module__}.{dim.__qualname__}"
    known = _DIMS.setdefault(place, [])
    for at, other in enumerate(known):
        if other() is dim:
            return place if at == 0 else f"{place}#{at + 1}"
    known.append(weakref.ref(dim))
    return place if len(known) == 1 else f"{place}#{len(known)}"


def _foreign(module: str) -> bool:
    return module.partition(".")[0] in CLOSED


def _module(value: ModuleType) -> Meaning:
    if _foreign(value.__name__):
        return External(value.__name__)
    return Module(value.__name__, _ModuleNames(value))


def _function(fn: object) -> Meaning:
    if not isinstance(fn, FunctionType):
        return Unusable(f"is a `{type(fn).__name__}`, which a kernel cannot use")
    module = fn.__module__ or ""
    if _foreign(module):
        return External(f"{'tilecheck' if module.partition('.')[0] in _OURS else module}.{fn.__name__}")
    try:
        return live_function(fn)
    except Unsupported as error:
        return Unusable(f"cannot be read ({error.message})")


def live_function(fn: FunctionType) -> Function:
    """The definition of a live function. Raises `Unsupported` if its source is not at hand."""
    code = fn.__code__
    source = _source(code.co_filename, fn)
    wanted = code.co_firstlineno
    try:
        for node, lexical in functions(source, lambda module, importer: None):
            if node.name.value != code.co_name:
                continue
            first = source.span(node.decorators[0] if node.decorators else node).line
            if first == wanted or source.span(node).line == wanted:
                return Function(node, source, LiveNames(fn, lexical))
    except Unreadable as error:
        raise _no_source(fn, f"its file does not parse: {error.message}") from None
    raise _no_source(fn, "the file has changed since it was imported")


def _source(path: str, fn: FunctionType) -> Source:
    linecache.checkcache(path)
    text = "".join(linecache.getlines(path, fn.__globals__))
    if not text:
        raise _no_source(fn, "it was made by `exec` or at a plain prompt")
    known = _SOURCES.get(path)
    if known is None or known[0] != hash(text):
        _SOURCES[path] = known = (hash(text), Source(path, text))
    return known[1]


def _no_source(fn: FunctionType, why: str) -> Unsupported:
    line = fn.__code__.co_firstlineno
    return Unsupported(
        f"the source of `{fn.__name__}` is not available: {why}",
        Span(fn.__code__.co_filename, line, 1, line, 2),
        "write the kernel in a file or a notebook cell",
    )
