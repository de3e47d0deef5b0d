"""SIMT kernels of a file: `@cuda.jit` in all its spellings, and `@tc.simt`, lowered to the thread-level kernel IR.

`read_kernels` finds every kernel of a source, nested ones included; device functions are inlined where they are called.
It never raises: what cannot be read is an `Unread` or `Opaque` node with its reason. `read_function` does the same for
a live function object, whose globals and closure are known.

Worked example: a file with `@cuda.jit def k(x): x[cuda.grid(1)] = 0` gives one `Kernel` named `k`, track `numba`, whose
body is one `Store` at `blockIdx.x * blockDim.x + threadIdx.x`.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal

import libcst as cst

from tilecheck.frontend.fold import fold, module_scope
from tilecheck.frontend.live import convert
from tilecheck.frontend.numba_debug import with_checked_divisions
from tilecheck.frontend.numba_inline import Lowering, returns_value
from tilecheck.frontend.numba_params import (
    ArgType,
    annotated,
    inferred,
    options_of,
    plain_options,
    signature_node,
)
from tilecheck.frontend.numba_unsigned import with_unsigned_arithmetic
from tilecheck.frontend.scopes import (
    FunctionValue,
    LiveScope,
    Ref,
    Resolve,
    Scope,
    parameters,
)
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.frontend.syntax import parts
from tilecheck.ir.kernel import Kernel, Param

Track = Literal["simt", "numba"]


@dataclass(frozen=True, slots=True)
class Found:
    """A function that is a kernel, and what its decorator says. `device` ones are helpers."""

    function: FunctionValue
    track: Track
    options: dict[str, object]
    types: tuple[ArgType, ...] | None
    device: bool


def read_kernels(source: Source, resolve: Resolve) -> tuple[Kernel, ...]:
    """All SIMT kernels of `source`, in the order of the text. Raises `Unreadable` if it does not parse.

    A jitted function that other kernels call and that the file never launches is a device function, also without
    `device=True`.
    """
    lowered = [(found, *lower_with_callees(found)) for found in find(source, resolve) if not found.device]
    called = {callee for _, _, callees in lowered for callee in callees}
    return tuple(
        kernel
        for found, kernel, _ in lowered
        if found.function.node not in called or found.track == "simt" or _launched(source, kernel.name)
    )


def _launched(source: Source, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\s*(\[|\.forall\b|\.configure\b)", source.text) is not None


def find(source: Source, resolve: Resolve) -> tuple[Found, ...]:
    """The jitted functions of `source`, device functions included, in the order of the text."""
    module = module_scope(source, resolve)
    found: dict[cst.FunctionDef, Found] = {}
    for scope, node in walk_scopes(module):
        for item in decorated(scope, node) if isinstance(node, cst.FunctionDef) else _called(scope, node):
            found.setdefault(item.function.node, item)
    ordered = sorted(found.values(), key=lambda f: source.span(f.function.node))
    return tuple(ordered)


def walk_scopes(scope: Scope) -> Iterator[tuple[Scope, cst.CSTNode]]:
    """Every function definition and call below `scope`, each with the scope that it stands in."""
    body = scope.node.body if isinstance(scope.node, cst.Module) else scope.node.body.body
    stack: list[cst.CSTNode] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            if isinstance(node, cst.FunctionDef):
                yield scope, node
            yield from walk_scopes(scope.child(node))
            stack.extend(d.decorator for d in node.decorators if isinstance(d.decorator, cst.Call))
            continue
        if isinstance(node, cst.Call):
            yield scope, node
        stack.extend(reversed(list(parts(node))))


def _jit(value: object) -> Track | None:
    if isinstance(value, Ref):
        if value.path == "numba.cuda.jit":
            return "numba"
        if value.path == "tilecheck.simt":
            return "simt"
    return None


def decorated(scope: Scope, node: cst.FunctionDef) -> Iterator[Found]:
    """What the decorators of a function make of it: nothing, a kernel or a device function."""
    for decorator in node.decorators:
        expression = decorator.decorator
        track = _jit(fold(expression, scope.lookup))
        options: dict[str, object] = {}
        types: tuple[ArgType, ...] | None = None
        if track is None and isinstance(expression, cst.Call):
            track = _jit(fold(expression.func, scope.lookup))
            options, types = options_of(expression, scope.lookup)
        if track is not None:
            yield _found(FunctionValue(node, scope), track, options, types)


def _called(scope: Scope, node: cst.CSTNode) -> Iterator[Found]:
    """`cuda.jit(f)`, `cuda.jit(sig, f)` and `cuda.jit(...)(f)`, wherever they stand."""
    assert isinstance(node, cst.Call)
    configured = node.func if isinstance(node.func, cst.Call) else node
    # Results have no `jit`; folding them at each link of a chain takes quadratic time.
    track = None if _of_result(configured.func) else _jit(fold(configured.func, scope.lookup))
    if track is None:
        return
    options, types = options_of(configured, scope.lookup)
    for argument in node.args:
        if argument.keyword is None or argument.keyword.value == "func_or_sig":
            value = fold(argument.value, scope.lookup)
            if isinstance(value, FunctionValue):
                yield _found(value, track, options, types)
            elif types is None:
                types = signature_node(argument.value, scope.lookup)


def _of_result(node: cst.BaseExpression) -> bool:
    """Whether `node` is what a call or an operator gives, or an attribute or item of it."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return isinstance(node, cst.Call | cst.BinaryOperation)


def _found(
    function: FunctionValue, track: Track, options: dict[str, object], types: tuple[ArgType, ...] | None
) -> Found:
    device = bool(options.get("device", False)) or returns_value(function.node)
    return Found(function, track, options, types, device)


def lower(found: Found, live: Scope | None = None) -> Kernel:
    """Lower one kernel."""
    return lower_with_callees(found, live)[0]


def lower_with_callees(found: Found, live: Scope | None = None) -> tuple[Kernel, tuple[cst.FunctionDef, ...]]:
    """Lower one kernel; also the functions that were inlined into it."""
    function = found.function
    node = function.node
    source = function.scope.source
    scope = live if live is not None else function.scope
    builder = Lowering(function, live)
    params = parameters(node)
    names = [(p.name.value, source.span(p.name)) for p in params]
    stated: dict[str, Param] = {}
    if found.track == "simt":
        for param, (name, span) in zip(params, names, strict=True):
            given = annotated(param, scope.lookup, span, builder.dims)
            if given is not None:
                stated[name] = given
    builder.params = {name: stated[name] for name in stated}
    for name, _ in names:
        builder.array_names.add(name)
    for decorator in node.decorators:
        call = decorator.decorator
        if isinstance(call, cst.Call) and fold(call.func, scope.lookup) == Ref("tilecheck.unsafe"):
            builder.expr(call)
    builder.suite(node.body)
    body = builder.body()
    if found.options.get("debug") is True:
        body = with_checked_divisions(body)
    guessed = inferred(names, body, found.types)
    body = with_unsigned_arithmetic(body, {**guessed, **stated})
    span = source.span(node.name)
    last = source.span(node).end_line
    first = min((source.span(d).line for d in node.decorators), default=source.span(node).line)
    kernel = Kernel(
        name=node.name.value,
        path=source.path,
        track=found.track,
        params=tuple(stated.get(name, guessed[name]) for name, _ in names),
        body=body,
        span=span,
        dims=dict(builder.dims),
        options=plain_options(found.options),
        constants=dict(builder.constants),
        lines=(first, last),
    )
    return kernel, tuple(builder.inlined)


# ---- live functions


class NoSource(Exception):
    """The source of a function cannot be found: `message` says of which."""


def read_function(function: Callable[..., Any]) -> Kernel:
    """The kernel of a live Python function, jitted or not; its globals and closure are taken as they are now.

    Raises `NoSource` if its text cannot be found (made by `exec`, or typed into a plain prompt).
    """
    plain = getattr(function, "py_func", function)
    found, live = _live(plain)
    return lower(found, live)


def _live(function: Callable[..., Any]) -> tuple[Found, Scope]:
    code: CodeType = function.__code__
    source = source_of(code.co_filename)
    module = module_scope(source, lambda name: None)
    for scope, node in walk_scopes(module):
        if not isinstance(node, cst.FunctionDef) or node.name.value != code.co_name:
            continue
        lines = {source.span(node).line, *(source.span(d).line for d in node.decorators)}
        if code.co_firstlineno in lines:
            values = dict(function.__globals__)
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                try:
                    values[name] = cell.cell_contents
                except ValueError:  # the cell is still empty: the name is bound later
                    continue
            live = LiveScope(scope, values, convert_with(_live))
            value = FunctionValue(node, scope)
            stated = next(iter(decorated(live, node)), None)
            track: Track = "numba" if stated is None else stated.track
            options = {} if stated is None else stated.options
            types = None if stated is None else stated.types
            return Found(value, track, options, types, False), live
    raise NoSource(f"the source of `{code.co_name}` cannot be found in {code.co_filename}")


def convert_with(live: Callable[[Callable[..., Any]], tuple[Found, Scope]]) -> Callable[[object], object]:
    """How live values become what the frontend knows; functions are found in their own files."""

    def function_value(function: Callable[..., Any]) -> FunctionValue | None:
        try:
            found, scope = live(function)
        except (NoSource, Unreadable):
            return None
        return FunctionValue(found.function.node, scope)

    return lambda value: convert(value, function_value)


def source_of(path: str) -> Source:
    """The file at `path` as Python itself reads it (notebook cells included). Raises `NoSource`."""
    text = "".join(linecache.getlines(path))
    if not text:
        raise NoSource(f"the source of {path} cannot be found")
    return _cached_source(path, text)


_sources: dict[str, Source] = {}


def _cached_source(path: str, text: str) -> Source:
    known = _sources.get(path)
    if known is None or known.text != text:
        known = _sources[path] = Source(path, text)
    return known
