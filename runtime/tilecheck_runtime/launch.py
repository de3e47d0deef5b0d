"""From a kernel call to a lazy, checked launch.

The order is: read and check the kernel (once), bind the arguments, bind the Dims, find the grid, check the kernel for
these extents (once per extents), evaluate the launch conditions, and last take the borrows, so that an op that fails to
build holds nothing. If the outputs do not define a grid, conditions wait for `with_grid`. What is required of array
elements waits until the op runs (`element_checks.py`).

Arguments are bound and borrows taken at every call. What lies between is decided once per `facts`: everything that it
reads, so that a later call which says the same cannot come to another decision.

The value of a launch is the tuple of its tensor arguments in the order of the signature: `op.first()` is the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilecheck.surface.kernel import Kernel as KernelObject
from tilecheck.surface.unsafe import vouched
from tilecheck.symbolic.contents import ElementFact
from tilecheck.verify.tile_report import TileReport
from tilecheck_runtime.backends import Grid, Launch, Operand, default
from tilecheck_runtime.binding import Argument, ScalarArgument, TensorArgument, bind, bind_dims
from tilecheck_runtime.contracts import (
    check_conditions,
    check_maps,
    check_partners,
    infer_grid,
    need_grid,
    override_grid,
)
from tilecheck_runtime.element_checks import check_elements
from tilecheck_runtime.errors import TilecheckError, UsageError
from tilecheck_runtime.execution import Execution
from tilecheck_runtime.grants import hold
from tilecheck_runtime.loans import Access, Loan, Request
from tilecheck_runtime.nodes import Value
from tilecheck_runtime.op import DeviceOp, Life
from tilecheck_runtime.simt import SimtKernel, simt_kernel
from tilecheck_runtime.specialise import CheckedKernel, Decision, facts_of, listeners

if TYPE_CHECKING:
    from tilecheck_runtime.prepared import Prepared
    from tilecheck_runtime.stream import Stream

Tensors = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch with everything decided but, possibly, the grid."""

    kernel: CheckedKernel | SimtKernel
    arguments: tuple[Argument, ...]
    dims: dict[str, int]
    grid: Grid | None
    hints: Mapping[str, int]
    decision: Decision | None = None
    vouched: bool = False

    @property
    def facts(self) -> tuple[ElementFact, ...]:
        """What has to be checked of array elements before the launch: nothing that the program vouched for."""
        return () if self.vouched else self.kernel.facts

    @property
    def name(self) -> str:
        """Of the kernel."""
        return self.kernel.kernel.name

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        """The tensor arguments in order."""
        return tuple([a for a in self.arguments if isinstance(a, TensorArgument)])

    @property
    def meta(self) -> bool:
        """Whether some argument is a shape only."""
        return any(a.elements.meta for a in self.tensors)

    def check(self) -> None:
        """Check for these extents; with a grid, evaluate the launch conditions. Raises LaunchRefused."""
        if isinstance(self.kernel, CheckedKernel):
            check_partners(self.name, self.kernel.partners, self.arguments)
        report = self.kernel.report(self.arguments, self.dims)
        if isinstance(report, TileReport):
            check_maps(self.name, report, self.arguments)
        if self.grid is not None:
            check_conditions(report, self.arguments, self.dims, self.grid)

    def compile(self) -> Any:
        """The compiled kernel."""
        if self.decision is None or listeners:
            return self.kernel.program(default(), self.arguments, self.dims, self.hints)
        if self.decision.program is None:
            self.decision.program = self.kernel.program(default(), self.arguments, self.dims, self.hints)
        return self.decision.program

    def work(self, grid: Grid) -> Launch:
        """The launch as the backend takes it, compiled."""
        return Launch(self.name, self.compile(), {a.param.name: _operand(a) for a in self.arguments}, grid)


class LaunchOp(DeviceOp[Tensors]):
    """The op of one kernel launch."""

    def __init__(self, plan: Plan, loans: tuple[Loan, ...]) -> None:
        super().__init__(f"`{plan.name}`", Value(tuple(a.value for a in plan.tensors)), loans)
        self.plan = plan

    @property
    def grid(self) -> Grid:
        """The grid. Raises LaunchRefused while nothing determines it."""
        return need_grid(self.plan.name, self.plan.arguments, self.plan.grid)

    def prepare(self, stream: Stream | None = None) -> Prepared:
        """This launch, ready to be repeated at the cost of the driver's own call; the op is used up.

        The arguments stay borrowed, and what they say is checked now, once. See `prepared.py`.
        """
        from tilecheck_runtime.prepared import prepare

        return prepare(self, stream)

    def with_grid(self, *grid: Any) -> LaunchOp:
        """The launch with this grid, checked against its partitions; this op is used up, also by a refusal."""
        self._attempted = True
        self._join("with_grid")
        loans, self._loans = self._loans, ()
        try:
            plan = replace(self.plan, grid=override_grid(self.plan.name, self.plan.arguments, grid))
            plan.check()
        except TilecheckError:
            self._loans = loans
            self._close()
            raise
        return LaunchOp(plan, loans)

    def compile(self) -> None:
        """Prepare the kernel for these arguments without running it; shape-only arguments are what this is for."""
        self._close(Life.COMPILED)
        self.plan.compile()

    def _evaluate(self, execution: Execution) -> Any:
        plan = self.plan
        grid = self.grid
        if plan.meta:
            raise UsageError(
                f"`{plan.name}` has a meta argument, which has no data", "prepare it with `op.compile()` instead"
            )
        work = plan.work(grid)
        value = super()._evaluate(execution)
        check_elements(plan, grid, execution)
        # Work in flight needs the memory, and no handle: who takes the same view again has the borrow of the one before.
        execution.submit(work, plan if execution.records else tuple(a.elements.allocation for a in plan.tensors))
        return value


def plan_of(kernel: KernelObject, checked: CheckedKernel | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """The launch of `kernel(*args, **kwargs)`, checked; `checked` is a tile kernel as it reads now.

    Raises KernelRejected for a kernel that fails the checks, LaunchRefused or UsageError for arguments that do not fit,
    BorrowError for one that was moved.
    """
    if checked is None:
        simt = simt_kernel(kernel, args, kwargs)
        return _decided(simt, bind(simt.kernel, simt.signature, args, kwargs), kernel)
    arguments = bind(checked.kernel, checked.signature, args, kwargs, checked.positional)
    facts = facts_of(checked, arguments, kernel.bindings, kernel.hints)
    decision = checked.decisions.get(facts)
    if decision is None:
        plan = _decided(checked, arguments, kernel)
        decision = checked.remember(facts, Decision(plan.dims, plan.grid))
    return Plan(checked, arguments, decision.dims, decision.grid, kernel.hints, decision, vouched())


def _decided(kernel: CheckedKernel | SimtKernel, arguments: tuple[Argument, ...], called: KernelObject) -> Plan:
    dims = bind_dims(kernel.kernel, arguments, called.bindings)
    grid = infer_grid(kernel.kernel.name, arguments)
    plan = Plan(kernel, arguments, dims, grid, called.hints, vouched=vouched())
    plan.check()
    return plan


def requests_of(tensors: tuple[TensorArgument, ...]) -> tuple[Request, ...]:
    """The accesses of a launch with these arguments."""
    return tuple(
        [
            a.elements.request(Access.EXCLUDE if a.exclusive else Access.SHARE, a.loan, a.name)
            for a in tensors
            if not a.elements.meta
        ]
    )


def take(plan: Plan) -> tuple[Loan, ...]:
    """The borrows of a launch. Raises BorrowError for a conflict; nothing is held then."""
    return hold(requests_of(plan.tensors), f"`{plan.name}`")


def _operand(argument: Argument) -> Operand | int | float | bool:
    if isinstance(argument, ScalarArgument):
        return argument.value
    return Operand(argument.elements.strided(), argument.tile, argument.mapping)
