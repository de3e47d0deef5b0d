"""What a test says of the names in it: on the way that it leaves open, a name that is None has nothing in flight.

`suppose` lowers the outcome of a test as `instructions.Assume`s, which end the paths that cannot have it; `possible` is what the
solver asks there. Only what is sure counts: an op, a running one, a stream and an event are neither None nor false, a
list in which an op was put is not empty, and None is None.

Worked example. `r = None` / `if c: r = op.run()` / `if r is not None: r.wait()`: past the test that fails, only the path
is left on which nothing was run, so a read of what `op` writes is fine.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tilecheck.borrow.decisions import decide, worth_deciding
from tilecheck.borrow.facts import Obj, Phase, State
from tilecheck.borrow.loans import WORKING
from tilecheck.borrow.values import Array, Nothing, Number
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_IS = {"is": True, "==": True, "is not": False, "!=": False}
_THERE = (Kind.OP, Kind.SHARED_OP, Kind.RUNNING, Kind.STREAM, Kind.EVENT)


def suppose(low: Expressions, test: ir.Expr, holds: bool) -> None:
    """`test` was evaluated, and came out true or not."""
    match test:
        case ir.Operation(op="not", operands=(inner,)):
            suppose(low, inner, not holds)
        case ir.Operation(op=op, operands=(inner, ir.Const(value=None, known=True))) if op in _IS:
            _assume(low, inner, "none" if _IS[op] is holds else "not none")
            decide(low, test, holds)
        case ir.Logic(op=op, operands=operands) if (op == "and") is holds:
            for key in low.evaluated.get(test, ()):
                low.emit(instructions.Decide(key, True, span=test.span))
            for part in operands:
                suppose(low, part, holds)
        case ir.Logic(operands=operands) if worth_deciding(low, test):
            # One of them is the first that came out as `holds`.
            arms = [low.block_of(partial(_first, low, operands, at, holds)) for at in range(len(operands))]
            low.emit(flow.Branch(tuple(arms), span=test.span))
        case _:
            _assume(low, test, "true" if holds else "false")
            decide(low, test, holds)


def _first(low: Expressions, operands: tuple[ir.Expr, ...], at: int, holds: bool) -> None:
    for operand in operands[:at]:
        suppose(low, operand, not holds)
    suppose(low, operands[at], holds)


def decided(low: Expressions, test: ir.Expr) -> bool | None:
    """How `test` comes out by what is known of the values in it, None if that does not say."""
    match test:
        case ir.Operation(op="not", operands=(inner,)):
            found = decided(low, inner)
            return None if found is None else not found
        case ir.Operation(op=op, operands=(inner, ir.Const(value=None, known=True))) if op in _IS:
            value = low.known(inner)
            if isinstance(value, Nothing) or (isinstance(value, Array) and value.or_none):
                return None
            return (value == Number(None)) is _IS[op]
        case ir.Name():
            value = low.known(test)
            return bool(value.value) if isinstance(value, Number) else None
        case _:
            return None


def suppose_none(low: Expressions, subject: ir.Expr, holds: bool) -> None:
    """`subject` was compared with None."""
    _assume(low, subject, "none" if holds else "not none")


def _assume(low: Expressions, node: ir.Expr, what: instructions.Shown) -> None:
    named = node.target if isinstance(node, ir.Walrus) else node
    if isinstance(named, ir.Name) or (isinstance(named, ir.Attr) and isinstance(named.base, ir.Name)):
        var = low.expr(named).var
        if var is not None:
            low.emit(instructions.Assume(var, what, span=node.span))


def possible(state: State, obj: Obj, what: instructions.Shown) -> bool:
    """Whether `obj` can be what a test has shown."""
    if what in ("true", "not none"):
        return obj[0].kind is not Kind.NONE
    return obj[0].kind not in _THERE and (what == "none" or not _holds_ops(state, obj))


def _holds_ops(state: State, obj: Obj) -> bool:
    """Whether an op that is not over was put into the container `obj`."""
    items = [item for (base, field), item in state.slots.items() if base == obj and field.startswith("[")]
    items += [item for base, item in state.bag if base == obj]
    return any(state.phase.get(item) in (Phase.BUILT, *WORKING) for item in items)
