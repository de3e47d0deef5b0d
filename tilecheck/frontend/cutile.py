"""cuTile Python kernels of a file: `@ct.kernel` functions, lowered to the thread-level IR with one thread per block.

What cuTile calls a block is one logical thread, so a kernel becomes a SIMT kernel whose blocks have a single thread and
whose only parallelism is between blocks. A tile load or store is a loop over the tile's elements, clipped at the array's
edge as cuTile clips it; its first element is touched without the clip, so a tile that lies wholly outside is out of
bounds. The race prover, the replay and every rule then work unchanged.

Values of tiles are opaque. Tiles of indices are not: `ct.arange` is a `lane` of an axis, arithmetic on lanes is kept, and
a gather, scatter or atomic loops over the lanes of its index.

    ct.store(z, index=(b,), tile=t)  with TILE = 64   ->   for %e in range(64): if b*64 + %e < z.shape[0]: z[b*64 + %e] = t

What only tiles have stays in the IR as effectless calls, for `verify/cutile*.py`: `whole_tiles(extent, tile)` where a load
without padding is mixed along an axis, `fits_int32(value)` for 32-bit index arithmetic, `stores_tile(array, place,
extents)` behind a tile store, `tile_extents(extent, ...)` where a tile gets a shape that is not plainly powers of two,
`ranks_differ(index, tile)`, `numbers_blocks(bid)` for an axis that only values depend on, and `takes_dtype(array, dtype)` where a tile of a known dtype is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_memory import CuTile
from tilecheck.frontend.fold import fold, module_scope
from tilecheck.frontend.launch_run import HostRun
from tilecheck.frontend.launches import Launch, seen_launches
from tilecheck.frontend.numba import walk_scopes
from tilecheck.frontend.numba_params import inferred, plain_options
from tilecheck.frontend.scopes import FunctionValue, Ref, Resolve, Scope, parameters
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import (
    Do,
    Kernel,
    Name,
    OpCall,
    ScalarParam,
    Stmt,
    TensorParam,
    walk,
)
from tilecheck.ir.simt import Atomic, Store, ThreadVar, Unread

_MODULE: Final = "cuda.tile"


def read_kernels(source: Source, resolve: Resolve) -> tuple[Kernel, ...]:
    """All cuTile kernels of `source`, in the order of the text. Raises `Unreadable` if it does not parse."""
    if not mentions_cutile(source):
        return ()
    return tuple(lower(function, options) for function, options in find(source, resolve))


def mentions_cutile(source: Source) -> bool:
    """Whether the text names the module at all."""
    return _MODULE in source.text or "cuda import tile" in source.text


def find(source: Source, resolve: Resolve) -> tuple[tuple[FunctionValue, dict[str, object]], ...]:
    """The functions decorated with `ct.kernel`, with the options given."""
    module = module_scope(source, resolve)
    found: list[tuple[FunctionValue, dict[str, object]]] = []
    for scope, node in walk_scopes(module):
        if isinstance(node, cst.FunctionDef):
            function = FunctionValue(node, scope)
            options = kernel_options(function)
            if options is not None:
                found.append((function, options))
    return tuple(sorted(found, key=lambda item: source.span(item[0].node)))


def lower(function: FunctionValue, options: dict[str, object]) -> Kernel:
    """Lower one kernel."""
    node, scope = function.node, function.scope
    source = scope.source
    params = parameters(node)
    names = [(p.name.value, source.span(p.name)) for p in params]
    builder = _built(function, names, frozenset())
    body = builder.body()
    changed = written_arrays(body) & builder.remembered_arrays
    if changed:
        builder = _built(function, names, frozenset(changed))
        body = builder.body()
    seen = {(n.kind, n.axis) for n in walk(*body) if isinstance(n, ThreadVar)}
    hidden = [v for v in builder.numbered.values() if not {("blockIdx", v.axis), ("gridDim", v.axis)} & seen]
    # A grid may be long on an axis that only values depend on.
    body = (*(Do(OpCall("numbers_blocks", (v,), span=v.span), span=v.span) for v in hidden), *body)
    guessed = inferred(names, body, None)
    for name, span in names:
        if builder.kinds.get(name) in ("int", "int64"):
            guessed[name] = ScalarParam(name, span, "int")
        elif builder.kinds.get(name) == "array" and not isinstance(guessed[name], TensorParam):
            guessed[name] = TensorParam(name, span)
    span = source.span(node.name)
    first = min((source.span(d).line for d in node.decorators), default=span.line)
    return Kernel(
        name=node.name.value,
        path=source.path,
        track="cutile",
        params=tuple(guessed[name] for name, _ in names),
        body=body,
        span=span,
        options={
            **plain_options(options),
            "block": (1, 1, 1),
            "wide": tuple(sorted({*builder.wide(), *_indexed_wide(params, scope)})),
            "run_time": tuple(p.name.value for p in params if _at_run_time(p, scope)),
            "positive": tuple(sorted(builder.extent_names & {name for name, _ in names})),
        },
        constants=dict(builder.constants),
        lines=(first, source.span(node).end_line),
    )


def _built(function: FunctionValue, names: list[tuple[str, Span]], changing: frozenset[str]) -> CuTile:
    """The lowered body, in a builder that knows which arrays the kernel changes."""
    builder = CuTile(function, changing)
    builder.array_names.update(name for name, _ in names)
    for param in parameters(function.node):
        kind = _annotation(param, function.scope)
        if kind is not None:
            builder.kinds[param.name.value] = kind
            if kind == "int64":
                builder.wide_names.add(param.name.value)
    builder.suite(function.node.body)
    return builder


def written_arrays(body: tuple[Stmt, ...]) -> set[str]:
    """The arrays that a body stores to or updates; a call that could not be read may change what it is given."""
    found: set[str] = set()
    for node in walk(*body):
        if isinstance(node, Store | Atomic) and isinstance(node.array, Name):
            found.add(node.array.id)
        elif isinstance(node, Unread):
            found |= set(node.touches or ())
    return found


def _at_run_time(param: cst.Param, scope: Scope) -> bool:
    """Whether a scalar that is passed here is no constant of the compiler: nothing, or a plain type, is annotated."""
    if param.annotation is None:
        return True
    return scope.source.module.code_for_node(param.annotation.annotation).strip() in ("int", "float", "bool")


def _annotation(param: cst.Param, scope: Scope) -> str | None:
    """What a parameter's annotation says: `int`, `int64`, `array`, or None."""
    if param.annotation is None:
        return None
    text = scope.source.module.code_for_node(param.annotation.annotation)
    if "ScalarInt64" in text:
        return "int64"
    if "IndexedWithInt64" in text or "Array" in text:
        return "array"
    if "Constant" in text:
        return "int" if "int" in text or "[" not in text else None
    return "int" if text.strip() == "int" else None


def _indexed_wide(params: Sequence[cst.Param], scope: Scope) -> set[str]:
    """The arrays whose extents have 64 bits."""
    texts = {
        p.name.value: scope.source.module.code_for_node(p.annotation.annotation)
        for p in params
        if p.annotation is not None
    }
    return {name for name, text in texts.items() if "IndexedWithInt64" in text}


def read_launches(source: Source, resolve: Resolve) -> tuple[Launch, ...]:
    """The `ct.launch` calls of `source`, equal ones once; blocks have one thread."""
    if not mentions_cutile(source):
        return ()
    return seen_launches(HostRun(source, resolve, kernel_options, lambda kernel: {}), source)


def kernel_options(function: FunctionValue) -> dict[str, object] | None:
    """The options of `ct.kernel` if `function` is decorated with it."""
    for decorator in function.node.decorators:
        expression = decorator.decorator
        call = expression if isinstance(expression, cst.Call) else None
        named = fold(call.func if call is not None else expression, function.scope.lookup)
        if isinstance(named, Ref) and named.path == f"{_MODULE}.kernel":
            given = () if call is None else call.args
            return {a.keyword.value: fold(a.value, function.scope.lookup) for a in given if a.keyword is not None}
    return None
