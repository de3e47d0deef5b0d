"""Launches and calls with a signature: which arguments they borrow, and how.

A launch of one of our kernels builds a lazy op that holds its arguments; a launch of a plain kernel puts work on a
stream. A call of a host function borrows for the call, moves what the signature owns, and if it returns an op, a
partition or a view, that goes on borrowing its tensor arguments (elision). An op that it takes is given to it: what it
returns, an op or a running one, holds what that op held, and a coroutine holds it until it was awaited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck.borrow.arguments import check_count
from tilecheck.borrow.containers import elements, entries
from tilecheck.borrow.context import Operand
from tilecheck.borrow.inline import may_be_read, read_body
from tilecheck.borrow.launch import Launch, LaunchArg
from tilecheck.borrow.launches import check_launch, open_launch, shown_launch
from tilecheck.borrow.permissions import refuse_given
from tilecheck.borrow.plain_launches import check_arguments
from tilecheck.borrow.shapes import op_of
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import (
    NOTHING,
    Array,
    Callee,
    Closure,
    Config,
    Given,
    Handle,
    Items,
    KernelValue,
    Number,
    Op,
    Pieces,
    Value,
)
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir
from tilecheck.ir.host import Contract
from tilecheck.ir.instructions import Hold, Kind, Site, Touch, Use
from tilecheck.ir.kernel import Access, Param, TensorParam

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_EXCLUSIVE = (Access.MUT, Access.MAPPED, Access.OWNED, Access.ATOMIC)

Bound = list[tuple[Param | None, ir.Expr, Operand]]


def call_kernel(low: Expressions, node: ir.Call, kernel: KernelValue, given: tuple[Given, ...] = ()) -> Operand:
    """`kernel(...)`, `kernel.where(...)(...)` or `kernel[grid, block](...)`; `given` are the arguments of a partial."""
    if not kernel.facts.contract.name:
        # All that is known is a type, which has no name: the kernel is called what the source calls it.
        contract = replace(kernel.facts.contract, name=_spelled(node.func))
        kernel = replace(kernel, facts=replace(kernel.facts, contract=contract))
    bound = match(low, node, kernel.facts.contract, given)
    plain = kernel.facts.contract.track in ("numba", "cutile")
    if plain and kernel.config is None:
        name = kernel.facts.contract.name
        body = kernel.facts.body
        if kernel.facts.contract.track == "numba" and low.on_host and body is not None and not body.returns:
            message = f"`{name}` is called without a grid and a block"
            low.fault("launch-contract", message, node.span, f"write `{name}[grid, block](...)`")
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if kernel.facts.contract.track == "numba":
        low.faults.extend(check_arguments(kernel, node.args, node, len(given)))
    elif not plain:
        low.faults.extend(check_count(kernel, node, given))
    args = note(low, node, kernel, bound)
    if plain:
        enqueue(low, node, kernel, kernel.config or Config(), bound)
        return Operand(None)
    uses = tuple(_uses(kernel, bound))
    var = low.temp()
    low.emit(
        instructions.Build(
            var, Site(Kind.OP, spell(node), node.span, low.scope), uses, spell(node.func), span=node.span
        )
    )
    for param, expr, operand in bound:
        if param is None:
            low.escape(operand, expr.span)
    return Operand(var, op_of(kernel, args))


def _spelled(callee: ir.Expr) -> str:
    """The kernel in `kernel.where(...)` and `kernel.with_hints(...)`."""
    while isinstance(callee, ir.Call) and isinstance(callee.func, ir.Attr):
        callee = callee.func.base
    return spell(callee)


def note(low: Expressions, node: ir.Expr, kernel: KernelValue, bound: Bound) -> dict[str, LaunchArg]:
    """Check what the file decides about a launch; its arguments by parameter."""
    args = {param.name: LaunchArg(operand.value, expr) for param, expr, operand in bound if param is not None}
    known = (low.number, low.known, low.tested, low.is_given, low.bindings)
    launch = Launch(kernel, args, node.span, low.loops > 0, low.set_anew(), *known)
    faults = list(check_launch(launch))
    low.faults.extend(faults)
    opened = open_launch(launch)
    if opened is not None:
        low.opened.append(opened)
    if not faults and (shown := shown_launch(launch)) is not None:
        low.shown.append(shown)
    return args


def match(low: Expressions, node: ir.Call, contract: Contract, given: tuple[Given, ...] = ()) -> Bound:
    """The arguments with their parameters, those that are `given` first; None for those that cannot be matched."""
    found = [(arg.name, arg.expr, Operand(arg.var, arg.value)) for arg in given]
    lost = False
    loose: Bound = []
    for arg in node.args:
        operand = low.expr(arg.value)
        spread = elements(low, operand, arg.value) if arg.star == "*" else None
        named = entries(low, operand, arg.value) if arg.star == "**" else None
        if spread is not None and not lost:
            found += [(None, arg.value, item) for item in spread]
        elif named is not None:
            found += [(str(key), arg.value, item) for key, item in named]
        elif arg.star or (lost and arg.name is None):
            lost = lost or arg.star == "*"
            loose.append((None, arg.value, operand))
        else:
            found.append((arg.name, arg.value, operand))
    # A keyword of the call stands for the one that a partial was given.
    again = {arg.name for arg in node.args if arg.name is not None}
    found = [each for at, each in enumerate(found) if at >= len(given) or each[0] not in again]
    bound: Bound = []
    rest = next((at for at, param in enumerate(contract.params) if param.name == contract.rest), None)
    at = 0
    for name, expr, operand in found:
        param: Param | None = None
        if name is not None:
            param = next((p for p in contract.params if p.name == name), None)
        elif (rest is not None and at >= rest) or at < len(contract.params):
            param = contract.params[at if rest is None else min(at, rest)]
        at += name is None
        bound.append((param, expr, operand))
    return [*bound, *loose]


def _uses(kernel: KernelValue, bound: Bound) -> list[Use]:
    uses: list[Use] = []
    for param, expr, operand in bound:
        if not isinstance(param, TensorParam) or operand.var is None or param.access is None:
            continue
        hold = Hold.EXCLUSIVE if param.access in _EXCLUSIVE else Hold.SHARED
        if isinstance(operand.value, Op | Handle | Number):
            continue
        uses.append(Use(operand.var, hold, expr.span, spell(expr), param.name))
    return uses


def enqueue(low: Expressions, node: ir.Expr, kernel: KernelValue, config: Config, bound: Bound) -> None:
    """Put a launch of a plain kernel on its stream."""
    body = kernel.facts.body
    writes = kernel.facts.contract.writes
    uses: list[Use] = []
    copied = False
    for param, expr, operand in bound:
        if operand.var is None or isinstance(operand.value, Number | Items):
            continue
        name = param.name if param is not None else "?"
        if isinstance(operand.value, Array) and operand.value.library == "numpy" and operand.value.pinned is False:
            # Copied to the device and back for the call: no two parameters share it.
            copied = True
            low.look(operand, expr, Touch.WRITE if writes is None or name in writes else Touch.READ)
            continue
        if writes is None or param is None or body is None:
            low.look(operand, expr)
            continue
        if name in body.indices or name in writes:
            hold = Hold.EXCLUSIVE if name in writes else Hold.SHARED
            uses.append(Use(operand.var, hold, expr.span, spell(expr), name, body.apart(name)))
    stream = stream_of(low, config.stream)
    site = Site(Kind.JOB, kernel.facts.contract.name, node.span)
    low.emit(instructions.Enqueue(site, stream, tuple(uses), blocking=copied and stream is None, span=node.span))


def stream_of(low: Expressions, node: ir.Expr | None) -> str | None:
    """The variable of a stream argument, None for the default stream."""
    if node is None:
        return None
    operand = low.expr(node)
    default = isinstance(operand.value, Handle) and operand.value.kind == "default stream"
    if operand.var is None or default or isinstance(operand.value, Number):
        return None
    return operand.var


def call_function(
    low: Expressions,
    node: ir.Call,
    callee: Callee,
    name: str | None,
    first: Operand | None = None,
    given: tuple[Given, ...] = (),
) -> Operand:
    """A call of a host function whose signature says what it borrows; `first` is what a method is called on."""
    contract = callee.contract
    bound = match(low, node, contract, given)
    uses: list[Use] = []
    moves: list[tuple[ir.Expr, str, str]] = []
    ops: list[str] = []
    runnings: list[str] = []
    followed = contract.is_async or contract.result in _RESULTS
    for param, expr, operand in bound:
        if operand.var is None:
            continue
        if isinstance(param, TensorParam):
            refuse_given(low, contract.name or spell(node.func), param, expr, operand.value)
        if param is not None and followed and param.name in contract.ops:
            ops.append(operand.var)
        elif param is not None and followed and param.name in contract.runnings:
            runnings.append(operand.var)
        elif not isinstance(param, TensorParam) or param.access is None:
            low.escape(operand, expr.span)
        elif param.access is Access.OWNED:
            moves.append((expr, operand.var, param.name))
        else:
            hold = Hold.EXCLUSIVE if param.access in _EXCLUSIVE else Hold.SHARED
            uses.append(Use(operand.var, hold, expr.span, spell(expr), param.name))
    returned = _RETURNS.get(contract.result or "")
    borrows = (
        returned is not None and contract.returns is not Access.OWNED and not (contract.is_async and ops + runnings)
    )
    called = contract.name or spell(node.func)
    into: str | None = None
    if contract.result in _RESULTS and borrows:
        into = low.temp()
        low.emit(instructions.Build(into, Site(Kind.OP, spell(node), node.span), tuple(uses), called, span=node.span))
    else:
        taken = tuple(Use(var, Hold.EXCLUSIVE, expr.span, spell(expr), param) for expr, var, param in moves)
        low.emit(instructions.Lend(tuple(uses), called, given=taken if uses else (), span=node.span))
        if borrows and returned is not None:
            into = _elided(low, node, Site(returned, spell(node), node.span), uses, contract)
    if callee.body is not None and contract.rest is None and may_be_read(low, callee.body):
        by_param = {param.name: (operand, expr) for param, expr, operand in bound if param is not None}
        if first is not None:
            by_param[callee.body.params[0].name] = (first, node.func)
        if by_param.keys() == {param.name for param in callee.body.params} and all(param for param, _, _ in bound):
            return read_body(low, node, Closure(callee.body), by_param, name)
    for expr, var, param_name in moves:
        low.emit(instructions.Move(var, spell(node), param_name, span=expr.span))
    low.emit(instructions.Clobber(span=node.span))
    value: Value = _VALUES.get(contract.result or "", NOTHING)
    if contract.result == "tilecheck.Tensor":
        value = Array("tilecheck", access=contract.returns)
    if contract.is_async and ops + runnings:
        return Operand(_coroutine(low, node, ops, runnings))
    if into is None:
        into = low.make(Kind.OTHER, spell(node), node.span)
    if ops:
        into = _combined(low, node, (into, *ops))
    if contract.result == "tilecheck.Running":
        running = low.temp()
        low.emit(instructions.Start(running, Site(Kind.RUNNING, spell(node), node.span), into, span=node.span))
        into = running
        for var in runnings:
            low.emit(instructions.Put(into, None, var, span=node.span))
    return Operand(into, value)


def _elided(low: Expressions, node: ir.Call, site: Site, uses: list[Use], contract: Contract) -> str | None:
    """What a function returns borrows from its tensor arguments; what may be written only from those that may be."""
    exclusive = contract.result == "tilecheck.Partition" or contract.returns in _EXCLUSIVE
    written = [use for use in uses if use.hold is Hold.EXCLUSIVE]
    sources = written if exclusive and written else uses
    if not sources:
        return None
    into = low.temp()
    hold = Hold.EXCLUSIVE if exclusive and written else Hold.SHARED
    arms: list[flow.Block] = []
    for use in sources:
        frame = low.number_of_site()
        with low.gather() as arm:
            low.emit(instructions.Borrow(into, use.src, hold, replace(site), reshape=frame, span=node.span))
        arms.append(tuple(arm))
    # Of several it may be any: each is a path of its own.
    low.code.extend(arms[0]) if len(arms) == 1 else low.emit(flow.Branch(tuple(arms), span=node.span))
    return into


def _combined(low: Expressions, node: ir.Call, ops: tuple[str, ...]) -> str:
    """The op that a function makes of `ops`."""
    whole = low.temp()
    low.emit(instructions.Combine(whole, Site(Kind.OP, spell(node), node.span), ops, kept=True, span=node.span))
    return whole


def _coroutine(low: Expressions, node: ir.Call, ops: list[str], runnings: list[str]) -> str:
    """What calling a coroutine function makes: whoever awaits it waits for the ops that it was given."""
    held = [*([_combined(low, node, tuple(ops))] if ops else []), *runnings]
    var = low.make(Kind.OTHER, spell(node), node.span)
    for at, each in enumerate(held):
        low.emit(instructions.Put(var, f"[{at}]", each, span=node.span))
    return var


_RESULTS = ("tilecheck.DeviceOp", "tilecheck.Running")
_RETURNS = {
    "tilecheck.DeviceOp": Kind.OP,
    "tilecheck.Running": Kind.OP,
    "tilecheck.Partition": Kind.PARTITION,
    "tilecheck.Tensor": Kind.VIEW,
}
_VALUES: dict[str, Value] = {
    "tilecheck.DeviceOp": Op(),
    "tilecheck.Running": Handle("running"),
    "tilecheck.Partition": Pieces(Array("tilecheck"), mapped=None),
}
