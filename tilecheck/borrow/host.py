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
from tilecheck.borrow.lower import lower_function, lower_module
from tilecheck.borrow.program import Outside, Program
from tilecheck.borrow.solver import solve
from tilecheck.borrow.told_once import ByItself, broken_once, dropped_once, marks
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
    read: set[ir.Function] = set()
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
        read |= piece.read
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
    elsewhere = _by_itself(program, [*broken.values(), *dropped.values()], read)
    told = broken_once(broken.values(), elsewhere)
    never_run = dropped_once(dropped, ran, told, faults.values(), elsewhere)
    return HostReport(told, never_run, tuple(faults.values()), tuple(unfollowed), tuple(opened), tuple(launches))


def _by_itself(program: Program, found: list[Broken | Site], read: set[ir.Function]) -> ByItself:
    """What the functions of other files that were `read` at calls do wrong there, if any of `found` may be it."""
    here = program.module.path
    if all(one.inner is None or one.inner.path == here for one in found):
        return ByItself()
    broken: set[tuple[Break, Span]] = set()
    dropped: set[Span] = set()
    waiting, seen = list(read), set(read)
    while waiting:
        function = waiting.pop()
        if function.span.path == here:
            continue
        piece = lower_function(program, function)
        solution = solve(piece.flow)
        broken.update(mark for one in solution.broken for mark in marks(one))
        dropped.update(site.span for site in solution.dropped)
        waiting += piece.read - seen
        seen |= piece.read
    return ByItself(frozenset(broken), frozenset(dropped))


def _read_by_functions(program: Program) -> dict[str, Span]:
    """The module variables that functions read; where does not matter."""
    found: dict[str, Span] = {}
    for part in program.survey.units():
        if isinstance(part.unit, ir.Function | ir.Lambda):
            found.update(dict.fromkeys(part.names.keys() - part.local, part.unit.span))
    return found
