"""Tuning a kernel on data that it updates: every trial runs the kernel again on what the last one left.

A tuner gets the kernel and a function that makes its arguments. If the kernel reads what it writes and such an argument
is a tensor that is used elsewhere, each trial changes it; a clone that only the trials see is fine. `tilecheck.autotune`
clones what is written and is not among them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import KernelValue
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.kernel import Access, TensorParam

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_TUNERS = (
    "cuda.tile.tune.exhaustive_search",
    "cuda.tile.tune.random_search",
    "cuda.tile_experimental.autotune_launch",
)


def tune(low: Expressions, node: ir.Call, full: str) -> Operand | None:
    """A call of a tuner, None for anything else."""
    if full not in _TUNERS:
        return None
    kernels = [value for arg in node.args if isinstance(value := low.known(arg.value), KernelValue)]
    for arg in node.args:
        if isinstance(arg.value, ir.Lambda):
            if kernels:
                _check(low, kernels[0], arg.value, node, full)
            continue
        low.escape(low.expr(arg.value), arg.span)
    low.emit(instructions.Clobber(span=node.span))
    return Operand(None)


def _check(low: Expressions, kernel: KernelValue, make: ir.Lambda, call: ir.Call, full: str) -> None:
    if not isinstance(make.body, ir.Display):
        return
    params = kernel.facts.contract.params
    own = {param.name for param in make.params}
    inside = Counter(part.id for part in ir.walk(call) if isinstance(part, ir.Name))
    for param, item in zip(params, make.body.items, strict=False):
        if not isinstance(param, TensorParam) or not _updates(kernel, param):
            continue
        if not isinstance(item, ir.Name) or item.id in own or low.mentions[item.id] <= inside[item.id]:
            continue
        name = kernel.facts.contract.name
        tuner = full.rpartition(".")[2]
        low.faults.append(
            Fault(
                "tune-in-place",
                f"`{tuner}` runs `{name}` many times on `{item.id}`, which it updates in place",
                item.span,
                labels=(Label(param.span, f"`{name}` reads and writes `{param.name}`"),),
                help=f"tune on a copy: `trial = {item.id}.clone()`, and pass `{spell(item)}` to the final launch only",
            )
        )


def _updates(kernel: KernelValue, param: TensorParam) -> bool:
    """Whether the kernel reads what it writes there."""
    if param.access is not None:
        return param.access in (Access.MUT, Access.MAPPED, Access.ATOMIC)
    body = kernel.facts.body
    return body is not None and body.writes is not None and param.name in body.writes and param.name in body.reads
