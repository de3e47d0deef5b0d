"""Moulds: launches like one that was there before, on other memory.

Applications make new tensors at each step. Dims, grid, checks, launch conditions and the compiled kernel of a call are decided by
the class of its arguments: shape, strides, dtype, address modulo 16, tile and map of a tensor, the value of an int. What one
call of a class was decided to be is its mould, and the next ones are filled into it. Who owns what, what was moved, what
overlaps and what is in flight is asked each time, since that is about these very arguments.

Kernels with requirements on array elements have no mould, since those are about values.

    for batch in batches:
        step(tc.empty(n).partition(1024), tc.from_dlpack(batch)).run(stream)     # from the second round on: a mould
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from tilecheck.ir.kernel import Access, Param, ScalarParam
from tilecheck_runtime.backends import Grid, default
from tilecheck_runtime.binding import Argument, ScalarArgument, TensorArgument
from tilecheck_runtime.launch import Plan
from tilecheck_runtime.partition import OwnedPartition, Partition
from tilecheck_runtime.simt import SimtKernel
from tilecheck_runtime.specialise import CheckedKernel, Decision
from tilecheck_runtime.tensor import Tensor

# Classes of arguments that a kernel remembers.
MOULDS = 256


@dataclass(frozen=True, slots=True)
class Mould:
    """What one class of calls was decided to be; `params` with their names as errors say them."""

    kernel: CheckedKernel | SimtKernel
    params: tuple[tuple[Param, str], ...]
    grid: Grid
    hints: Mapping[str, int]
    decision: Decision

    def plan(self, args: tuple[Any, ...]) -> Plan:
        """The launch with arguments of this class. Raises BorrowError for one that was moved, or is not writable."""
        arguments: list[Argument] = []
        for (param, name), value in zip(self.params, args, strict=True):
            if isinstance(param, ScalarParam):
                arguments.append(ScalarArgument(param, float(value) if param.kind == "float" else value))
            elif isinstance(value, Partition):
                value._usable(name)
                form = value._form
                arguments.append(
                    TensorArgument(param, form.elements, form.loan, value, form.tile, form.exact, form.mapping)
                )
            else:
                value._usable(name)
                if param.access is Access.ATOMIC:
                    value._writable(name)
                arguments.append(TensorArgument(param, value._elements, value._loan, value))
        decision = self.decision
        return Plan(self.kernel, tuple(arguments), decision.dims, self.grid, self.hints, decision)


def mould_of(plan: Plan) -> Mould | None:
    """The mould of calls like this one; None if they have to be decided anew: without a grid or data, and where elements are
    looked at.
    """
    if plan.grid is None or plan.meta or plan.kernel.facts:
        return None
    params = tuple((a.param, f"`{a.param.name}`") for a in plan.arguments)
    return Mould(plan.kernel, params, plan.grid, plan.hints, plan.decision or Decision(plan.dims, plan.grid))


def class_of(args: tuple[Any, ...], *, floats: bool) -> Hashable | None:
    """What tells the class of a call with these arguments from others, with the values of `floats` if they matter; None if
    there is something else among them than tensors, partitions and plain numbers.
    """
    parts: list[Hashable] = [default().name]
    for a in args:
        kind = a.__class__
        if kind is Tensor:
            parts.append(a._elements.kind)
        elif kind is Partition or kind is OwnedPartition:
            form = a._form
            parts.append((form.elements.kind, form.tile, form.exact, form.mapping))
        elif kind is float:
            parts.append((float, a) if floats else float)
        elif kind is int or kind is bool:
            parts.append((kind, a))
        else:
            return None
    return tuple(parts)


def keep(moulds: dict[Hashable, Mould], key: Hashable | None, plan: Plan) -> None:
    """Remember the mould of `plan`, and of too many the later ones."""
    mould = None if key is None else mould_of(plan)
    if mould is not None:
        while len(moulds) >= MOULDS:
            moulds.pop(next(iter(moulds)), None)
        moulds[key] = mould
