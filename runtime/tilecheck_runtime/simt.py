"""SIMT kernels under our launch: `@tc.simt` and `tc.adopt`.

The kernel is read and proved once, under its contract: the block is a fact, everything else open. What the prover
refutes is refused, and so is what it cannot prove, if the kernel is annotated and does not opt out. Conditions that the
proof needs, the standing assumptions and `requires` are evaluated at every launch, and fail closed.

Parameters of an adopted kernel have no annotations: an array that the body writes is exclusive, whole or as a partition;
others are shared; a scalar has the kind of its value.

    @tc.simt(block=64)
    def double(z: Tensor[Mut, f32], x: Tensor[Shared, f32]) -> None:
        i = cuda.grid(1)
        if i < z.size:
            z[i] = 2 * x[i]            # proven given `x.size >= z.size`

    double(z.partition(64), x).sync()  # refused if `x` is shorter than `z`
"""

from __future__ import annotations

import inspect
import linecache
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np

from tilecheck import verdicts
from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.frontend.numba import NoSource, read_function
from tilecheck.interp.simt_compile import written_arrays
from tilecheck.ir.kernel import Access, Kernel, Param, ScalarParam, TensorParam
from tilecheck.report.text import plain
from tilecheck.rules import RULES
from tilecheck.surface.kernel import Kernel as KernelObject
from tilecheck.symbolic.contents import ElementFact
from tilecheck.symbolic.linear import Atom, LaunchAxis, Unresolved
from tilecheck.symbolic.requires import Comparison, Requirement, RequiresError, parse, vocabulary
from tilecheck.verify import thread_coverage
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.thread_coverage import Need
from tilecheck.verify.tile_conditions import Refusal, resolver
from tilecheck.verify.verdict import NOT_EMPTY
from tilecheck_runtime.backends import Backend, Grid
from tilecheck_runtime.binding import Argument, TensorArgument
from tilecheck_runtime.errors import KernelRejected, LaunchRefused
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.specialise import NO_HINTS, Once, environment
from tilecheck_runtime.tensor import Tensor


@dataclass(frozen=True, slots=True)
class BlockCondition:
    """A comparison over a launch, the contract's block included."""

    kernel: str
    goal: Comparison
    block: Grid

    def evaluate(
        self,
        shapes: Mapping[str, Sequence[int]],
        scalars: Mapping[str, object],
        dims: Mapping[str, int],
        grid: Sequence[int],
    ) -> Refusal | None:
        """None if the launch may go on."""
        value = _resolver(shapes, scalars, dims, grid, self.block)
        try:
            if self.goal.holds(value):
                return None
            message = f"`{self.kernel}` needs `{self.goal.text}`: {self.goal.shown(value)}"
        except Unresolved as missing:
            message = f"a condition of `{self.kernel}` cannot be checked, `{self.goal.text}`: {missing}"
            return Refusal("launch-contract", message)
        return Refusal("launch-contract", message, "change the arguments, or the guard in the kernel")


@dataclass(frozen=True, slots=True)
class CoverageCondition:
    """That a launch has a thread for each element of an output, the contract's block included."""

    need: Need
    block: Grid

    def evaluate(
        self,
        shapes: Mapping[str, Sequence[int]],
        scalars: Mapping[str, object],
        dims: Mapping[str, int],
        grid: Sequence[int],
    ) -> Refusal | None:
        """None if the launch may go on."""
        missing = self.need.missing(_resolver(shapes, scalars, dims, grid, self.block))
        return None if missing is None else Refusal("partial-coverage", *missing)


def _resolver(
    shapes: Mapping[str, Sequence[int]],
    scalars: Mapping[str, object],
    dims: Mapping[str, int],
    grid: Sequence[int],
    block: Grid,
) -> Callable[[Atom], int]:
    """The value of an atom at a launch with `block` threads a block."""
    rest = resolver(shapes, scalars, dims, grid)

    def value(atom: Atom) -> int:
        if isinstance(atom, LaunchAxis) and atom.kind == "blockDim":
            return block[atom.axis]
        return rest(atom)

    return value


@dataclass(frozen=True, slots=True)
class SimtConditions:
    """What must hold at each launch, in the form that `contracts.check_conditions` evaluates."""

    conditions: tuple[BlockCondition | CoverageCondition, ...]


@dataclass(slots=True)
class SimtKernel:
    """A SIMT kernel that was read and proved. `kernel` has the parameters as this call passes them."""

    kernel: Kernel
    signature: inspect.Signature
    proof: SimtReport
    block: Grid
    shared: int
    conditions: SimtConditions
    function: FunctionType
    facts: tuple[ElementFact, ...] = ()
    needs: tuple[Need, ...] = ()
    programs: Once[Hashable, Any] = field(default_factory=Once)

    def report(self, arguments: Sequence[Argument], dims: Mapping[str, int]) -> SimtConditions:
        """The launch conditions; extents do not change them, outputs of which a part may be left out take some away."""
        exact = {
            a.param.name for a in arguments if isinstance(a, TensorArgument) and a.exact and a.tile and not a.mapping
        }
        asked = tuple(CoverageCondition(need, self.block) for need in self.needs if need.array in exact)
        return SimtConditions((*self.conditions.conditions, *asked)) if asked else self.conditions

    def program(
        self,
        backend: Backend,
        arguments: Sequence[Argument],
        dims: Mapping[str, int],
        hints: Mapping[str, int] = NO_HINTS,
    ) -> Any:
        """The compiled kernel; a SIMT kernel has no hints."""
        key = (backend.name, tuple(sorted(dims.items())))
        return self.programs.get(
            key, lambda: backend.compile_simt(self.proof, self.block, self.shared, dims, self.function)
        )


_kernels: weakref.WeakKeyDictionary[FunctionType, Once[Hashable, SimtKernel]] = weakref.WeakKeyDictionary()
_kernels_lock = threading.Lock()


def simt_kernel(kernel: KernelObject, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SimtKernel:
    """The kernel of a call, read and proved at the first one. Raises KernelRejected with what the linter would say."""
    with _kernels_lock:
        versions = _kernels.setdefault(kernel.fn, Once())
    options = tuple(sorted((name, value) for name, value in kernel.options.items()))
    found = versions.get((kernel.track, options, environment(kernel.fn)), lambda: _read(kernel))
    return replace(found, kernel=_called(found.kernel, found.signature, args, kwargs))


def _read(kernel: KernelObject) -> SimtKernel:
    try:
        read = read_function(kernel.fn)
    except NoSource as error:
        raise KernelRejected(f"the kernel `{kernel.fn.__name__}` is refused: {error}", (), str(error)) from None
    read = replace(read, track=kernel.track, options={**read.options, **kernel.options})
    proof = verdicts.prove(read)
    text = "".join(linecache.getlines(read.path))
    checked = Checked(read.path, text, simt=(proof,))
    errors = sorted(
        (d for rule in RULES for d in rule.check(checked) if d.severity == "error"), key=Diagnostic.sort_key
    )
    if errors:
        shown = "\n\n".join(plain(diagnostic, linecache.getlines) for diagnostic in errors)
        raise KernelRejected(f"the kernel `{read.name}` is refused: {errors[0].message}", errors, shown)
    block = _block(kernel)
    shared = kernel.options.get("shared", 0)
    goals, facts = _goals(read, proof)
    conditions = SimtConditions(tuple(BlockCondition(read.name, goal, block) for goal in goals))
    signature = inspect.signature(kernel.fn)
    return SimtKernel(
        read, signature, proof, block, int(str(shared)), conditions, kernel.fn, facts, thread_coverage.needs_of(read)
    )


def _block(kernel: KernelObject) -> Grid:
    shape = kernel.options["block"]
    assert isinstance(shape, tuple)
    x, y, z = (*shape, 1, 1)[:3]
    return (x, y, z)


def _goals(kernel: Kernel, proof: SimtReport) -> tuple[list[Comparison], tuple[ElementFact, ...]]:
    """The comparisons of `requires`, of the proof and of its assumptions, and what is said of array elements. Raises
    LaunchRefused for `requires` that does not parse; that arrays do not overlap is kept by the borrow rules.
    """
    words = vocabulary(kernel)
    goals: list[Requirement] = []
    stated = kernel.options.get("requires")
    try:
        if isinstance(stated, str):
            goals.extend(parse(stated, words))
        for text in proof.conditions():
            goals.extend(parse(text, words))
    except RequiresError as error:
        raise LaunchRefused(f"`{kernel.name}`: {error.message}", error.help) from None
    arrays = [param.name for param in kernel.params if isinstance(param, TensorParam)]
    not_empty = [f"{name}.size >= 1" for name in arrays] if NOT_EMPTY in proof.assumptions else []
    for text in (*proof.assumptions, *not_empty, *proof.starts):
        try:
            goals.extend(parse(text, words))
        except RequiresError:
            continue
    parts = list(dict.fromkeys(goals))
    facts = tuple(part for part in parts if not isinstance(part, Comparison))
    return [part for part in parts if isinstance(part, Comparison)], facts


# ---- parameters without annotations


def _called(kernel: Kernel, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Kernel:
    """The kernel with open parameters settled by the values of this call."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # `bind` words it
        return kernel
    written = written_arrays(kernel)
    return replace(kernel, params=tuple(_settled(p, given.get(p.name), p.name in written) for p in kernel.params))


def _settled(param: Param, value: Any, written: bool) -> Param:
    if isinstance(param, ScalarParam) and isinstance(value, Tensor | Partition):
        param = TensorParam(param.name, param.span)  # an array that the body does not touch
    if isinstance(param, TensorParam):
        if param.access is not None:
            return param
        if isinstance(value, Partition):
            return replace(param, access=Access.MUT if value.mapping is None else Access.MAPPED)
        return replace(param, access=Access.ATOMIC if written else Access.SHARED)
    if param.kind is not None:
        return param
    plain_value = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain_value, bool):
        return ScalarParam(param.name, param.span, "bool")
    return ScalarParam(param.name, param.span, "float" if isinstance(plain_value, float) else "int")
