"""Which variables are read later, at each instruction that asks: one backward pass over a structured block.

A variable is live at a point if some path from there reads it before it names something else; with it goes the place of
a next read, which a message calls "used again here". Reading a variable means any use of its object by an instruction;
`Unbind` is none. What in the body of a `Guard` may raise leads on to what handlers and `final` read.

A move asks whether a name still leads to what it gives away, be it read again or not, and so does a raw view of its
owner: before such an instruction, the pseudo-variable `NAMES` is live.

Worked example: in `v = t[0:4]; A; v.numpy(); B; v = None; v.numpy()`, `v` is live at A and dead at B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir.flow import Block
from tilecheck.ir.instructions import Instr, Kind, Var

Way = Literal["on", "return", "raise", "break", "continue"]
WAYS: tuple[Way, ...] = ("on", "return", "raise", "break", "continue")

NAMES: Var = "%names"


def _asks_names(instr: Instr) -> bool:
    return isinstance(instr, instructions.Move) or (
        isinstance(instr, instructions.Borrow) and instr.site.kind is Kind.RAW
    )


def asked(key: str) -> Var:
    """The pseudo-variable that is live while the condition `key` is decided again before it is forgotten."""
    return f"?{key}"


def reads(instr: Instr) -> Iterator[Var]:
    """The variables that `instr` reads."""
    match instr:
        case (
            instructions.Bind(src=src)
            | instructions.Escape(src=src)
            | instructions.Borrow(src=src)
            | instructions.Move(src=src)
        ):
            yield src
        case instructions.Access(src=src) | instructions.Keep(src=src):
            yield src
        case instructions.Start(src=src, stream=stream) | instructions.Finish(src=src, stream=stream):
            yield src
            if stream is not None:
                yield stream
        case instructions.Put(base=base, src=src):
            yield from (base, src)
        case instructions.Get(base=base):
            yield base
        case instructions.Build(uses=uses) | instructions.Lend(uses=uses):
            yield from (use.src for use in uses)
        case instructions.Combine(srcs=srcs):
            yield from srcs
        case instructions.Capture(graph=graph, src=src):
            yield from (graph, src)
        case instructions.Seal(graph=graph) | instructions.Replay(graph=graph):
            yield graph
        case instructions.Enqueue(stream=stream, uses=uses):
            yield from (use.src for use in uses)
            if stream is not None:
                yield stream
        case instructions.SyncStream(stream=stream) if stream is not None:
            yield stream
        case instructions.Record(event=event, stream=stream) | instructions.WaitEvent(stream=stream, event=event):
            yield event
            if stream is not None:
                yield stream
        case instructions.WaitStream(stream=stream, other=other):
            yield from (var for var in (stream, other) if var is not None)
        case instructions.SyncEvent(event=event):
            yield event
        case instructions.Leave(value=value) if value is not None:
            yield value
        case instructions.Decide(key=key):
            yield asked(key)
        case _:
            return


def binds(instr: Instr) -> Var | None:
    """The variable that `instr` binds anew, if any."""
    match instr:
        case (
            instructions.Make(into=into)
            | instructions.Bind(into=into)
            | instructions.Get(into=into)
            | instructions.Borrow(into=into)
        ):
            return into
        case (
            instructions.Build(into=into)
            | instructions.Combine(into=into)
            | instructions.Start(into=into)
            | instructions.Lend(into=into)
        ):
            return into
        case instructions.Replay(into=into):
            return into
        case instructions.Unbind(var=var):
            return var
        case instructions.Forget(key=key):
            return asked(key)
        case _:
            return None


@dataclass
class Liveness:
    """`after[id(instr)]` are the variables that are read after `instr`; for a control node, after it is left.

    `head[id(loop)]` are those that are read after the start of a round, `finals[id(guard), way]` the liveness of a
    guard's `final` when it is reached by that way.
    """

    after: dict[int, dict[Var, Span]] = field(default_factory=dict)
    head: dict[int, dict[Var, Span]] = field(default_factory=dict)
    finals: dict[tuple[int, Way], Liveness] = field(default_factory=dict)

    def block(self, body: Block, out: dict[Var, Span], jumps: Jumps) -> dict[Var, Span]:
        """The variables live before `body` if `out` are live after it."""
        live = dict(out)
        for instr in reversed(body):
            raises = flow.raises(instr)
            if raises == "after":
                live = {**jumps.raised, **live}
            live = self._before(instr, live, jumps)
            if raises == "before":
                live = {**jumps.raised, **live}
        return live

    def _before(self, instr: Instr, out: dict[Var, Span], jumps: Jumps) -> dict[Var, Span]:
        match instr:
            case flow.Branch(arms=arms):
                self.after[id(instr)] = out
                return _union(self.block(arm, out, jumps) for arm in arms)
            case flow.Loop():
                self.after[id(instr)] = out
                return self._loop(instr, out, jumps)
            case flow.Guard():
                self.after[id(instr)] = out
                return self._guard(instr, out, jumps)
            case flow.Exit(kind=kind):
                return dict(jumps.target(kind))
            case _:
                live = dict(out)
                bound = binds(instr)
                if bound is not None:
                    live.pop(bound, None)
                self.after[id(instr)] = dict(live)
                for var in reads(instr):
                    live[var] = instr.span
                if _asks_names(instr):
                    live[NAMES] = instr.span
                return live

    def _loop(self, loop: flow.Loop, out: dict[Var, Span], jumps: Jumps) -> dict[Var, Span]:
        left = out if loop.endless else self.block(loop.orelse, out, jumps)
        # Within an outer loop, this one is read again for what its rounds found out: it goes on from there.
        head = self.head.get(id(loop), {})
        while True:
            inner = Jumps(jumps.raised, jumps.returned, out, head)
            body = self.block(loop.body, head, inner)
            before = self.block(loop.test, body if loop.endless else _union((left, body)), inner)
            self.head[id(loop)] = before
            if before.keys() <= head.keys():
                # The first round cannot be skipped, so what is read behind the loop alone is not live before it.
                return body if loop.once else before
            head = _union((head, before))

    def _guard(self, guard: flow.Guard, out: dict[Var, Span], jumps: Jumps) -> dict[Var, Span]:
        finals: dict[Way, dict[Var, Span]] = {}
        for way in WAYS:
            # What `final` leads to depends on how it was reached, so each way has snapshots of its own.
            part = self.finals.get((id(guard), way)) or Liveness()
            finals[way] = part.block(guard.final, out if way == "on" else jumps.target(way), jumps)
            self.finals[id(guard), way] = part
        inner = Jumps(finals["raise"], finals["return"], finals["break"], finals["continue"])
        handled = [self.block(handler, finals["on"], inner) for handler in guard.handlers]
        thrown = Jumps(_union((inner.raised, *handled)), inner.returned, inner.broken, inner.continued)
        body = self.block(guard.body, self.block(guard.orelse, finals["on"], inner), thrown)
        return body if flow.may_raise(guard.body) else _union((body, *handled))


@dataclass(frozen=True, slots=True)
class Jumps:
    """What is live where each kind of jump lands."""

    raised: dict[Var, Span] = field(default_factory=dict)
    returned: dict[Var, Span] = field(default_factory=dict)
    broken: dict[Var, Span] = field(default_factory=dict)
    continued: dict[Var, Span] = field(default_factory=dict)

    def target(self, way: Way) -> dict[Var, Span]:
        """What is live after an `Exit` of that kind."""
        targets = {"raise": self.raised, "return": self.returned, "break": self.broken, "continue": self.continued}
        return targets[way]


def _union(sets: Iterator[dict[Var, Span]] | tuple[dict[Var, Span], ...]) -> dict[Var, Span]:
    merged: dict[Var, Span] = {}
    for live in sets:
        for var, span in live.items():
            if var not in merged or span < merged[var]:
                merged[var] = span
    return merged


def liveness(body: Block, out: dict[Var, Span] | None = None) -> Liveness:
    """The liveness of a function's body; `out` are the variables that are read after it."""
    result = Liveness()
    result.block(body, dict(out or {}), Jumps())
    return result
