"""The walk through statements: one symbolic run of the structured body for a generic thread.

A branch is walked on both sides and merged by its condition. `return`, `break`, `continue` and a failing assert end
the path (`live` becomes false there); what they carried is merged where the construct ends. Loops are in `loops.py`.

Invariant: a statement that could not be read leaves a gap that names what is unknown because of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Break,
    Continue,
    Do,
    For,
    If,
    Inline,
    Kernel,
    Node,
    OpCall,
    Return,
    While,
)
from tilecheck.ir.simt import AllocArray, Barrier, Fence, FillSlice, Load, Store, Unread
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_terms import FALSE, TRUE, conj, neg, value_of
from tilecheck.verify import loops, phases, told
from tilecheck.verify.expressions import evaluate, position_list, truth_at
from tilecheck.verify.locks import fenced, taken
from tilecheck.verify.memory import record
from tilecheck.verify.run import FencePoint, Frame, Leave, Run, State
from tilecheck.verify.unroll import gather
from tilecheck.verify.values import Array, Items, Literal_, Unknown, Value, as_int, merge, views, whole
from tilecheck.verify.verdict import Property

_SCOPES = {"grid": Level.GRID, "block": Level.BLOCK, "warp": Level.WARP}
_MEMORY = (Property.RACE_FREE, Property.IN_BOUNDS, Property.SHARED_INITIALISED)


def walk_kernel(run: Run, state: State, kernel: Kernel) -> None:
    """Walk the whole kernel from its entry."""
    run.frames.append(Frame(0, False))
    execute(run, state, kernel.body)
    run.frames.pop()


def execute(run: Run, state: State, body: Sequence[Node]) -> None:
    """Walk `body`, changing `state` into what follows it."""
    for statement in body:
        if state.dead:
            return
        _statement(run, state, statement)


def _statement(run: Run, state: State, node: Node) -> None:
    match node:
        case Assign(target=target, value=value):
            state.env[target] = evaluate(run, state, value)
        case Do(value=value):
            if not (isinstance(value, OpCall) and value.op == "unsafe"):
                evaluate(run, state, value)
        case Store():
            _store(run, state, node)
        case FillSlice():
            filled = evaluate(run, state, node.value)
            array = evaluate(run, state, node.array)
            positions = position_list(run, state, array, node.index)
            if views(filled):
                record(run, state, filled, (), "read", node)
            record(run, state, array, positions, "write", node, filled if not views(filled) else None)
        case If():
            _if(run, state, node)
        case For() | While():
            loops.loop(run, state, node, execute)
        case Inline():
            _inline(run, state, node)
        case Return(value=value):
            result = evaluate(run, state, value) if value is not None else Literal_(None)
            _leave_function(run, state, result)
        case Break():
            frame = _innermost_loop(run)
            leave = _leave(state, frame)
            frame.exits.append(leave.cond)
            frame.breaks.append(leave)
            state.live = FALSE
        case Continue():
            frame = _innermost_loop(run)
            frame.continues.append(_leave(state, frame))
            state.live = FALSE
        case Assert(cond=cond):
            _assert(run, state, node, truth_at(run, state, cond))
        case Barrier(scope=scope, mask=mask):
            lanes = as_int(evaluate(run, state, mask)) if mask is not None else None
            word = {"grid": "grid.sync", "block": "syncthreads", "warp": "syncwarp"}[scope]
            run.uses_warp_barrier |= scope == "warp"
            phases.cross(run, state, _SCOPES[scope], node, word, lanes)
        case Fence(scope=scope):
            run.uses_fence = True
            fenced(run, state, device=scope != "block")
            if scope != "block" and run.recording and run.only_tags is None and run.generic_loops == 0:
                tags = {level: dict(inner) for level, inner in state.tags.items()}
                run.fences.append(FencePoint(len(run.accesses), state.guard, tags))
        case AllocArray():
            state.env[node.name] = whole(_allocate(run, state, node))
        case Unread():
            _unread(run, state, node)
        case _:
            run.gap("a statement that is not read", node)


def _store(run: Run, state: State, node: Store) -> None:
    value = evaluate(run, state, node.value)
    target = evaluate(run, state, node.array)
    positions = position_list(run, state, target, node.index)
    kept = value if not views(value) else None
    silent = isinstance(node.value, Load) and node.update
    access = record(run, state, target, positions, "write", node, kept, node.field, node.update or silent)
    if len(views(target)) == 1 and node.field is None:
        told.note(run, state, access, value)


def _if(run: Run, state: State, node: If) -> None:
    cond = truth_at(run, state, node.cond)
    if cond is TRUE or cond is FALSE:
        execute(run, state, node.then if cond is TRUE else node.other)
        return
    first, second = state.fork(), state.fork()
    first.path = (*state.path, cond)
    second.path = (*state.path, neg(cond))
    first.locks |= taken(run, cond)
    second.locks |= taken(run, neg(cond))
    execute(run, first, node.then)
    execute(run, second, node.other)
    state.become(joined(run, cond, first, second))


def joined(run: Run, cond: Term, first: State, second: State) -> State:
    """The state after a branch; a side that cannot continue leaves no trace but in `live`."""
    if first.dead != second.dead:
        kept, side = (second, neg(cond)) if first.dead else (first, cond)
        kept.live = conj(side, kept.live)
        told.gone(kept, first if first.dead else second)
        return kept
    result = first.fork()
    names = {**first.env, **second.env}
    merged = {name: merge(cond, first.env.get(name), second.env.get(name)) for name in names}
    result.env = {name: value for name, value in merged.items() if value is not None}
    if first.live is not second.live:
        result.live = _choose(cond, first.live, second.live)
    result.tags = phases.merged(cond, first.tags, second.tags)
    result.dirty = first.dirty | second.dirty
    result.locks, result.sealed = first.locks & second.locks, min(first.sealed, second.sealed)
    told.joined(result, first, second)
    if first.version != second.version:
        result.version = run.new_version()
    return result


def _choose(cond: Term, first: Term, second: Term) -> Term:
    from_first, from_second = conj(cond, first), conj(neg(cond), second)
    return neg(conj(neg(from_first), neg(from_second)))


def _innermost_loop(run: Run) -> Frame:
    return next(frame for frame in reversed(run.frames) if frame.loop)


def _leave(state: State, frame: Frame) -> Leave:
    cond = conj(*state.path[frame.depth :], state.live)
    return Leave(cond, dict(state.env), state.tags, state.locks, state.sealed, state.dirty, state.version)


def _leave_function(run: Run, state: State, result: Value) -> None:
    """A `return`: it ends every loop up to the function it leaves."""
    for frame in reversed(run.frames):
        leave = _leave(state, frame)
        if not frame.loop:
            leave.env["return value"] = result
            frame.returns.append(leave)
            break
        frame.exits.append(leave.cond)
    state.live = FALSE


def _assert(run: Run, state: State, node: Node, cond: Term) -> None:
    """A failing assert ends the thread: silently, when the kernel is not compiled in debug mode."""
    failing = state.fork()
    failing.path = (*state.path, neg(cond))
    if failing.guard is FALSE:
        return
    if run.recording:
        run.ends.append((failing.guard, node))
    for frame in run.frames:
        frame.asserts = True
        if frame.loop:
            frame.exits.append(conj(*failing.path[frame.depth :], failing.live))
    state.live = conj(state.live, cond)


def _inline(run: Run, state: State, node: Inline) -> None:
    frame = Frame(len(state.path), False)
    live, path = state.live, state.path
    run.frames.append(frame)
    execute(run, state, node.body)
    run.frames.pop()
    result: Value | None = None if state.dead else Literal_(None)
    tags = None if state.dead else state.tags
    fell = state.live
    for leave in reversed(frame.returns):
        value = leave.env["return value"]
        result = value if result is None or isinstance(result, Literal_) else merge(leave.cond, value, result)
        tags = leave.tags if tags is None else phases.merged(leave.cond, leave.tags, tags)
    state.path = path
    if tags is not None:
        state.tags = tags
    if frame.returns:
        gather(run, state, frame.returns, fell=fell is not FALSE)
        told.forget_all(state)
        # Whoever returned goes on after the call; whoever an assert ended inside does not.
        returned = [neg(leave.cond) for leave in frame.returns]
        state.live = conj(live, neg(conj(neg(fell), *returned))) if frame.asserts else live
    if node.result is not None:
        state.env[node.result] = result if result is not None else Unknown("a helper that returns nothing")


def _allocate(run: Run, state: State, node: AllocArray) -> Array:
    known = run.arrays.get(node.name)
    if known is not None:
        return known
    if node.dynamic:
        return run.dynamic_array(node)
    parts: list[Value] = []
    for part in node.shape:
        value = evaluate(run, state, part)
        parts.extend(value.items if isinstance(value, Items) else (value,))
    extents: list[Term] = []
    for value in parts or [Unknown("no shape") for _ in range(run.usage.local_rank(node.name))]:
        extent = as_int(value)
        if extent is None or value_of(extent) is None:
            extent = run.symbols.fresh(f"{node.name}.size", Level.GRID, Taint.HAVOC, 1)
        extents.append(extent)
    array = Array(node.name, node.space, tuple(extents), node.dtype)
    array.written = node.name in run.usage.written
    array.whole_numbers = node.name in run.usage.whole_numbers
    array.node = node
    run.arrays[node.name] = array
    return array


def _unread(run: Run, state: State, node: Unread) -> None:
    touched: set[Array] = set()
    for element in node.elements:
        if views(evaluate(run, state, element)):
            run.gap(node.reason, node, *_MEMORY)
        if isinstance(element, Load) and element.field is None:
            # An element of an array of records is handed over by reference.
            found = views(evaluate(run, state, element.array))
            touched |= {view.array for _, view in found if view.array.dtype is None}
    if node.touches is None:
        touched = set(run.arrays.values())
    else:
        if any(name in run.usage.unseen for name in node.touches):
            run.gap(node.reason, node, *_MEMORY)
        for name in node.touches:
            value = state.env.get(name)
            touched |= {view.array for _, view in views(value)} if value is not None else set()
    state.dirty = state.dirty | touched
    state.wrote = state.wrote | touched
    told.forget_all(state)
    if node.touches is None:
        run.gap(node.reason, node, *_MEMORY)
    for array in sorted(touched, key=lambda a: a.name):
        run.gap(node.reason, node, *_MEMORY, array=array)
    if node.barrier:
        run.gap(node.reason, node, Property.BARRIERS_UNIFORM)
