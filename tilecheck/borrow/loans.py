"""Which borrows stand in the way: the questions the solver asks of a state.

A borrow is *idle* while only a view, a partition or the result of a call has it, and then it ends at the last use of
whatever reaches it: at a point, it is live if a variable that is read later leads to it. It is *held* while an op has
it: a built op as long as the op is live, a running one until it is waited for, a captured one as long as its graph is
live.

Invariants: handles conflict only within one allocation and only if their regions are known to overlap; a handle never
conflicts with those that it was borrowed from on the way.

Worked example: with `v = t[0:32]` read later, `t.partition(8)` meets the idle borrow `v`; `t[32:64].partition(8)` does
not, nor does `v.partition(8)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilecheck.borrow.facts import Obj, Phase, State
from tilecheck.borrow.places import Overlap, overlap
from tilecheck.diagnostic import Span
from tilecheck.ir.instructions import WHOLE, Hold, Instr, Kind, Region, Use, Var

Live = Mapping[Var, Span]
"""The variables that are read later, with where."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A borrow that stands in the way: `holder` has it since `origin`; `later` is where the holder is used again."""

    holder: Obj
    origin: Span
    hold: Hold
    phase: Phase | None
    later: Span | None
    param: str = ""


def lineage(state: State, obj: Obj) -> Iterator[Obj]:
    """`obj`, what it was borrowed from, and so on to the allocation itself."""
    yield obj
    while (parent := state.parent.get(obj)) is not None:
        obj = parent.of
        yield obj


def allocation(state: State, obj: Obj) -> Obj:
    while (parent := state.parent.get(obj)) is not None:
        obj = parent.of
    return obj


def region(state: State, obj: Obj) -> Region:
    """The part of its allocation that `obj` covers."""
    parent = state.parent.get(obj)
    return parent.region if parent is not None else WHOLE


def meets(state: State, a: Obj, b: Obj) -> bool:
    """Whether two handles are known to share an element."""
    if allocation(state, a) != allocation(state, b):
        return False
    return overlap(region(state, a), region(state, b)) is Overlap.OVERLAPS


def inside(state: State, obj: Obj, used: bool = False) -> set[Obj]:
    """`obj` and everything that it keeps: slots, bag, what an op holds; not what it was borrowed from. With `used`, only
    what a use of `obj` uses: an op that runs already uses nothing more when it is waited for, nor does a graph, which has
    the memory and not the handles.
    """
    return _inside(state, (obj,), used)


def _inside(state: State, objs: Iterable[Obj], used: bool = False) -> set[Obj]:
    """`inside` of several objects."""
    keeps = _keeps(state, used)
    found: set[Obj] = set()
    stack = list(objs)
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack.extend(keeps.get(at, ()))
    return found


def _keeps(state: State, used: bool) -> dict[Obj, list[Obj]]:
    """What each object keeps by itself; `used` as in `inside`."""
    keeps: dict[Obj, list[Obj]] = {}
    for (base, _), item in state.slots.items():
        keeps.setdefault(base, []).append(item)
    for base, item in state.bag:
        keeps.setdefault(base, []).append(item)
    for holder, target, _ in state.held:
        if not used or (state.phase.get(holder, Phase.BUILT) is Phase.BUILT and holder[0].kind is not Kind.GRAPH):
            keeps.setdefault(holder, []).append(target)
    return keeps


def contents(state: State, obj: Obj) -> list[Obj]:
    """`obj`, and what was put into it if it is a container, and so on."""
    found = [obj]
    for at in found:
        if at[0].kind is Kind.CONTAINER:
            items = [item for (base, field), item in state.slots.items() if base == at and field.startswith("[")]
            items += [item for base, item in state.bag if base == at]
            new = {item for item in items if item not in found}
            found += sorted(new, key=lambda item: (item[0].span, item[0].name, item[1]))
    return found


def has_bag(state: State, holder: Obj) -> bool:
    """Whether something was put into `holder` nobody knows where."""
    return any(base == holder for base, _ in state.bag)


def ops_of(state: State, obj: Obj) -> list[Obj]:
    """`obj`, or the ops that are still to be run in it if it is a container."""
    if obj[0].kind is not Kind.CONTAINER:
        return [obj]
    found = [at for at in inside(state, obj) if state.phase.get(at) is Phase.BUILT]
    return sorted(found, key=lambda at: (at[0].span, at[0].name, at[1]))


def live_objects(state: State, live: Live, used: bool = False) -> dict[Obj, Span]:
    """The objects that a variable of `live` leads to, with the first place where one is read; `used` as in `inside`."""
    keeps = _keeps(state, used)
    found: dict[Obj, Span] = {}
    for var, span in live.items():
        stack = [state.names[var]] if var in state.names else []
        while stack:
            obj = stack.pop()
            # What was reached from here by an earlier place needs no second visit.
            if obj not in found or span < found[obj]:
                found[obj] = span
                stack.extend(keeps.get(obj, ()))
    return found


_WORK = (Kind.OP, Kind.RUNNING, Kind.GRAPH, Kind.JOB)
"""What holds borrows while it is built, runs or can be launched again, and not because it is a borrow itself."""


def idle_loans(state: State, obj: Obj, part: Region, live: Live) -> Iterator[Loan]:
    """The live idle borrows of `part` of `obj`'s allocation, other than those that `obj` came through."""
    root = allocation(state, obj)
    own = set(lineage(state, obj))
    alive: dict[Obj, Span] | None = None
    for child, parent in state.parent.items():
        if child in own or allocation(state, child) != root:
            continue
        if overlap(parent.region, part) is not Overlap.OVERLAPS:
            continue
        alive = live_objects(state, live, used=True) if alive is None else alive
        if child in alive and not _held_by_built(state, child):
            yield Loan(child, child[0].span, parent.hold, None, alive[child])
    for holder, target, use in state.held:
        if holder[0].kind in _WORK or holder in state.phase or allocation(state, target) != root:
            continue
        if overlap(region(state, target), part) is not Overlap.OVERLAPS:
            continue
        alive = live_objects(state, live, used=True) if alive is None else alive
        if holder in alive:
            yield Loan(holder, holder[0].span, use.hold, None, alive[holder])


def by_name(state: State) -> set[Obj]:
    """What a variable of the user leads to, whether it is read again or not."""
    return _inside(state, (start for var, start in state.names.items() if var[0] != "%"))


def bound_owner(state: State, obj: Obj) -> Obj | None:
    """What `obj` was borrowed from, if a variable of the user still names it."""
    named = by_name(state)
    return next((owner for owner in lineage(state, obj) if owner != obj and owner in named), None)


def bound_views(state: State, obj: Obj) -> Iterator[Loan]:
    """The views of `obj`'s memory that a variable of the user still names, whether it is read again or not."""
    named = by_name(state)
    own = set(lineage(state, obj))
    for child, parent in state.parent.items():
        view = child[0].kind is Kind.VIEW and child in named and child not in own
        if view and meets(state, child, obj):
            yield Loan(child, child[0].span, parent.hold, None, None)


def _held_by_built(state: State, child: Obj) -> bool:
    """Whether a built op holds `child`: then the op stands in the way, and is what a finding speaks of."""
    return any(target == child and state.phase.get(holder) is Phase.BUILT for holder, target, _ in state.held)


def held_loans(state: State, obj: Obj, part: Region, live: Live) -> Iterator[Loan]:
    """The borrows of `part` of `obj`'s allocation that ops, graphs and other libraries' arrays hold."""
    root = allocation(state, obj)
    alive: dict[Obj, Span] | None = None
    for holder, target, use in state.held:
        phase = state.phase.get(holder)
        if phase is None or allocation(state, target) != root:
            continue
        if overlap(region(state, target), part) is not Overlap.OVERLAPS:
            continue
        alive = live_objects(state, live) if alive is None else alive
        if phase in WORKING or holder in alive or (phase in LASTING and _exists(state, holder)):
            yield Loan(holder, use.span, use.hold, phase, alive.get(holder), use.param)


def held_by_work(state: State, obj: Obj) -> bool:
    """Whether an op that is built or runs, or what lasts, holds a part of the memory of `obj`."""
    root = allocation(state, obj)
    return any(holder in state.phase and allocation(state, target) == root for holder, target, _ in state.held)


LASTING = (Phase.CAPTURED, Phase.LENT)
"""Phases of what holds its borrows as long as it exists, whether it is used again or not: nothing ends them but that."""


WORKING = (Phase.RUNNING, Phase.REPEATING)
"""Phases of what the device may be working on."""


def _exists(state: State, holder: Obj) -> bool:
    """Whether a variable of the user leads to `holder`, or to a view of it, which keeps it alive."""
    return any(holder in lineage(state, item) for item in by_name(state))


def move_of(state: State, obj: Obj) -> Instr | None:
    """The instruction that gave away the memory of `obj`, or of what it was borrowed from."""
    for at in lineage(state, obj):
        if at in state.moved:
            return state.moved[at]
    return None


def clash(state: State, uses: tuple[tuple[Use, Obj], ...]) -> tuple[Use, Use] | None:
    """The first two uses of one call that cannot stand together: one exclusive, both on the same elements."""
    for at, (use, obj) in enumerate(uses):
        for earlier, other in uses[:at]:
            exclusive = Hold.EXCLUSIVE in (use.hold, earlier.hold)
            same = use.apart != "" and use.apart == earlier.apart and region(state, obj) == region(state, other)
            if exclusive and not same and meets(state, obj, other):
                return earlier, use
    return None
