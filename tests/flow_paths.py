"""A second opinion on the flow IR: enumerate paths, run each one on plain Python objects, and look into its future.

Nothing here is shared with the solver but the instructions. Memory is a `Thing`; a handle knows the thing it was
borrowed from; an op is a thing with a list of what it holds. Liveness is read off the rest of the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilecheck.ir import flow, instructions
from tilecheck.ir.flow import Block
from tilecheck.ir.instructions import Hold, Instr, Kind, Touch

Path = tuple[Instr, ...]


def paths(block: Block, rounds: int, risky: bool = False) -> Iterator[tuple[Path, str | None]]:
    """Every path through `block` with its exit; loops run up to `rounds` times, risky code may stop at any point."""
    if not block:
        yield (), None
        return
    first, rest = block[0], block[1:]
    if risky and (raises := flow.raises(first)) is not None:
        yield ((first,) if raises == "after" else ()), "raise"
    for head, left in _one(first, rounds, risky):
        if left is not None:
            yield head, left
            continue
        for tail, end in paths(rest, rounds, risky):
            yield head + tail, end


def _one(instr: Instr, rounds: int, risky: bool) -> Iterator[tuple[Path, str | None]]:
    match instr:
        case flow.Exit(kind=kind):
            yield (), kind
        case flow.Branch(arms=arms):
            for arm in arms:
                yield from paths(arm, rounds, risky)
        case flow.Loop():
            yield from _loop(instr, rounds, rounds, risky)
        case flow.Guard():
            yield from _guard(instr, rounds, risky)
        case _:
            yield (instr,), None


def _loop(loop: flow.Loop, left: int, rounds: int, risky: bool) -> Iterator[tuple[Path, str | None]]:
    first = left == rounds
    if not loop.endless and not (loop.once and first):
        yield from paths(loop.test + loop.orelse, rounds, risky)
    if left == 0:
        return
    for head, end in paths(loop.test + loop.body, rounds, risky):
        if end == "break":
            yield head, None
        elif end in (None, "continue"):
            for tail, out in _loop(loop, left - 1, rounds, risky):
                yield head + tail, out
        else:
            yield head, end


def _guard(guard: flow.Guard, rounds: int, risky: bool) -> Iterator[tuple[Path, str | None]]:
    inner = risky or bool(guard.final)
    begun: list[tuple[Path, str | None]] = [] if flow.may_raise(guard.body) else [((), "begun")]
    for head, end in (*begun, *paths(guard.body, rounds, True)):
        middles: list[tuple[Path, str | None]] = []
        if end is None:
            middles += paths(guard.orelse, rounds, inner)
        elif end in ("raise", "begun"):
            middles += [((), "raise")] if end == "raise" else []
            for handler in guard.handlers:
                middles += paths(handler, rounds, inner)
        else:
            middles.append(((), end))
        for middle, out in middles:
            for tail, last in paths(guard.final, rounds, risky):
                yield head + middle + tail, last or out


@dataclass(eq=False)
class Thing:
    kind: Kind
    parent: Thing | None = None
    start: int = 0
    stop: int = 1 << 62
    slots: dict[str, Thing] = field(default_factory=dict)
    holds: list[tuple[Thing, Hold]] = field(default_factory=list)
    life: str = ""
    moved: bool = False
    spent: bool = False
    children: list[Thing] = field(default_factory=list)
    hold: Hold = Hold.SHARED
    stream: Thing | None = None
    after: set[Thing] = field(default_factory=set)
    """The ops that are over once this one is."""

    @property
    def root(self) -> Thing:
        return self if self.parent is None else self.parent.root

    def line(self) -> list[Thing]:
        return [self] if self.parent is None else [self, *self.parent.line()]

    def reach(self, seen: set[Thing] | None = None, waits: bool = True) -> set[Thing]:
        """What a use of this uses; `waits` says that waiting for an op counts as using what it holds."""
        seen = set() if seen is None else seen
        if self not in seen:
            seen.add(self)
            held = [thing for thing, _ in self.holds] if waits or self.life != "running" else []
            for thing in (*self.slots.values(), *held):
                thing.reach(seen, waits)
        return seen

    def meets(self, other: Thing) -> bool:
        return self.root is other.root and self.start < other.stop and other.start < self.stop

    def family(self) -> list[Thing]:
        return [self, *(thing for child in self.children for thing in child.family())]


def reads(instr: Instr) -> set[str]:
    match instr:
        case instructions.Build(uses=uses):
            return {use.src for use in uses}
        case instructions.Put(base=base, src=src):
            return {base, src}
        case instructions.Get(base=base):
            return {base}
        case (
            instructions.Make()
            | instructions.Unbind()
            | instructions.Assume()
            | instructions.Idle()
            | instructions.Decide()
            | instructions.Forget()
        ):
            return set()
        case instructions.Start(src=src, stream=stream) | instructions.Finish(src=src, stream=stream):
            return {src, *([stream] if stream is not None else [])}
        case instructions.SyncStream(stream=str() as stream):
            return {stream}
        case _:
            return {instr.src}  # type: ignore[attr-defined]


def writes(instr: Instr) -> str | None:
    return getattr(instr, "into", None) or getattr(instr, "var", None)


class Machine:
    """Runs one path and collects `(kind, line)` of what breaks on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, Thing] = {}
        self.ops: list[Thing] = []
        self.decided: dict[str, bool] = {}
        self.broken: set[tuple[str, int]] = set()
        for at, instr in enumerate(path):
            self.at = at
            if isinstance(instr, instructions.Assume) and not self.may_be(self.get(instr.src), instr.what):
                break
            if (
                isinstance(instr, instructions.Decide)
                and self.decided.setdefault(instr.key, instr.holds) is not instr.holds
            ):
                break
            self.step(instr)

    def report(self, kind: str) -> None:
        self.broken.add((kind, self.path[self.at].span.line))

    def get(self, var: str) -> Thing:
        return self.names.setdefault(var, Thing(Kind.OTHER))

    def later(self, thing: Thing, waits: bool = True) -> bool:
        """Whether a variable that leads to `thing` is read after this point, before it is bound anew."""
        bound = writes(self.path[self.at])
        for var, named in self.names.items():
            if var == bound or thing not in named.reach(waits=waits):
                continue
            for instr in self.path[self.at + 1 :]:
                if var in reads(instr):
                    return True
                if writes(instr) == var:
                    break
        return False

    def dead(self, thing: Thing) -> bool:
        if any(at.moved for at in thing.line()):
            self.report("MOVED")
            return True
        return False

    def held(self, thing: Thing) -> list[tuple[Thing, Hold]]:
        """The live ops that hold elements of `thing`."""
        return [
            (op, hold)
            for op in self.ops
            if op.life == "running" or (op.life == "built" and self.later(op))
            for held, hold in op.holds
            if held.meets(thing)
        ]

    def idle(self, thing: Thing) -> bool:
        taken = {held for op in self.ops if op.life == "built" for held, _ in op.holds}
        others = [t for t in thing.root.family() if t.parent is not None and t not in thing.line() and t not in taken]
        return any(other.meets(thing) and self.later(other, waits=False) for other in others)

    def step(self, instr: Instr) -> None:
        match instr:
            case instructions.Make(into=into, site=site):
                self.names[into] = Thing(site.kind)
            case instructions.Bind(into=into, src=src):
                self.names[into] = self.get(src)
            case instructions.Assume() | instructions.Decide():
                pass
            case instructions.Forget(key=key):
                self.decided.pop(key, None)
            case instructions.Unbind(var=var):
                self.names.pop(var, None)
            case instructions.Put(base=base, field=str() as name, src=src):
                self.get(base).slots[name] = self.get(src)
            case instructions.Get(into=into, base=base, field=name):
                self.names[into] = self.get(base).slots.setdefault(name, Thing(Kind.OTHER))
            case instructions.Borrow():
                self.borrow(instr)
            case instructions.Move(src=src):
                self.move(self.get(src))
            case instructions.Access(src=src, touch=touch):
                thing = self.get(src)
                if not self.dead(thing) and touch not in (Touch.LOOK, Touch.ASK):
                    for op, hold in self.held(thing):
                        if touch is Touch.WRITE or hold is Hold.EXCLUSIVE:
                            self.report("BUILT" if op.life == "built" else "RUNNING")
            case instructions.Build():
                self.build(instr)
            case instructions.Start(into=into, src=src, stream=stream):
                op = self.get(src)
                self.spend(op)
                on = self.get(stream) if stream is not None else None
                after = self.ahead(op, on) if op.life == "built" else set()
                running = Thing(Kind.RUNNING, holds=op.holds, life="running" if op.life == "built" else "")
                running.stream, running.after = on, after
                op.holds, op.life = [], ""
                self.ops.append(running)
                self.names[into] = running
            case instructions.Finish(src=src, stream=stream):
                self.spend(self.get(src))
                on = self.get(stream) if stream is not None else None
                ended = [thing for thing in self.get(src).reach() if thing.life]
                for thing in [*ended, *(t for op in ended for t in self.ahead(op, on) - self.named())]:
                    thing.life, thing.holds = "", []
            case instructions.SyncStream(stream=str() as stream):
                on = self.get(stream)
                for op in self.ops:
                    unsure = on.kind is not Kind.STREAM or (op.stream is not None and op.stream.kind is not Kind.STREAM)
                    if op.life == "running" and (op.stream is on or unsure):
                        for thing in (op, *(op.after - self.named())):
                            thing.life, thing.holds = "", []
            case _:
                raise AssertionError(instr)

    def may_be(self, thing: Thing, what: instructions.Shown) -> bool:
        """Whether the path goes on where a test has shown `thing` to be `what`."""
        there = thing.kind in (Kind.OP, Kind.RUNNING, Kind.STREAM)
        return thing.kind is not Kind.NONE if what in ("true", "not none") else not there

    def ahead(self, op: Thing, stream: Thing | None) -> set[Thing]:
        """The running ops that end before `op`."""
        if op.life == "running":
            return op.after
        found: set[Thing] = set()
        for other in self.ops:
            shares = any(
                mine.meets(their) and Hold.EXCLUSIVE in (hold, held)
                for mine, hold in op.holds
                for their, held in other.holds
            )
            if other.life == "running" and (shares or (stream is not None and other.stream is stream)):
                found |= {other, *other.after}
        return found

    def named(self) -> set[Thing]:
        return {found for start in self.names.values() for found in start.reach()}

    def spend(self, op: Thing) -> None:
        if op.spent:
            self.report("SPENT")
        op.spent = op.spent or (op.kind is Kind.OP and op.life == "built")

    def borrow(self, instr: instructions.Borrow) -> None:
        parent = self.get(instr.src)
        part = Thing(instr.site.kind, parent, parent.start, parent.stop, hold=instr.hold)
        for extent in instr.part:
            assert extent.start is not None and extent.stop is not None
            part.start, part.stop = parent.start + extent.start, min(parent.stop, parent.start + extent.stop)
        probe = Thing(Kind.OTHER, parent, part.start, part.stop)
        if not self.dead(parent) and instr.hold is Hold.EXCLUSIVE and instr.renews:
            if any(op.life == "built" for op, _ in self.held(probe)):
                self.report("HELD")
            taken = {held for op in self.ops if op.life == "built" for held, _ in op.holds}
            for other in parent.root.family():
                related = other.parent is None or other in parent.line() or other in taken
                if not related and other.meets(probe) and self.later(other, waits=False):
                    self.report("IDLE")
        parent.children.append(part)
        self.names[instr.into] = part

    def move(self, thing: Thing) -> None:
        if self.dead(thing):
            return
        ops = self.held(thing)
        if ops:
            self.report("MOVED_BUILT" if all(op.life == "built" for op, _ in ops) else "MOVED_HELD")
        if self.idle(thing) or self.viewed(thing):
            self.report("MOVED_IDLE")
        if self.owned(thing):
            self.report("MOVED_VIEW")
        for at in thing.line():
            at.moved = True

    def viewed(self, thing: Thing) -> bool:
        named = self.named()
        views = [t for t in thing.root.family() if t.kind is Kind.VIEW and t in named and t not in thing.line()]
        return any(view.meets(thing) for view in views)

    def owned(self, thing: Thing) -> bool:
        named = self.named()
        return any(owner in named for owner in thing.line()[1:])

    def build(self, instr: instructions.Build) -> None:
        things = [(self.get(use.src), use.hold) for use in instr.uses]
        for thing, hold in things:
            if not self.dead(thing):
                for op, held in self.held(thing):
                    if op.life == "built" and Hold.EXCLUSIVE in (hold, held):
                        self.broken.add(("HELD", instr.span.line))
                if hold is Hold.EXCLUSIVE and self.idle(thing):
                    self.report("IDLE")
        for at, (thing, hold) in enumerate(things):
            for other, held in things[:at]:
                if Hold.EXCLUSIVE in (hold, held) and thing.meets(other):
                    self.report("ONE_CALL")
        op = Thing(Kind.OP, holds=things, life="built")
        self.ops.append(op)
        self.names[instr.into] = op
