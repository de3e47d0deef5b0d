"""Index arithmetic of cuTile kernels at one launch: the ranges of int expressions, and where 32 bits are not enough.

Where the range of a part of an index is known at a launch and leaves 32 bits, this is found there; under a condition, which
may keep such values out, the kernel is in doubt instead. What a launch does not bound is left to the assumption that the
report states.

    ct.store(out, (i * 100000,), t)   on a grid of 30,000   ->   i * 100000 reaches 2,999,900,000
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import (
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
    OpCall,
    Stmt,
    Unary,
    While,
    walk,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import ThreadVar

_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an expression takes in one launch: both ends are taken. `wide` is 64-bit arithmetic."""

    low: int
    high: int
    wide: bool = False


def overflow_faults(
    kernel: Kernel, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]
) -> Iterator[Fault]:
    """The index arithmetic that leaves 32 bits at `launch`, in statements that every block gets to."""
    for call, guarded in _marks(kernel.body, False):
        found = None if guarded else _too_large(call.args[0], launch, values, wide)
        if found is not None:
            part, worst = found
            yield Fault(
                "index-overflow",
                f"`{_shown(part)}` reaches {worst:,} in 32-bit arithmetic, the limit is {_LIMIT:,}",
                part.span,
                kernel.name,
                (Label(launch.span, f"launched here on a grid of {_grid(launch)}"),),
                "annotate the scalar `ct.ScalarInt64` and the array `ct.IndexedWithInt64`, or compute with "
                "`dtype=ct.int64`",
            )


def overflow_doubt(
    kernel: Kernel, launches: Sequence[Launch], values: Mapping[str, Expr], wide: frozenset[str]
) -> str | None:
    """Why the index arithmetic of `kernel` may leave 32 bits at those of `launches` that launch it, None if it does not."""
    for launch in (each for each in launches if each.kernel == kernel.span):
        for call, _ in _marks(kernel.body, False):
            found = _too_large(call.args[0], launch, values, wide)
            if found is not None:
                part, worst = found
                return f"line {part.span.line}: `{_shown(part)}` may reach {worst:,} in 32-bit arithmetic at a launch"
    return None


def _marks(body: Sequence[Stmt], guarded: bool) -> Iterator[tuple[OpCall, bool]]:
    """The `fits_int32` of statements, each with whether a condition is around it."""
    for node in body:
        match node:
            case Do(value=OpCall(op="fits_int32") as call):
                yield call, guarded
            case If(then=then, other=other):
                yield from _marks((*then, *other), True)
            case For(body=inner) | While(body=inner) | Inline(body=inner):
                yield from _marks(inner, guarded)


def _too_large(
    value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]
) -> tuple[Binary, int] | None:
    """The first part of `value`, behind names too, that leaves 32 bits at `launch`, and how far."""
    for part in _parts(value, values, set()):
        taken = value_range(part, launch, values, wide, 0)
        if taken is not None and not taken.wide and not _fits(taken):
            return part, taken.high if taken.high > _LIMIT else taken.low
    return None


def _parts(value: Expr, values: Mapping[str, Expr], seen: set[str]) -> Iterator[Binary]:
    for node in walk(value):
        if isinstance(node, Name) and node.id in values and node.id not in seen:
            seen.add(node.id)
            yield from _parts(values[node.id], values, seen)
    for node in walk(value):
        if isinstance(node, Binary):
            yield node


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


def extent_at(launch: Launch, array: str, axis: int | None) -> int | None:
    value = launch.arguments.get(array)
    if not isinstance(value, HostArray) or value.shape is None or axis is None or axis >= len(value.shape):
        return None
    return value.shape[axis]


def exactly(value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str]) -> int | None:
    """The one value of an int expression at a launch, None if there are several or the launch does not say."""
    found = value_range(value, launch, values, wide, 0)
    return found.low if found is not None and found.low == found.high else None


def value_range(
    value: Expr, launch: Launch, values: Mapping[str, Expr], wide: frozenset[str], depth: int
) -> Range | None:
    """The range of an int expression, None if the launch does not say."""
    if depth > 32:
        return None

    def inner(part: Expr) -> Range | None:
        return value_range(part, launch, values, wide, depth + 1)

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
        case OpCall(op="int32", args=(part,)):
            found = inner(part)
            return found if found is None or _fits(found) else Range(-_LIMIT - 1, _LIMIT)
        case OpCall(op="int64", args=(part,)):
            found = inner(part)
            return None if found is None else Range(found.low, found.high, True)
        case Extent(array=Name(id=array), axis=axis):
            extent = extent_at(launch, array, axis)
            return None if extent is None or extent > _LIMIT else Range(extent, extent, array in wide)
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
        case Binary(op="<<", left=left, right=right):
            a, b = inner(left), inner(right)
            if a is None or b is None or not 0 <= b.low == b.high < 64:
                return None
            return Range(a.low << b.low, a.high << b.low, a.wide)
        case Binary(op="%", left=left, right=right):
            a, b = inner(left), inner(right)
            if a is None or b is None or not b.low == b.high > 0:
                return None
            return a if 0 <= a.low <= a.high < b.low else Range(0, b.low - 1, a.wide or b.wide)
        case OpCall(op="min" | "max" as op, args=args):
            parts = [found for part in args if (found := inner(part)) is not None]
            if not parts or len(parts) < len(args):
                return None
            pick = min if op == "min" else max
            return Range(pick(r.low for r in parts), pick(r.high for r in parts), any(r.wide for r in parts))
    return None


def _fits(taken: Range) -> bool:
    return -_LIMIT - 1 <= taken.low <= taken.high <= _LIMIT
