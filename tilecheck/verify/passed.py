"""What the scalars of a launch are when a kernel with an explicit signature gets them.

numba packs each argument as the C type that the signature names, so an integer loses its upper bits; a kernel without a
signature takes what it is given.

Invariant: an argument that the type cannot hold at all becomes unknown.

Worked example: 511 for a `uint8` arrives as 255.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilecheck.ir.kernel import Kernel, ScalarParam

if TYPE_CHECKING:
    from tilecheck.frontend.launches import Launch

_C_TYPES: dict[str, Any] = {
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def as_passed(kernel: Kernel, launch: Launch) -> Launch:
    """`launch` with the scalars that `kernel` sees."""
    if kernel.track != "numba":
        return launch
    stated = {p.name: p.dtype for p in kernel.params if isinstance(p, ScalarParam) and p.dtype is not None}
    if not stated:
        return launch
    arguments = dict(launch.arguments)
    for name, dtype in stated.items():
        value = arguments.get(name)
        arguments[name] = _packed(value, dtype) if isinstance(value, int | float) else value
    return replace(launch, arguments=arguments)


def _packed(value: float, dtype: str) -> int | float | None:
    if dtype == "bool":
        return bool(value) if value in (0, 1) else None
    kind = _C_TYPES.get(dtype)
    if kind is None:
        return None
    try:
        packed: int | float = kind(value).value
    except (TypeError, OverflowError):
        return None
    return packed
