"""A launch as a file shows it: the input of the launch checks, and of whoever wants to know how a kernel is launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilecheck.borrow.values import KernelValue, Value
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir


@dataclass(frozen=True, slots=True)
class LaunchArg:
    """An argument of a launch: what is known of it, how it is written."""

    value: Value
    expr: ir.Expr


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """A launch of a tile kernel that leaves dtypes open, called `kernel` here: the dtypes that the file shows of its
    arguments, by parameter.
    """

    kernel: str
    dtypes: tuple[tuple[str, str], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Launch:
    """The kernel, its arguments by parameter, and whether the launch stands in a loop.

    `number` and `value` say what is known of an expression at the launch, `tested` are the remainders
    that the function asks for (`n % tpb`).
    """

    kernel: KernelValue
    args: dict[str, LaunchArg]
    span: Span
    in_loop: bool
    number: Callable[[ir.Expr], int | float | None]
    value: Callable[[ir.Expr], Value]
    tested: frozenset[str]
