"""Plain work on streams: what is in flight, what is ordered, what dies too early.

A job (a numba launch, an asynchronous copy, a cuTile launch) is *pending* from the call that puts it on a stream until
the host waits for it. Two pending jobs are ordered by their stream, by an event, or by the default stream, which waits
for every stream and which every stream waits for.

Silence: a stream that the file did not make may be any stream, the default one included, so nothing is said about jobs
on it; waiting for one such stream counts as waiting for all of them.

Worked example. `d.copy_to_host(h, stream=q); h.max()` reads `h` while the copy is pending; `q.synchronize()` in between
ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product

from tilecheck.borrow.facts import Obj, State
from tilecheck.borrow.findings import Break, Broken
from tilecheck.borrow.loans import allocation, contents, inside, lineage, meets
from tilecheck.diagnostic import Span
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Hold, Instr, Kind, Site, Use, Var

_ON_HOST = (Kind.HOST, Kind.PINNED)
_MADE_HERE = (Kind.FOREIGN, Kind.DEVICE, Kind.TENSOR)


def _made(stream: Obj) -> bool:
    return stream[0].kind is Kind.STREAM


class Jobs:
    """Applies the instructions of plain streams to a state; breaches go to `report`."""

    def __init__(self, report: Callable[[Broken], None], titles: Mapping[Site, str]) -> None:
        self.report = report
        self.titles = titles

    def _title(self, obj: Obj) -> str:
        return self.titles.get(obj[0], obj[0].name)

    def apply(self, instr: Instr, state: State, uses: Mapping[Var, Obj]) -> None:
        """Change `state` by `instr`, whose arguments are `uses`."""
        match instr:
            case instructions.Enqueue():
                self._enqueue(instr, state, uses)
            case instructions.SyncStream(stream=None):
                self.wait_for_all(state)
            case instructions.SyncStream(stream=str() as var):
                stream = state.names.get(var)
                if stream is None or not _made(stream):
                    self._wait(state, [job for job, on in state.pending.items() if on is None or not _made(on)])
                if stream is not None:
                    self._wait(state, _before(state, stream))
            case instructions.Record(event=event, stream=on):
                mark = state.names.get(event)
                if mark is not None:
                    state.recorded = {pair for pair in state.recorded if pair[0] != mark}
                    state.recorded |= {(mark, job) for job in self._on(state, on)}
            case instructions.WaitEvent(stream=on, event=event):
                self._order(state, self._recorded(state, event), on)
            case instructions.WaitStream(stream=on, other=other):
                if on is not None and other is None and on in state.names:
                    state.aside.add(state.names[on])
                self._order(state, self._on(state, other), on)
            case instructions.SyncEvent(event=event):
                self._wait(state, self._recorded(state, event))
            case instructions.Keep(src=src):
                if src in state.names:
                    state.kept.update(lineage(state, state.names[src]))
            case _:
                pass

    def collected(self, state: State, holder: Obj, item: Obj) -> None:
        """`item` is put into the container `holder`, nobody knows where."""
        if not set(_arrays(state, item)) <= _filling(state):
            state.slots[(holder, instructions.OVER)] = holder

    def filled(self, state: State, holder: Obj) -> Obj | None:
        """One of the arrays, or tuples with arrays, in `holder` that stands for each of them: copies into all of them are in
        flight.
        """
        if (holder, instructions.OVER) in state.slots:
            return None
        items = [item for base, item in state.bag if base == holder]
        arrays = [_arrays(state, item) for item in items]
        if not items or not all(arrays) or not {at for each in arrays for at in each} <= _filling(state):
            return None
        return min(items, key=lambda item: (item[0].span, item[0].name, item[1]))

    def wait_for_all(self, state: State) -> None:
        """The host waits for the device."""
        self._wait(state, list(state.pending))

    def _wait(self, state: State, jobs: Iterable[Obj]) -> None:
        over = set(jobs)
        if state.bag and over:
            ended = {target for job, target, use in state.held if job in over and use.hold is Hold.EXCLUSIVE}
            for base in {base for base, item in state.bag if not ended.isdisjoint(_arrays(state, item))}:
                state.slots[(base, instructions.OVER)] = base
        state.pending = {job: on for job, on in state.pending.items() if job not in over}
        state.held = {entry for entry in state.held if entry[0] not in over}
        state.after = {pair for pair in state.after if pair[0] not in over}
        state.recorded = {pair for pair in state.recorded if pair[1] not in over}

    def _on(self, state: State, var: Var | None) -> list[Obj]:
        """The jobs that are on the stream `var`, or ordered before what comes next on it."""
        if var is None:
            return list(state.pending)
        stream = state.names.get(var)
        return _before(state, stream) if stream is not None else list(state.pending)

    def _recorded(self, state: State, var: Var) -> list[Obj]:
        """The jobs that an event stands for; all of them if the event was not made here."""
        event = state.names.get(var)
        if event is None or event[0].kind is not Kind.EVENT:
            return list(state.pending)
        return [job for mark, job in state.recorded if mark == event]

    def _order(self, state: State, jobs: list[Obj], on: Var | None) -> None:
        """Work that comes next on `on` comes after `jobs`."""
        stream = state.names.get(on) if on is not None else None
        for job in jobs:
            state.after.add((job, job if stream is None else stream))

    def _enqueue(self, instr: instructions.Enqueue, state: State, uses: Mapping[Var, Obj]) -> None:
        stream = state.names.get(instr.stream) if instr.stream is not None else None
        if instr.stream is not None and stream is None:
            return
        if stream is not None:
            self._check_order(instr.uses, state, stream, uses)
        if instr.blocking:
            if stream is None:
                self.wait_for_all(state)
            else:
                self._wait(state, _before(state, stream))
            return
        job = state.fresh(instr.site)
        on = state.names.get(instr.stream) if instr.stream is not None else None
        if on is None:
            state.after |= {(earlier, earlier) for earlier in state.pending}
            state.after.add((job, job))
        state.pending[job] = on
        for use in instr.uses:
            state.held.add((job, state.names[use.src], use))

    def _check_order(self, mine: tuple[Use, ...], state: State, stream: Obj, objects: Mapping[Var, Obj]) -> None:
        for (job, target, use), own in product(tuple(state.held), mine):
            on = state.pending.get(job)
            if on is None or on == stream or not (_made(on) and _made(stream)):
                continue
            if (job, stream) in state.after or (job, job) in state.after:
                continue
            obj = objects[own.src]
            writes = own.hold is Hold.EXCLUSIVE
            if (writes or use.hold is Hold.EXCLUSIVE) and meets(state, target, obj):
                place = self._title(allocation(state, obj))
                both = f"{_named(self._title(on))}, {_named(self._title(stream))}"
                self.report(Broken(Break.UNORDERED, own.span, place, own.text, use.span, both, use.param, None, writes))

    def access(self, state: State, obj: Obj, span: Span, by: str, writes: bool) -> None:
        """The host reads or writes a host array: no copy into it may be pending, and if it writes, none out of it."""
        if allocation(state, obj)[0].kind not in _ON_HOST:
            return
        for job, target, use in tuple(state.held):
            if job not in state.pending:
                continue
            on = state.pending[job]
            if on is not None and not _made(on):
                continue
            pinned = allocation(state, obj)[0].kind is Kind.PINNED
            if (use.hold is Hold.EXCLUSIVE or (writes and pinned)) and meets(state, target, obj):
                place, holder = self._title(allocation(state, obj)), _named(self._title(on)) if on is not None else ""
                # The stream that the name stands for by now may be another one.
                past = on is not None and on[1] > 0
                found = Broken(Break.COPY, span, place, by, use.span, holder, use.text, None, writes, past=past)
                self.report(found)

    def owner(self, state: State, obj: Obj, span: Span, by: str) -> None:
        """A use of a view that does not own its memory: its owner must be alive."""
        bound: set[Obj] | None = None
        for view, owner in _raw(state, obj):
            if view[0].inner is not None and owner[0].inner is not None:
                # Both are the business of a function that is read here, where it is told.
                continue
            if bound is None:
                # A temporary keeps nothing alive beyond its statement.
                own = [named for var, named in state.names.items() if var[0] != "%"]
                bound = {item for named in own for item in inside(state, named)}
            if owner not in bound and owner not in state.kept:
                self.report(self._dead(view, owner, span, by))

    def _dead(self, view: Obj, owner: Obj, span: Span, by: str) -> Broken:
        made, name = view[0].span, view[0].name
        return Broken(Break.OWNER, span, self._title(owner), by, made, name, inner=view[0].inner)

    def leave(self, state: State, value: Obj | None, span: Span) -> None:
        """The function returns `value`; what only its locals keep alive dies."""
        alive = state.kept | (inside(state, value) if value is not None else set())
        for at in list(alive):
            alive.update(lineage(state, at) if at[0].kind is not Kind.RAW else ())
        if value is not None:
            for view, owner in _raw(state, value):
                if owner not in alive:
                    self.report(self._dead(view, owner, span, view[0].name))
        for job, target, use in tuple(state.held):
            on = state.pending.get(job)
            root = allocation(state, target)
            if on is None or not (_made(on) or on in state.aside) or (job, job) in state.after:
                continue
            if root[0].kind is Kind.FOREIGN and root not in alive and target not in alive:
                self.report(Broken(Break.FREED, span, self._title(root), use.text, use.span, self._title(on)))


def _filling(state: State) -> set[Obj]:
    """The arrays that copies on streams made here are filling."""
    return {
        target
        for job, target, use in state.held
        if use.hold is Hold.EXCLUSIVE and (on := state.pending.get(job)) is not None and _made(on)
    }


def _arrays(state: State, item: Obj) -> list[Obj]:
    """The arrays of the host that `item` is or holds."""
    return [at for at in contents(state, item) if at[0].kind in _ON_HOST]


def _named(title: str) -> str:
    """The name of a stream, empty for one that has none."""
    return "" if "(" in title else title


def _before(state: State, stream: Obj) -> list[Obj]:
    """The pending jobs on `stream`, and those that what comes next on it waits for."""
    return [job for job, on in state.pending.items() if on == stream or (job, stream) in state.after]


def _raw(state: State, obj: Obj) -> list[tuple[Obj, Obj]]:
    """The views on the way to the allocation that do not own their memory, with owners that the function made."""
    pairs = [(at, state.parent[at].of) for at in lineage(state, obj) if at in state.parent]
    return [(view, owner) for view, owner in pairs if view[0].kind is Kind.RAW and owner[0].kind in _MADE_HERE]
