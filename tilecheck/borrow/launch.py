"""A launch as a file shows it: the input of the launch checks, and of whoever wants to know how a kernel is launched.

`Launch` is what lowering hands to the checks of signatures. `TileLaunch` is what is left of one that passed them: plain
numbers, for the checks of the kernel's body (`verify/tile_launches.py`). Worked example: `saxpy(z.partition(128), x, y, 2.0)`
with tensors of 1024 elements has the shapes `(("z", (1024,)), ...)`, the tile `(("z", (128,)),)`, the dim `(("BM", 128),)`
and the grid `(8, 1, 1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilecheck.borrow.values import KernelValue, Shape, Value
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir


@dataclass(frozen=True, slots=True)
class LaunchArg:
    """An argument of a launch: what is known of it, how it is written."""

    value: Value
    expr: ir.Expr


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of the tile kernel `name`: where it stands, or the module it stands in, as the file imports it."""

    name: str
    span: Span | None = None
    module: str = ""


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """A launch of a tile kernel that leaves dtypes open: the dtypes that the file shows of its arguments, by parameter."""

    kernel: Definition
    dtypes: tuple[tuple[str, str], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Launch:
    """The kernel, its arguments by parameter, and whether the launch stands in a loop; `anew` are the variables that the
    innermost one sets in each round.

    `number` and `value` say what is known of an expression at the launch, `tested` are the remainders
    that the function asks for (`n % tpb`), `is_given` says of a field of `self` that its class only ever sets it to what
    one of its methods was given, `bindings` what the function sets a variable to (`remainders.bindings_of`).
    """

    kernel: KernelValue
    args: dict[str, LaunchArg]
    span: Span
    in_loop: bool
    anew: frozenset[str]
    number: Callable[[ir.Expr], int | float | None]
    value: Callable[[ir.Expr], Value]
    tested: frozenset[str]
    is_given: Callable[[ir.Attr], bool]
    bindings: Callable[[str], tuple[ir.Expr | None, ...]]


@dataclass(frozen=True, slots=True)
class TileLaunch:
    """A launch of the tile kernel that `kernel` defines. Extents are None where the file does not show them, what is
    left out is not shown at all. `given` are the arguments as written, with where they stand.
    """

    kernel: Definition
    span: Span
    shapes: tuple[tuple[str, Shape], ...]
    dtypes: tuple[tuple[str, str], ...]
    tiles: tuple[tuple[str, tuple[int, ...]], ...]
    scalars: tuple[tuple[str, int], ...]
    dims: tuple[tuple[str, int], ...]
    grid: tuple[int, ...]
    given: tuple[tuple[str, str, Span], ...]
