"""What calls do: functions of ours and unknown ones; methods are in `methods.py`, launches in `launching.py`, plain
libraries in `plain.py`.

A call is looked up by the full name of its callee, then by the method's name and what is known of the receiver. Whatever
is not found gets its arguments as unknown code does: it may run, wait for and keep them. Nothing is concluded from
names of methods that other libraries share, unless the receiver is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck.borrow import plain
from tilecheck.borrow.blocks import check_block
from tilecheck.borrow.containers import rebuilt
from tilecheck.borrow.context import Operand
from tilecheck.borrow.inline import read_call
from tilecheck.borrow.kernel_language import refuse_op
from tilecheck.borrow.launching import call_function, call_kernel
from tilecheck.borrow.lending import BORROWERS, borrowed_back, lend, lent_to, made_of_lent
from tilecheck.borrow.methods import build, lower_method
from tilecheck.borrow.numpy_writes import written
from tilecheck.borrow.objects import call_method, construct, field_of
from tilecheck.borrow.permissions import refuse_write
from tilecheck.borrow.repeats import repeat, repeats
from tilecheck.borrow.spell import spell
from tilecheck.borrow.tensor_makers import make_tensor
from tilecheck.borrow.types import value_of_contract
from tilecheck.borrow.values import (
    NOTHING,
    Array,
    Callee,
    Closure,
    Given,
    Handle,
    Items,
    KernelValue,
    Launcher,
    Many,
    Nothing,
    Number,
    Op,
    Partial,
    Table,
    Thing,
    Value,
)
from tilecheck.borrow.vocabulary import (
    CALLERS,
    CONSUMERS,
    HANDED_ON,
    HARMLESS,
    LOOKS,
    PRINTS,
    READ_EACH,
    TENSOR_MAKERS,
    canonical,
)
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Hold, Kind, Site, Touch

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def lower_call(low: Expressions, node: ir.Call, name: str | None) -> Operand:
    """Lower `node`; `name` is what the user calls its result."""
    if isinstance(node.func, ir.Attr) and node.func.name.startswith("assert"):
        with low.asserted():
            return _lower_call(low, node, name)
    return _lower_call(low, node, name)


def _lower_call(low: Expressions, node: ir.Call, name: str | None) -> Operand:
    full = canonical(node.func)
    if full in TENSOR_MAKERS:
        back = borrowed_back(low, node) if full == "tilecheck.from_dlpack" else None
        return back or make_tensor(low, node, name or spell(node), full)
    inner = lent_to(node)
    if (full in BORROWERS or inner is not node) and (lent := lend(low, inner, full or "")) is not None:
        return lent
    if full is not None and full in _FUNCTIONS:
        return _FUNCTIONS[full](low, node)
    again = made_of_lent(low, node)
    if again is not None:
        return again
    found = plain.function(low, node, full, name)
    if found is not None:
        return found
    if isinstance(node.func, ir.Attr) and isinstance(node.func.base, ir.Const):
        # A method of a string: `"{}".format(z)`.
        for arg in node.args:
            low.show(arg.value)
        return Operand(None)
    refuse_op(low, node, full)
    callee = low.known(node.func)
    repeated = repeats(low, node, callee)
    if repeated is not None:
        return repeated
    called: Operand | None = None
    if isinstance(callee, Nothing) and isinstance(node.func, ir.Call | ir.Sub):
        called = low.expr(node.func)
        callee = called.value
        if isinstance(callee, Launcher | Handle):
            return repeat(low, node, callee, called)
    if isinstance(callee, Nothing) and node.contract is not None and not _is_our_method(node.func):
        callee = value_of_contract(node.contract)
    receiver: Operand | None = None
    if isinstance(callee, Thing) and called is None:
        called = low.expr(node.func)
    if isinstance(callee, Nothing) and not _is_harmless(full):
        if isinstance(node.func, ir.Attr):
            if (
                node.func.full is None
                or not isinstance(low.known(node.func.base), Nothing)
                or _is_kernel(node.func.base)
            ):
                receiver = low.expr(node.func.base)
                kept = (
                    field_of(low, receiver.value, node.func.name)[1] if isinstance(receiver.value, Thing) else NOTHING
                )
                if isinstance(kept, Launcher | Handle) and receiver.var is not None:
                    called = low.expr(node.func)
                    return repeat(low, node, kept, called)
                if isinstance(kept, KernelValue):
                    return call_kernel(low, node, kept)
                method = lower_method(low, node, node.func, receiver, name)
                if method is not None:
                    return method
        elif called is None:
            called = low.expr(node.func)
            callee = called.value
            if isinstance(callee, Launcher | Handle):
                return repeat(low, node, callee, called)
    given: tuple[Given, ...] = ()
    if isinstance(callee, Partial):
        given, callee = callee.given, callee.callee
    if isinstance(callee, KernelValue):
        return call_kernel(low, node, callee, given)
    if isinstance(callee, Thing) and called is not None:
        made = call_method(low, node, "__call__", called, name)
        if made is not None:
            return made
    if isinstance(callee, Nothing) and (built := construct(low, node, name)) is not None:
        return built
    if isinstance(callee, Callee):
        return call_function(low, node, callee, name, given=given)
    if isinstance(callee, Closure) and not given and (read := read_call(low, node, callee, name)) is not None:
        return read
    if _is_harmless(full):
        return _harmless(low, node, full or "")
    if low.on_host and low.device_function(node.func):
        message = f"`{spell(node.func)}` is a device function, only kernels can call it"
        low.fault("usage", message, node.span, "call it in a kernel, or its Python function: `.py_func(...)`")
    return _unknown(low, node, receiver)


def _is_kernel(node: ir.Expr) -> bool:
    """Whether a type checker knows `node` as a kernel."""
    return node.type is not None and (canonical(node.type.name) or "") == "tilecheck.Kernel"


def _is_our_method(func: ir.Expr) -> bool:
    """Whether a type checker knows the receiver as a thing of ours or a container: what its methods do is known better than
    from types.
    """
    known = func.base.type if isinstance(func, ir.Attr) else None
    return known is not None and (canonical(known.name) or "").startswith(("tilecheck.", "builtins.", "collections."))


def _is_harmless(full: str | None) -> bool:
    return full is not None and full.startswith(HARMLESS)


def _harmless(low: Expressions, node: ir.Call, full: str) -> Operand:
    """A function that at most reads its arguments, and keeps none of them; some hand on what is in them, and one that is
    given a function calls it.
    """
    again = rebuilt(low, node, full)
    if again is not None:
        return again
    calls = full in CALLERS or any(isinstance(arg.value, ir.Lambda) for arg in node.args)
    touch = Touch.LOOK if full in LOOKS else Touch.EACH if full.startswith(READ_EACH) else Touch.READ
    outputs = written(node, full) if full.startswith("numpy.") else []
    for output in outputs:
        low.look(low.expr(output), output, Touch.WRITE, spell(node))
    for arg in node.args:
        if arg.value in outputs or (outputs and arg.name == "out"):
            continue
        if full in PRINTS and not isinstance(arg.value, ir.Display | ir.Lambda):
            low.show(arg.value, Touch.LOOK)
            continue
        given = arg.value
        if full in CONSUMERS and isinstance(given, ir.Comprehension) and given.kind == "generator":
            # It is gone through here and now, to its end.
            given = replace(given, kind="list")
        operand = low.expr(given)
        if not isinstance(arg.value, ir.Lambda):
            low.look(operand, arg.value, touch)
        if calls or full in HANDED_ON:
            low.escape(operand, arg.span)
    if calls:
        low.emit(instructions.Clobber(span=node.span))
    if full == "builtins.range":
        return Operand(None)
    found = low.number(node)
    if found is not None:
        return Operand(None, Number(found))
    return Operand(low.make(Kind.OTHER, spell(node), node.span), Nothing(node))


def _unknown(low: Expressions, node: ir.Call, receiver: Operand | None) -> Operand:
    """Code that is not read: it gets the receiver and the arguments."""
    for arg in node.args:
        operand = low.expr(arg.value)
        low.escape(operand, arg.span)
        if isinstance(operand.value, Items | Table | Many):
            low.set(arg.value, NOTHING)
    if receiver is not None:
        low.escape(receiver, node.span)
        if isinstance(receiver.value, Items | Table | Many) and isinstance(node.func, ir.Attr):
            low.set(node.func.base, NOTHING)
        asserts = isinstance(node.func, ir.Attr) and node.func.name.startswith("assert")
        if asserts:
            return Operand(None)
    low.emit(instructions.Clobber(span=node.span))
    return Operand(low.make(Kind.OTHER, spell(node), node.span), Nothing(node))


def arguments(low: Expressions, node: ir.Call) -> list[tuple[ir.Arg, Operand]]:
    """The lowered arguments of a call."""
    return [(arg, low.expr(arg.value)) for arg in node.args]


# ---- functions of tilecheck


def _value(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.read(arg.value)
    return build(low, node, ())


def _dup(low: Expressions, node: ir.Call) -> Operand:
    return build(low, node, _uses(low, node, (Hold.SHARED,)), Op(makes=True))


def _memcpy(low: Expressions, node: ir.Call) -> Operand:
    found = arguments(low, node)
    if found and found[0][0].name in (None, "target"):
        refuse_write(low, found[0][0].value, found[0][1].value, "write", found[0][0].value.span)
    _check_copy(low, node, [operand.value for _, operand in found])
    return build(low, node, _uses_of(found, (Hold.EXCLUSIVE, Hold.SHARED)))


def _check_copy(low: Expressions, node: ir.Call, values: list[Value]) -> None:
    """`tc.memcpy(target, source)` copies as many elements as there are, of one dtype."""
    if len(values) != 2 or not isinstance(target := values[0], Array) or not isinstance(source := values[1], Array):
        return
    if None not in (target.shape, source.shape) and target.shape != source.shape:
        whole = not any(extent is None for extent in (*(target.shape or ()), *(source.shape or ())))
        if whole:
            message = f"`{spell(node.args[0].value)}` has shape {target.shape}, the source {source.shape}"
            low.fault("shape-mismatch", message, node.span, "copy between equal shapes: slice the larger one")
    elif None not in (target.dtype, source.dtype) and target.dtype != source.dtype:
        message = f"`{spell(node.args[0].value)}` is {target.dtype}, the source {source.dtype}"
        low.fault("dtype-mismatch", message, node.span, f"convert the source: `astype(tc.{target.dtype})`")


def _uses(low: Expressions, node: ir.Call, holds: tuple[Hold, ...]) -> tuple[instructions.Use, ...]:
    return _uses_of(arguments(low, node), holds)


def _uses_of(given: list[tuple[ir.Arg, Operand]], holds: tuple[Hold, ...]) -> tuple[instructions.Use, ...]:
    uses: list[instructions.Use] = []
    for (arg, operand), hold in zip(given, holds, strict=False):
        if operand.var is not None:
            param = "source" if hold is Hold.SHARED else "target"
            uses.append(instructions.Use(operand.var, hold, arg.span, spell(arg.value), arg.name or param))
    return tuple(uses)


def _zip(low: Expressions, node: ir.Call) -> Operand:
    operands = arguments(low, node)
    var = low.temp()
    srcs = tuple(operand.var for _, operand in operands if operand.var is not None)
    low.emit(instructions.Combine(var, Site(Kind.OP, spell(node), node.span, low.scope), srcs, span=node.span))
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
            low.emit(instructions.Put(var, f"[{at}]", operand.var, span=arg.span))
        elif operand.var is not None:
            low.escape(operand, arg.span)
    return Operand(var)


def _stream(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    return Operand(low.make(Kind.STREAM, spell(node), node.span), Handle("stream"))


def _simt(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    check_block(low, node)
    return Operand(None)


def _adopt(low: Expressions, node: ir.Call) -> Operand:
    for arg in node.args:
        low.expr(arg.value)
    check_block(low, node)
    return Operand(None, low.made_kernel(node))


def _partial(low: Expressions, node: ir.Call) -> Operand:
    """`functools.partial(callee, ...)`: it holds what it is given, and calls with that first."""
    callee = low.expr(node.args[0].value) if node.args else Operand(None)
    known = low.known(node.args[0].value) if node.args and isinstance(callee.value, Nothing) else callee.value
    given: list[Given] = []
    var = low.make(Kind.OTHER, spell(node), node.span)
    for at, arg in enumerate(node.args[1:]):
        operand = low.expr(arg.value)
        if operand.var is not None:
            low.emit(instructions.Put(var, f"[{at}]", operand.var, span=arg.span))
            kept = low.temp()
            low.emit(instructions.Bind(kept, operand.var, span=arg.span))
            operand = Operand(kept, operand.value)
        given.append(Given(arg.name, arg.value, operand.var, operand.value))
    if any(arg.star for arg in node.args) or not isinstance(known, KernelValue | Callee):
        low.escape(Operand(var), node.span)
        return Operand(var)
    return Operand(var, Partial(known, tuple(given)))


_FUNCTIONS: dict[str, Callable[[Expressions, ir.Call], Operand]] = {
    "tilecheck.value": _value,
    "functools.partial": _partial,
    "tilecheck.zip": _zip,
    "tilecheck.dup": _dup,
    "tilecheck.memcpy": _memcpy,
    "tilecheck.CudaGraph.scope": _scope,
    "tilecheck.Stream": _stream,
    "tilecheck.adopt": _adopt,
    "tilecheck.simt": _simt,
    "asyncio.create_task": _pass_on,
    "asyncio.ensure_future": _pass_on,
    "asyncio.gather": _pass_on,
    "asyncio.wait_for": _pass_on,
    "asyncio.shield": _pass_on,
}
