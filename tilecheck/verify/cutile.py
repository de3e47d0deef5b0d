"""What only tiles can get wrong: padding that is used although nobody asked for it, and 32-bit index arithmetic.

The reader left both questions in the kernel as effectless calls. They are answered with the launches that the file shows,
and left alone where a launch does not say enough: a finding here is wrong at that very launch.

    t = ct.load(x, index=(r, 0), shape=(1, 128)); ct.sum(t, axis=1)   with x of 50 x 100   ->   28 undetermined lanes per row
    at = row * pitch + ct.arange(W)   with 40,000 rows and pitch 65,536   ->   2,621,374,464 does not fit 32 bits
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.frontend.cutile_lanes import told_apart
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Const,
    Do,
    Expr,
    Extent,
    For,
    If,
    Inline,
    Kernel,
    Name,
    Opaque,
    OpCall,
    Stmt,
    While,
    walk,
)
from tilecheck.ir.simt import Atomic, Load, Store, Unread
from tilecheck.verify.cutile_bits import exactly, extent_at, overflow_doubt, overflow_faults, value_range
from tilecheck.verify.cutile_shapes import launched_shape_faults, shape_faults
from tilecheck.verify.cutile_stores import store_faults
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Answer, Property, Verdict


def check_tiles(kernel: Kernel, launches: Sequence[Launch]) -> tuple[Fault, ...]:
    """The faults of one cuTile kernel at those of `launches` that launch it, each once."""
    found: dict[tuple[str, Span], Fault] = {}
    values, wide = _meanings(kernel)
    for fault in shape_faults(kernel):
        found.setdefault((fault.rule, fault.span), fault)
    for launch in (each for each in launches if each.kernel == kernel.span):
        worth = partial(exactly, launch=launch, values=values, wide=wide)
        for fault in (*store_faults(kernel, launch), *launched_shape_faults(kernel, launch, worth)):
            found.setdefault((fault.rule, fault.span), fault)
        for fault in overflow_faults(kernel, launch, values, wide):
            found.setdefault((fault.rule, fault.span), fault)
        for node in walk(*kernel.body):
            if isinstance(node, Do) and isinstance(node.value, OpCall):
                for fault in _faults(kernel, node.value, launch, values, wide):
                    found.setdefault((fault.rule, fault.span), fault)
    return tuple(found.values())


def _meanings(kernel: Kernel) -> tuple[dict[str, Expr], frozenset[str]]:
    """What the names stand for that are bound once, and the parameters of 64 bits."""
    assigns = [n for n in walk(*kernel.body) if isinstance(n, Assign)]
    times = Counter(n.target for n in assigns)
    wide = kernel.options.get("wide", ())
    assert isinstance(wide, tuple)
    return {n.target: n.value for n in assigns if times[n.target] == 1}, frozenset(wide)


def doubts(kernel: Kernel, launches: Sequence[Launch]) -> dict[Property, str]:
    """Why what is proved of `kernel` may not hold: 32 bits are not enough at one of `launches`, or lanes may meet."""
    values, wide = _meanings(kernel)
    found: dict[Property, str] = {}
    for node in walk(*kernel.body):
        if isinstance(node, OpCall) and node.op == "lanes_apart":
            its = [each for each in launches if each.kernel == kernel.span]
            worths = [partial(exactly, launch=each, values=values, wide=wide) for each in its]
            if not node.args or not worths or not all(told_apart(node.args, worth) for worth in worths):
                reason = f"line {node.span.line}: two lanes may write different values to one element"
                found[Property.RACE_FREE] = reason
    overflow = overflow_doubt(kernel, launches, values, wide)
    if overflow is not None:
        found |= {Property.RACE_FREE: overflow, Property.IN_BOUNDS: overflow}
    return found


def revised(
    report: SimtReport, faults: Sequence[Fault], doubtful: Mapping[Property, str] = MappingProxyType({})
) -> SimtReport:
    """`report` in the light of what `check_tiles` and `doubts` found: a tile outside of its array may meet others' in
    memory, and an index that wraps is another element.
    """
    race, bounds = report.verdicts[Property.RACE_FREE], report.verdicts[Property.IN_BOUNDS]
    met = next((fault for fault in faults if fault.rule == "data-race" and fault.kernel == report.kernel.name), None)
    answers = dict(report.verdicts)
    for shown, reason in doubtful.items():
        if answers[shown].verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN):
            answers[shown] = Answer(Verdict.UNKNOWN, reason=reason)
    if met is not None:
        answers[Property.RACE_FREE] = Answer(Verdict.REFUTED, reason=f"line {met.span.line}")
    elif bounds.verdict is Verdict.REFUTED and race.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN):
        reason = f"a tile begins outside of its array ({bounds.reason})"
        answers[Property.RACE_FREE] = Answer(Verdict.UNKNOWN, reason=reason)
    return replace(report, verdicts=answers)


# A replay visits this many elements of a tile along each axis.
_VISITED = 16


def thinned(kernel: Kernel) -> Kernel:
    """The kernel with loops over a tile's elements that take large steps, and without those that only read, inside of its
    edges, an array that nobody writes: nothing can happen there.

    What such a kernel does, the whole one does too: a fault of a replay is a fault of the kernel, found without going
    through every element of tiles of 128 by 128.
    """
    nodes = tuple(walk(*kernel.body))
    written = {n.array.id for n in nodes if isinstance(n, Store | Atomic) and isinstance(n.array, Name)}
    for node in nodes:
        if isinstance(node, Unread):
            written |= set(node.touches or ())
    body = _thin_all(kernel.body, written)
    used = {node.id for node in walk(*body) if isinstance(node, Name)}
    return replace(kernel, body=_without_tiles(body, used))


# What the reader leaves in a kernel for the checks of this module.
_MARKS = frozenset(
    {"whole_tiles", "fits_int32", "stores_tile", "tile_extents", "ranks_differ", "takes_dtype", "numbers_blocks"}
)
# Values that are written and tell nothing but themselves.
STORED = frozenset({"the stored tile", "the added tile", "scattered elements"})


def _without_tiles(body: tuple[Stmt, ...], used: set[str]) -> tuple[Stmt, ...]:
    """`body` without tiles that nothing depends on, and without the marks."""
    kept: list[Stmt] = []
    for node in body:
        match node:
            case Do(value=OpCall(op=op)) if op in _MARKS:
                continue
            case Assign(target=target, value=Opaque()) if target not in used:
                continue
            case For(body=inner) | While(body=inner) | Inline(body=inner):
                kept.append(replace(node, body=_without_tiles(inner, used)))
            case If(then=then, other=other):
                kept.append(replace(node, then=_without_tiles(then, used), other=_without_tiles(other, used)))
            case _:
                kept.append(node)
    return tuple(kept)


def writes_only(kernel: Kernel) -> bool:
    """Whether the kernel reads no array that it writes, so that nothing depends on what it stored."""
    nodes = tuple(walk(*kernel.body))
    if any(isinstance(node, Unread | Atomic) for node in nodes):
        return False
    written = {n.array.id for n in nodes if isinstance(n, Store) and isinstance(n.array, Name)}
    return not any(isinstance(n, Load) and isinstance(n.array, Name) and n.array.id in written for n in nodes)


def _thin_all(body: tuple[Stmt, ...], written: set[str]) -> tuple[Stmt, ...]:
    return tuple(_thin(statement, written) for statement in body if not _only_reads(statement, written))


def _only_reads(node: Stmt, written: set[str]) -> bool:
    """Whether a statement is a loop over elements that reads within the edges of arrays that are never written."""
    match node:
        case For(target=target, body=body) if target.startswith("%"):
            return all(_only_reads(inner, written) or _reads_inside(inner, written) for inner in body)
    return False


def _reads_inside(node: Stmt, written: set[str]) -> bool:
    match node:
        case If(cond=cond, then=(Assign(value=Load(array=Name(id=array), index=index)),), other=()):
            edges = [
                n for n in walk(cond) if isinstance(n, Extent) and isinstance(n.array, Name) and n.array.id == array
            ]
            return array not in written and len(edges) >= len(index)
    return False


def _thin(node: Stmt, written: set[str]) -> Stmt:
    match node:
        case For(target=target, start=Const(value=0), stop=stop, body=body) if target.startswith("%"):
            inner = _thin_all(body, written)
            one = Const(1, span=node.span)
            parts = Binary("//", stop, Const(_VISITED, span=node.span), span=node.span)
            return replace(node, step=OpCall("max", (parts, one), span=node.span), body=inner)
        case For(body=body) | While(body=body) | Inline(body=body):
            return replace(node, body=_thin_all(body, written))
        case If(then=then, other=other):
            return replace(node, then=_thin_all(then, written), other=_thin_all(other, written))
    return node


def _faults(
    kernel: Kernel, call: OpCall, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]
) -> Iterator[Fault]:
    match call:
        case OpCall(op="whole_tiles", args=(Extent(array=Name(id=array), axis=axis), tile, Const(value=line))):
            extent, width = extent_at(launch, array, axis), value_range(tile, launch, values, wide, 0)
            if extent is None or width is None or width.low != width.high or extent % width.low == 0:
                return
            over = width.low - extent % width.low
            yield Fault(
                "void-lanes",
                f"the tile of `{array}` hangs over its edge by {over} lanes on axis {axis}, and they take part at line {line}",
                call.span,
                kernel.name,
                (Label(launch.span, f"`{array}` has extent {extent} there, the tile {width.low}"),),
                "give the load a `padding_mode` that the operation ignores, or a tile that divides the extent",
            )
