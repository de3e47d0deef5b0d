"""Tile kernels: every `@tc.kernel` function of a file, or one live function, as kernel IR.

`read_kernels` serves the linter and the plugin: it reads text and imports nothing. `read_function` serves the runtime:
the same reading of the same text, with names answered by the function's own globals and closure. What was verified is
therefore what gets compiled.

What the IR looks like is `ir/kernel.py`'s business; how operators, methods and subscripts map to rows of the op table is
`tile_expressions`', statements are `tile_statements`', device functions `tile_inline`'s.

Invariant: nothing is dropped silently. Every construct is either in the IR or in a fault.
"""

from __future__ import annotations

from types import FunctionType

import libcst as cst

from tilecheck.checked import Fault
from tilecheck.frontend.bindings import bound_names, parameters
from tilecheck.frontend.names import Names, Resolver, functions
from tilecheck.frontend.source import Source
from tilecheck.frontend.tile_inline import inline, lift
from tilecheck.frontend.tile_live import live_function
from tilecheck.frontend.tile_reader import Frame, Reader, TooLarge
from tilecheck.frontend.tile_signature import decorator_of, options
from tilecheck.frontend.tile_signature import parameters as read_parameters
from tilecheck.frontend.tile_statements import body
from tilecheck.ir.kernel import Kernel, Unsupported


def read_kernels(source: Source, resolve: Resolver) -> tuple[tuple[Kernel, ...], tuple[Fault, ...]]:
    """All tile kernels of a file, in order, and what was refused in them.

    A kernel with faults is still given, with `Opaque` where the faults are. Raises `Unreadable` if the file is not Python.
    """
    kernels: list[Kernel] = []
    faults: list[Fault] = []
    for node, names in functions(source, resolve):
        if decorator_of(node, names) is None:
            continue
        kernel, found = read_kernel(node, source, names)
        faults.extend(found)
        if kernel is not None:
            kernels.append(kernel)
    return tuple(kernels), tuple(faults)


def read_kernel(node: cst.FunctionDef, source: Source, names: Names) -> tuple[Kernel | None, tuple[Fault, ...]]:
    """One kernel. None if it nests too deeply, or grows too large, to be read at all."""
    name = node.name.value
    try:
        return _read(node, source, names)
    except TooLarge as error:
        return None, (Fault(error.rule, error.message, source.span(node.name), name, (), error.help),)
    except RecursionError:
        message = f"the kernel `{name}` nests expressions or statements too deeply"
        help = "split long expressions into assignments, and deep blocks into device functions"
        return None, (Fault("unsupported", message, source.span(node.name), name, (), help),)


def _read(node: cst.FunctionDef, source: Source, names: Names) -> tuple[Kernel, tuple[Fault, ...]]:
    name, span = node.name.value, source.span(node.name)
    local = bound_names(node.body) | {p.name.value for p in parameters(node)}
    r = Reader(name, Frame(source, names, local, function=name), inline, lift)
    decorator = decorator_of(node, names)
    given = options(r, decorator) if decorator is not None else {}
    if node.asynchronous is not None:
        r.record(r.refuse(f"the kernel `{name}` is `async`", node.name, "a kernel is a plain function"))
    params = read_parameters(r, node)
    r.params = {p.name: p for p in params}
    for param in params:
        r.kinds[param.name] = "tensor" if param.__class__.__name__ == "TensorParam" else "value"
    r.stack.append(node)
    with r.block() as out:
        body(r, node.body)
    lines = (source.span(node.decorators[0]).line if node.decorators else span.line, source.span(node).end_line)
    kernel = Kernel(name, source.path, "tile", params, tuple(out), span, dict(r.dims), given, dict(r.constants), lines)
    return kernel, tuple(r.faults)


def read_function(fn: FunctionType) -> Kernel:
    """A live function as a kernel, its names taken from its globals and closure.

    Raises `Unsupported` with the first thing that the kernel language has not, or if the function has no source (`exec`,
    a plain interactive prompt).
    """
    function = live_function(fn)
    kernel, faults = read_kernel(function.node, function.source, function.names)
    if faults or kernel is None:
        first = faults[0]
        raise Unsupported(first.message, first.span, first.help, first.rule)
    return kernel
