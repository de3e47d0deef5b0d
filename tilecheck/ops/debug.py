"""Looking into a running kernel: `print` and `device_assert`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilecheck.ir.types import DimType, NoneType, ScalarType, StrType, TileType, TupleType, Type
from tilecheck.ops.numbers import Value, describe, number
from tilecheck.ops.row import NONE, Lanes, Refused, op


class DeviceAssertion(Exception):
    """A `device_assert` that does not hold; `message` is its first line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _print_type(*values: Type) -> Type:
    for at, value in enumerate(values):
        if not isinstance(value, TileType | ScalarType | DimType | StrType | TupleType | NoneType):
            raise Refused("usage", f"`print` of {describe(value)}", "print tiles, scalars and strings", at)
    return NoneType()


@op("debug", result=_print_type, lanes=Lanes.CARRY, stub="def print(*values: object) -> None")
def print_(*values: Value) -> None:
    """Print strings, scalars and tiles, separated by spaces, once per block that gets there, in no order between
    blocks. What void lanes show is not specified.
    """
    builtins.print(*values)


def _assert_type(condition: Type, message: Type = NONE, /) -> Type:
    value = number("device_assert", condition, 0)
    if (value.kind if isinstance(value, ScalarType) else value.dtype.kind) != "bool":
        raise Refused("dtype-mismatch", f"the condition of `device_assert` is `{value}`, not a bool", "compare it", 0)
    if not isinstance(message, StrType | NoneType):
        raise Refused("usage", f"the message of `device_assert` is {describe(message)}, not a string", None, 1)
    return NoneType()


def _mixes_all(condition: Type, *_: Type) -> Sequence[tuple[int, int]]:
    return tuple((0, axis) for axis in range(len(condition.shape))) if isinstance(condition, TileType) else ()


@op(
    "debug",
    result=_assert_type,
    lanes=Lanes.MIX,
    mixes=_mixes_all,
    stub="def device_assert(condition: bool | Tile[bool_, *tuple[Any, ...]], message: str | None = ..., /) -> None",
)
def device_assert(condition: Any, message: str | None = None, /) -> None:
    """Stop the kernel unless the condition, every lane of a tile, is true. The host sees the error when it waits."""
    if not np.all(condition):
        raise DeviceAssertion(f"assertion failed: {message}" if message else "assertion failed")
