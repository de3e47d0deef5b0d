"""The brackets of a plain launch, `kernel[grid, block, stream, shared]`: what stands where, and whether it fits.

A grid and a block have one to three axes, all ints. Of each axis is known how it is written, what computed it, and its
number; a fault needs only one of these: `n / 128` is a float whatever `n` is.

Limits are those of every CUDA device in use: 1024 threads per block, 64 along z, 65535 blocks along y and z, 227 KB of
dynamic shared memory.

Worked example: `k[n / 16, (32, 64)]` has a grid that is a float and a block of 2048 threads; `k[2, stream, 128]` has a
stream where the block stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilecheck.borrow.launch import Launch
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Handle, Items, Nothing, Number, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir

MOST_AXES = 3
MOST_THREADS = 1024
MOST_ALONG_Z = 64
MOST_BLOCKS_X = (1 << 31) - 1
MOST_BLOCKS_YZ = 65535
MOST_SHARED = 232_448
_RULE = "launch-contract"
_ENTRIES = "`[grid, block, stream, shared bytes]`"
_FLOATS = frozenset(
    {
        "numpy.ceil",
        "numpy.floor",
        "numpy.divide",
        "numpy.true_divide",
        "numpy.float32",
        "numpy.float64",
        "builtins.float",
        "math.sqrt",
        "numpy.sqrt",
    }
)
# Float if what they are given is.
_KEEPING = frozenset({"builtins.max", "builtins.min", "builtins.abs"})
_SEQUENCES = frozenset({"builtins.tuple", "builtins.list"})
_THREADS_NAME = re.compile(r"(^|_)tpb($|_)|threads?|block_?(size|dim|shape)", re.IGNORECASE)
_GRID_NAME = re.compile(r"(^|_)bpg($|_)|grid|n_?blocks|num_?blocks|blocks", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid or block: as written at the launch, as computed, its number and where it stands."""

    shown: ir.Expr
    origin: ir.Expr
    number: int | float | None
    span: Span


def axes(launch: Launch, expr: ir.Expr | None) -> tuple[Axis, ...] | None:
    """The axes of a grid or block, None if it cannot be told how many there are."""
    if expr is None:
        return None
    value = launch.value(expr)
    origin = origin_of(launch, expr)
    if isinstance(origin, ir.Display):
        if any(isinstance(item, ir.Starred) for item in origin.items) or origin.kind not in ("tuple", "list"):
            return None
        here = origin is expr
        return tuple(
            Axis(item, origin_of(launch, item), launch.number(item), item.span if here else expr.span)
            for item in origin.items
        )
    if isinstance(value, Items):
        return tuple(_item(expr, item) for item in value.values)
    return (Axis(expr, origin, launch.number(expr), expr.span),)


def _item(expr: ir.Expr, item: Value) -> Axis:
    computed = item.expr if isinstance(item, Nothing) and item.expr is not None else expr
    found = item.value if isinstance(item, Number) else None
    number = found if isinstance(found, int | float) and not isinstance(found, bool) else None
    return Axis(computed, computed, number, expr.span)


def origin_of(launch: Launch, expr: ir.Expr) -> ir.Expr:
    """What computed `expr`, itself if that is not known."""
    value = launch.value(expr)
    return value.expr if isinstance(value, Nothing) and value.expr is not None else expr


def check_entries(name: str, parts: list[ir.Expr], node: ir.Sub) -> Iterator[Fault]:
    """The number of entries between the brackets of the plain kernel `name`."""
    if len(parts) > 4 and not any(isinstance(part, ir.Starred) for part in parts):
        yield Fault(
            _RULE,
            f"`{spell(node)}` has {len(parts)} entries, a launch takes 4 at most",
            node.span,
            help=f"they are {_ENTRIES}; a grid or block of several axes is a tuple of its own",
        )


def check_brackets(launch: Launch) -> Iterator[Fault]:
    """What is wrong in the brackets: one fault per entry."""
    config = launch.kernel.config
    if config is None or config.grid is None:
        return
    grid, block = config.grid, config.block
    misplaced = list(_misplaced(launch))
    yield from misplaced
    if misplaced:
        return
    if block is not None and _swapped(launch, grid, block):
        yield Fault(
            _RULE,
            f"grid and block are swapped: `{spell(grid)}` is the number of threads of a block, "
            f"`{spell(block)}` the number of blocks",
            launch.span,
            help=f"write `{launch.kernel.facts.contract.name}[{spell(block)}, {spell(grid)}]`",
        )
        return
    for expr, what in ((grid, "grid"), (block, "block")):
        if expr is not None:
            yield from _form(launch, expr, what)
    yield from _limits(launch)
    yield from _shared(launch)


def _misplaced(launch: Launch) -> Iterator[Fault]:
    """Streams, arrays and byte counts that stand in the place of something else."""
    config, name = launch.kernel.config, launch.kernel.facts.contract.name
    assert config is not None
    places = ((config.grid, "the grid"), (config.block, "the block"), (config.shared, "the shared bytes"))
    for expr, place in places:
        value = launch.value(expr) if expr is not None else None
        what = _thing(value)
        if expr is not None and what is not None:
            yield Fault(_RULE, f"`{spell(expr)}` is {what}, but stands where {place} of `{name}` should", expr.span,
                        help=f"the entries are {_ENTRIES}")  # fmt: skip
    value = launch.value(config.stream) if config.stream is not None else None
    if config.stream is None or value is None:
        return
    what = _thing(value) if not isinstance(value, Handle) or value.kind == "event" else None
    number = launch.number(config.stream)
    if what is not None or (number is not None and number != 0):
        text = spell(config.stream)
        yield Fault(
            _RULE,
            f"`{text}` is {what or 'a number'}, but stands where the stream of `{name}` should",
            config.stream.span,
            help=f"the entries are {_ENTRIES}" + ("" if what else f"; bytes come fourth: `[grid, block, 0, {text}]`"),
        )


def _thing(value: Value | None) -> str | None:
    match value:
        case Handle(kind="event"):
            return "an event"
        case Handle(kind=kind) if "stream" in kind:
            return "a stream"
        case Array():
            return "an array"
        case _:
            return None


def _form(launch: Launch, expr: ir.Expr, what: str) -> Iterator[Fault]:
    """Three axes at most, all of them ints."""
    found = axes(launch, expr)
    if found is None:
        return
    if len(found) > MOST_AXES:
        yield Fault(
            _RULE,
            f"the {what} `{spell(expr)}` has {len(found)} axes, a launch takes {MOST_AXES} at most",
            expr.span,
            help="fold axes into one and take them apart in the kernel",
        )
        return
    for axis in found:
        constant = launch.value(axis.shown)
        if isinstance(axis.number, float) or is_float(launch, axis.origin):
            yield Fault(
                _RULE,
                f"the {what} `{spell(axis.shown)}` is a float, a launch takes ints",
                axis.span,
                help="round up in ints: `(n + block - 1) // block`",
            )
        elif isinstance(constant, Number) and isinstance(constant.value, str | None):
            kind = "None" if constant.value is None else "a string"
            yield Fault(_RULE, f"the {what} `{spell(axis.shown)}` is {kind}, a launch takes ints", axis.span)


def is_float(launch: Launch, expr: ir.Expr, depth: int = 0) -> bool:
    """Whether `expr` computes a float."""
    expr = origin_of(launch, expr)
    match expr:
        case ir.Const(value=float()):
            return True
        case ir.Operation(op="/"):
            return True
        case ir.Operation(op="+" | "-" | "*" | "//" | "%", operands=operands) if depth < 8:
            return any(is_float(launch, operand, depth + 1) for operand in operands)
        case ir.Call(args=args) if depth < 8:
            full = canonical(expr.func)
            if full in _KEEPING:
                return any(is_float(launch, arg.value, depth + 1) for arg in args)
            if full in _SEQUENCES and len(args) == 1:
                return is_float(launch, args[0].value, depth + 1)
            return full in _FLOATS or (full == "builtins.round" and len(args) == 2)
        case ir.Comprehension(elements=(only,)) if depth < 8:
            return is_float(launch, only, depth + 1)
        case ir.Name() | ir.Attr():
            return isinstance(launch.number(expr), float)
        case _:
            return False


def _limits(launch: Launch) -> Iterator[Fault]:
    config = launch.kernel.config
    assert config is not None
    found = axes(launch, config.block) or ()
    block = [axis.number for axis in found if isinstance(axis.number, int)]
    if config.block is not None and len(block) == len(found) and 0 < len(block) <= MOST_AXES:
        threads = math.prod(block)
        if threads > MOST_THREADS:
            shape = " x ".join(map(str, block))
            spelled = f"{shape} = {threads}" if len(block) > 1 else str(threads)
            yield Fault(
                _RULE,
                f"{spelled} threads per block, the limit is {MOST_THREADS}",
                config.block.span,
                help="use smaller blocks and more of them",
            )
        elif len(block) == 3 and block[2] > MOST_ALONG_Z:
            message = f"{block[2]} threads along z, the limit is {MOST_ALONG_Z}"
            yield Fault(_RULE, message, config.block.span)
        if threads <= 0:
            message = f"a block of {threads} threads"
            yield Fault(_RULE, message, config.block.span)
    if config.grid is None:
        return
    for name, axis in zip("xyz", axes(launch, config.grid) or (), strict=False):
        limit = MOST_BLOCKS_X if name == "x" else MOST_BLOCKS_YZ
        if isinstance(axis.number, int) and axis.number < 1:
            yield Fault(_RULE, f"a grid of {axis.number} blocks along {name}", config.grid.span)
        if isinstance(axis.number, int) and axis.number > limit:
            yield Fault(
                _RULE,
                f"{axis.number} blocks along {name}, the limit is {limit}",
                config.grid.span,
                help="put the long axis on x, or stride over it" if name != "x" else None,
            )


def _shared(launch: Launch) -> Iterator[Fault]:
    config, body = launch.kernel.config, launch.kernel.facts.body
    assert config is not None
    given = launch.number(config.shared) if config.shared is not None else 0
    name = launch.kernel.facts.contract.name
    if body is not None and body.dynamic_shared and given == 0:
        yield Fault(
            _RULE,
            f"`{name}` uses the dynamic shared buffer, this launch gives it no bytes",
            launch.span,
            help=f"give the size: `{name}[grid, block, stream, nbytes]`",
        )
    if isinstance(given, float) and config.shared is not None:
        message = f"`{spell(config.shared)}` bytes of dynamic shared memory are a float, a launch takes an int"
        yield Fault(_RULE, message, config.shared.span)
    elif isinstance(given, int) and not 0 <= given <= MOST_SHARED and config.shared is not None:
        message = f"{given} bytes of dynamic shared memory, the limit is {MOST_SHARED}"
        yield Fault(_RULE, message, config.shared.span)


def _swapped(launch: Launch, grid: ir.Expr, block: ir.Expr) -> bool:
    if _is_called(grid, _THREADS_NAME, _GRID_NAME) and _is_called(block, _GRID_NAME, _THREADS_NAME):
        return True
    if _is_called(grid, _GRID_NAME, _THREADS_NAME) or _is_called(block, _THREADS_NAME, _GRID_NAME):
        return False
    origin, count = origin_of(launch, block), launch.number(grid)
    if launch.number(block) is not None or not _divides(origin, grid, count):
        return False
    # `k[128, (n + 127) // 128]` for any `n`; `k[parts, n // parts]` may be meant.
    usual = count is None or (isinstance(count, int) and 32 <= count <= MOST_THREADS and count & (count - 1) == 0)
    return usual and _rounds_up(origin)


def _is_called(expr: ir.Expr, wanted: re.Pattern[str], other: re.Pattern[str]) -> bool:
    if not isinstance(expr, ir.Name | ir.Attr):
        return False
    name = expr.id if isinstance(expr, ir.Name) else expr.name
    threads_per_block = re.search(r"threads?_?(per|in)|tpb", name, re.IGNORECASE) is not None
    blocks_per_grid = re.search(r"blocks?_?(per|in)_?(the_)?grid|bpg", name, re.IGNORECASE) is not None
    if threads_per_block or blocks_per_grid:
        return wanted is (_THREADS_NAME if threads_per_block else _GRID_NAME)
    return wanted.search(name) is not None and other.search(name) is None


def _divides(expr: ir.Expr, grid: ir.Expr, count: int | float | None) -> bool:
    """Whether `expr` is a number of pieces: something divided by `grid`, whose number is `count`, rounded or not."""
    match expr:
        case ir.Operation(op="//" | "/", operands=(_, divisor)):
            return spell(divisor) == spell(grid) or (isinstance(divisor, ir.Const) and divisor.value == count)
        case ir.Call(args=(_, ir.Arg(value=divisor))):
            return spell(divisor) == spell(grid) or (isinstance(divisor, ir.Const) and divisor.value == count)
        case ir.Call(args=(only,)):
            return _divides(only.value, grid, count)
        case _:
            return False


def _rounds_up(expr: ir.Expr) -> bool:
    """Whether a division rounds up: `(n + by - 1) // by`, `ceil(n / by)`, `cdiv(n, by)`."""
    match expr:
        case ir.Operation(op="//", operands=(ir.Operation(op="+" | "-"), _)):
            return True
        case ir.Call(func=func) if (canonical(func) or spell(func)).rpartition(".")[2] in ("ceil", "cdiv", "ceildiv"):
            return True
        case ir.Call(func=func, args=(only,)) if canonical(func) == "builtins.int":
            return _rounds_up(only.value)
        case _:
            return False
