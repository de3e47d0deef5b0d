"""Launches of plain kernels (`kernel[grid, block, stream, shared]`) against what the device takes.

Numbers are checked where the file shows them. Two shapes are recognised without numbers: a grid that is a true division
(a float), and a grid that is `n // block` (the tail is dropped), unless the file tests `n % block` or the kernel strides
by the grid or does not guard its index, for then the division is meant.

Limits are those of every CUDA device in use: 1024 threads per block, 64 along z, 65535 blocks along y and z, 227 KB of
dynamic shared memory. Blocks of a kernel with a grid barrier must all be resident: at most 2048 threads and 32 blocks on
each of at most 256 multiprocessors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tilecheck.borrow.launch import Launch
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Items, Nothing, Number, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.checked import Fault
from tilecheck.ir import host as ir

MOST_THREADS = 1024
MOST_ALONG_Z = 64
MOST_BLOCKS_X = (1 << 31) - 1
MOST_BLOCKS_YZ = 65535
MOST_SHARED = 232_448
MOST_PROCESSORS = 256
_FLOATS = frozenset({"numpy.ceil", "numpy.floor", "builtins.float", "math.sqrt", "numpy.sqrt"})
_THREADS_NAME = re.compile(r"(^|_)tpb($|_)|threads?|block_?(size|dim|shape)", re.IGNORECASE)
_GRID_NAME = re.compile(r"(^|_)bpg($|_)|grid|n_?blocks|num_?blocks|blocks", re.IGNORECASE)


def check_plain(launch: Launch) -> Iterator[Fault]:
    """What cannot be right about the configuration and the arguments of a plain launch."""
    yield from _copied(launch)
    yield from _types(launch)
    config = launch.kernel.config
    if config is None or config.grid is None:
        return
    if config.block is not None and _swapped(launch, config.grid, config.block):
        yield Fault(
            "launch-contract",
            f"grid and block are swapped: `{spell(config.grid)}` is the number of threads of a block, "
            f"`{spell(config.block)}` the number of blocks",
            launch.span,
            help=f"write `{launch.kernel.facts.contract.name}[{spell(config.block)}, {spell(config.grid)}]`",
        )
        return
    for expr, what in ((config.grid, "grid"), (config.block, "block")):
        if expr is not None:
            yield from _floats(launch, expr, what)
    yield from _limits(launch)
    yield from _shared(launch)
    yield from _residents(launch)
    yield from _tail(launch)


def _parts(launch: Launch, expr: ir.Expr | None) -> list[ir.Expr]:
    """The axes of a grid or block, each as the expression that computed it."""
    if expr is None:
        return []
    if isinstance(expr, ir.Display):
        return [_origin(launch, item) for item in expr.items]
    origin = _origin(launch, expr)
    return [_origin(launch, item) for item in origin.items] if isinstance(origin, ir.Display) else [origin]


def _origin(launch: Launch, expr: ir.Expr) -> ir.Expr:
    value = launch.value(expr)
    return value.expr if isinstance(value, Nothing) and value.expr is not None else expr


def _numbers(launch: Launch, expr: ir.Expr | None) -> list[int | float | None]:
    if expr is None:
        return []
    value = launch.value(expr)
    if isinstance(value, Items) and not isinstance(expr, ir.Display):
        return [_plain(item) for item in value.values]
    items = expr.items if isinstance(expr, ir.Display) else (expr,)
    return [launch.number(item) for item in items]


def _plain(value: Value) -> int | float | None:
    found = value.value if isinstance(value, Number) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _is_float(launch: Launch, expr: ir.Expr, depth: int = 0) -> bool:
    expr = _origin(launch, expr)
    match expr:
        case ir.Const(value=float()):
            return True
        case ir.Operation(op="/"):
            return True
        case ir.Operation(op="+" | "-" | "*" | "//" | "%", operands=operands) if depth < 8:
            return any(_is_float(launch, operand, depth + 1) for operand in operands)
        case ir.Call():
            return canonical(expr.func) in _FLOATS
        case ir.Name() | ir.Attr():
            return isinstance(launch.number(expr), float)
        case _:
            return False


def _floats(launch: Launch, expr: ir.Expr, what: str) -> Iterator[Fault]:
    for part in expr.items if isinstance(expr, ir.Display) else (expr,):
        if _is_float(launch, part):
            yield Fault(
                "launch-contract",
                f"the {what} `{spell(part)}` is a float, a launch takes ints",
                part.span,
                help="round up in ints: `(n + block - 1) // block`",
            )


def _limits(launch: Launch) -> Iterator[Fault]:
    config = launch.kernel.config
    assert config is not None
    block = [part for part in _numbers(launch, config.block) if isinstance(part, int)]
    if config.block is not None and len(block) == len(_numbers(launch, config.block)) and block:
        threads = math.prod(block)
        if threads > MOST_THREADS:
            shape = " x ".join(map(str, block))
            spelled = f"{shape} = {threads}" if len(block) > 1 else str(threads)
            yield Fault(
                "launch-contract",
                f"{spelled} threads per block, the limit is {MOST_THREADS}",
                config.block.span,
                help="use smaller blocks and more of them",
            )
        elif len(block) == 3 and block[2] > MOST_ALONG_Z:
            message = f"{block[2]} threads along z, the limit is {MOST_ALONG_Z}"
            yield Fault("launch-contract", message, config.block.span)
        if threads <= 0:
            message = f"a block of {threads} threads"
            yield Fault("launch-contract", message, config.block.span)
    if config.grid is None:
        return
    for axis, blocks in zip("xyz", _numbers(launch, config.grid), strict=False):
        limit = MOST_BLOCKS_X if axis == "x" else MOST_BLOCKS_YZ
        if isinstance(blocks, int) and blocks < 1:
            yield Fault("launch-contract", f"a grid of {blocks} blocks along {axis}", config.grid.span)
        if isinstance(blocks, int) and blocks > limit:
            yield Fault(
                "launch-contract",
                f"{blocks} blocks along {axis}, the limit is {limit}",
                config.grid.span,
                help="put the long axis on x, or stride over it" if axis != "x" else None,
            )


def _shared(launch: Launch) -> Iterator[Fault]:
    config, body = launch.kernel.config, launch.kernel.facts.body
    assert config is not None
    given = launch.number(config.shared) if config.shared is not None else 0
    name = launch.kernel.facts.contract.name
    if body is not None and body.dynamic_shared and given == 0:
        yield Fault(
            "launch-contract",
            f"`{name}` uses the dynamic shared buffer, this launch gives it no bytes",
            launch.span,
            help=f"give the size: `{name}[grid, block, stream, nbytes]`",
        )
    if isinstance(given, int) and given > MOST_SHARED and config.shared is not None:
        message = f"{given} bytes of dynamic shared memory, the limit is {MOST_SHARED}"
        yield Fault("launch-contract", message, config.shared.span)


def _residents(launch: Launch) -> Iterator[Fault]:
    config, body = launch.kernel.config, launch.kernel.facts.body
    assert config is not None
    if body is None or not body.grid_barrier or config.grid is None:
        return
    grid = [part for part in _numbers(launch, config.grid) if isinstance(part, int)]
    block = [part for part in _numbers(launch, config.block) if isinstance(part, int)]
    if not grid or not block or len(grid) != len(_numbers(launch, config.grid)):
        return
    threads, blocks = math.prod(block), math.prod(grid)
    most = MOST_PROCESSORS * min(32, max(2048 // threads, 1)) if threads > 0 else 0
    if blocks > most > 0:
        yield Fault(
            "launch-contract",
            f"{blocks} blocks of {threads} threads meet at a grid barrier, more than any device holds at once",
            launch.span,
            help="launch at most `max_cooperative_grid_blocks` blocks and stride over the rest",
        )


def _swapped(launch: Launch, grid: ir.Expr, block: ir.Expr) -> bool:
    by_name = _is_called(grid, _THREADS_NAME, _GRID_NAME) and _is_called(block, _GRID_NAME, _THREADS_NAME)
    origin = _origin(launch, block)
    derived = isinstance(grid, ir.Name) and _divides(origin, spell(grid))
    return by_name or derived


def _is_called(expr: ir.Expr, wanted: re.Pattern[str], other: re.Pattern[str]) -> bool:
    if not isinstance(expr, ir.Name | ir.Attr):
        return False
    name = expr.id if isinstance(expr, ir.Name) else expr.name
    threads_per_block = re.search(r"threads?_?(per|in)|tpb", name, re.IGNORECASE) is not None
    blocks_per_grid = re.search(r"blocks?_?(per|in)_?(the_)?grid|bpg", name, re.IGNORECASE) is not None
    if threads_per_block or blocks_per_grid:
        return wanted is (_THREADS_NAME if threads_per_block else _GRID_NAME)
    return wanted.search(name) is not None and other.search(name) is None


def _divides(expr: ir.Expr, by: str) -> bool:
    """Whether `expr` is a number of pieces: something divided by `by`, rounded or not."""
    match expr:
        case ir.Operation(op="//" | "/", operands=(_, divisor)):
            return spell(divisor) == by
        case ir.Call(args=args) if args:
            last = args[-1].value
            return spell(last) == by if len(args) == 2 else _divides(args[0].value, by)
        case _:
            return False


def _tail(launch: Launch) -> Iterator[Fault]:
    config, body = launch.kernel.config, launch.kernel.facts.body
    assert config is not None
    if body is None or body.strides or not body.guarded or config.grid is None or config.block is None:
        return
    blocks = config.block.items if isinstance(config.block, ir.Display) else (config.block,)
    written = config.grid.items if isinstance(config.grid, ir.Display) else (config.grid,)
    for shown, part, block in zip(written, _parts(launch, config.grid), blocks, strict=False):
        if not isinstance(part, ir.Operation) or part.op != "//" or len(part.operands) != 2:
            continue
        extent, divisor = part.operands
        if isinstance(extent, ir.Operation):
            continue
        size, by, threads = launch.number(extent), launch.number(divisor), launch.number(block)
        same = by == threads if by is not None and threads is not None else spell(divisor) == spell(block)
        exact = isinstance(size, int) and isinstance(by, int) and by > 0 and size % by == 0
        if not same or exact or f"{spell(extent)} % {spell(divisor)}" in launch.tested:
            continue
        tail = f", the last {size % by} elements" if isinstance(size, int) and isinstance(by, int) and by > 0 else ""
        n, tpb = spell(extent), spell(divisor)
        yield Fault(
            "partial-coverage",
            f"`{n} // {tpb}` blocks leave out the tail{tail}",
            shown.span,
            help=f"round up: `({n} + {tpb} - 1) // {tpb}`; the kernel guards its index already",
        )


def _types(launch: Launch) -> Iterator[Fault]:
    """Arrays against the signature that the kernel was compiled for."""
    facts = launch.kernel.facts
    for param, wanted in zip(facts.contract.params, facts.signature or (), strict=False):
        arg = launch.args.get(param.name)
        if wanted is None or arg is None or not isinstance(arg.value, Array):
            continue
        text, name = spell(arg.expr), facts.contract.name
        if arg.value.dtype is not None and arg.value.dtype != wanted.dtype:
            yield Fault(
                "dtype-mismatch",
                f"`{text}` is {arg.value.dtype}, but the signature of `{name}` says {wanted.dtype} for `{param.name}`",
                arg.expr.span,
                help="make the array with that dtype, or leave the signature out",
            )
        elif arg.value.shape is not None and len(arg.value.shape) != wanted.rank:
            yield Fault(
                "shape-mismatch",
                f"`{text}` has {len(arg.value.shape)} axes, the signature of `{name}` says {wanted.rank} "
                f"for `{param.name}`",
                arg.expr.span,
            )


def _copied(launch: Launch) -> Iterator[Fault]:
    if not launch.in_loop or launch.kernel.facts.contract.track != "numba":
        return
    for arg in launch.args.values():
        if isinstance(arg.value, Array) and arg.value.library == "numpy" and not arg.value.pinned:
            text = spell(arg.expr)
            if not isinstance(arg.expr, ir.Name | ir.Attr):
                continue
            yield Fault(
                "host-array-copied",
                f"`{text}` is copied to the device and back at each launch of this loop",
                arg.expr.span,
                help=f"copy once, before the loop: `d_{text} = cuda.to_device({text})`",
            )
