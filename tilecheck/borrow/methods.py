"""Methods of our tensors, partitions, ops, graphs and kernels, by what is known of the receiver.

A method of an unknown receiver is taken for ours only if its name is ours alone (`into_partition`), or if it is harmless
to take it so: a `partition` of ints matters only once a kernel gets it, and waiting for what does not run is nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck.borrow import plain
from tilecheck.borrow.containers import dict_method
from tilecheck.borrow.context import Operand
from tilecheck.borrow.continuations import look_on, run_on
from tilecheck.borrow.kernel_language import refuse_method
from tilecheck.borrow.objects import call_method
from tilecheck.borrow.permissions import refuse_write
from tilecheck.borrow.repeats import launcher, repeats_method, start
from tilecheck.borrow.shapes import (
    check_bindings,
    check_ints,
    check_map,
    check_run,
    check_tile,
    split_shapes,
    tile_of,
    with_grid,
)
from tilecheck.borrow.spell import spell
from tilecheck.borrow.surface import Effect, having
from tilecheck.borrow.values import (
    Array,
    Closure,
    Handle,
    Items,
    KernelValue,
    Launcher,
    Many,
    Nothing,
    Number,
    Op,
    Pieces,
    Table,
    Thing,
    Value,
    grown,
)
from tilecheck.borrow.vocabulary import COMBINATORS, READERS, VIEWS
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Ending, Hold, Kind, Site, Touch
from tilecheck.ir.kernel import Access
from tilecheck.surface.hints import HINTS, refusal

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def lower_method(low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand, name: str | None) -> Operand | None:
    value, method = receiver.value, func.name
    if isinstance(value, KernelValue):
        return _kernel_method(low, node, value, method)
    if isinstance(value, Thing):
        called = call_method(low, node, method, receiver, name)
        if called is not None:
            return called
    if isinstance(value, Launcher) or (isinstance(value, Handle) and value.kind == "prepared"):
        return repeats_method(low, node, method, receiver)
    if isinstance(value, Op):
        return _op_method(low, node, func, value, receiver)
    if isinstance(value, Pieces):
        return _pieces_method(low, node, value, method, receiver, name)
    if isinstance(value, Handle):
        return _handle_method(low, node, value, method, receiver, name)
    if isinstance(value, Array) and value.library == "tilecheck":
        return _tensor_method(low, node, value, method, receiver, name)
    return plain.method(low, node, func, receiver, name) or _guessed_method(low, node, func, receiver, name)


def _guessed_method(
    low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand, name: str | None
) -> Operand | None:
    """A method of an unknown receiver whose name only our tensors use, or that is harmless to take for ours."""
    method = func.name
    if isinstance(receiver.value, Table) and (taken := dict_method(low, node, method, receiver, func.base)) is not None:
        return taken
    if not isinstance(receiver.value, Nothing | Items | Many | Thing) or receiver.var is None:
        return None
    if method in ("append", "appendleft") and len(node.args) == 1:
        item = low.expr(node.args[0].value)
        if item.var is not None:
            low.emit(instructions.Put(receiver.var, None, item.var, span=node.span))
        low.set(func.base, grown(receiver.value, item.value, keyed=False))
        return Operand(None)
    if method == "into_partition":
        return _tensor_method(low, node, Array("tilecheck"), method, receiver, name)
    if method == "partition" and node.args and all(_may_be_tile(low, arg) for arg in node.args):
        return _partition(low, node, Array("tilecheck"), receiver, renews=False)
    if method in READERS and not node.args:
        low.look(receiver, node, Touch.READ)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method in ("sync", "wait") and not node.args:
        low.emit(instructions.Finish(receiver.var, waits=method == "wait", span=node.span))
        low.emit(instructions.Clobber(span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    return None


def _may_be_tile(low: Expressions, arg: ir.Arg) -> bool:
    value = low.scalar(arg.value)
    return not arg.star and arg.name is None and (value is None or isinstance(value, int))


def _partition(low: Expressions, node: ir.Call, array: Array, receiver: Operand, renews: bool) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    tile = tile_of(low, node, array)
    if not renews or not check_ints(low, node):
        check_tile(low, node, array, tile)
    if isinstance(node.func, ir.Attr):
        refuse_write(low, node.func.base, array, "partition", node.span)
    var = low.temp()
    site = Site(Kind.PARTITION, spell(node), node.span)
    if receiver.var is not None:
        low.emit(instructions.Borrow(var, receiver.var, Hold.EXCLUSIVE, site, renews=renews, span=node.span))
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
        tile = tile_of(low, node, array)
        if not check_ints(low, node):
            check_tile(low, node, array, tile)
        if method == "try_into_partition":
            # It moves, or says why not and leaves everything as it was.
            low.escape(receiver, node.span)
            return Operand(low.make(Kind.OTHER, name or spell(node), node.span))
        low.emit(instructions.Move(var, spell(node), span=node.span))
        return Operand(low.make(Kind.PARTITION, name or spell(node), node.span), Pieces(array, tile, owned=True))
    if method == "split" and isinstance(node.func, ir.Attr):
        refuse_write(low, node.func.base, array, "split", node.span)
        return _split(low, node, array, var)
    if method in VIEWS:
        return low.view(receiver, node)
    if method in ("copy", "astype", "clone", "dup"):
        low.look(receiver, node, Touch.READ)
        low.make_in_scope(node)
        copied = Array("tilecheck", array.dtype if method != "astype" else None, array.shape, Access.OWNED)
        return Operand(low.make(Kind.TENSOR, name or spell(node), node.span), copied)
    if method in READERS or method in ("cpu", "sum", "max", "min", "mean"):
        low.look(receiver, node, Touch.READ)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method == "to_host":
        return build(low, node, (instructions.Use(var, Hold.SHARED, node.span, spell(node), "self"),), Op(to_host=True))
    refuse_method(low, node, method)
    low.look(receiver, node)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def build(low: Expressions, node: ir.Call, uses: tuple[instructions.Use, ...], op: Op | None = None) -> Operand:
    """A lazy op that holds `uses`."""
    var = low.temp()
    low.emit(
        instructions.Build(
            var, Site(Kind.OP, spell(node), node.span, low.scope), uses, spell(node.func), span=node.span
        )
    )
    return Operand(var, op or Op())


def _split(low: Expressions, node: ir.Call, array: Array, var: str) -> Operand:
    pair = low.make(Kind.OTHER, spell(node), node.span)
    at = low.number_of_site()
    halves = [Array("tilecheck", array.dtype, shape, array.access) for shape in split_shapes(low, node, array)]
    for side in (0, 1):
        part = low.temp()
        site = Site(Kind.VIEW, f"{spell(node)}[{side}]", node.span)
        borrow = instructions.Borrow(part, var, Hold.EXCLUSIVE, site, side=(at, side), renews=side == 0, span=node.span)
        low.emit(borrow)
        low.emit(instructions.Put(pair, f"[{side}]", part, span=node.span))
    return Operand(pair, Items(tuple(halves)))


def _pieces_method(
    low: Expressions, node: ir.Call, value: Pieces, method: str, receiver: Operand, name: str | None
) -> Operand | None:
    for arg in node.args:
        low.read(arg.value)
    if method == "prefix":
        return Operand(receiver.var, replace(value, exact=False))
    if method == "map":
        check_map(low, node, value)
        return Operand(receiver.var, replace(value, exact=False, mapped=True))
    if method == "unpartition" and receiver.var is not None and not value.owned:
        seen = low.temp()
        site = Site(Kind.VIEW, name or spell(node), node.span)
        low.emit(instructions.Borrow(seen, receiver.var, Hold.SHARED, site, span=node.span))
        return Operand(seen, value.array)
    if method == "unpartition" and receiver.var is not None:
        low.emit(instructions.Move(receiver.var, spell(node), span=node.span))
        return Operand(low.make(Kind.TENSOR, name or spell(node), node.span), value.array)
    low.look(receiver, node, Touch.READ if method in READERS else Touch.LOOK)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _kernel_method(low: Expressions, node: ir.Call, kernel: KernelValue, method: str) -> Operand | None:
    if method in ("where", "with_hints"):
        if method == "where":
            check_bindings(low, node, kernel)
        for arg in node.args:
            low.read(arg.value)
            if method == "where" and arg.name is not None and arg.name in kernel.bound:
                former, now = kernel.bound[arg.name], spell(arg.value)
                message = f"`{arg.name}` is bound twice: `where({arg.name}={former})`, then `where({arg.name}={now})`"
                low.fault("unbound-dim", message, node.span, "a `Dim` has one value in a launch")
            elif method == "with_hints" and arg.name is not None:
                _hint(low, node, arg.name, low.known(arg.value))
        return Operand(None, low.made_kernel(node))
    if method == "on" and kernel.facts.contract.track in ("tile", "simt"):
        return launcher(low, node, kernel)
    return plain.kernel_method(low, node, kernel, method)


def _hint(low: Expressions, node: ir.Call, name: str, value: Value) -> None:
    """`kernel.with_hints(name=value)`: an unknown name is wrong whatever its value is."""
    if name in HINTS and not isinstance(value, Number):
        return
    why = refusal(name, value.value if isinstance(value, Number) else None)
    if why is not None:
        low.fault("usage", f"`{spell(node.func)}`: {why}", node.span)


def _op_method(low: Expressions, node: ir.Call, func: ir.Attr, op: Op, receiver: Operand) -> Operand | None:
    method, var = func.name, receiver.var
    if var is None:
        return None
    if method in ("sync", "sync_on", "run") and low.where:
        low.reentrant(node, spell(node))
    started = Handle("running", refused=bool(low.where))
    if method in ("then", "map", "inspect"):
        low.called_back.update(arg.value for arg in node.args)
    operands = [low.expr(arg.value) for arg in node.args]
    given = [operand.value for operand in operands]
    stream = operands[0].var if len(operands) == 1 and method in ("sync_on", "run") else None
    if method in ("sync", "sync_on", "run", "graph"):
        check_run(low, node, op)
    if method == "graph":
        look_on(low, node, op)
    if method in ("sync", "sync_on", "run") and op.calls:
        running = run_on(low, node, op, var, spell(func.base), stream)
        if method == "run" or running.var is None:
            return Operand(running.var, started)
        low.emit(instructions.Finish(running.var, waits=True, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method in ("sync", "sync_on"):
        low.emit(instructions.Finish(var, stream, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if method == "run":
        return Operand(start(low, node, var, spell(func.base), stream).var, started)
    if method == "discard":
        low.emit(instructions.Finish(var, ends=Ending.GIVEN_UP, span=node.span))
        return Operand(None)
    if method == "compile":
        low.emit(instructions.Finish(var, ends=Ending.COMPILED, span=node.span))
        return Operand(None)
    if method in COMBINATORS:
        combined = low.temp()
        kind = Kind.SHARED_OP if method == "shared" else Kind.OP
        # An op that has a name keeps it for itself.
        called = spell(node if method == "with_grid" and isinstance(func.base, ir.Name | ir.Attr) else func.base)
        low.emit(instructions.Combine(combined, Site(kind, called, node.span, low.scope), (var,), span=node.span))
        if method == "with_grid":
            return Operand(combined, with_grid(low, node, op))
        to_host = op.to_host or method == "to_host"
        calls = (*op.calls, *(value for value in given if isinstance(value, Closure)))
        return Operand(combined, Op(op.kernel, op.grid, op.needs_grid, op.makes, to_host, calls, op.meta))
    if method == "graph":
        _check_capture(low, node, op, whole=True)
        graph = low.make(Kind.GRAPH, "the graph", node.span)
        low.emit(instructions.Capture(graph, var, span=node.span))
        _keep_output(low, node, graph, op.makes)
        low.emit(instructions.Seal(graph, span=node.span))
        return Operand(graph, Handle("graph"))
    if method == "prepare":
        prepared = low.make(Kind.GRAPH, "the prepared launch", node.span)
        low.emit(instructions.Capture(prepared, var, span=node.span))
        low.emit(instructions.Seal(prepared, span=node.span))
        return Operand(prepared, Handle("prepared"))
    if method in having("DeviceOp", Effect.SPEND):
        # What comes of it is not followed, but the op itself is used up.
        kept = node is not low.unread
        site = Site(Kind.OTHER if kept else Kind.OP, spell(node), node.span, low.scope, low.in_async)
        low.emit(instructions.Combine(low.temp(), site, (var,), kept=kept, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    low.escape(receiver, node.span)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _keep_output(low: Expressions, node: ir.Call, graph: str, makes: bool) -> None:
    """A graph has the value of what it captured, to be taken once; memory that it makes is written by each launch."""
    output = low.make(Kind.TENSOR if makes else Kind.OTHER, "the output of the graph", node.span)
    ticket = low.make(Kind.OUTPUT, "the output of the graph", node.span)
    low.emit(instructions.Put(graph, ".output", output, span=node.span))
    low.emit(instructions.Put(graph, ".ticket", ticket, span=node.span))
    if makes:
        op = low.temp()
        use = instructions.Use(output, Hold.EXCLUSIVE, node.span, spell(node), "")
        low.emit(instructions.Build(op, Site(Kind.OP, spell(node), node.span), (use,), span=node.span))
        low.emit(instructions.Capture(graph, op, span=node.span))


def _take_output(low: Expressions, node: ir.Call, graph: str, name: str | None) -> Operand:
    ticket, output = low.temp(), low.temp()
    low.emit(instructions.Get(ticket, graph, ".ticket", Site(Kind.OTHER, spell(node), node.span), span=node.span))
    low.emit(instructions.Move(ticket, spell(node), span=node.span))
    low.emit(
        instructions.Get(output, graph, ".output", Site(Kind.OTHER, name or spell(node), node.span), span=node.span)
    )
    return Operand(output)


def _check_capture(low: Expressions, node: ir.Call, op: Op, whole: bool) -> None:
    """A graph takes no copies to the host, and a scope makes no memory."""
    if op.to_host:
        message = f"`{spell(node)}` captures a copy to the host"
        low.fault("capture", message, node.span, "copy after the launch: `z.numpy()`")
    elif op.makes and not whole:
        message = f"`{spell(node)}` records the making of memory"
        low.fault("capture", message, node.span, "make it before the scope, and record `tc.memcpy` into it")


def _handle_method(
    low: Expressions, node: ir.Call, handle: Handle, method: str, receiver: Operand, name: str | None
) -> Operand | None:
    var = receiver.var
    if var is None:
        return None
    if handle.kind == "running":
        for arg in node.args:
            low.expr(arg.value)
        if method == "wait" and low.where and not handle.refused:
            low.reentrant(node, spell(node))
        if method == "wait":
            low.emit(instructions.Finish(var, waits=True, span=node.span))
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if handle.kind in ("graph", "scope"):
        operands = [(arg, low.expr(arg.value)) for arg in node.args]
        if method == "record":
            for _, operand in operands:
                if isinstance(operand.value, Op):
                    _check_capture(low, node, operand.value, whole=False)
                if operand.var is not None:
                    low.emit(instructions.Capture(var, operand.var, span=node.span))
            return Operand(None)
        if method == "update" and len(operands) == 1 and operands[0][1].var is not None:
            return start(low, node, operands[0][1].var, spell(node))
        if method == "launch":
            low.look(receiver, node)
            op = low.temp()
            low.emit(instructions.Replay(op, Site(Kind.OP, spell(node), node.span, low.scope), var, span=node.span))
            return Operand(op, Op())
        if method == "take_output":
            return _take_output(low, node, var, name)
        if method == "prepare":
            prepared = low.temp()
            site = Site(Kind.GRAPH, "the prepared graph", node.span)
            low.emit(instructions.Replay(prepared, site, var, prepared=True, span=node.span))
            return Operand(prepared, Handle("prepared"))
        for arg, operand in operands:
            low.escape(operand, arg.span)
        low.look(receiver, node)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    return plain.stream_method(low, node, method, receiver)
