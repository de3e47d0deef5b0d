"""The objects of host code that lead to a launch, as a cautious run sees them.

Worked example: `k[2, 32]` is a `Configured` with grid 2 and block 32; calling it leaves a `Seen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.frontend.kernel_counters import Left
from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Scope
from tilecheck.ir.host_array import HostArray


@dataclass(frozen=True, slots=True, eq=False)
class Jitted:
    """The result of `cuda.jit(f)`."""

    function: FunctionValue


@dataclass(frozen=True, slots=True, eq=False)
class Configured:
    """`kernel[grid, block, stream, shared]` or `kernel.forall(n)`, not yet called; `given` are arguments that it has."""

    function: FunctionValue
    grid: object
    block: object
    dynamic: object
    forall: object = UNKNOWN
    given: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """`tensor.partition(...)` of ours, perhaps mapped onto a number of `blocks`; `exact` ones define a grid."""

    array: HostArray
    tile: object
    blocks: object = None
    exact: bool = True

    def grid(self) -> object:
        """Blocks per axis: ceil(extent / tile)."""
        if self.blocks is not None:
            return self.blocks
        tile, shape = self.tile, self.array.shape
        if not isinstance(tile, tuple) or shape is None or len(tile) != len(shape):
            return UNKNOWN
        known = zip(shape, tile, strict=True)
        return tuple(-(-n // t) if isinstance(t, int) and t > 0 and n is not None else UNKNOWN for n, t in known)


@dataclass(frozen=True, slots=True, eq=False)
class Contracted:
    """A kernel of ours with its launch contract: a `@tc.simt` one, or an adopted one."""

    function: FunctionValue
    block: object
    dynamic: object


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """The op of a launch of ours, number `place` among the launches seen."""

    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A launch that was reached; `counted` are the parameters whose arrays earlier launches have counted in."""

    kernel: FunctionValue
    call: cst.Call
    host: str | None
    grid: object
    block: object
    dynamic: object
    arguments: tuple[object, ...]
    forall: object = UNKNOWN
    # Places of the arguments that are exact partitions, one tile a block.
    exact: frozenset[int] = frozenset()
    counted: Mapping[str, Left] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """A window that a launch has counted in."""

    window: HostArray
    left: Left


# What launches have counted in, by buffer.
Marks = Mapping[int, tuple[Counted, ...]]


@dataclass
class Activation:
    """One running function, or the module."""

    scope: Scope
    names: dict[str, object]
    outer: Activation | None
    name: str | None
    returned: list[object] = field(default_factory=list)
    # What was counted in at its returns.
    marks: list[Marks] = field(default_factory=list)


class Stop(Exception):
    """Leaves the statements being run: `kind` is return, break, continue or raise."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind
