"""What calls do: our tensors, ops, streams and graphs; plain libraries are in `plain.py`, launches in `launching.py`.

A call is looked up by the full name of its callee, then by the method's name and what is known of the receiver. Whatever
is not found gets its arguments as unknown code does: it may run, wait for and keep them. Nothing is concluded from
names of methods that other libraries share, unless the receiver is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilecheck.borrow import plain
from tilecheck.borrow.context import Operand
from tilecheck.borrow.launching import call_function, call_kernel
from tilecheck.borrow.spell import spell
from tilecheck.borrow.types import value_of_contract
from tilecheck.borrow.values import NOTHING, Array, Callee, Handle, Items, KernelValue, Nothing, Op, Pieces
from tilecheck.borrow.vocabulary import HARMLESS, LOOKS, READERS, TENSOR_MAKERS, VIEWS, canonical
from tilecheck.ir import flow
from tilecheck.ir import host as ir
from tilecheck.ir.flow import Hold, Kind, Site, Touch
from tilecheck.ir.kernel import Access
from tilecheck.surface.dtypes import DTYPES

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def lower_call(low: Expressions, node: ir.Call, name: str | None) -> Operand:
    """Lower `node`; `name` is what the user calls its result."""
    full = canonical(node.func)
    if full in TENSOR_MAKERS:
        return _make_tensor(low, node, name or spell(node), full)
    if full is not None and full in _FUNCTIONS:
        return _FUNCTIONS[full](low, node)
    found = plain.function(low, node, full, name)
    if found is not None:
        return found
    callee = low.known(node.func)
    if isinstance(callee, Nothing) and node.contract is not None:
        callee = value_of_contract(node.contract)
    receiver: Operand | None = None
    if isinstance(callee, Nothing) and not _is_harmless(full):
        if isinstance(node.func, ir.Attr):
            if node.func.full is None or not isinstance(low.known(node.func.base), Nothing):
                receiver = low.expr(node.func.base)
                method = _method(low, node, node.func, receiver, name)
                if method is not None:
                    return method
        else:
            callee = low.expr(node.func).value
    if isinstance(callee, KernelValue):
        return call_kernel(low, node, callee)
    if isinstance(callee, Callee):
        return call_function(low, node, callee.contract)
    if _is_harmless(full):
        return _harmless(low, node, full or "")
    return _unknown(low, node, receiver)


def _is_harmless(full: str | None) -> bool:
    return full is not None and full.startswith(HARMLESS)


def _harmless(low: Expressions, node: ir.Call, full: str) -> Operand:
    """A function that at most reads its arguments, and keeps none of them."""
    touch = Touch.LOOK if full in LOOKS else Touch.READ
    for arg in node.args:
        operand = low.expr(arg.value)
        if full == "builtins.print" and isinstance(operand.value, Array) and operand.value.library == "numpy":
            low.look(operand, arg.value, Touch.READ)
        elif not isinstance(arg.value, ir.Lambda):
            low.look(operand, arg.value, touch)
        if full in ("builtins.list", "builtins.tuple", "builtins.zip", "builtins.enumerate", "builtins.reversed"):
            low.escape(operand, arg.span)
    if full == "builtins.range":
        return Operand(None)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _unknown(low: Expressions, node: ir.Call, receiver: Operand | None) -> Operand:
    """Code that is not read: it gets the receiver and the arguments."""
    for arg in node.args:
        low.escape(low.expr(arg.value), arg.span)
    if receiver is not None:
        low.escape(receiver, node.span)
        asserts = isinstance(node.func, ir.Attr) and node.func.name.startswith("assert")
        if asserts:
            return Operand(None)
    low.emit(flow.Clobber(span=node.span))
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def arguments(low: Expressions, node: ir.Call) -> list[tuple[ir.Arg, Operand]]:
    """The lowered arguments of a call."""
    return [(arg, low.expr(arg.value)) for arg in node.args]


def keyword(node: ir.Call, name: str, at: int | None = None) -> ir.Expr | None:
    """The argument `name`, or the one at position `at`."""
    for arg in node.args:
        if arg.name == name:
            return arg.value
    if at is not None and at < len(node.args) and not any(arg.star or arg.name for arg in node.args[: at + 1]):
        return node.args[at].value
    return None


# ---- functions of tilecheck


def _make_tensor(low: Expressions, node: ir.Call, name: str, full: str) -> Operand:
    for arg in node.args:
        low.read(arg.value)
    if low.where == "scope":
        low.fault(
            "capture",
            f"`{spell(node)}` makes memory inside a graph scope",
            node.span,
            "make it before the scope: a replay would not make it again",
        )
    maker = full.removeprefix("tilecheck.")
    dtype_expr = keyword(node, "dtype")
    short = (canonical(dtype_expr) or "").removeprefix("tilecheck.")
    dtype = short if short in DTYPES else None
    if dtype_expr is None and maker in ("zeros", "ones", "empty", "eye", "linspace", "rand", "randn"):
        dtype = "f32"
    elif dtype_expr is None and maker == "full":
        third = keyword(node, "dtype", 2)
        spelled = (canonical(third) or "").removeprefix("tilecheck.")
        dtype = "f32" if third is None else spelled if spelled in DTYPES else None
    array = Array("tilecheck", dtype, _shape(low, node, maker), Access.OWNED)
    return Operand(low.make(Kind.TENSOR, name, node.span), array)


def _shape(low: Expressions, node: ir.Call, maker: str) -> tuple[int | None, ...] | None:
    given = [arg.value for arg in node.args if not arg.name]
    if any(arg.star for arg in node.args) or not given:
        return None
    if maker in ("zeros", "ones", "empty", "rand", "randn", "full"):
        first = given[0]
        if isinstance(first, ir.Display):
            return tuple(low.whole(item) for item in first.items)
        sizes = given[:1] if maker == "full" else given
        shape = tuple(low.whole(size) for size in sizes)
        # One name may be a whole shape; then nothing is known.
        return None if len(shape) == 1 and shape[0] is None else shape
    if maker == "arange" and len(given) == 1:
        return (low.whole(given[0]),)
    return None


def _value(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.read(arg.value)
    var = low.temp()
    low.emit(flow.Build(var, Site(Kind.OP, spell(node), node.span), (), span=node.span))
    return Operand(var, Op())


def _zip(low: Expressions, node: ir.Call) -> Operand:
    operands = arguments(low, node)
    var = low.temp()
    srcs = tuple(operand.var for _, operand in operands if operand.var is not None)
    low.emit(flow.Combine(var, Site(Kind.OP, spell(node), node.span), srcs, span=node.span))
    return Operand(var, Op())


def _scope(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    return Operand(low.make(Kind.GRAPH, "the graph", node.span), Handle("scope"))


def _pass_on(low: Expressions, node: ir.Call) -> Operand:
    """`asyncio.create_task(x)`: whoever waits for the task waits for `x`."""
    operands = arguments(low, node)
    if len(operands) == 1 or canonical(node.func) in ("asyncio.wait_for", "asyncio.shield"):
        return operands[0][1] if operands else Operand(None)
    var = low.make(Kind.OTHER, spell(node), node.span)
    for at, (arg, operand) in enumerate(operands):
        if operand.var is not None and not arg.star:
            low.emit(flow.Put(var, f"[{at}]", operand.var, span=arg.span))
        elif operand.var is not None:
            low.escape(operand, arg.span)
    return Operand(var)


def _stream(low: Expressions, node: ir.Call) -> Operand:
    return Operand(low.make(Kind.OTHER, spell(node), node.span), Handle("stream"))


_FUNCTIONS: dict[str, Callable[[Expressions, ir.Call], Operand]] = {
    "tilecheck.value": _value,
    "tilecheck.zip": _zip,
    "tilecheck.CudaGraph.scope": _scope,
    "tilecheck.Stream": _stream,
    "asyncio.create_task": _pass_on,
    "asyncio.ensure_future": _pass_on,
    "asyncio.gather": _pass_on,
    "asyncio.wait_for": _pass_on,
    "asyncio.shield": _pass_on,
}


# ---- methods


def _method(low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand, name: str | None) -> Operand | None:
    value, method = receiver.value, func.name
    if isinstance(value, KernelValue):
        return _kernel_method(low, node, value, method)
    if isinstance(value, Op):
        return _op_method(low, node, func, receiver)
    if isinstance(value, Pieces):
        return _pieces_method(low, node, value, method, receiver, name)
    if isinstance(value, Handle):
        return _handle_method(low, node, value, method, receiver)
    if isinstance(value, Array) and value.library == "tilecheck":
        return _tensor_method(low, node, value, method, receiver, name)
    return plain.method(low, node, func, receiver, name) or _guessed_method(low, node, method, receiver, name)


def _guessed_method(
    low: Expressions, node: ir.Call, method: str, receiver: Operand, name: str | None
) -> Operand | None:
    """A method of an unknown receiver whose name only our tensors use, or that is harmless to take for ours."""
    if not isinstance(receiver.value, Nothing) or receiver.var is None:
        return None
    if method == "into_partition":
        return _tensor_method(low, node, Array("tilecheck"), method, receiver, name)
    if method == "partition" and node.args and all(_may_be_tile(low, arg) for arg in node.args):
        return _partition(low, node, Array("tilecheck"), receiver, renews=False)
    if method in READERS and not node.args:
        low.look(receiver, node, Touch.READ)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method in ("sync", "wait") and not node.args:
        low.emit(flow.Finish(receiver.var, span=node.span))
        low.emit(flow.Clobber(span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    return None


def _may_be_tile(low: Expressions, arg: ir.Arg) -> bool:
    value = low.scalar(arg.value)
    return not arg.star and arg.name is None and (value is None or isinstance(value, int))


def _partition(low: Expressions, node: ir.Call, array: Array, receiver: Operand, renews: bool) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    tile: tuple[int | None, ...] | None = tuple(low.whole(arg.value) for arg in node.args)
    if len(node.args) == 1 and isinstance(node.args[0].value, ir.Display):
        tile = tuple(low.whole(item) for item in node.args[0].value.items)
    if any(arg.star for arg in node.args):
        tile = None
    if array.access is Access.SHARED:
        low.fault(
            "write-to-shared",
            f"cannot partition `{spell(node.func.base) if isinstance(node.func, ir.Attr) else ''}`: it is `Shared`",
            node.span,
            "declare the parameter `Tensor[Mut]`",
        )
    var = low.temp()
    site = Site(Kind.PARTITION, spell(node), node.span)
    if receiver.var is not None:
        low.emit(flow.Borrow(var, receiver.var, Hold.EXCLUSIVE, site, renews=renews, span=node.span))
    return Operand(var, Pieces(array, tile))


def _tensor_method(
    low: Expressions, node: ir.Call, array: Array, method: str, receiver: Operand, name: str | None
) -> Operand | None:
    var = receiver.var
    if var is None:
        return None
    if method == "partition":
        return _partition(low, node, array, receiver, renews=True)
    for arg in node.args:
        low.read(arg.value)
    if method in ("into_partition", "try_into_partition"):
        tile = tuple(low.whole(arg.value) for arg in node.args)
        low.emit(flow.Move(var, spell(node), span=node.span))
        return Operand(low.make(Kind.PARTITION, name or spell(node), node.span), Pieces(array, tile))
    if method == "split":
        return _split(low, node, array, var)
    if method in VIEWS:
        return low.view(receiver, node)
    if method in ("copy", "astype", "clone", "dup"):
        low.look(receiver, node, Touch.READ)
        copied = Array("tilecheck", array.dtype if method != "astype" else None, array.shape, Access.OWNED)
        return Operand(low.make(Kind.TENSOR, name or spell(node), node.span), copied)
    if method in READERS or method in ("cpu", "sum", "max", "min", "mean"):
        low.look(receiver, node, Touch.READ)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method == "to_host":
        return _lazy(low, node, var, Hold.SHARED)
    low.look(receiver, node)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _lazy(low: Expressions, node: ir.Call, src: str, hold: Hold) -> Operand:
    """A lazy op that borrows the receiver."""
    var = low.temp()
    use = flow.Use(src, hold, node.span, spell(node), "self")
    low.emit(flow.Build(var, Site(Kind.OP, spell(node), node.span), (use,), span=node.span))
    return Operand(var, Op())


def _split(low: Expressions, node: ir.Call, array: Array, var: str) -> Operand:
    pair = low.make(Kind.OTHER, spell(node), node.span)
    at = low.number_of_site()
    half = Array("tilecheck", array.dtype, None, array.access)
    for side in (0, 1):
        part = low.temp()
        site = Site(Kind.VIEW, f"{spell(node)}[{side}]", node.span)
        borrow = flow.Borrow(part, var, Hold.EXCLUSIVE, site, side=(at, side), renews=side == 0, span=node.span)
        low.emit(borrow)
        low.emit(flow.Put(pair, f"[{side}]", part, span=node.span))
    return Operand(pair, Items((half, half)))


def _pieces_method(
    low: Expressions, node: ir.Call, value: Pieces, method: str, receiver: Operand, name: str | None
) -> Operand | None:
    for arg in node.args:
        low.read(arg.value)
    if method == "prefix":
        return Operand(receiver.var, Pieces(value.array, value.tile, exact=False))
    if method == "map":
        return Operand(receiver.var, Pieces(value.array, value.tile, exact=False, mapped=True))
    if method == "unpartition" and receiver.var is not None:
        low.emit(flow.Move(receiver.var, spell(node), span=node.span))
        return Operand(low.make(Kind.TENSOR, name or spell(node), node.span), value.array)
    low.look(receiver, node, Touch.READ if method in READERS else Touch.LOOK)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _kernel_method(low: Expressions, node: ir.Call, kernel: KernelValue, method: str) -> Operand | None:
    if method == "where":
        bound = dict(kernel.bound)
        for arg in node.args:
            low.read(arg.value)
            if arg.name is None:
                return Operand(None, NOTHING)
            bound[arg.name] = low.whole(arg.value)
        return Operand(None, KernelValue(kernel.facts, bound, kernel.config))
    return plain.kernel_method(low, node, kernel, method)


def _op_method(low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand) -> Operand | None:
    method, var = func.name, receiver.var
    if var is None:
        return None
    if method in ("sync", "sync_on", "run") and low.where:
        low.reentrant(node, spell(node))
    if method in ("then", "map", "inspect"):
        low.called_back.update(arg.value for arg in node.args)
    others = [operand.var for _, operand in arguments(low, node) if operand.var is not None and method == "zip"]
    if method in ("sync", "sync_on"):
        low.emit(flow.Finish(var, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method == "run":
        running = low.temp()
        low.emit(flow.Start(running, Site(Kind.RUNNING, spell(func.base), node.span), var, span=node.span))
        return Operand(running, Handle("running"))
    if method in _COMBINATORS:
        combined = low.temp()
        srcs = (var, *others)
        low.emit(flow.Combine(combined, Site(Kind.OP, spell(func.base), node.span), srcs, span=node.span))
        return Operand(combined, Op())
    if method in ("graph", "graph_on"):
        graph = low.make(Kind.GRAPH, "the graph", node.span)
        low.emit(flow.Capture(graph, var, span=node.span))
        return Operand(graph, Handle("graph"))
    low.escape(receiver, node.span)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


_COMBINATORS = frozenset(
    {"then", "map", "zip", "shared", "first", "last", "unpartition", "to_host", "with_grid", "boxed", "inspect"}
)


def _handle_method(low: Expressions, node: ir.Call, handle: Handle, method: str, receiver: Operand) -> Operand | None:
    var = receiver.var
    if var is None:
        return None
    if handle.kind == "running":
        arguments(low, node)
        if method in ("wait", "result"):
            low.emit(flow.Finish(var, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if handle.kind in ("graph", "scope"):
        operands = arguments(low, node)
        if method == "record":
            for _, operand in operands:
                if operand.var is not None:
                    low.emit(flow.Capture(var, operand.var, span=node.span))
            return Operand(None)
        if method == "launch":
            low.look(receiver, node)
            return _value(low, ir.Call(node.func, (), span=node.span))
        for arg, operand in operands:
            low.escape(operand, arg.span)
        low.look(receiver, node)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    return plain.stream_method(low, node, method, receiver)
