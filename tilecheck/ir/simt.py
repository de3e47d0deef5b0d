"""What only a thread of a block has: thread ids, element accesses, shared arrays, barriers, atomics.

These nodes join those of `ir/kernel.py` in kernels of the tracks `simt` and `numba`. Integers are 64-bit signed, as in
numba-cuda. Every element access is its own node, so that prover, executor and reports speak of the same thing.

Invariants. Evaluation order is the order of Python; an expression's loads happen left to right, and an augmented
assignment is a `Store` whose value holds the `Load` (with `update=True`). An `Atomic`, `Warp` or `BarrierValue` is
always the whole value of an `Assign` or `Do`; inside expression trees the only effect is a `Load`. Variables may hold
arrays (`Assign("left", SubArray(...))`, swaps) and tuples; a `Load` or `Store` with fewer positions than the array has
axes is a view of the rest. A `Name` that is neither parameter nor assigned is an unread constant of the enclosing
Python scope, one value for the whole launch.

Scalar functions (`OpCall`): `sqrt`, `min`, `popc`, ... without their module; a cast is named by its NumPy dtype
(`int32`) or `int`, `float`, `bool`; `shape`, `T`, `reshape`, `ravel`, `view`, `transpose`, `flatten`, `flat`, `ndim`
take an array; `real`, `imag`, `conjugate`, `getattr(object, name)`, `vector(...)` make opaque values; `random_state` is
the new state of a random generator; `print`, `nanosleep`, `unsafe(reason)` occur under `Do`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilecheck.ir.kernel import Expr, Node, ThreadExpr

Axis = Literal["x", "y", "z"]


# ---- expressions


@dataclass(frozen=True, slots=True, eq=False)
class ThreadVar(ThreadExpr):
    """`cuda.threadIdx.x` and its kin; `laneid` and `warpsize` have no axis. `cuda.grid(n)` is spelled out."""

    kind: Literal["threadIdx", "blockIdx", "blockDim", "gridDim", "laneid", "warpsize"]
    axis: Axis | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SliceExpr(ThreadExpr):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class SubArray(ThreadExpr):
    """A view of `array`: `index` mixes positions, `SliceExpr`s and at most one `Const("...")`, and stops before the last
    axes it keeps whole. With a position for every axis it is a reference to one element.
    """

    array: Expr
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Load(ThreadExpr):
    """`array[index]`, one element. `array` is a `Name` of a parameter or local array, or a `SubArray`.
    `field` names the member of a structured element.
    """

    array: Expr
    index: tuple[Expr, ...]
    field: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Atomic(ThreadExpr):
    """`cuda.atomic.op(array, index, *operands)`; its value is the old element."""

    op: str
    array: Expr
    index: tuple[Expr, ...]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Warp(ThreadExpr):
    """A vote, shuffle, match, `activemask`: values from the other lanes of `mask`. Orders nothing."""

    op: str
    mask: Expr | None
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BarrierValue(ThreadExpr):
    """`syncthreads_count/and/or(predicate)`: a block barrier with a value that the whole block shares."""

    op: Literal["count", "and", "or"]
    predicate: Expr


# ---- statements


@dataclass(frozen=True, slots=True, eq=False)
class AllocArray(Node):
    """`name = cuda.shared.array(shape, dtype)` and its kin. `dynamic` marks `shared.array(0, ...)`, the launch's
    dynamic buffer, which all dynamic arrays of a kernel share; `const` is `cuda.const.array_like` or a global array,
    filled from the entry `source` of `Kernel.constants`. `dtype` is a NumPy dtype name, None if it could not be read.

    Shared memory is one per block and name: reaching the node again (in a loop, by a second call of the same helper)
    gives the same memory with what it holds.
    """

    name: str
    space: Literal["shared", "local", "const"]
    shape: tuple[Expr, ...]
    dtype: str | None
    dynamic: bool = False
    source: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store(Node):
    """`array[index] = value`; `update` marks an augmented assignment."""

    array: Expr
    index: tuple[Expr, ...]
    value: Expr
    field: str | None = None
    update: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FillSlice(Node):
    """`array[slices] = value`, element by element in one thread."""

    array: Expr
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Barrier(Node):
    """`syncthreads`, `syncwarp(mask)`, `grid.sync()`."""

    scope: Literal["block", "warp", "grid"]
    mask: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fence(Node):
    """`threadfence_block`, `threadfence`, `threadfence_system`."""

    scope: Literal["block", "device", "system"]


@dataclass(frozen=True, slots=True, eq=False)
class Unread(Node):
    """A statement that could not be read. `touches` names the arrays that it may touch, None for any of them; `elements`
    are the loads that it was handed the values of; `barrier` says whether it may hold one.
    """

    reason: str
    touches: tuple[str, ...] | None = None
    barrier: bool = True
    elements: tuple[Expr, ...] = ()
