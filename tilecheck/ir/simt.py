"""What only a thread of a block has: thread ids, element accesses, shared arrays, barriers, atomics.

These nodes join those of `ir/kernel.py` in kernels of the tracks `simt` and `numba`. Integers are 64-bit signed, as in
numba-cuda. Every element access is its own node, so that prover, executor and reports speak of the same thing.

Invariant: evaluation order is the order of Python; an expression's loads happen left to right, and an augmented
assignment is a `Store` whose value holds the `Load` (with `update=True`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilecheck.ir.kernel import Expr, Node

Axis = Literal["x", "y", "z"]


# ---- expressions


@dataclass(frozen=True, slots=True, eq=False)
class ThreadVar(Node):
    """`cuda.threadIdx.x` and its kin; `laneid` and `warpsize` have no axis. `cuda.grid(n)` is spelled out."""

    kind: Literal["threadIdx", "blockIdx", "blockDim", "gridDim", "laneid", "warpsize"]
    axis: Axis | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SliceExpr(Node):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class SubArray(Node):
    """A view of `array`: `index` mixes positions, `SliceExpr`s, and stops before the last axes it keeps whole."""

    array: Expr
    index: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Load(Node):
    """`array[index]`, one element. `array` is a `Name` of a parameter or local array, or a `SubArray`.
    `field` names the member of a structured element.
    """

    array: Expr
    index: tuple[Expr, ...]
    field: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Atomic(Node):
    """`cuda.atomic.op(array, index, *operands)`; its value is the old element."""

    op: str
    array: Expr
    index: tuple[Expr, ...]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Warp(Node):
    """A vote, shuffle, match, `activemask`: values from the other lanes of `mask`. Orders nothing."""

    op: str
    mask: Expr | None
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BarrierValue(Node):
    """`syncthreads_count/and/or(predicate)`: a block barrier with a value that the whole block shares."""

    op: Literal["count", "and", "or"]
    predicate: Expr


# ---- statements


@dataclass(frozen=True, slots=True, eq=False)
class AllocArray(Node):
    """`name = cuda.shared.array(shape, dtype)` and its kin. `dynamic` marks `shared.array(0, ...)`, the launch's
    dynamic buffer; `const` is `cuda.const.array_like`. `dtype` is a NumPy dtype name, None if it could not be read.
    """

    name: str
    space: Literal["shared", "local", "const"]
    shape: tuple[Expr, ...]
    dtype: str | None
    dynamic: bool = False


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
    index: tuple[Node, ...]
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
    """A statement that could not be read. `writes` names the arrays that it may touch, None for any of them;
    `barrier` says whether it may hold one.
    """

    reason: str
    touches: tuple[str, ...] | None = None
    barrier: bool = True
