"""Launches of cuTile kernels, `ct.launch(stream, grid, kernel, arguments)`, against what cuTile takes.

It takes the grid as a tuple of one to three ints and the arguments as a tuple, one for each parameter.

    ct.launch(stream, 8, add, (x, y, z, 128))      the grid is an int
    ct.launch(stream, (8,), add, (x, y, z))        `add` has 4 parameters
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import KernelValue, Number, Value
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir import host as ir

MOST_AXES = 3


def check_tile_launch(
    kernel: KernelValue, grid: ir.Expr | None, shown: Value, given: ir.Expr, launch: ir.Call
) -> Iterator[Fault]:
    """What is wrong with how a launch is written; `shown` is what is known of its grid."""
    if grid is not None:
        yield from _grid(grid, shown)
    if not isinstance(given, ir.Display) or any(isinstance(item, ir.Starred) for item in given.items):
        return
    name = kernel.facts.contract.name
    if given.kind == "list":
        yield Fault(
            "launch-contract",
            f"the arguments of `{name}` are a list, `ct.launch` takes a tuple",
            given.span,
            help="write them in round brackets",
        )
        return
    least, most = kernel.facts.least, len(kernel.facts.contract.params)
    if given.kind != "tuple" or least is None or least <= len(given.items) <= most:
        return
    wanted = f"{most}" if least == most else f"{least} to {most}"
    missing = [param.name for param in kernel.facts.contract.params[len(given.items) : least]]
    span = kernel.facts.contract.span
    yield Fault(
        "launch-contract",
        f"`{name}` has {wanted} parameters, this launch passes {len(given.items)} arguments",
        launch.span,
        labels=(Label(span, f"`{name}` is defined here"),)
        if span is not None and span.path == launch.span.path
        else (),
        help=f"pass {', '.join(f'`{each}`' for each in missing)} too" if missing else None,
    )


def _grid(grid: ir.Expr, shown: Value) -> Iterator[Fault]:
    if isinstance(grid, ir.Display) and grid.kind == "list":
        message = f"the grid `{spell(grid)}` is a list, `ct.launch` takes a tuple"
        yield Fault("launch-contract", message, grid.span, help="write it in round brackets")
    elif isinstance(grid, ir.Display) and len(grid.items) > MOST_AXES:
        message = f"the grid `{spell(grid)}` has {len(grid.items)} axes, a launch takes {MOST_AXES} at most"
        yield Fault("launch-contract", message, grid.span, help="fold axes into one and take them apart in the kernel")
    elif isinstance(shown, Number) and isinstance(shown.value, int):
        message = f"the grid `{spell(grid)}` is an int, `ct.launch` takes a tuple"
        yield Fault("launch-contract", message, grid.span, help=f"write `({spell(grid)},)`")
