"""Every path through a function, and what breaks on it.

The solver runs the flow IR forward over *sets* of states (`facts.py`), one state per distinguishable past, so its answer
is that of enumerating paths: a finding is reported iff some path through the function, loops taken any number of times,
shows it. Loops end at a fixpoint, because states are finite: objects are their sites, two ages each.
Before paths meet, a state forgets what no later read can reach, so that pasts that differ only in the dead are one.

Worked example: after `if c: op = f(z.partition(4))` / `else: op = f(w.partition(4))` there are two states; `op.sync()`
frees `z` in one and `w` in the other, and a read of `z` after it breaks on no path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tilecheck.borrow.effects import Effects
from tilecheck.borrow.facts import Obj, State
from tilecheck.borrow.findings import Broken
from tilecheck.borrow.liveness import NAMES, WAYS, Liveness, Way, asked, liveness
from tilecheck.borrow.loans import LASTING, WORKING, inside, lineage
from tilecheck.borrow.narrowing import possible
from tilecheck.borrow.relevance import relevant
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir.flow import Block, Flow
from tilecheck.ir.instructions import Instr, Kind, Site, Var

MOST_STATES = 64
"""How many pasts are told apart at one point."""

MOST_STEPS = 20_000
"""How many instructions are applied to states before a function is given up; a second or so."""

Cases = dict[object, State]
"""States by their key."""


@dataclass(slots=True)
class Ways:
    """The states with which a block is left, by the way out."""

    on: Cases = field(default_factory=dict)
    broken: Cases = field(default_factory=dict)
    continued: Cases = field(default_factory=dict)
    returned: Cases = field(default_factory=dict)
    raised: Cases = field(default_factory=dict)

    def jump(self, kind: Way) -> Cases:
        ways = {"break": self.broken, "continue": self.continued, "return": self.returned, "raise": self.raised}
        return ways[kind]


@dataclass(frozen=True, slots=True)
class Solution:
    """What broke, in the order of the source, and the ops that were built, by their sites: those that no path ever ran,
    and the others.

    `left_out` says why some paths were not followed, None if all were. Then no op counts as dropped: one of those paths
    may run it.
    """

    broken: tuple[Broken, ...]
    dropped: tuple[Site, ...] = ()
    ran: tuple[Site, ...] = ()
    left_out: str | None = None


def solve(function: Flow, out: Callable[[], dict[Var, Span]] = dict) -> Solution:
    """Run every path through `function`; the variables of `out` are read after it. It is asked only if paths are run."""
    cut = relevant(function)
    return run_paths(cut, out() or None) if cut is not None else Solution(())


def run_paths(function: Flow, out: dict[Var, Span] | None = None) -> Solution:
    """`solve`, with nothing left out."""
    run = _Run(liveness(function.body, out), Effects(function))
    effects = run.effects
    try:
        ways = run.block(function.body, {None: State()}, guarded=False)
    except _TooLong:
        return _unfinished(effects, f"they take more than {MOST_STEPS:,} steps")
    if run.crowded:
        return _unfinished(effects, f"its branches combine in more than {MOST_STATES} ways")
    for state in (*ways.on.values(), *ways.returned.values()):
        for var in (out or {}).keys() & state.names.keys():
            effects.used.update(obj[0] for obj in inside(state, state.names[var]))
    dropped = tuple(site for site in effects.built if site not in effects.used)
    return Solution(_in_order(effects), dropped, tuple(site for site in effects.built if site in effects.used))


def _unfinished(effects: Effects, why: str) -> Solution:
    return Solution(_in_order(effects), (), tuple(effects.built), why)


def _in_order(effects: Effects) -> tuple[Broken, ...]:
    """What broke; of one place in one line, the first."""
    found: dict[object, Broken] = {}
    for broken in sorted(effects.broken.values(), key=lambda broken: (broken.span, broken.kind.value)):
        found.setdefault((broken.kind, broken.span.line, broken.place, broken.origin), broken)
    return tuple(found.values())


class _TooLong(Exception):
    """The function takes more steps than are spent on one."""


@dataclass
class _Run:
    """`heads` are the states with which a loop was entered, and those that began a further round of it.

    A loop inside of another is met again in each round of that. What began a round of it before has been followed, and
    what came of it is in the states of the outer loop already: only new states are followed, so that a loop costs as
    many rounds as it has states, however deep it is.
    """

    live: Liveness
    effects: Effects
    heads: dict[tuple[int, int], tuple[Cases, Cases]] = field(default_factory=dict)
    steps: int = 0
    crowded: bool = False

    def merge(self, into: Cases, states: Iterable[State]) -> list[State]:
        """Add the states that are new, up to the limit; the ones that were added."""
        added: list[State] = []
        for state in states:
            key = state.key()
            if key in into:
                continue
            if len(into) >= MOST_STATES:
                self.crowded = True
                break
            into[key] = state
            added.append(state)
        return added

    def add_jumps(self, into: Ways, part: Ways) -> None:
        """Add all ways out of `part` except the one that falls through."""
        for way in WAYS[1:]:
            self.merge(into.jump(way), part.jump(way).values())

    def block(self, body: Block, states: Cases, guarded: bool) -> Ways:
        """Run `body`; with `guarded`, also collect the states in which something in it may raise."""
        ways = Ways(on=dict(states))
        for instr in body:
            if not ways.on:
                break
            raises = flow.raises(instr) if guarded else None
            if raises == "before":
                self.merge(ways.raised, _copies(ways.on).values())
            ways.on = self.step(instr, ways, guarded)
            if raises == "after":
                self.merge(ways.raised, _copies(ways.on).values())
        return ways

    def step(self, instr: Instr, ways: Ways, guarded: bool) -> Cases:
        """The states after `instr`; jumps go into `ways`."""
        match instr:
            case flow.Exit(kind=kind):
                self.merge(ways.jump(kind), ways.on.values())
                return {}
            case flow.Branch(arms=arms):
                after: Cases = {}
                for arm in arms:
                    part = self.block(arm, _copies(ways.on), guarded)
                    self.add_jumps(ways, part)
                    self.merge(after, part.on.values())
                return self.tidy(after, instr)
            case flow.Loop():
                return self.tidy(self.loop(instr, ways, guarded), instr)
            case flow.Guard():
                return self.tidy(self.guard(instr, ways, guarded), instr)
            case instructions.Assume(src=src, what=what):
                named = self.effects.named
                return {
                    k: state for k, state in ways.on.items() if possible(state, named(state, src, instr.span), what)
                }
            case instructions.Decide(key=key, holds=holds):
                asked_again = asked(key) in self.live.after.get(id(instr), {})
                return {k: state for k, state in ways.on.items() if _agrees(state, key, holds, asked_again)}
            case instructions.Forget(key=key):
                for state in ways.on.values():
                    state.decided.pop(key, None)
                return ways.on
            case _:
                live = self.live.after.get(id(instr), {})
                self.steps += len(ways.on)
                if self.steps > MOST_STEPS:
                    raise _TooLong
                for state in ways.on.values():
                    self.effects.apply(instr, state, live)
                return ways.on

    def loop(self, loop: flow.Loop, ways: Ways, guarded: bool) -> Cases:
        entered, seen = self.heads.setdefault((id(loop), id(self.live)), ({}, {}))
        left: Cases = {}
        broken: Cases = {}
        head = self.live.head.get(id(loop), {})
        first = loop.once
        fresh = self.merge(entered if first else seen, _tidy(ways.on, head).values())
        while fresh:
            tested = self.block(loop.test, {state.key(): state.copy() for state in fresh}, guarded)
            self.add_jumps(ways, tested)
            if not loop.endless and not first:
                self.merge(left, (state.copy() for state in tested.on.values()))
            body = self.block(loop.body, tested.on, guarded)
            self.merge(ways.returned, body.returned.values())
            self.merge(ways.raised, body.raised.values())
            self.merge(broken, body.broken.values())
            ends: Cases = {}
            self.merge(ends, (*body.on.values(), *body.continued.values()))
            fresh = self.merge(seen, _tidy(ends, head).values())
            first = False
        after = self.block(loop.orelse, left, guarded)
        self.add_jumps(ways, after)
        self.merge(after.on, broken.values())
        return after.on

    def guard(self, guard: flow.Guard, ways: Ways, guarded: bool) -> Cases:
        begun = {} if flow.may_raise(guard.body) else _copies(ways.on)
        body = self.block(guard.body, ways.on, guarded=True)
        inner = Ways()
        self.add_jumps(inner, body)
        raised, inner.raised = inner.raised, {}
        for handler in guard.handlers:
            handled = self.block(handler, _copies({**raised, **begun}), guarded or bool(guard.final))
            self.add_jumps(inner, handled)
            self.merge(inner.on, handled.on.values())
        self.merge(inner.raised, raised.values())
        rest = self.block(guard.orelse, body.on, guarded or bool(guard.final))
        self.add_jumps(inner, rest)
        self.merge(inner.on, rest.on.values())
        after = self.final(guard, "on", inner.on, guarded)
        for way in WAYS[1:]:
            final = self.final(guard, way, inner.jump(way), guarded)
            self.add_jumps(ways, final)
            self.merge(ways.jump(way), final.on.values())
        self.add_jumps(ways, after)
        return after.on

    def final(self, guard: flow.Guard, way: Way, states: Cases, guarded: bool) -> Ways:
        """Run `final` for the states that reach it by `way`."""
        outer, self.live = self.live, self.live.finals[id(guard), way]
        after = self.block(guard.final, states, guarded)
        self.live = outer
        return after

    def tidy(self, states: Cases, control: Instr) -> Cases:
        """The states after a control node, without what nothing later can reach."""
        return _tidy(states, self.live.after.get(id(control), {})) if len(states) > 1 else states


def _tidy(states: Cases, live: dict[Var, Span]) -> Cases:
    tidied: Cases = {}
    for state in states.values():
        _forget(state, live)
        tidied.setdefault(state.key(), state)
    return tidied


def _copies(states: Cases) -> Cases:
    return {key: state.copy() for key, state in states.items()}


def _agrees(state: State, key: str, holds: bool, asked_again: bool) -> bool:
    """Whether the condition `key` can hold, or not; if so, it is kept in mind as long as it is asked again."""
    before = state.decided.pop(key, holds)
    if asked_again:
        state.decided[key] = holds
    return before is holds


def _forget(state: State, live: dict[Var, Span]) -> None:
    """Drop the names that are not live, and the objects that nothing leads to any more.

    Names count whether they are read again or not where something may be moved later, and while what they lead to
    counts by being there: the owner of a raw view, a graph, another library's array on our memory,
    an op that runs.
    """
    state.decided = {key: holds for key, holds in state.decided.items() if asked(key) in live}
    if NAMES not in live:
        there = {obj for child in state.parent if child[0].kind is Kind.RAW for obj in lineage(state, child)}
        there.update(op for op, phase in state.phase.items() if phase in (*LASTING, *WORKING))
        state.names = {
            var: obj
            for var, obj in state.names.items()
            if var in live or (there and any(not there.isdisjoint(lineage(state, at)) for at in inside(state, obj)))
        }
    else:
        state.names = {var: obj for var, obj in state.names.items() if var in live or var[0] != "%"}
    running = (op for op, phase in state.phase.items() if phase in WORKING)
    roots: list[Obj] = [*state.names.values(), *state.pending, *running]
    wanted: set[Obj] = set()
    for root in roots:
        for obj in inside(state, root):
            wanted.update(lineage(state, obj))
    for job in state.pending:
        wanted.update(stream for stream in (state.pending[job],) if stream is not None)
    state.keep(lambda obj: obj in wanted)
