"""Launches of plain kernels (`kernel[grid, block, stream, shared](...)`) against what the device and the kernel take.

Numbers are checked where the file shows them. What stands in the brackets is for `plain_brackets`, which elements the
threads reach for `plain_coverage`; here are the arguments.

Blocks of a kernel with a grid barrier must all be resident: at most 2048 threads and 32 blocks on each of at most 256
multiprocessors.

Worked example: `add[8, 128](a, b)` of `def add(a, b, out)` lacks `out`, `add[8, 128](a, b, out=c)` names an argument,
which a launch cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilecheck.borrow.launch import Launch
from tilecheck.borrow.plain_brackets import axes, check_brackets
from tilecheck.borrow.plain_coverage import check_coverage
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, KernelValue
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir import host as ir

MOST_PROCESSORS = 256


def check_plain(launch: Launch) -> Iterator[Fault]:
    """What cannot be right about the configuration and the arguments of a plain launch."""
    yield from _copied(launch)
    yield from _types(launch)
    wrong = [*check_brackets(launch), *_residents(launch)]
    yield from wrong
    if not wrong:
        yield from check_coverage(launch)


def check_arguments(kernel: KernelValue, given: tuple[ir.Arg, ...], node: ir.Expr, before: int = 0) -> Iterator[Fault]:
    """Whether a plain kernel gets an argument for each parameter, by place; `given` is what `node` passes after the
    `before` arguments of a partial.
    """
    facts, name = kernel.facts, kernel.facts.contract.name
    if any(arg.star for arg in given) or facts.least is None:
        return
    named = next((arg for arg in given if arg.name is not None), None)
    if named is not None:
        yield Fault(
            "launch-contract",
            f"`{named.name}=` names an argument, a launch of `{name}` takes them by place",
            named.span,
            help=f"write `{name}[grid, block]({', '.join(param.name for param in facts.contract.params)})`",
        )
        return
    least, most = facts.least, len(facts.contract.params)
    passed = before + len(given)
    if least <= passed <= most:
        return
    wanted = f"{most}" if least == most else f"{least} to {most}"
    missing = [param.name for param in facts.contract.params[passed:least]]
    span = facts.contract.span
    yield Fault(
        "launch-contract",
        f"`{name}` has {_counted(wanted, 'parameter')}, this launch passes {_counted(str(passed), 'argument')}",
        node.span,
        labels=(Label(span, f"`{name}` is defined here"),) if span is not None and span.path == node.span.path else (),
        help=f"pass {', '.join(f'`{each}`' for each in missing)} too" if missing else None,
    )


def _counted(number: str, what: str) -> str:
    return f"{number} {what}" if number == "1" else f"{number} {what}s"


def _residents(launch: Launch) -> Iterator[Fault]:
    config, body = launch.kernel.config, launch.kernel.facts.body
    if body is None or not body.grid_barrier or config is None or config.grid is None:
        return
    sides = [axes(launch, config.grid) or (), axes(launch, config.block) or ()]
    grid, block = ([axis.number for axis in side if isinstance(axis.number, int)] for side in sides)
    if not grid or not block or [len(grid), len(block)] != [len(side) for side in sides]:
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
            if not isinstance(arg.expr, ir.Name | ir.Attr) or text in launch.anew:
                continue
            yield Fault(
                "host-array-copied",
                f"`{text}` is copied to the device and back at each launch of this loop",
                arg.expr.span,
                help=f"copy once, before the loop: `d_{text} = cuda.to_device({text})`",
            )
