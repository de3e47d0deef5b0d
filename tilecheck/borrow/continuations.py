"""What runs with an op: the functions that `then`, `map` and `inspect` were given.

They run when the op is run, on its stream: what they read while it is in flight is *use-in-flight*, and an op that they
return is in flight until the whole is waited for. A function that can be read is read there (`inline.py`), with the
variables as they are at that time; of any other, what it names must still be there.

Worked example: `r = copy(z.partition(8), x).then(lambda _: copy(y.partition(8), x)).run()` holds `y` until `r.wait()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.inline import may_be_read, read_body
from tilecheck.borrow.repeats import start
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Closure, Op, Pieces
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Kind

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def run_on(low: Expressions, node: ir.Call | ir.Await, op: Op, var: str, name: str, stream: str | None) -> Operand:
    """`op`, the object of `var`, with what runs with it, in flight on `stream`."""
    running = start(low, node, var, name, stream)
    _continue(low, node, op, running, name)
    return running


def look_on(low: Expressions, node: ir.Expr, op: Op) -> None:
    """What the functions that run with `op` name must still be there."""
    for closure in op.calls:
        _look(low, node, closure)


def _continue(low: Expressions, node: ir.Call | ir.Await, op: Op, running: Operand, name: str) -> None:
    for closure in op.calls:
        called = closure.node
        readable = len(called.params) == 1 and called.params[0].kind == "plain" and may_be_read(low, called)
        if not readable:
            _look(low, node, closure)
            continue
        value = Operand(low.make(Kind.OTHER, called.params[0].name, node.span))
        read_before = called in low.called
        result = read_body(low, node, closure, {called.params[0].name: (value, node)}, None, apart=True)
        if not read_before:
            # It is code of its own as well.
            low.called.discard(called)
        if isinstance(result.value, Op) and result.var is not None and running.var is not None:
            later = start(low, node, result.var, name)
            if later.var is not None:
                low.emit(instructions.Put(running.var, None, later.var, span=node.span))
            _continue(low, node, result.value, running, name)


def _look(low: Expressions, node: ir.Expr, closure: Closure) -> None:
    own = {param.name for param in closure.node.params}
    body = closure.node.body
    parts = ir.walk(*body) if isinstance(body, tuple) else ir.walk(body)
    names = (part for part in parts if isinstance(part, ir.Name) and part.full is None)
    for name in dict.fromkeys(part.id for part in names if part.id not in own):
        if isinstance(low.env.get(name), Array | Pieces):
            low.look(Operand(name), node, by=spell(node))
