"""The host borrow checker on one page: host IR in, findings out.

    HostModule ─ lower ─ flows ─ solve ─ broken loans, dropped ops ─┐
                   └── launches ─ contracts ─ faults ───────────────┴─ HostReport ─ rules

Invariant: the answer depends on the module, on the signatures (for plain kernels: the bodies) that `outside` finds, and
on nothing else; no user code is imported.

Worked example: for

    zp = z.into_partition(128)
    z.numpy()

the report holds one `Broken(MOVED)` at the second line, whose origin is the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tilecheck.borrow.expected import within
from tilecheck.borrow.findings import Break, Broken
from tilecheck.borrow.frozen import frozen_globals
from tilecheck.borrow.launch import OpenLaunch, TileLaunch
from tilecheck.borrow.lower import lower_module
from tilecheck.borrow.program import Outside, Program
from tilecheck.borrow.solver import solve
from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Site


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A function some of whose paths were not followed: what they show is unknown, for that `reason`."""

    name: str
    span: Span
    reason: str


@dataclass(frozen=True, slots=True)
class HostReport:
    """The broken loans and contracts of one file's host code, what was not looked at to its end, the launches whose dtypes
    the tile checks must see, and those of tile kernels whose numbers the file shows.
    """

    broken: tuple[Broken, ...] = ()
    dropped: tuple[Site, ...] = ()
    faults: tuple[Fault, ...] = ()
    unfollowed: tuple[Unfollowed, ...] = ()
    opened: tuple[OpenLaunch, ...] = ()
    launches: tuple[TileLaunch, ...] = ()


def check_module(module: ir.HostModule, outside: Outside = lambda _: None) -> HostReport:
    """Check the host code of one file; `outside` finds the definitions of other files by their dotted names."""
    program = Program(module, outside)
    broken: dict[tuple[object, Span, str], Broken] = {}
    dropped: dict[tuple[Span, str], Site] = {}
    ran: set[tuple[Span, str]] = set()
    faults: dict[tuple[str, Span], Fault] = {}
    unfollowed: list[Unfollowed] = []
    opened: dict[OpenLaunch, None] = {}
    launches: dict[TileLaunch, None] = {}
    for piece in lower_module(program):
        solution = solve(piece.flow, partial(_read_by_functions, program)) if piece.is_module else solve(piece.flow)
        wanted = partial(within, expected=piece.expected)
        for found in solution.broken:
            if wanted(found.span):
                continue
            broken.setdefault((found.kind, found.span, found.place), replace(found, in_async=piece.flow.is_async))
        # A loop that is unrolled, or a lambda that is called, has several sites in one place.
        ran.update((site.span, site.name) for site in solution.ran)
        for site in solution.dropped:
            if wanted(site.span):
                continue
            dropped[site.span, site.name] = replace(site, in_async=piece.flow.is_async)
        if solution.left_out is not None:
            unfollowed.append(Unfollowed(piece.flow.name, piece.span, solution.left_out))
        opened.update(dict.fromkeys(one for one in piece.opened if not wanted(one.span)))
        launches.update(dict.fromkeys(one for one in piece.shown if not wanted(one.span)))
        for fault in piece.faults:
            if wanted(fault.span):
                continue
            faults.setdefault((fault.rule, fault.span), fault)
    for fault in frozen_globals(program):
        faults.setdefault((fault.rule, fault.span), fault)
    twice = {(found.span.line, found.place) for found in broken.values() if found.kind is Break.ONE_CALL}
    cut = [(found.origin, found.span) for found in broken.values() if found.kind is Break.IDLE and not found.verb]
    held = {found.span for found in broken.values() if found.kind in _HELD_MOVES}
    lent = {found.span for found in broken.values() if found.kind in (*_HELD_MOVES, Break.MOVED_IDLE)}
    refused = {found.span for found in broken.values() if found.kind in _REFUSED_MOVES}

    def follows(found: Broken) -> bool:
        """Whether `found` only follows from another finding: one mistake is told once."""
        if found.kind is Break.IDLE:
            # What a partition has ended already, a launch with that partition cannot end again.
            ended = found.verb == "use" and any(at == found.origin and by < found.span for at, by in cut)
            return ended or (found.span.line, found.place) in twice
        if found.kind in (Break.MOVED_IDLE, Break.MOVED_VIEW):
            return found.span in (held if found.kind is Break.MOVED_IDLE else lent)
        return found.kind is Break.MOVED and found.origin in refused

    # What a function does wrong by itself is not told again where it is called.
    by_itself = [(found.kind, found.span) for found in broken.values() if found.inner is None]

    def again(found: Broken) -> bool:
        inner = found.inner
        return inner is not None and any(kind is found.kind and within(at, (inner,)) for kind, at in by_itself)

    told = tuple(found for found in broken.values() if not follows(found) and not again(found))
    left = {site.span for site in dropped.values()}
    # A launch that is refused gives no op, so that there is none to run.
    refusals = [found.span for found in told] + [fault.span for fault in faults.values() if fault.rule not in _WARNINGS]
    unbuilt = {site.span for site in dropped.values() if any(within(at, (site.span,)) for at in refusals)}
    never_run = tuple(
        site for at, site in dropped.items() if at not in ran and site.inner not in left and site.span not in unbuilt
    )
    return HostReport(told, never_run, tuple(faults.values()), tuple(unfollowed), tuple(opened), tuple(launches))


# What a launch goes through with all the same.
_WARNINGS = frozenset({"partial-coverage", "host-array-copied", "dropped-op"})
_HELD_MOVES = (Break.MOVED_BUILT, Break.MOVED_RUNNING, Break.MOVED_CAPTURED)
_REFUSED_MOVES = (*_HELD_MOVES, Break.MOVED_IDLE, Break.MOVED_VIEW)


def _read_by_functions(program: Program) -> dict[str, Span]:
    """The module variables that functions read; where does not matter."""
    found: dict[str, Span] = {}
    for part in program.survey.units():
        if isinstance(part.unit, ir.Function | ir.Lambda):
            found.update(dict.fromkeys(part.names.keys() - part.local, part.unit.span))
    return found
