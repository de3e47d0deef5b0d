"""What holds at a point of a path: relations over objects, each with its sentence.

A `State` is what is known after one path through a function, as small relations in the manner of Polonius. The solver
keeps a *set* of states per point instead of joining them: facts of different paths never mix, so that "waited for on
every path" needs no cleverness. Objects are `(site, age)`: age 0 is the newest object of its site, 1 the one before;
older ones are forgotten, which can only lose findings. Two states with the same facts are one.

Worked example. After `p = z.partition(128)`:

    names    z -> T0, p -> P0        # `z` names T0
    parent   P0 -> (T0, EXCLUSIVE, whole)    # P0 is an exclusive borrow of all of T0

and after `op = copy(p, x)` also `op -> O0`, `held: O0 holds P0 exclusively, X0 shared`, `phase: O0 is built`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from tilecheck.ir.instructions import Hold, Instr, Region, Site, Use, Var

Obj = tuple[Site, int]


class Phase(Enum):
    """The life of an op between its making and its end; rounds of prepared work repeat until that is waited for; another
    library's array on our memory is lent.
    """

    BUILT = "built"
    RUNNING = "running"
    REPEATING = "repeating"
    CAPTURED = "captured"
    LENT = "lent"


@dataclass(frozen=True, slots=True)
class Parent:
    """`child` is a view or partition of `of`: it holds `region` (of the allocation) as `hold`."""

    of: Obj
    hold: Hold
    region: Region


@dataclass(slots=True)
class State:
    """The facts of one path."""

    names: dict[Var, Obj] = field(default_factory=dict)
    """`var` names `obj`."""
    slots: dict[tuple[Obj, str], Obj] = field(default_factory=dict)
    """The field or constant subscript of `obj` holds another object."""
    bag: set[tuple[Obj, Obj]] = field(default_factory=set)
    """The container holds the object, nobody knows where."""
    parent: dict[Obj, Parent] = field(default_factory=dict)
    """The object is a borrow of its parent."""
    held: set[tuple[Obj, Obj, Use]] = field(default_factory=set)
    """The op (running, graph, job, or object returned by a call) has borrowed the object, as the use says."""
    phase: dict[Obj, Phase] = field(default_factory=dict)
    """The op or graph is in that phase; an op without one is finished, used up or out of sight."""
    moved: dict[Obj, Instr] = field(default_factory=dict)
    """The memory of the object was given away by the instruction."""
    spent: dict[Obj, Instr] = field(default_factory=dict)
    """The op was run, or used up by another op, by the instruction."""
    kept: set[Obj] = field(default_factory=set)
    """The memory of the object is not freed when its names die."""
    pending: dict[Obj, Obj | None] = field(default_factory=dict)
    """The job was put on the stream (None: the default one) and the host has not waited for it."""
    after: set[tuple[Obj, Obj]] = field(default_factory=set)
    """Work put on the stream from now on comes after the job; a job paired with itself, on whatever stream."""
    recorded: set[tuple[Obj, Obj]] = field(default_factory=set)
    """The event stands for the job, among others."""
    aside: set[Obj] = field(default_factory=set)
    """The stream is not the one that memory is freed on."""
    on: dict[Obj, Obj] = field(default_factory=dict)
    """The running op was put on the stream."""
    behind: dict[Obj, frozenset[Obj]] = field(default_factory=dict)
    """The running op ends after others: those were put on its stream before, or touch the same elements."""
    decided: dict[str, bool] = field(default_factory=dict)
    """The condition holds, or does not, until it is forgotten."""
    sites: set[Site] = field(default_factory=set)
    """The sites of all objects, and perhaps of some that are forgotten: no fact, but what `fresh` need not look for."""

    def copy(self) -> State:
        return State(
            self.names.copy(),
            self.slots.copy(),
            self.bag.copy(),
            self.parent.copy(),
            self.held.copy(),
            self.phase.copy(),
            self.moved.copy(),
            self.spent.copy(),
            self.kept.copy(),
            self.pending.copy(),
            self.after.copy(),
            self.recorded.copy(),
            self.aside.copy(),
            self.on.copy(),
            self.behind.copy(),
            self.decided.copy(),
            self.sites.copy(),
        )

    def key(self) -> Hashable:
        """Equal for states with the same facts."""
        return (
            frozenset(self.names.items()),
            frozenset(self.slots.items()),
            frozenset(self.bag),
            frozenset(self.parent.items()),
            frozenset(self.held),
            frozenset(self.phase.items()),
            frozenset(self.moved.items()),
            # That an op was used up matters, by which line does not: it would only tell more pasts apart.
            frozenset(self.spent),
            frozenset(self.kept),
            frozenset(self.pending.items()),
            frozenset(self.after),
            frozenset(self.recorded),
            frozenset(self.aside),
            frozenset(self.on.items()),
            frozenset(self.behind.items()),
            frozenset(self.decided.items()),
        )

    def objects(self) -> Iterator[Obj]:
        """Every object that some fact speaks of, with repetitions."""
        yield from self.names.values()
        for (base, _), item in self.slots.items():
            yield from (base, item)
        for pair in (*self.bag, *self.after, *self.recorded, *self.on.items()):
            yield from pair
        for op, ahead in self.behind.items():
            yield op
            yield from ahead
        for child, parent in self.parent.items():
            yield from (child, parent.of)
        for holder, target, _ in self.held:
            yield from (holder, target)
        yield from self.phase
        yield from self.moved
        yield from self.spent
        yield from self.kept
        yield from self.aside
        for job, stream in self.pending.items():
            yield job
            if stream is not None:
                yield stream

    def fresh(self, site: Site) -> Obj:
        """A new object of `site`; the former newest one grows old, the former old one is forgotten."""
        newest = (site, 0)
        if site not in self.sites:
            self.sites.add(site)
        elif any(obj == newest for obj in self.objects()):
            old = (site, 1)
            self.keep(lambda obj: obj != old)
            self._rename(lambda obj: old if obj == newest else obj)
        return newest

    def keep(self, wanted: Callable[[Obj], bool]) -> None:
        """Forget every fact about objects that are not wanted."""
        self.names = {var: obj for var, obj in self.names.items() if wanted(obj)}
        if self.slots:
            self.slots = {at: item for at, item in self.slots.items() if wanted(at[0]) and wanted(item)}
        if self.bag:
            self.bag = {pair for pair in self.bag if all(map(wanted, pair))}
        if self.parent:
            self.parent = {child: p for child, p in self.parent.items() if wanted(child) and wanted(p.of)}
        if self.held:
            self.held = {(a, b, use) for a, b, use in self.held if wanted(a) and wanted(b)}
        if self.phase:
            self.phase = {op: phase for op, phase in self.phase.items() if wanted(op)}
        if self.moved:
            self.moved = {obj: at for obj, at in self.moved.items() if wanted(obj)}
        if self.spent:
            self.spent = {op: at for op, at in self.spent.items() if wanted(op)}
        if self.kept:
            self.kept = {obj for obj in self.kept if wanted(obj)}
        if self.pending:
            self.pending = {job: on for job, on in self.pending.items() if wanted(job) and (on is None or wanted(on))}
        if self.after:
            self.after = {pair for pair in self.after if all(map(wanted, pair))}
        if self.recorded:
            self.recorded = {pair for pair in self.recorded if all(map(wanted, pair))}
        if self.aside:
            self.aside = {obj for obj in self.aside if wanted(obj)}
        if self.on:
            self.on = {op: stream for op, stream in self.on.items() if wanted(op) and wanted(stream)}
        if self.behind:
            kept = {op: frozenset(filter(wanted, ahead)) for op, ahead in self.behind.items() if wanted(op)}
            self.behind = {op: ahead for op, ahead in kept.items() if ahead}

    def _rename(self, new: Callable[[Obj], Obj]) -> None:
        self.names = {var: new(obj) for var, obj in self.names.items()}
        self.slots = {(new(base), name): new(item) for (base, name), item in self.slots.items()}
        self.bag = {(new(a), new(b)) for a, b in self.bag}
        self.parent = {new(child): Parent(new(p.of), p.hold, p.region) for child, p in self.parent.items()}
        self.held = {(new(a), new(b), use) for a, b, use in self.held}
        self.phase = {new(op): phase for op, phase in self.phase.items()}
        self.moved = {new(obj): at for obj, at in self.moved.items()}
        self.spent = {new(op): at for op, at in self.spent.items()}
        self.kept = {new(obj) for obj in self.kept}
        self.pending = {new(job): on if on is None else new(on) for job, on in self.pending.items()}
        self.after = {(new(a), new(b)) for a, b in self.after}
        self.recorded = {(new(a), new(b)) for a, b in self.recorded}
        self.aside = {new(obj) for obj in self.aside}
        self.on = {new(op): new(stream) for op, stream in self.on.items()}
        self.behind = {new(op): frozenset(map(new, ahead)) for op, ahead in self.behind.items()}
