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
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilecheck.ir.kernel import Access, Param, ScalarParam
from tilecheck_runtime.backends import Cast, Grid, default
from tilecheck_runtime.binding import Argument, ScalarArgument, TensorArgument
from tilecheck_runtime.flights import Flow
from tilecheck_runtime.launch import Plan
from tilecheck_runtime.loans import UNRELATED, Use
from tilecheck_runtime.partition import OwnedPartition, Partition
from tilecheck_runtime.simt import SimtKernel
from tilecheck_runtime.specialise import CheckedKernel, Decision
from tilecheck_runtime.tensor import Tensor

# Classes of arguments that a kernel remembers, and streams that a mould does.
MOULDS, STREAMS = 256, 16


class Told(NamedTuple):
    """What a look at the arguments of a call says.

    `sort` tells their class from others, None for what has none. `uses` is what the launch uses if it conflicts with nothing,
    ends nothing and takes back the leaves of other launches at most; None for the long way. `numbers` are the addresses and
    floats, `key` tells the very handles from others (`seat.key_of`).
    """

    sort: Hashable | None
    uses: list[Use] | None
    numbers: list[int | float]
    key: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Mould:
    """What one class of calls was decided to be; `params` with their names as errors say them. Of each argument, `writes`
    says whether the kernel may write it, None for a scalar; `varying` are the places of those that are not the same in all
    calls, and `nbytes` is what the tensors have together.
    """

    kernel: CheckedKernel | SimtKernel
    params: tuple[tuple[Param, str], ...]
    grid: Grid
    hints: Mapping[str, int]
    decision: Decision
    writes: tuple[bool | None, ...]
    varying: tuple[int, ...]
    nbytes: int
    # The kernel as errors say it.
    title: str
    # Whether it writes its partitions and nothing else, and whether all arguments are tensors or partitions.
    plain: bool
    all_tensors: bool
    # By the number of the stream: the launch as it is submitted there, None if it cannot be without an end of its own.
    casts: dict[int, Cast | None] = field(default_factory=dict)

    def value(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """That of a launch: its tensors and partitions."""
        if self.all_tensors:
            return args
        return tuple([a for a, written in zip(args, self.writes, strict=True) if written is not None])

    def cast(self, flow: Flow, args: tuple[Any, ...]) -> Cast | None:
        """Calls of this class on the stream of `flow`, compiled; None if they cannot be submitted without an end of their own."""
        casts = self.casts
        if flow.number not in casts:
            plan = self.plan(args)
            work = plan.work(self.grid)
            while len(casts) >= STREAMS:
                casts.pop(next(iter(casts)), None)
            casts[flow.number] = flow.queue.cast(work, tuple(self.params[at][0].name for at in self.varying))
        return casts[flow.number]

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


def mould_of(plan: Plan, args: tuple[Any, ...]) -> Mould | None:
    """The mould of calls like this one, with `args`; None if they have to be decided anew: without a grid or data, and where
    elements are looked at.
    """
    if plan.grid is None or plan.meta or plan.kernel.facts:
        return None
    params = tuple((a.param, f"`{a.param.name}`") for a in plan.arguments)
    tensors = plan.tensors
    return Mould(
        plan.kernel,
        params,
        plan.grid,
        plan.hints,
        plan.decision or Decision(plan.dims, plan.grid),
        tuple(a.exclusive if isinstance(a, TensorArgument) else None for a in plan.arguments),
        tuple(
            at for at, a in enumerate(plan.arguments) if isinstance(a, TensorArgument) or args[at].__class__ is float
        ),
        sum(a.elements.layout.size * a.elements.width for a in tensors),
        f"`{plan.name}`",
        all(not isinstance(a, TensorArgument) or a.exclusive == isinstance(a.value, Partition) for a in plan.arguments),
        len(tensors) == len(plan.arguments),
    )


def told(args: tuple[Any, ...], floats: bool, writes: tuple[bool | None, ...] | None = None) -> Told:
    """What a look at `args` says; the values of `floats` tell classes apart if they matter. `writes` as in `Mould`, otherwise
    partitions are written and tensors are not. The lock of the ledgers is held, and no op is pending.
    """
    sort: list[Hashable] = [default().name]
    uses: list[Use] = []
    numbers: list[int | float] = []
    key: list[Hashable] = []
    free = True
    for at, a in enumerate(args):
        kind = a.__class__
        if kind is Tensor:
            elements, loan = a._elements, a._loan
            sort.append(elements._kind or elements.kind)
            key.append((a._seen or a)._serial)
            free = free and a._moved is None
            exclusive, settled = writes is not None and writes[at] is True, False
        elif kind is Partition or kind is OwnedPartition:
            form = a._form
            key.append(form.serial)
            elements, loan = form.elements, form.loan
            sort.append(form._kind or form.kind)
            free = free and (kind is Partition or a._tensor._moved is None)
            slot = a._slot
            exclusive, settled = True, slot is not None and slot.stands
        elif kind is float:
            sort.append((float, a) if floats else float)
            key.append(float)
            numbers.append(a)
            continue
        elif kind is int or kind is bool:
            sort.append((kind, a))
            key.append((kind, a))
            continue
        else:
            return Told(None, None, numbers, ())
        memory = elements.allocation
        if memory is None:
            free = False
            continue
        numbers.append(elements._address or elements.address)
        if not free:
            continue
        ledger = memory.ledger
        number, lineage = 0, UNRELATED
        if loan is not None:
            number, lineage = loan.number, loan.lineage
            free = loan.ended is None
        for other, its, written, _, _ in uses:
            if its is ledger and (exclusive or written):
                one, two = elements.region, other.region
                free = free and (one.end <= two.offset or two.end <= one.offset)
        # Where a new partition would end nothing and be refused by nothing, so would a launch.
        if not (settled or ledger.bare()):
            free = free and ledger.quiet(elements.region, exclusive, number, lineage)
        if exclusive and not elements.writable:
            free = False
        uses.append((elements, ledger, exclusive, number, lineage))
    return Told(tuple(sort), uses if free else None, numbers, tuple(key))


def keep(moulds: dict[Hashable, Mould], key: Hashable | None, plan: Plan, args: tuple[Any, ...]) -> None:
    """Remember the mould of `plan`, made of `args`, and of too many the later ones."""
    mould = None if key is None else mould_of(plan, args)
    if mould is not None:
        while len(moulds) >= MOULDS:
            moulds.pop(next(iter(moulds)), None)
        moulds[key] = mould
