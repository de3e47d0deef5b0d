"""What only tiles can get wrong: padding that is used although nobody asked for it, and 32-bit index arithmetic.

The reader left both questions in the kernel as effectless calls. They are answered with the launches that the file shows,
and left alone where a launch does not say enough: a finding here is wrong at that very launch.

    t = ct.load(x, index=(r, 0), shape=(1, 128)); ct.sum(t, axis=1)   with x of 50 x 100   ->   28 undetermined lanes per row
    at = row * pitch + ct.arange(W)   with 40,000 rows and pitch 65,536   ->   2,621,374,464 does not fit 32 bits
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray
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
    Unary,
    While,
    walk,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Atomic, Load, Store, ThreadVar, Unread
from tilecheck.verify.cutile_shapes import launched_shape_faults, shape_faults
from tilecheck.verify.cutile_stores import store_faults
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Answer, Property, Verdict

_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an expression takes in one launch: both ends are taken. `wide` is 64-bit arithmetic."""

    low: int
    high: int
    wide: bool = False


def check_tiles(kernel: Kernel, launches: Sequence[Launch]) -> tuple[Fault, ...]:
    """The faults of one cuTile kernel at those of `launches` that launch it, each once."""
    found: dict[tuple[str, Span], Fault] = {}
    assigns = [n for n in walk(*kernel.body) if isinstance(n, Assign)]
    times = Counter(n.target for n in assigns)
    values = {n.target: n.value for n in assigns if times[n.target] == 1}
    wide = frozenset(kernel.options.get("wide", ()))  # type: ignore[call-overload]
    for fault in shape_faults(kernel):
        found.setdefault((fault.rule, fault.span), fault)
    for launch in (each for each in launches if each.kernel == kernel.span):
        worth = partial(_exactly, launch=launch, values=values, wide=wide)
        for fault in (*store_faults(kernel, launch), *launched_shape_faults(kernel, launch, worth)):
            found.setdefault((fault.rule, fault.span), fault)
        for node in walk(*kernel.body):
            if isinstance(node, Do) and isinstance(node.value, OpCall):
                for fault in _faults(kernel, node.value, launch, values, wide):
                    found.setdefault((fault.rule, fault.span), fault)
    return tuple(found.values())


def revised(report: SimtReport, faults: Sequence[Fault]) -> SimtReport:
    """`report` in the light of what `check_tiles` found: a tile outside of its array may meet others' in memory."""
    race, bounds = report.verdicts[Property.RACE_FREE], report.verdicts[Property.IN_BOUNDS]
    met = next((fault for fault in faults if fault.rule == "data-race" and fault.kernel == report.kernel.name), None)
    if met is not None:
        answer = Answer(Verdict.REFUTED, reason=f"line {met.span.line}")
    elif bounds.verdict is Verdict.REFUTED and race.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN):
        answer = Answer(Verdict.UNKNOWN, reason=f"a tile begins outside of its array ({bounds.reason})")
    else:
        return report
    return replace(report, verdicts={**report.verdicts, Property.RACE_FREE: answer})


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
_MARKS = frozenset({"whole_tiles", "fits_int32", "stores_tile", "tile_extents", "ranks_differ", "takes_dtype"})
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
            extent, width = _extent(launch, array, axis), _range(tile, launch, values, wide, 0)
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
        case OpCall(op="fits_int32", args=(value,)):
            yield from _overflows(kernel, value, launch, values, wide)


def _overflows(
    kernel: Kernel, value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]
) -> Iterator[Fault]:
    for part in walk(value):
        if not isinstance(part, Binary):
            continue
        taken = _range(part, launch, values, wide, 0)
        if taken is None or taken.wide or -_LIMIT - 1 <= taken.low <= taken.high <= _LIMIT:
            continue
        worst = taken.high if taken.high > _LIMIT else taken.low
        yield Fault(
            "index-overflow",
            f"`{_shown(part)}` reaches {worst:,} in 32-bit arithmetic, the limit is {_LIMIT:,}",
            part.span,
            kernel.name,
            (Label(launch.span, f"launched here on a grid of {_grid(launch)}"),),
            "annotate the scalar `ct.ScalarInt64` and the array `ct.IndexedWithInt64`, or compute with `dtype=ct.int64`",
        )
        return


def _shown(value: Expr) -> str:
    """The expression in the user's words: lanes by their name in cuTile."""
    match value:
        case OpCall(op="lane" | "lane64", args=(_, size)):
            return f"ct.arange({show(size)})"
        case Binary(op=op, left=left, right=right):
            return f"{_shown(left)} {op} {_shown(right)}"
    return show(value)


def _grid(launch: Launch) -> str:
    return " x ".join("?" if e is None else str(e) for e in launch.grid)


def _extent(launch: Launch, array: str, axis: int | None) -> int | None:
    value = launch.arguments.get(array)
    if not isinstance(value, HostArray) or value.shape is None or axis is None or axis >= len(value.shape):
        return None
    return value.shape[axis]


def _exactly(value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]) -> int | None:
    """The one value of an int expression at a launch, None if there are several or the launch does not say."""
    found = _range(value, launch, values, wide, 0)
    return found.low if found is not None and found.low == found.high else None


def _range(value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str], depth: int) -> Range | None:
    """The range of an int expression, None if the launch does not say."""
    if depth > 32:
        return None

    def inner(part: Expr) -> Range | None:
        return _range(part, launch, values, wide, depth + 1)

    match value:
        case Const(value=bool()):
            return None
        case Const(value=int() as number):
            return Range(number, number)
        case ThreadVar(kind="blockIdx" | "gridDim" as kind, axis=axis):
            count = None if axis is None else launch.grid["xyz".index(axis)]
            if count is None or count < 1:
                return None
            return Range(0, count - 1) if kind == "blockIdx" else Range(count, count)
        case OpCall(op="lane" | "lane64" as op, args=(_, size)):
            length = inner(size)
            return None if length is None else Range(0, length.high - 1, op == "lane64")
        case OpCall(op="int64", args=(part,)):
            found = inner(part)
            return None if found is None else Range(found.low, found.high, True)
        case Extent(array=Name(id=array), axis=axis):
            extent = _extent(launch, array, axis)
            return None if extent is None else Range(extent, extent)
        case Name(id=name):
            given = launch.arguments.get(name)
            if isinstance(given, int) and not isinstance(given, bool):
                return Range(given, given, name in wide)
            return inner(values[name]) if name in values else None
        case Unary(op="-", operand=operand):
            found = inner(operand)
            return None if found is None else Range(-found.high, -found.low, found.wide)
        case Binary(op="+" | "-" | "*" | "//" as op, left=left, right=right):
            a, b = inner(left), inner(right)
            if a is None or b is None:
                return None
            if op == "//":
                exact = b.low == b.high > 0
                return Range(a.low // b.low, a.high // b.low, a.wide or b.wide) if exact else None
            if op == "*":
                ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            elif op == "+":
                ends = [a.low + b.low, a.high + b.high]
            else:
                ends = [a.low - b.high, a.high - b.low]
            return Range(min(ends), max(ends), a.wide or b.wide)
    return None
