"""Launches at once (`kernel.on(stream)`) and prepared work (`op.prepare()`, `graph.prepare()`): what a call of them does.

A launcher has no rules of its own: a call of it is the launch of its kernel, checked and held like any other, and its
`run` on the launcher's stream. A call of prepared work is a round: what it holds is in flight for everybody, ops
included, until the work is waited for.

Invariant: everything that was started through one of them is in its bag, so that waiting for it ends all of that.

Worked example: after `go = copy.on(s)`, the call `go(z.partition(8), x)` is `copy(z.partition(8), x).run(s)`, and
`go.wait()` or `s.synchronize()` ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.launching import call_kernel
from tilecheck.borrow.shapes import check_run
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Handle, KernelValue, Launcher, Op, Value
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Kind, Site, Touch

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def start(low: Expressions, node: ir.Expr, op: str, name: str, stream: str | None = None) -> Operand:
    """The running form of `op`, which knows its stream."""
    running = low.temp()
    stream = stream or low.policy
    low.emit(instructions.Start(running, Site(Kind.RUNNING, name, node.span), op, stream, span=node.span))
    if stream is not None:
        low.emit(instructions.Put(running, ".stream", stream, span=node.span))
    return Operand(running, Handle("running"))


def launcher(low: Expressions, node: ir.Call, kernel: KernelValue) -> Operand:
    """`kernel.on(stream)`."""
    streams = [low.expr(arg.value) for arg in node.args]
    var = low.make(Kind.OTHER, spell(node), node.span)
    if len(streams) == 1 and streams[0].var is not None:
        low.emit(instructions.Put(var, ".stream", streams[0].var, span=node.span))
    return Operand(var, Launcher(kernel))


def repeats(low: Expressions, node: ir.Call, known: Value) -> Operand | None:
    """A call of a launcher or of prepared work that a name or its type shows; None for any other."""
    if isinstance(known, Launcher) or (isinstance(known, Handle) and known.kind == "prepared"):
        return repeat(low, node, known, low.expr(node.func))
    if node.func.type is None or node.func.type.name not in ("tilecheck._Launcher", "tilecheck._Prepared"):
        return None
    called = low.expr(node.func)
    return repeat(low, node, called.value, called)


def repeat(low: Expressions, node: ir.Call, known: Value, called: Operand) -> Operand:
    """A call of `known`, which is the object of `called`."""
    if low.where:
        low.reentrant(node, spell(node))
    if isinstance(known, Launcher):
        op = call_kernel(low, node, known.kernel)
        if op.var is not None and called.var is not None:
            stream = low.temp()
            site = Site(Kind.OTHER, f"{spell(node.func)}.stream", node.span)
            low.emit(instructions.Get(stream, called.var, ".stream", site, span=node.span))
            if isinstance(op.value, Op):
                check_run(low, node, op.value)
            running = start(low, node, op.var, spell(node.func), stream)
            low.emit(instructions.Put(called.var, None, low.object_of(running, node), span=node.span))
        return Operand(None)
    for arg in node.args:
        low.read(arg.value)
    if isinstance(known, Handle) and known.kind == "prepared" and called.var is not None:
        low.look(called, node.func)
        op_var, running_var = low.temp(), low.temp()
        low.emit(instructions.Replay(op_var, Site(Kind.OP, spell(node), node.span), called.var, span=node.span))
        site = Site(Kind.RUNNING, spell(node.func), node.span)
        low.emit(instructions.Start(running_var, site, op_var, repeats=True, span=node.span))
        low.emit(instructions.Put(called.var, None, running_var, span=node.span))
    return Operand(None)


def repeats_method(low: Expressions, node: ir.Call, method: str, receiver: Operand) -> Operand:
    """A method of a launcher or of prepared work."""
    for arg in node.args:
        low.read(arg.value)
    if method == "wait" and receiver.var is not None:
        if low.where:
            low.reentrant(node, spell(node))
        low.emit(instructions.Finish(receiver.var, waits=True, span=node.span))
        return Operand(None)
    low.look(receiver, node, Touch.LOOK)
    return Operand(low.make(Kind.OTHER, spell(node), node.span))
