"""The solver against brute force: on random flows it finds what some path shows, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import count, islice
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flow_paths import Machine, paths
from tilecheck.borrow import solver
from tilecheck.borrow.findings import Break
from tilecheck.borrow.solver import run_paths, solve
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir.flow import Block, Flow
from tilecheck.ir.instructions import Hold, Instr, Kind, Range, Site, Touch, Use

VARS = ("z", "x", "p", "o")
STREAMS = (None, "s", "t")
MOST_PATHS = 3000


@st.composite
def blocks(draw: st.DrawFn, depth: int, size: int, loops: bool = True) -> Block:
    kinds = ["simple"] * 5 + (["branch", "guard", *(["loop"] if loops else [])] if depth else [])
    body: list[Instr] = []
    for _ in range(draw(st.integers(1, size))):
        kind = draw(st.sampled_from(kinds))
        inner = blocks(depth - 1, 3, loops and kind != "loop")
        at = Span("", 1, 1, 1, 1)
        if kind == "branch":
            arms = draw(st.lists(st.one_of(inner, st.just(())), min_size=2, max_size=2))
            body.append(flow.Branch(tuple(arms), span=at))
        elif kind == "loop":
            test: Block = draw(st.one_of(st.just(()), blocks(0, 1)))
            body.append(flow.Loop(test, draw(inner), once=not test and draw(st.booleans()), span=at))
        elif kind == "guard":
            handlers = draw(st.lists(blocks(0, 2), max_size=1))
            final: Block = draw(st.one_of(st.just(()), blocks(0, 2)))
            body.append(flow.Guard(draw(inner), tuple(handlers), (), final, span=at))
        else:
            body.append(draw(simple()))
    if depth < 2 and draw(st.integers(0, 5)) == 0:
        exits = ["return", "raise"] if loops else ["return", "raise", "break", "continue"]
        body.append(flow.Exit(draw(st.sampled_from(exits)), span=Span("", 1, 1, 1, 1)))
    return tuple(body)


@st.composite
def simple(draw: st.DrawFn) -> Instr:
    at = Span("", 1, 1, 1, 1)
    var, other = draw(st.sampled_from(VARS)), draw(st.sampled_from(VARS))
    hold = draw(st.sampled_from(Hold))
    match draw(st.integers(0, 15)):
        case 0:
            kind = draw(st.sampled_from((Kind.TENSOR, Kind.TENSOR, Kind.NONE)))
            return instructions.Make(var, Site(kind, var, at), span=at)
        case 1:
            return instructions.Bind(var, other, span=at)
        case 2 | 3:
            bounds = draw(st.sampled_from([(0, 4), (2, 6), (4, 8), None]))
            part = (Range(*bounds),) if bounds else ()
            kind = Kind.PARTITION if hold is Hold.EXCLUSIVE else Kind.VIEW
            return instructions.Borrow(var, other, hold, Site(kind, var, at), part, renews=draw(st.booleans()), span=at)
        case 4:
            return instructions.Move(var, "move", span=at)
        case 5 | 6:
            return instructions.Access(var, draw(st.sampled_from(Touch)), "use", span=at)
        case 7 | 8:
            uses = (Use(other, hold, at, other, "a"), Use(draw(st.sampled_from(VARS)), Hold.SHARED, at, "", "b"))
            return instructions.Build("o", Site(Kind.OP, "o", at), uses[: draw(st.integers(1, 2))], span=at)
        case 9:
            return instructions.Start(var, Site(Kind.RUNNING, var, at), "o", draw(st.sampled_from(STREAMS)), span=at)
        case 10:
            return instructions.Finish(var, draw(st.sampled_from(STREAMS)), draw(st.booleans()), span=at)
        case 11:
            return instructions.SyncStream(draw(st.sampled_from(STREAMS[1:])), span=at)
        case 12:
            what: instructions.Shown = draw(st.sampled_from(("none", "not none", "true", "false")))
            return instructions.Assume(var, what, span=at)
        case 13:
            key = draw(st.sampled_from(("a", "b")))
            if draw(st.integers(0, 2)) == 0:
                return instructions.Forget(key, span=at)
            return instructions.Decide(key, draw(st.booleans()), span=at)
        case 14:
            stream = draw(st.sampled_from(("s", "t")))
            return instructions.Make(stream, Site(Kind.STREAM, stream, at), span=at)
        case _:
            if draw(st.booleans()):
                return instructions.Put("x", ".f", var, span=at)
            return instructions.Get(var, "x", ".f", Site(Kind.OTHER, var, at), span=at)


def numbered(block: Block, lines: count[int]) -> Block:
    """The block with every instruction on a line of its own."""
    return tuple(_numbered(instr, lines) for instr in block)


def _numbered(instr: Instr, lines: count[int]) -> Instr:
    line = next(lines)
    at = Span("", line, 1, line, 2)
    changes: dict[str, object] = {"span": at}
    for field in fields(instr):
        value = getattr(instr, field.name)
        if isinstance(value, Site):
            changes[field.name] = Site(value.kind, value.name, at)
        elif field.name == "uses":
            changes[field.name] = tuple(replace(use, span=at) for use in value)
        elif field.name in ("arms", "handlers"):
            changes[field.name] = tuple(numbered(part, lines) for part in value)
        elif field.name in ("test", "body", "orelse", "final"):
            changes[field.name] = numbered(value, lines)
    return replace(instr, **changes)  # type: ignore[arg-type]


def solved(block: Block) -> set[tuple[str, int]]:
    """What the solver finds when it may take as long as it likes."""
    held = {Break.MOVED_RUNNING.name, Break.MOVED_BUILT.name}
    with patch.object(solver, "MOST_STATES", 4096), patch.object(solver, "MOST_STEPS", 1_000_000):
        broken = solver.solve(Flow("f", block)).broken
    found = {(item.kind.name, item.span.line) for item in broken}
    return {("MOVED_HELD" if kind in held else kind, line) for kind, line in found}


def enumerated(block: Block, rounds: int) -> tuple[set[tuple[str, int]], bool]:
    """What some path shows, and whether all paths were run."""
    found: set[tuple[str, int]] = set()
    ways = list(islice(paths(block, rounds), MOST_PATHS))
    for path, _ in ways:
        found |= Machine(path).broken
    return {("MOVED_HELD" if kind == "MOVED_BUILT" else kind, line) for kind, line in found}, len(ways) < MOST_PATHS


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blocks(2, 7))
def test_the_solver_finds_what_paths_show(block: Block) -> None:
    block = numbered(block, count(1))
    found = solved(block)
    shown, _ = enumerated(block, 2)
    assert shown <= found
    more, complete = enumerated(block, 4)
    if complete:
        assert found <= more


class Forgetful(dict[tuple[int, int], tuple[solver.Cases, solver.Cases]]):
    def setdefault(self, key: object, default: object = None) -> tuple[solver.Cases, solver.Cases]:
        return {}, {}


class Anew(solver._Run):
    """The solver, following a loop anew whenever it is met."""

    def __post_init__(self) -> None:
        self.heads = Forgetful()


@st.composite
def nests(draw: st.DrawFn, depth: int) -> Block:
    """A loop around a loop, with a little before and behind the inner one, which may stand in a branch."""
    at = Span("", 1, 1, 1, 1)
    inner = draw(nests(depth - 1)) if depth else (draw(simple()),)
    if draw(st.integers(0, 3)) == 0:
        inner = (flow.Branch((inner, ()), span=at),)
    parts = [draw(st.lists(simple(), max_size=2)) for _ in range(2)]
    body: Block = (*parts[0], *inner, *parts[1])
    if draw(st.integers(0, 3)) == 0:
        leave: Instr = flow.Exit(draw(st.sampled_from(("break", "continue", "return"))), span=at)
        body = (*body, flow.Branch(((leave,), ()), span=at))
    return (flow.Loop((), body, once=draw(st.booleans()), span=at),)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(simple(), min_size=1, max_size=4), nests(2), st.lists(simple(), max_size=2))
def test_a_loop_in_a_loop_is_followed_once(before: list[Instr], nest: Block, behind: list[Instr]) -> None:
    function = Flow("f", numbered((*before, *nest, *behind), count(1)))
    with patch.object(solver, "MOST_STEPS", 200_000):
        once = run_paths(function)
        with patch.object(solver, "_Run", Anew):
            assert run_paths(function) == once


def test_a_deep_nest_takes_few_steps() -> None:
    """The states of a loop are followed once, however many loops are around it."""
    block: Block = (
        make("z"),
        cut("p", "z"),
        instructions.Build("o", Site(Kind.OP, "o", AT), (use("p", Hold.SHARED),), span=AT),
    )
    block = (*block, instructions.Start("r", Site(Kind.RUNNING, "r", AT), "o", span=AT))
    for _ in range(30):
        block = (flow.Loop((), block, span=AT),)
    with patch.object(solver, "MOST_STEPS", 1000):
        assert solve(Flow("f", numbered(block, count(1)))).left_out is None


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blocks(2, 8, False))
def test_without_loops_the_two_agree(block: Block) -> None:
    block = numbered(block, count(1))
    shown, complete = enumerated(block, 1)
    assert shown <= solved(block)
    if complete:
        assert solved(block) == shown


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blocks(2, 7))
def test_what_is_left_out_does_not_matter(block: Block) -> None:
    function = Flow("f", numbered(block, count(1)))
    whole = run_paths(function)
    if whole.left_out is not None:
        return
    rest = solve(function)
    if any(isinstance(instr, instructions.Assume | instructions.Decide) for instr in flow.walk(function.body)):
        # A test of what is left out rules out no path, so that there may be more findings, and none is lost.
        assert {found.span for found in whole.broken} <= {found.span for found in rest.broken}
    else:
        assert rest == whole


AT = Span("", 1, 1, 1, 1)


def make(var: str) -> Instr:
    return instructions.Make(var, Site(Kind.TENSOR, var, AT), span=AT)


def view(into: str, src: str) -> Instr:
    return instructions.Borrow(into, src, Hold.SHARED, Site(Kind.VIEW, into, AT), (Range(0, 4),), span=AT)


def cut(into: str, src: str) -> Instr:
    return instructions.Borrow(into, src, Hold.EXCLUSIVE, Site(Kind.PARTITION, into, AT), renews=True, span=AT)


def use(src: str, hold: Hold) -> Use:
    return Use(src, hold, AT, src, "a")


CORNERS: dict[str, tuple[Block, tuple[str, int]]] = {
    "a body without tensors may raise": (
        (
            make("x"),
            flow.Guard(
                (make("z"),),
                (
                    (
                        instructions.Build(
                            "o", Site(Kind.OP, "o", AT), (use("x", Hold.EXCLUSIVE), use("x", Hold.SHARED)), span=AT
                        ),
                    ),
                ),
                span=AT,
            ),
        ),
        ("ONE_CALL", 4),
    ),
    "an owner that only a dead name leads to": (
        (
            flow.Branch(
                ((), (instructions.Get("z", "x", ".f", Site(Kind.OTHER, "z", AT), span=AT), view("z", "z"))),
                span=AT,
            ),
            instructions.Move("z", "move", span=AT),
        ),
        ("MOVED_VIEW", 4),
    ),
    "a view that a running op holds and that is used again": (
        (
            make("z"),
            view("v", "z"),
            instructions.Build("o", Site(Kind.OP, "o", AT), (use("v", Hold.SHARED),), span=AT),
            instructions.Start("r", Site(Kind.RUNNING, "r", AT), "o", span=AT),
            cut("p", "z"),
            instructions.Finish("r", span=AT),
            instructions.Access("v", Touch.READ, "use", span=AT),
        ),
        ("IDLE", 5),
    ),
}


@pytest.mark.parametrize(("block", "finding"), CORNERS.values(), ids=CORNERS)
def test_corners(block: Block, finding: tuple[str, int]) -> None:
    block = numbered(block, count(1))
    assert finding in enumerated(block, 1)[0]
    assert finding in solved(block)


def test_waiting_for_a_running_op_is_no_use_of_what_it_holds() -> None:
    block: Block = (
        make("z"),
        cut("p", "z"),
        instructions.Build("o", Site(Kind.OP, "o", AT), (use("p", Hold.EXCLUSIVE),), span=AT),
        instructions.Start("r", Site(Kind.RUNNING, "r", AT), "o", span=AT),
        cut("q", "z"),
        instructions.Finish("r", span=AT),
    )
    assert solved(numbered(block, count(1))) == set()


def test_paths_that_are_not_followed_are_named() -> None:
    at = Span("", 1, 1, 1, 1)
    branches: list[Instr] = [instructions.Make("z", Site(Kind.TENSOR, "z", at), span=at)]
    for name in "abcdefg":
        op = instructions.Build(name, Site(Kind.OP, name, at), (Use("z", Hold.SHARED, at, "z", "x"),), span=at)
        branches.append(flow.Branch(((op,), (instructions.Make(name, Site(Kind.OTHER, name, at), span=at),)), span=at))
    many: Block = (*branches, *(instructions.Finish(name, span=at) for name in "abcdefg"))
    solution = solve(Flow("f", many))
    assert solution.left_out == "its branches combine in more than 64 ways" and not solution.dropped
    with patch.object(solver, "MOST_STATES", 4096):
        assert solve(Flow("f", many)).left_out is None
        with patch.object(solver, "MOST_STEPS", 100):
            assert solve(Flow("f", many)).left_out == "they take more than 100 steps"


def test_the_comparison_can_fail() -> None:
    at = Span("", 1, 1, 1, 1)
    site = Site(Kind.TENSOR, "z", at)
    block: Block = (
        instructions.Make("z", site, span=at),
        instructions.Move("z", "m", span=at),
        instructions.Access("z", Touch.READ, "u", span=at),
    )
    assert ("MOVED", 3) in solved(numbered(block, count(1)))
    assert ("MOVED", 3) in enumerated(numbered(block, count(1)), 1)[0]
    assert solved(numbered(block[:1] + block[2:], count(1))) == set()
