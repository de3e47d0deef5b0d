"""Whether the threads of a plain launch reach all the elements that the kernel is written for.

Two ways of leaving some out are recognised. A grid that is rounded down (`n // block`, `int(n / block)`), whatever `n`
is, unless the file tests `n % block` or `n` is a multiple of the block by construction. And numbers that stand in the
file: fewer threads along an axis than the guard of the kernel allows elements. Nothing is said of a kernel that strides
by the grid, or that does not guard its index, for then the launch may be meant so; nor of a launch of one thread, which
is how kernels are warmed up.

Worked example: `scale[8, 128](d, 2.0)` of a kernel that does `if i < x.size: x[i] *= by` reaches 1024 of the 10000
elements of `d`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilecheck.borrow.guards import Guard
from tilecheck.borrow.launch import Launch
from tilecheck.borrow.multiples import is_multiple, sliced_to_multiple
from tilecheck.borrow.plain_brackets import Axis, axes
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Number
from tilecheck.borrow.vocabulary import canonical
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir import host as ir

_DOWN = frozenset(
    {"builtins.int", "math.floor", "math.trunc", "numpy.floor", "numpy.trunc", "numpy.int32", "numpy.int64"}
)
_NEAREST = frozenset({"builtins.round", "numpy.round", "numpy.rint"})


def check_coverage(launch: Launch) -> Iterator[Fault]:
    """Elements that no thread of the launch reaches."""
    config, body = launch.kernel.config, launch.kernel.facts.body
    if config is None or body is None or body.strides or not body.guarded:
        return
    grid, block = axes(launch, config.grid), axes(launch, config.block)
    if grid is None or block is None:
        return
    found = False
    for blocks, threads in zip(grid, block, strict=False):
        for fault in _tail(launch, blocks, threads):
            found = True
            yield fault
    if not found:
        yield from _short(launch, body.guards, grid, block)


def _rounded(expr: ir.Expr) -> tuple[ir.Expr, ir.Expr, str] | None:
    """The length and the divisor of a division that is not rounded up, with how it is spelled."""
    match expr:
        case ir.Operation(op="//" | ">>", operands=(extent, divisor)):
            return extent, divisor, spell(expr)
        case ir.Sub(base=ir.Call(func=func, args=(extent, divisor)), index=ir.Const(value=0)) if (
            canonical(func) == "builtins.divmod"
        ):
            return extent.value, divisor.value, spell(expr)
        case ir.Call(func=func, args=args) if canonical(func) in ("builtins.max", "numpy.maximum") and len(args) == 2:
            # At least one block: the rest is rounded down as before.
            first, second = args[0].value, args[1].value
            one = isinstance(first, ir.Const) and first.value == 1
            inner = _rounded(second if one else first)
            other = first if one else second
            return inner if isinstance(other, ir.Const) and other.value == 1 else None
        case ir.Call(func=func, args=(only,)) if canonical(func) in (_DOWN | _NEAREST):
            match only.value:
                case ir.Operation(op="/", operands=(extent, divisor)):
                    return extent, divisor, spell(expr)
                case ir.Call() as inner_call:
                    found = _rounded(inner_call)
                    return None if found is None else (*found[:2], spell(expr))
                case _:
                    return None
        case _:
            return None


def _tail(launch: Launch, blocks: Axis, threads: Axis) -> Iterator[Fault]:
    rounded = _rounded(blocks.origin)
    if rounded is None:
        return
    extent, divisor, shown = rounded
    if isinstance(extent, ir.Operation) and extent.op != "*":
        # `(n + block - 1) // block` rounds up.
        return
    size, by, width = launch.number(extent), launch.number(divisor), threads.number
    shift = isinstance(blocks.origin, ir.Operation) and blocks.origin.op == ">>"
    if shift:
        by = 1 << by if isinstance(by, int) and 0 <= by < 32 else None
    same = by == width if by is not None and width is not None else spell(divisor) == spell(threads.shown)
    nearest = _is_nearest(blocks.origin)
    known = isinstance(size, int) and isinstance(by, int) and by > 0
    left = size % by if known and isinstance(size, int) and isinstance(by, int) else None
    reached = isinstance(blocks.number, int) and known and isinstance(size, int) and isinstance(by, int)
    if reached and isinstance(blocks.number, int) and isinstance(by, int) and isinstance(size, int):
        left = max(size - blocks.number * by, 0)
    if not same or (shift and by is None) or left == 0 or f"{spell(extent)} % {spell(divisor)}" in launch.tested:
        return
    width_of = ir.Const(by, span=divisor.span) if shift and isinstance(by, int) else divisor
    if left is None and (is_multiple(launch, extent, width_of) or sliced_to_multiple(launch, width_of)):
        return
    tail = f", the last {left} elements" if left is not None else " if it is less than half a block" if nearest else ""
    n, tpb = spell(extent), str(by) if shift else spell(divisor)
    n = f"({n})" if isinstance(extent, ir.Operation) else n
    yield Fault(
        "partial-coverage",
        f"`{shown}` blocks leave out the tail{tail}",
        blocks.span,
        help=f"round up: `({n} + {tpb} - 1) // {tpb}`; the kernel guards its index already",
    )


def _is_nearest(expr: ir.Expr) -> bool:
    return any(isinstance(node, ir.Call) and canonical(node.func) in _NEAREST for node in ir.walk(expr))


def _short(
    launch: Launch, guards: tuple[Guard, ...], grid: tuple[Axis, ...], block: tuple[Axis, ...]
) -> Iterator[Fault]:
    """Guards that allow more elements than there are threads."""
    numbers = [axis.number for axis in (*grid, *block)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) != len(numbers) or math.prod(whole) <= 1:
        return
    counts, widths = ([axis.number for axis in side] + [1, 1] for side in (grid, block))
    for guard in guards:
        wanted = _bound(launch, guard.bound)
        blocks, width = counts[guard.axis], widths[guard.axis]
        if wanted is None or not isinstance(blocks, int) or not isinstance(width, int):
            continue
        if wanted <= blocks * width + 1:
            # One more may well be there to show that it is not touched.
            continue
        name, letter = launch.kernel.facts.contract.name, "xyz"[guard.axis]
        need = -(-wanted // width)
        config = launch.kernel.config
        span = config.grid.span if config is not None and config.grid is not None else launch.span
        here = guard.test.span.path == launch.span.path
        yield Fault(
            "partial-coverage",
            f"{blocks} x {width} = {blocks * width} threads along {letter} for {wanted} elements, `{name}` gives each "
            "thread one",
            span,
            labels=(Label(guard.test.span, "one element per thread, as long as there are any"),) if here else (),
            help=f"launch {need} blocks along {letter}, or let each thread stride by `cuda.gridsize`",
        )
        return


def _bound(launch: Launch, bound: ir.Expr) -> int | None:
    """The number of elements that a guard names, in terms of the arguments."""
    match bound:
        case ir.Const(value=int() as constant):
            return constant
        case ir.Name(id=name, full=None):
            given = launch.args.get(name)
            found = given.value.value if given is not None and isinstance(given.value, Number) else None
            if given is not None and found is None:
                found = launch.number(given.expr)
            return found if isinstance(found, int) and not isinstance(found, bool) else None
        case ir.Attr(base=ir.Name(id=name), name="size"):
            shape = _shape(launch, name)
            return math.prod(shape) if shape is not None else None
        case ir.Call(func=func, args=(ir.Arg(value=ir.Name(id=name)),)) if canonical(func) == "builtins.len":
            shape = _shape(launch, name)
            return shape[0] if shape else None
        case ir.Sub(base=ir.Attr(base=ir.Name(id=name), name="shape"), index=ir.Const(value=int() as at)):
            shape = _shape(launch, name)
            return shape[at] if shape is not None and -len(shape) <= at < len(shape) else None
        case _:
            return None


def _shape(launch: Launch, name: str) -> tuple[int, ...] | None:
    given = launch.args.get(name)
    shape = given.value.shape if given is not None and isinstance(given.value, Array) else None
    known = tuple(extent for extent in shape if extent is not None) if shape is not None else ()
    return known if shape is not None and len(known) == len(shape) else None
