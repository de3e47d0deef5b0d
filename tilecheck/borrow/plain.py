"""What plain libraries do on the host: numba's arrays, streams and events, torch's and CuPy's, cuTile's launches.

A numba copy with a stream is in flight when the call returns; one without waits for the device. `copy_to_host` without
a target makes the host array that it fills. A stream argument of 0 is the default stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from tilecheck.borrow.array_makers import argument, described, named_dtype
from tilecheck.borrow.context import Operand
from tilecheck.borrow.launching import Bound, enqueue, note, stream_of
from tilecheck.borrow.numpy_writes import written
from tilecheck.borrow.spell import spell
from tilecheck.borrow.tile_launches import check_tile_launch
from tilecheck.borrow.tuning import tune
from tilecheck.borrow.values import NOTHING, Array, Config, Handle, KernelValue, Nothing
from tilecheck.borrow.vocabulary import (
    FOREIGN_ARRAYS,
    LOOKED_AT,
    NUMBA_ARRAYS,
    NUMPY_ARRAYS,
    PINNED_ARRAYS,
    VIEWS,
    WRITERS,
)
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Hold, Kind, Site, Touch, Use

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


_ARRAYS: tuple[tuple[frozenset[str], Kind, Literal["numba", "numpy", "foreign"]], ...] = (
    (PINNED_ARRAYS, Kind.PINNED, "numpy"),
    (NUMBA_ARRAYS, Kind.DEVICE, "numba"),
    (NUMPY_ARRAYS, Kind.HOST, "numpy"),
    (FOREIGN_ARRAYS, Kind.FOREIGN, "foreign"),
)


def function(low: Expressions, node: ir.Call, full: str | None, name: str | None) -> Operand | None:
    """A function of a plain library, None if `full` is not one that matters."""
    if full is None:
        return None
    called = name or spell(node)
    if full == "numba.cuda.to_device":
        return _to_device(low, node, called)
    for names, kind, library in _ARRAYS:
        if full in names:
            # `np.empty_like(h)` asks for the shape.
            ask = low.ask if full.endswith("_like") else low.read
            given = [ask(arg.value).value for arg in node.args]
            shape, dtype = described(low, node, full, given)
            pinned = kind is Kind.PINNED
            # NumPy hands a given array on when it need not copy: nothing is known of whose memory that is.
            owned = full not in ("numpy.asarray", "numpy.ascontiguousarray", "numba.cuda.as_cuda_array")
            if kind is Kind.FOREIGN and _is_true(_keyword(node, "pin_memory")):
                kind = Kind.PINNED
            var = low.make(kind if owned else Kind.OTHER, called, node.span)
            if kind is Kind.FOREIGN and low.stream is not None:
                # What is made under a stream is freed in the order of that stream.
                low.emit(instructions.Keep(var, span=node.span))
            return Operand(var, Array(library, dtype, shape, pinned=pinned, made=node))
    if full in _FUNCTIONS:
        return _FUNCTIONS[full](low, node, called)
    if full == "cuda.tile.launch":
        return _tile_launch(low, node)
    return tune(low, node, full)


def _to_device(low: Expressions, node: ir.Call, called: str) -> Operand:
    source, into = argument(node, "obj", 0), argument(node, "to", 3)
    operand = low.expr(source) if source is not None else Operand(None)
    stream = stream_of(low, argument(node, "stream", 1))
    array = operand.value if isinstance(operand.value, Array) else Array("numba")
    target = low.expr(into) if into is not None else Operand(low.make(Kind.DEVICE, called, node.span))
    uses: list[Use] = []
    if operand.var is not None and source is not None:
        if stream is None:
            low.look(operand, source, Touch.READ, spell(node))
        else:
            uses.append(Use(operand.var, Hold.SHARED, node.span, spell(node), "obj"))
    if target.var is not None:
        uses.append(Use(target.var, Hold.EXCLUSIVE, node.span, spell(node), "to"))
    site = Site(Kind.JOB, spell(node), node.span)
    low.emit(instructions.Enqueue(site, stream, tuple(uses), blocking=stream is None, span=node.span))
    return Operand(target.var, Array("numba", array.dtype, array.shape, made=node))


def _new(kind: Kind, handle: Handle | None) -> Callable[[Expressions, ir.Call, str], Operand]:
    def make(low: Expressions, node: ir.Call, called: str) -> Operand:
        for arg in node.args:
            low.expr(arg.value)
        return Operand(low.make(kind, called, node.span), handle or NOTHING)

    return make


def _synchronize(low: Expressions, node: ir.Call, called: str) -> Operand:
    low.emit(instructions.SyncStream(None, span=node.span))
    return Operand(None)


def _default_stream(low: Expressions, node: ir.Call, called: str) -> Operand:
    return Operand(None, Handle("default stream"))


def _current(low: Expressions, node: ir.Call, called: str) -> Operand:
    """`with torch.cuda.stream(s)`: `s` is the current stream inside."""
    operands = [low.expr(arg.value) for arg in node.args]
    return Operand(operands[0].var if operands else None, Handle("current stream"))


def _from_interface(low: Expressions, node: ir.Call, called: str) -> Operand:
    """`from_cuda_array_interface(desc, owner)`: without an owner, nothing keeps the memory alive."""
    described, owner = argument(node, "desc", 0), argument(node, "owner", 1)
    base = described.base if isinstance(described, ir.Attr) and described.name == "__cuda_array_interface__" else None
    if base is None or owner is not None:
        for arg in node.args:
            low.expr(arg.value)
        return Operand(low.make(Kind.OTHER, called, node.span), Array("numba"))
    source = low.expr(base)
    var = low.temp()
    if source.var is not None:
        site = Site(Kind.RAW, called, node.span)
        low.emit(instructions.Borrow(var, source.var, Hold.SHARED, site, span=node.span))
        if source.var.startswith("%"):
            low.emit(instructions.Unbind(source.var, span=node.span))
    return Operand(var, Array("numba"))


_FUNCTIONS: dict[str, Callable[[Expressions, ir.Call, str], Operand]] = {
    "numba.cuda.stream": _new(Kind.STREAM, Handle("stream")),
    "numba.cuda.external_stream": _new(Kind.OTHER, Handle("stream")),
    "numba.cuda.per_thread_default_stream": _new(Kind.OTHER, Handle("stream")),
    "numba.cuda.default_stream": _default_stream,
    "numba.cuda.legacy_default_stream": _default_stream,
    "numba.cuda.event": _new(Kind.EVENT, Handle("event")),
    "numba.cuda.synchronize": _synchronize,
    "numba.cuda.from_cuda_array_interface": _from_interface,
    "torch.cuda.Stream": _new(Kind.STREAM, Handle("stream")),
    "torch.cuda.stream": _current,
    "torch.cuda.current_stream": _default_stream,
    "torch.cuda.default_stream": _default_stream,
    "torch.cuda.Event": _new(Kind.EVENT, Handle("event")),
    "torch.cuda.synchronize": _synchronize,
    "cupy.cuda.Stream": _new(Kind.STREAM, Handle("stream")),
    "cupy.cuda.Device.synchronize": _synchronize,
}


def _tile_launch(low: Expressions, node: ir.Call) -> Operand:
    """`ct.launch(stream, grid, kernel, (arguments))`."""
    stream, grid = argument(node, "stream", 0), argument(node, "grid", 1)
    kernel, given = argument(node, "kernel", 2), argument(node, "kernel_args", 3)
    value = low.known(kernel) if kernel is not None else NOTHING
    if grid is not None:
        low.read(grid)
    if isinstance(value, KernelValue) and given is not None:
        low.faults.extend(check_tile_launch(value, grid, low.known(grid) if grid is not None else NOTHING, given, node))
    if not isinstance(value, KernelValue) or not isinstance(given, ir.Display):
        for arg in node.args:
            low.escape(low.expr(arg.value), arg.span)
        low.emit(instructions.Clobber(span=node.span))
        return Operand(None)
    bound: Bound = []
    for at, item in enumerate(given.items):
        params = value.facts.contract.params
        bound.append((params[at] if at < len(params) else None, item, low.expr(item)))
    config = Config(grid, None, stream)
    note(low, node, KernelValue(value.facts, value.bound, config), bound)
    enqueue(low, node, value, config, bound)
    return Operand(None)


# ---- methods


def method(low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand, name: str | None) -> Operand | None:
    """A method of an array of a plain library, or one that only numba's device arrays have."""
    value = receiver.value
    if receiver.var is None:
        return None
    if func.name in ("copy_to_host", "copy_to_device") and isinstance(value, Array | Nothing):
        copy = _copy_to_host if func.name == "copy_to_host" else _copy_to_device
        return copy(low, node, receiver, name)
    if func.name in ("synchronize", "auto_synchronize", "wait_event", "wait_stream", "record_stream", "query"):
        found = stream_method(low, node, func.name, receiver)
        if found is not None:
            return found
    if not isinstance(value, Array):
        return None
    if func.name == "record_stream":
        low.emit(instructions.Keep(receiver.var, span=node.span))
        return Operand(None)
    if func.name in VIEWS:
        for arg in node.args:
            low.read(arg.value)
        return low.view(receiver, node)
    if func.name in LOOKED_AT or value.library == "numba":
        for arg in node.args:
            low.read(arg.value)
        low.look(receiver, node)
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if value.library == "foreign" and _is_true(_keyword(node, "non_blocking")):
        return _non_blocking(low, node, func, receiver, name)
    outputs = written(node, func.name)
    for output in outputs:
        low.look(low.expr(output), output, Touch.WRITE, spell(node))
    for arg in node.args:
        if not outputs or arg.name != "out":
            low.read(arg.value)
    writes = func.name in WRITERS or (func.name.endswith("_") and not func.name.endswith("__"))
    low.look(receiver, node, Touch.WRITE if writes else Touch.READ)
    if value.library == "foreign":
        if func.name in ("cpu", "numpy", "item", "tolist", "get"):
            low.emit(instructions.SyncStream(None, span=node.span))
        return Operand(low.make(Kind.FOREIGN, name or spell(node), node.span), Array("foreign"))
    array = Array("numpy", made=node)
    if func.name in ("astype", "copy"):
        wanted = argument(node, "dtype", 0) if func.name == "astype" else None
        dtype = value.dtype if func.name == "copy" else None if wanted is None else named_dtype(wanted)
        array = Array("numpy", dtype, value.shape, made=node)
    return Operand(low.make(Kind.HOST, name or spell(node), node.span), array)


def _keyword(node: ir.Call, name: str) -> ir.Expr | None:
    return next((arg.value for arg in node.args if arg.name == name), None)


def _is_true(node: ir.Expr | None) -> bool:
    return isinstance(node, ir.Const) and node.value is True


def _non_blocking(
    low: Expressions, node: ir.Call, func: ir.Attr, receiver: Operand, name: str | None
) -> Operand | None:
    """`x.to("cpu", non_blocking=True)` and `target.copy_(source, non_blocking=True)`: in flight on the current stream."""
    first = argument(node, "device", 0)
    operand = low.expr(first) if first is not None else Operand(None)
    site = Site(Kind.JOB, spell(node), node.span)
    assert receiver.var is not None
    if func.name == "copy_" and operand.var is not None and first is not None:
        written = Use(receiver.var, Hold.EXCLUSIVE, node.span, spell(node), "self")
        read = Use(operand.var, Hold.SHARED, node.span, spell(node), "src")
        low.emit(instructions.Enqueue(site, low.stream, (written, read), span=node.span))
        return receiver
    to_host = isinstance(first, ir.Const) and first.value == "cpu"
    copied = low.make(Kind.HOST if to_host else Kind.FOREIGN, name or spell(node), node.span)
    read = Use(receiver.var, Hold.SHARED, node.span, spell(node), "self")
    written = Use(copied, Hold.EXCLUSIVE, node.span, spell(node), "result")
    low.emit(instructions.Enqueue(site, low.stream, (written, read), span=node.span))
    return Operand(copied, Array("foreign"))


def _copy_to_host(low: Expressions, node: ir.Call, receiver: Operand, name: str | None) -> Operand:
    target = argument(node, "ary", 0)
    stream = stream_of(low, argument(node, "stream", 1))
    if target is not None:
        into = low.expr(target)
    else:
        value = receiver.value if isinstance(receiver.value, Array) else Array("numba")
        into = Operand(
            low.make(Kind.HOST, name or spell(node), node.span), Array("numpy", value.dtype, value.shape, made=node)
        )
    assert receiver.var is not None
    if stream is None:
        low.look(receiver, node, Touch.READ)
        low.emit(instructions.SyncStream(None, span=node.span))
        if target is not None:
            low.look(into, target, Touch.WRITE)
        return into
    uses = [Use(receiver.var, Hold.SHARED, node.span, spell(node), "self")]
    if into.var is not None:
        uses.append(Use(into.var, Hold.EXCLUSIVE, node.span, spell(node), "ary"))
    low.emit(instructions.Enqueue(Site(Kind.JOB, spell(node), node.span), stream, tuple(uses), span=node.span))
    return into


def _copy_to_device(low: Expressions, node: ir.Call, receiver: Operand, name: str | None) -> Operand:
    source = argument(node, "ary", 0)
    stream = stream_of(low, argument(node, "stream", 1))
    operand = low.expr(source) if source is not None else Operand(None)
    assert receiver.var is not None
    if stream is None:
        if source is not None:
            low.look(operand, source, Touch.READ)
        low.emit(instructions.SyncStream(None, span=node.span))
        return Operand(None)
    uses = [Use(receiver.var, Hold.EXCLUSIVE, node.span, spell(node), "self")]
    if operand.var is not None:
        uses.append(Use(operand.var, Hold.SHARED, node.span, spell(node), "ary"))
    low.emit(instructions.Enqueue(Site(Kind.JOB, spell(node), node.span), stream, tuple(uses), span=node.span))
    return Operand(None)


def stream_method(low: Expressions, node: ir.Call, method: str, receiver: Operand) -> Operand | None:
    """A method of a stream or an event; None for one that is not known."""
    value, var = receiver.value, receiver.var
    kind = value.kind if isinstance(value, Handle) else None
    args = [arg.value for arg in node.args]
    if method == "synchronize":
        if kind == "event" and var is not None:
            low.emit(instructions.SyncEvent(var, span=node.span))
        else:
            low.emit(instructions.SyncStream(var if kind == "stream" else None, span=node.span))
            if kind is None and var is not None:
                # It may be a stream of ours, and the one that an op runs on.
                low.emit(instructions.SyncStream(var, span=node.span))
        return Operand(None)
    if method == "auto_synchronize" and var is not None:
        return Operand(var, Handle("synced stream"))
    if method == "query":
        low.emit(instructions.SyncStream(None, span=node.span))
        return Operand(None)
    if kind == "event" and var is not None and method in ("record", "wait"):
        stream = stream_of(low, args[0] if args else None)
        instr = instructions.Record(var, stream, span=node.span) if method == "record" else None
        low.emit(instr or instructions.WaitEvent(stream, var, span=node.span))
        return Operand(None)
    if method == "record_event" and kind in ("stream", "default stream"):
        event = low.expr(args[0]) if args else Operand(low.make(Kind.EVENT, spell(node), node.span), Handle("event"))
        if event.var is not None:
            low.emit(instructions.Record(event.var, var, span=node.span))
        return event
    if method == "wait_event" and args:
        event = low.expr(args[0])
        if event.var is not None:
            low.emit(instructions.WaitEvent(var, event.var, span=node.span))
        return Operand(None)
    if method == "wait_stream" and args:
        low.emit(instructions.WaitStream(var, stream_of(low, args[0]), span=node.span))
        return Operand(None)
    return None


def kernel_method(low: Expressions, node: ir.Call, kernel: KernelValue, method: str) -> Operand | None:
    """A method of a plain kernel: `forall(n)` is a launch configuration that fits by itself."""
    for arg in node.args:
        low.read(arg.value)
    if method == "forall":
        stream = argument(node, "stream", 2)
        return Operand(None, KernelValue(kernel.facts, kernel.bound, Config(stream=stream)))
    if method == "configure":
        parts = [argument(node, name, at) for at, name in enumerate(("griddim", "blockdim", "stream", "sharedmem"))]
        return Operand(None, KernelValue(kernel.facts, kernel.bound, Config(*parts)))
    return Operand(low.make(Kind.OTHER, spell(node), node.span))
