"""Loops of the walk.

A loop is walked for one generic round k. If its body holds a barrier, k is shared by the threads that meet there, and
the round's last barrier interval is also paired with the first of round k + 1: that body is walked a second time,
noting only accesses that are still in an interval left open by the first. A loop without barriers gives every thread a
counter of its own. Values carried round the loop get closed forms where there are some (`loop_forms.py`); loops with
barriers and constant control are unrolled instead, which is exact (`unroll.py`).

Invariant: the state after the loop covers every number of rounds, zero included, and every way out.

Worked example: in `for d in range(n): s[t] = v; sync; v = s[t + 1]; sync` the intervals are [start or wrap .. first
sync], [first sync .. second], and the second one is open when round d + 1 begins, so its read meets the next write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tilecheck.ir.kernel import Break, For, Node, Return, While, walk
from tilecheck.ir.simt import Atomic
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import closure, give_fact
from tilecheck.symbolic.smt_terms import (
    ONE,
    TRUE,
    ZERO,
    add,
    conj,
    disj,
    div,
    eq,
    ge,
    gt,
    implies,
    ite,
    lt,
    mul,
    neg,
    num,
    product,
    rebuild,
    sub,
    substitute,
    value_of,
)
from tilecheck.verify import loop_forms, phases, told
from tilecheck.verify.expressions import evaluate, truth_at
from tilecheck.verify.loop_exit import leave_loop
from tilecheck.verify.memory import written_arrays
from tilecheck.verify.overflow import observe
from tilecheck.verify.run import Frame, Run, State
from tilecheck.verify.scalars import integer, truth_of
from tilecheck.verify.unroll import rejoin, unrolled
from tilecheck.verify.values import Scalar, Value

Execute = Callable[[Run, State, Sequence[Node]], None]


@dataclass
class Loop:
    """One loop being walked: what it is, what it carries, what is known of that."""

    node: For | While
    execute: Execute
    scope: Level | None
    level: Level
    before: State
    start: Term = ZERO
    stop: Term = ZERO
    step: Term = ONE
    carried: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    may_exit: bool = False
    may_return: bool = False
    alive_level: Level = Level.GRID
    alive_taint: Taint = Taint.NONE
    forms: dict[str, loop_forms.Form] = field(default_factory=dict)
    arrays: loop_forms.Rotation | None = None
    facts: loop_forms.Facts = field(default_factory=loop_forms.Facts)

    @property
    def counted(self) -> bool:
        return isinstance(self.node, For)

    def trips(self) -> Term:
        """How often a counted loop runs when nothing leaves it early."""
        step = value_of(self.step)
        if step is not None and step < 0:
            count = div(add(sub(self.start, self.stop), num(-step - 1)), num(-step))
        else:
            count = div(add(sub(self.stop, self.start), sub(self.step, ONE)), self.step)
        if count.low is not None and count.low >= 0:
            return count
        return ite(ge(count, ZERO), count, ZERO)

    def continues_at(self, position: Term) -> Term:
        """Whether a counted loop runs its body with the counter at `position`."""
        step = self.step
        if step.low is not None and step.low >= 1:
            return lt(position, self.stop)
        if step.high is not None and step.high <= -1:
            return gt(position, self.stop)
        return disj(conj(ge(step, ONE), lt(position, self.stop)), conj(lt(step, ZERO), gt(position, self.stop)))


@dataclass
class Round:
    """One walk of the body: the state after it, the values at its head, and its counter."""

    after: State
    heads: dict[str, Value]
    counter: Term
    position: Term
    cond: Term
    frame: Frame
    wrap: str
    mark: int
    alive: Term | None


def loop(run: Run, state: State, node: For | While, execute: Execute) -> None:
    """Walk a loop, changing `state` into what follows it."""
    scope = run.usage.barrier(node.body)
    bounds = _bounds(run, state, node)
    if (scope is not None or run.usage.meets_in_warps(node)) and unrolled(run, state, node, bounds, execute):
        return
    this = _describe(run, state, node, bounds, scope, execute)
    if this.carried or this.may_exit:
        loop_forms.find(run, this, walk_round)
        if loop_forms.any_free(this) and unrolled(run, state, node, bounds, execute):
            return
    first = walk_round(run, this, record=True)
    for name in loop_forms.free(this):
        if (value := first.after.env.get(name)) is not None:
            observe(run, first.after, node, value)
    follows = _continues(run, this, first)
    if scope is not None:
        _next_round(run, this, first, follows)
    leave_loop(run, this, state, first, follows)


def _bounds(run: Run, state: State, node: For | While) -> tuple[Term, Term, Term]:
    if isinstance(node, While):
        return ZERO, ZERO, ONE
    values = [evaluate(run, state, part) for part in (node.start, node.stop, node.step)]
    observe(run, state, node, *values)
    start, stop, step = (integer(run.symbols, value) for value in values)
    return start, stop, step


def _describe(
    run: Run, state: State, node: For | While, bounds: tuple[Term, Term, Term], scope: Level | None, execute: Execute
) -> Loop:
    assigned = run.usage.assigned(node)
    targets = {node.target} if isinstance(node, For) else set()
    level = scope if scope is not None else Level.THREAD
    this = Loop(node, execute, scope, level, state.fork(), *bounds)
    this.assigned = tuple(name for name in assigned if name not in targets)
    this.carried = tuple(name for name in this.assigned if state.env.get(name) is not None)
    this.may_exit = run.usage.leaves(node, Break) or run.usage.leaves(node, Return)
    this.may_return = run.usage.leaves(node, Return)
    this.alive_level = level
    for name in this.carried:
        this.forms[name] = loop_forms.Form.start(state.env[name], level)
    return this


def walk_round(run: Run, this: Loop, record: bool) -> Round:
    """Walk head and body once, for a generic round."""
    recording = run.recording
    run.recording = recording and record
    head = this.before.fork()
    mark = run.symbols.count
    counter = _counter(run, this)
    position = add(this.start, mul(counter, this.step))
    heads = loop_forms.at_head(run, this, counter)
    head.env.update(heads)
    for name in this.assigned:
        if name not in heads:
            head.env.pop(name, None)
    written = written_arrays(run, this.node)
    head.dirty = head.dirty | written
    for array in written:
        told.forget(head, array)
    if any(isinstance(inner, Atomic) for inner in walk(*this.node.body)):
        head.locks = frozenset()
    wrap = run.new_tag("round ")
    noted = len(run.observations)
    if this.scope is not None:
        first = eq(counter, ZERO)
        fresh = {s: {wrap: TRUE} for s in phases.SCOPES}
        head.tags = phases.joined(phases.under(head.tags, first, this.scope), fresh, this.scope)
        if this.scope <= Level.BLOCK:
            head.version = run.new_version()
    depth = len(head.path)
    entered: tuple[Term, ...] = (this.continues_at(position),) if this.counted else ()
    alive = None
    if this.may_exit:
        alive = run.symbols.fresh("alive", this.alive_level, this.alive_taint, boolean=True)
        give_fact(alive, implies(eq(counter, ZERO), alive))
        entered = (*entered, alive)
    head.path = (*head.path, *entered)
    frame = Frame(depth, True)
    cond = TRUE
    if isinstance(this.node, While):
        cond = truth_at(run, head, this.node.cond)
        head.path = (*head.path, cond)
        if this.scope is None and any(s.taint is Taint.DATA for s in closure([cond])):
            assert counter.symbol is not None
            counter.symbol.taint = Taint.DATA
    else:
        cond = entered[0]
        head.env[this.node.target] = Scalar(position)
    _walk_body(run, this, head, frame)
    went_on = [cond, *(neg(substitute(e, {alive: TRUE}) if alive is not None else e) for e in frame.exits)]
    _after_a_round(run, counter, went_on, mark, noted)
    head.path = (*this.before.path, *entered, *((cond,) if not this.counted else ()))
    if frame.exits:
        head.path = (*head.path, neg(disj(*frame.exits)))
    head.live = this.before.live
    run.recording = recording
    return Round(head, heads, counter, position, cond, frame, wrap, mark, alive)


def _after_a_round(run: Run, counter: Term, went_on: Sequence[Term], mark: int, noted: int) -> None:
    """What is observed in a round from the second on, is so because the one before went on: its condition held, and it
    left no way out.
    """
    held = [t for t in went_on if {s for s in t.symbols if s.order > mark} <= {counter.symbol}]
    if held and len(run.observations) > noted:
        again = disj(eq(counter, ZERO), conj(*(one_earlier(t, counter) for t in held)))
        run.observations[noted:] = [replace(o, guard=conj(o.guard, again)) for o in run.observations[noted:]]


def one_earlier(term: Term, counter: Term) -> Term:
    """`term` a round earlier, products with the counter written as differences: `(k - 1) * s` is `k * s - s`."""
    if counter.symbol not in term.symbols:
        return term
    if term is counter:
        return sub(counter, ONE)
    if term.kind == "mul" and term.parts.count(counter) == 1:
        rest = product(part for part in term.parts if part is not counter)
        if counter.symbol not in rest.symbols:
            return sub(term, rest)
    return rebuild(term, tuple(one_earlier(part, counter) for part in term.parts))


def _walk_body(run: Run, this: Loop, head: State, frame: Frame) -> None:
    run.frames.append(frame)
    run.generic_loops += 1
    run.barrier_loops += this.scope is not None and this.scope <= Level.BLOCK
    path = head.path
    this.execute(run, head, this.node.body)
    head.path = path
    run.generic_loops -= 1
    run.barrier_loops -= this.scope is not None and this.scope <= Level.BLOCK
    run.frames.pop()
    rejoin(run, head, frame.continues)


def _counter(run: Run, this: Loop) -> Term:
    high = None
    if this.counted:
        span = sub(this.stop, this.start)
        step = value_of(this.step)
        if step is not None and step > 0 and span.high is not None:
            high = max(0, (span.high + step - 1) // step - 1)
        elif step is not None and step < 0 and span.low is not None:
            high = max(0, (-span.low - step - 1) // -step - 1)
    counter = run.symbols.fresh("round", this.level, Taint.NONE, 0, high)
    if this.scope is None and counter.symbol is not None and run.usage.meets_in_warps(this.node):
        run.warp_counters.add(counter.symbol)
    return counter


def _continues(run: Run, this: Loop, round_: Round) -> Term:
    """Whether another round follows `round_`."""
    if this.counted:
        return this.continues_at(add(round_.position, this.step))
    recording, run.recording = run.recording, False
    assert isinstance(this.node, While)
    cond = truth_of(run.symbols, evaluate(run, round_.after.fork(), this.node.cond))
    run.recording = recording
    return cond


def _next_round(run: Run, this: Loop, round_: Round, follows: Term) -> None:
    """Pair the open interval at the end of a round with the beginning of the next."""
    after = round_.after
    assert this.scope is not None
    open_tags = {tag for s in phases.SCOPES if s >= this.scope for tag in after.tags[s]}
    before = {tag for s in phases.SCOPES if s >= this.scope for tag in this.before.tags[s]}
    if round_.wrap in open_tags or before & open_tags:
        run.gap("a round of this loop may pass without its barrier", this.node, *loop_forms.RACES)
    if not run.recording:
        return
    head = after.fork()
    head.path = (*after.path, follows)
    if this.may_exit:
        head.path = (*head.path, run.symbols.fresh("alive", this.alive_level, Taint.HAVOC, boolean=True))
    for name in this.assigned:
        if name not in this.carried:
            head.env.pop(name, None)
    outer = run.only_tags
    run.only_tags = frozenset(open_tags) if outer is None else (frozenset(open_tags) & outer or frozenset(open_tags))
    if isinstance(this.node, While):
        evaluate(run, head, this.node.cond)
    else:
        head.env[this.node.target] = Scalar(add(round_.position, this.step))
    _walk_body(run, this, head, Frame(len(after.path), True))
    run.only_tags = outer
