"""What one instruction of the flow IR does to a state, and what it breaks.

Each instruction first asks whether it may (`loans.py`), then changes the facts. The rules, in the order of the code:

- *moved*: no instruction but a rebinding may use an object whose memory was given away.
- *exclusive borrow*: no live idle borrow of the same elements may be older, no op may hold them. Of what a running op
  holds a new borrow is fine: device work is ordered by its data.
- *host access*: a read must not meet an exclusive hold, a write or a move any hold, of an op that is built or running.
- *once*: an op that was run, or became part of another, is not used again; one that is `shared()` may be.
- *as long as it exists*: what a graph writes is not written or borrowed exclusively, nor is what another library's array
  lies on.
- *one call*: no two arguments of a call may share elements if one of them is exclusive.
- *plain work* on streams is in flight until the host waits; two jobs that share elements, one of them writing, need an
  order if they are on different streams; the default stream is ordered with all others.

A breach is reported once per place in the source, whatever the number of paths that show it.
"""

from __future__ import annotations

from dataclasses import replace

from tilecheck.borrow.facts import Obj, Parent, Phase, State
from tilecheck.borrow.findings import Break, Broken
from tilecheck.borrow.jobs import Jobs
from tilecheck.borrow.loans import (
    LASTING,
    Live,
    Loan,
    allocation,
    bound_owner,
    bound_views,
    clash,
    contents,
    has_bag,
    held_by_work,
    held_loans,
    idle_loans,
    inside,
    lineage,
    move_of,
    ops_of,
    region,
)
from tilecheck.borrow.order import started, waited_for, waited_stream
from tilecheck.borrow.places import cut, reshaped, sliced
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir.instructions import Hold, Instr, Kind, Region, Site, Touch, Use, Var


class Effects:
    """Applies instructions to states and collects what they break."""

    def __init__(self, flow_of: flow.Flow) -> None:
        self.outer = flow_of.outer
        self.captured = flow_of.captured
        self.rebound = flow_of.rebound
        self.broken: dict[tuple[Break, Span, str], Broken] = {}
        self.built: dict[Site, None] = {}
        self.used: set[Site] = set()
        self.titles: dict[Site, str] = {}
        self.jobs = Jobs(self.report, self.titles)
        self._unknown: dict[Var, Site] = {}
        self._inner: Span | None = None

    def report(self, broken: Broken) -> None:
        """Keep `broken`; of several that break one place, the one whose cause stands first in the source."""
        if self._inner is not None:
            broken = replace(broken, inner=self._inner)
        # A call breaks with its arguments once, whichever of two tensors a round of a loop has in them.
        at = broken.kind, broken.span, "" if broken.kind is Break.ONE_CALL else broken.place
        former = self.broken.get(at)
        if former is None or broken.rank() < former.rank():
            self.broken[at] = broken

    def named(self, state: State, var: Var, span: Span) -> Obj:
        """What `var` names; an object that nothing is known of if the path has not bound it."""
        if var not in state.names:
            site = self._unknown.setdefault(var, Site(Kind.OTHER, var, span))
            state.names[var] = (site, 0)
            state.sites.add(site)
        return state.names[var]

    def _entitle(self, state: State, name: str, obj: Obj) -> None:
        """The user has a `name` for `obj`, and so for what it contains: what was made without one is called that."""
        if name[0] == "%":
            return
        if "(" in obj[0].name and (
            obj[0] not in self.titles or name.isidentifier() > self.titles[obj[0]].isidentifier()
        ):
            self.titles[obj[0]] = name
        if obj[0].kind in (Kind.CONTAINER, Kind.OTHER):
            for (holder, field), item in state.slots.items():
                if holder == obj and "(" in item[0].name:
                    self.titles.setdefault(item[0], f"{name}{field}")

    def _place(self, state: State, obj: Obj) -> str:
        """What the user calls the memory of `obj`."""
        site = allocation(state, obj)[0]
        return self.titles.get(site, site.name)

    def apply(self, instr: Instr, state: State, live: Live) -> None:
        """Change `state` by `instr`; `live` are the variables that are read after it."""
        self._inner = instr.inner
        match instr:
            case instructions.Make(into=into, site=site):
                state.names[into] = state.fresh(site)
            case instructions.Bind(into=into, src=src):
                state.names[into] = self.named(state, src, instr.span)
                self._entitle(state, into, state.names[into])
                if into in self.captured:
                    # A nested function may run it, whenever that is called.
                    self._show(state, state.names[into])
            case instructions.Unbind(var=var):
                obj = state.names.pop(var, None)
                if obj is not None:
                    self._show(state, obj)
            case instructions.Put() | instructions.Get() | instructions.Escape() | instructions.Clobber():
                self._places(instr, state)
            case instructions.Borrow():
                self._borrow(instr, state, live)
            case instructions.Move():
                self._move(instr, state, live)
            case instructions.Access():
                self._access(instr, state, live)
            case instructions.Build(into=into, site=site, uses=uses, callee=callee):
                self._check_uses(uses, state, live, callee)
                op = self._hold(uses, state, site)
                state.names[into] = op
                state.phase[op] = Phase.BUILT
                self.built.setdefault(site)
            case instructions.Lend(uses=uses, callee=callee, into=into, site=lent):
                self._check_uses(uses, state, live, callee)
                for taken in instr.given:
                    obj = self.named(state, taken.src, taken.span)
                    again = tuple(use for use in uses if self.named(state, use.src, use.span) == obj)[:1]
                    self._one_call((*again, taken), state, callee, ours=True)
                if into is not None and lent is not None:
                    state.names[into] = self._hold(uses, state, lent)
                    if instr.lent:
                        state.phase[state.names[into]] = Phase.LENT
            case instructions.Combine() | instructions.Start() | instructions.Finish():
                self._run(instr, state)
            case instructions.Capture() | instructions.Seal() | instructions.Replay():
                self._graph(instr, state)
            case instructions.Enqueue(uses=uses):
                self._foreign(instr, state, live)
                self.jobs.apply(instr, state, {use.src: self.named(state, use.src, use.span) for use in uses})
            case instructions.Leave(value=value):
                if value is not None:
                    obj = self.named(state, value, instr.span)
                    self._check_moved(state, obj, instr.span, value)
                    self.jobs.leave(state, obj, instr.span)
                    self._escape(state, obj)
                else:
                    self.jobs.leave(state, None, instr.span)
            case instructions.SyncStream(stream=str() as var):
                waited_stream(state, self.named(state, var, instr.span))
                self.jobs.apply(instr, state, {})
            case _:
                self.jobs.apply(instr, state, {})

    # ---- places

    def _places(self, instr: Instr, state: State) -> None:
        match instr:
            case instructions.Put(base=base, field=field, src=src):
                holder = self.named(state, base, instr.span)
                item = self.named(state, src, instr.span)
                if field is None:
                    self.jobs.collected(state, holder, item)
                    state.bag.add((holder, item))
                else:
                    state.slots[(holder, field)] = item
                    self._entitle(state, f"{base}{field}", item)
                if holder[0].kind is not Kind.CONTAINER or holder in state.kept:
                    self._show(state, item)
            case instructions.Get(into=into, base=base, field=field, site=site):
                holder = self.named(state, base, instr.span)
                if (holder, field) not in state.slots and field.startswith("[") and has_bag(state, holder):
                    # It may be any of what was put there.
                    filled = self.jobs.filled(state, holder)
                    if filled is not None:
                        state.names[into] = filled
                        return
                    self._escape(state, holder)
                each = state.slots.get((holder, instructions.ANY))
                if field != instructions.ANY and (holder, field) in state.slots:
                    state.names[into] = state.slots[(holder, field)]
                elif each is not None and field[0] in f"[{instructions.ANY}" and held_by_work(state, each):
                    # What was done to every element was done to this one.
                    state.names[into] = each
                else:
                    item = state.fresh(site)
                    holder = self.named(state, base, instr.span)
                    each = state.slots.get((holder, instructions.ANY))
                    if each is not None and field.startswith("[") and (move := move_of(state, each)) is not None:
                        state.moved[item] = move
                    if field != instructions.ANY:
                        state.slots[(holder, field)] = item
                    state.names[into] = item
            case instructions.Escape(src=src):
                obj = self.named(state, src, instr.span)
                self._check_moved(state, obj, instr.span, src)
                self._escape(state, obj)
            case instructions.Clobber():
                for var in self.captured & state.names.keys():
                    self._escape(state, state.names[var])
                for obj in [obj for obj in state.kept if obj[0].kind is Kind.CONTAINER]:
                    # Others have it, and see what was put into it since.
                    self._let_go(state, inside(state, obj))
                for var in self.outer & state.names.keys():
                    self._escape(state, state.names.pop(var))
                for var in self.rebound:
                    state.names[var] = state.fresh(Site(Kind.OTHER, var, instr.span))
                self.jobs.wait_for_all(state)

    def _show(self, state: State, obj: Obj) -> None:
        """Others see `obj`: what is in a container may be run from there, also what is put into it later."""
        for item in inside(state, obj) if obj[0].kind is Kind.CONTAINER else (obj,):
            self.used.add(item[0])
            if item[0].kind is Kind.CONTAINER:
                state.kept.add(item)

    def _escape(self, state: State, obj: Obj) -> None:
        """Unknown code has `obj`: whatever it leads to may have been run, waited for or put elsewhere."""
        found = inside(state, obj)
        state.kept |= found
        self._let_go(state, found)
        state.slots = {at: item for at, item in state.slots.items() if at[0] not in found}
        state.bag = {pair for pair in state.bag if pair[0] not in found}

    def _let_go(self, state: State, found: set[Obj]) -> None:
        """What of `found` is an op may have been run, and waited for."""
        for item in found:
            self.used.add(item[0])
            state.phase.pop(item, None)
            state.on.pop(item, None)
        state.held = {entry for entry in state.held if entry[0] not in found}

    # ---- borrows and moves

    def _check_moved(self, state: State, obj: Obj, span: Span, by: str) -> bool:
        move = move_of(state, obj)
        if move is None:
            return False
        site = allocation(state, obj)[0]
        if site.kind is Kind.OUTPUT:
            self.report(Broken(Break.TAKEN, span, site.name, by, move.span))
            return True
        place = self.titles.get(site, site.name)
        how, param = (move.by, move.param) if isinstance(move, instructions.Move) else ("", "")
        self.report(Broken(Break.MOVED, span, place, by, move.span, how, param))
        return True

    def _borrow(self, instr: instructions.Borrow, state: State, live: Live) -> None:
        obj = self.named(state, instr.src, instr.span)
        moved = self._check_moved(state, obj, instr.span, instr.site.name)
        part = _part(instr, region(state, obj))
        if instr.hold is Hold.EXCLUSIVE and instr.renews and not moved:
            place = self._place(state, obj)
            for loan in held_loans(state, obj, part, live):
                if loan.phase is Phase.BUILT:
                    self._blame(Break.HELD, state, instr.span, place, instr.site.name, loan)
                self._lasting(state, instr.span, place, instr.site.name, loan, "borrow")
            for loan in idle_loans(state, obj, part, live):
                self._blame(Break.IDLE, state, instr.span, place, instr.site.name, loan)
        child = state.fresh(instr.site)
        # In a loop, `v = v[1:]` borrows from the former `v`, which has aged by now: ask again for what `src` names.
        parent = self.named(state, instr.src, instr.span)
        state.names[instr.into] = child
        state.parent[child] = Parent(parent, instr.hold, _part(instr, region(state, parent)))

    def _move(self, instr: instructions.Move, state: State, live: Live) -> None:
        obj = self.named(state, instr.src, instr.span)
        if self._check_moved(state, obj, instr.span, instr.by):
            return
        part, place = region(state, obj), self._place(state, obj)
        # Of several, the one that a run time meets first: an op that is built, then one that runs.
        held = min(held_loans(state, obj, part, live), key=_in_the_way, default=None)
        if held is not None:
            kind = _MOVED[held.phase or Phase.RUNNING]
            self._blame(kind, state, instr.span, place, instr.by, held, verb="move")
        # A run time finds every handle that is still there, also one that is not used again.
        views = idle_loans(state, obj, part, live), bound_views(state, obj)
        idle = next((min(loans, key=_begun) for loans in map(list, views) if loans), None)
        if idle is not None:
            self._blame(Break.MOVED_IDLE, state, instr.span, place, instr.by, idle)
        owner = bound_owner(state, obj)
        if owner is not None:
            moved, kept = self._called(state, obj), self._called(state, owner)
            self.report(Broken(Break.MOVED_VIEW, instr.span, moved, instr.by, owner[0].span, kept))
        for at in lineage(state, obj):
            state.moved[at] = instr

    def _access(self, instr: instructions.Access, state: State, live: Live) -> None:
        obj = self.named(state, instr.src, instr.span)
        # To read an op (its grid, whether it is there) runs nothing, nor does the length of a list of ops.
        unused = obj[0].kind in _OPS or (obj[0].kind is Kind.CONTAINER and instr.touch is Touch.LOOK)
        if not unused or instr.touch is Touch.ASK:
            self._show(state, obj)
        if self._check_moved(state, obj, instr.span, instr.by) or instr.touch in (Touch.LOOK, Touch.ASK):
            self.jobs.owner(state, obj, instr.span, instr.by)
            return
        writes = instr.touch is Touch.WRITE
        for each in contents(state, obj) if instr.touch is Touch.EACH else (obj,):
            if each == obj or not self._check_moved(state, each, instr.span, instr.by):
                self._host(state, live, each, instr.span, instr.by, writes)
                self.jobs.owner(state, each, instr.span, instr.by)
                self.jobs.access(state, each, instr.span, instr.by, writes)

    def _host(self, state: State, live: Live, obj: Obj, span: Span, by: str, writes: bool) -> None:
        """The host, or a foreign library, reads or writes `obj`."""
        place = self._place(state, obj)
        for loan in held_loans(state, obj, region(state, obj), live):
            if loan.phase in LASTING:
                if writes:
                    self._lasting(state, span, place, by, loan, "write")
            elif writes or loan.hold is Hold.EXCLUSIVE:
                kind = Break.BUILT if loan.phase is Phase.BUILT else Break.RUNNING
                self._blame(kind, state, span, place, by, loan, writes)

    def _foreign(self, instr: instructions.Enqueue, state: State, live: Live) -> None:
        for use in instr.uses:
            obj = self.named(state, use.src, use.span)
            self.jobs.owner(state, obj, use.span, use.text)
            if not self._check_moved(state, obj, use.span, use.text):
                self._host(state, live, obj, use.span, use.text, use.hold is Hold.EXCLUSIVE)
        self._one_call(instr.uses, state, instr.site.name, ours=False)

    def _one_call(self, uses: tuple[Use, ...], state: State, callee: str, ours: bool) -> None:
        found = clash(state, tuple((use, self.named(state, use.src, use.span)) for use in uses))
        if found is None:
            return
        first, second = found
        place = self._place(state, self.named(state, second.src, second.span))
        both = f"{first.param}, {second.param}"
        writes = second.hold is Hold.EXCLUSIVE
        found_at = Broken(Break.ONE_CALL, second.span, place, second.text, first.span, callee, both, None, writes)
        self.report(replace(found_at, ours=ours))

    def _check_uses(self, uses: tuple[Use, ...], state: State, live: Live, callee: str) -> None:
        """Whether a launch or a call may borrow its arguments."""
        for use in uses:
            obj = self.named(state, use.src, use.span)
            if self._check_moved(state, obj, use.span, use.text):
                continue
            place, part = self._place(state, obj), region(state, obj)
            held = [loan for loan in held_loans(state, obj, part, live) if Hold.EXCLUSIVE in (use.hold, loan.hold)]
            rounds = [loan for loan in held if loan.phase is Phase.REPEATING]
            for loan in rounds or held:
                if loan.phase is Phase.BUILT:
                    self._blame(Break.HELD, state, use.span, place, use.text, loan)
                elif loan.phase is Phase.REPEATING:
                    writes = use.hold is Hold.EXCLUSIVE
                    self._blame(Break.RUNNING, state, use.span, place, use.text, loan, writes)
                elif use.hold is Hold.EXCLUSIVE:
                    self._lasting(state, use.span, place, use.text, loan, "borrow")
            if use.hold is Hold.EXCLUSIVE:
                for loan in idle_loans(state, obj, part, live):
                    self._blame(Break.IDLE, state, use.span, place, use.text, loan, verb="use")
        self._one_call(uses, state, callee, ours=True)

    def _hold(self, uses: tuple[Use, ...], state: State, site: Site) -> Obj:
        """A new object of `site` that holds `uses`."""
        holder = state.fresh(site)
        for use in uses:
            target = self.named(state, use.src, use.span)
            self._show(state, target)
            state.held.add((holder, target, use))
        return holder

    def _lasting(self, state: State, span: Span, place: str, by: str, loan: Loan, verb: str) -> None:
        """An exclusive access meets what a graph or another library's array has; what a graph reads may be written."""
        if loan.phase is Phase.LENT:
            self._blame(Break.LENT, state, span, place, by, loan, verb=verb)
        elif loan.phase is Phase.CAPTURED and loan.hold is Hold.EXCLUSIVE:
            self._blame(Break.CAPTURED, state, span, place, by, loan, verb=verb)

    def _blame(
        self,
        kind: Break,
        state: State,
        span: Span,
        place: str,
        by: str,
        loan: Loan,
        writes: bool = False,
        verb: str = "",
    ) -> None:
        name = self._called(state, loan.holder)
        named = state.names.get(name) == loan.holder
        self.report(Broken(kind, span, place, by, loan.origin, name, loan.param, loan.later, writes, named, verb))

    def _called(self, state: State, wanted: Obj) -> str:
        """What the user calls `wanted`."""
        called = sorted(var for var, obj in state.names.items() if obj == wanted and var[0] != "%")
        return called[0] if called else self.titles.get(wanted[0], wanted[0].name)

    # ---- the life of an op

    def _run(self, instr: Instr, state: State) -> None:
        match instr:
            case instructions.Combine(into=into, site=site, srcs=srcs, kept=kept):
                whole = state.fresh(site)
                if self._hand_over(state, whole, srcs, instr):
                    state.phase[whole] = Phase.BUILT
                    self.built.setdefault(site)
                    if kept:
                        self.used.add(site)
                state.names[into] = whole
            case instructions.Start(into=into, site=site, src=src, stream=stream, repeats=repeats):
                running = state.fresh(site)
                if self._hand_over(state, running, (src,), instr):
                    state.phase[running] = Phase.REPEATING if repeats else Phase.RUNNING
                    started(state, running, self._stream(state, stream, instr.span))
                state.names[into] = running
            case instructions.Finish(src=src, stream=stream):
                self._spend(state, self.named(state, src, instr.span), src, instr)
                ended = inside(state, self.named(state, src, instr.span))
                self.used.update(obj[0] for obj in ended)
                waited_for(state, ended, self._stream(state, stream, instr.span))

    def _graph(self, instr: Instr, state: State) -> None:
        match instr:
            case instructions.Capture(graph=graph, src=src):
                self._hand_over(state, self.named(state, graph, instr.span), (src,), instr)
            case instructions.Seal(graph=graph):
                state.phase[self.named(state, graph, instr.span)] = Phase.CAPTURED
            case instructions.Replay(into=into, site=site, graph=graph, prepared=prepared):
                op = state.fresh(site)
                holder = self.named(state, graph, instr.span)
                state.held |= {(op, target, use) for at, target, use in state.held if at == holder}
                state.names[into] = op
                state.phase[op] = Phase.CAPTURED if prepared else Phase.BUILT
                if not prepared:
                    self.built.setdefault(site)

    def _stream(self, state: State, var: Var | None, span: Span) -> Obj | None:
        return self.named(state, var, span) if var is not None else None

    def _spend(self, state: State, op: Obj, called: Var, instr: Instr) -> None:
        """`instr` uses the op up, which can happen once."""
        if op in state.spent:
            at = state.spent[op]
            name = self._called(state, op) if called[0] == "%" else called
            ended = at.ends if isinstance(at, instructions.Finish) else None
            how = ended or ("joined" if isinstance(at, instructions.Combine) else "run")
            self.report(Broken(Break.SPENT, instr.span, name, how, at.span))
        elif state.phase.get(op) is Phase.BUILT and op[0].kind is Kind.OP:
            state.spent[op] = instr

    def _hand_over(self, state: State, whole: Obj, srcs: tuple[Var, ...], instr: Instr) -> bool:
        """`whole` holds what the ops `srcs` held, and they are over; whether one of them was still to be run."""
        known = False
        for src in srcs:
            given = self.named(state, src, instr.span)
            self._show(state, given)
            for op in ops_of(state, given):
                self._spend(state, op, src if op == given else op[0].name, instr)
                known = state.phase.pop(op, None) is Phase.BUILT or known
                state.held = {(whole if a == op else a, b, use) for a, b, use in state.held}
        return known


def _in_the_way(loan: Loan) -> tuple[int, Span, str, str, int]:
    return list(_MOVED).index(loan.phase or Phase.RUNNING), *_begun(loan)


def _begun(loan: Loan) -> tuple[Span, str, str, int]:
    """By where it begins, and what else tells loans apart."""
    return loan.origin, loan.param, loan.holder[0].name, loan.holder[1]


_OPS = (Kind.OP, Kind.SHARED_OP)

_MOVED = {
    Phase.BUILT: Break.MOVED_BUILT,
    Phase.LENT: Break.LENT,
    Phase.CAPTURED: Break.MOVED_CAPTURED,
    Phase.RUNNING: Break.MOVED_RUNNING,
    Phase.REPEATING: Break.MOVED_RUNNING,
}


def _part(instr: instructions.Borrow, mine: Region) -> Region:
    if instr.reshape is not None:
        return reshaped(mine, instr.reshape)
    if instr.side is not None:
        return cut(mine, *instr.side)
    return sliced(mine, instr.part)
