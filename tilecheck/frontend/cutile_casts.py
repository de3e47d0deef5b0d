"""Casts of index values in cuTile kernels: a value that does not fit wraps.

What a cast gives as an expression, for scalars and for lanes alike. One to 64 bits keeps the value; one from 64 to 32 bits
becomes a call `int32(value)`, which `verify/casts.py` follows exactly; what is computed in 32 bits fits 32 bits. A cast to
fewer bits, or to no integer at all, is known only where the value fits for certain.

    ct.astype(ct.bid(0), ct.int8)   ->   not known: blocks 0 and 256 have one value
    ct.astype(ct.astype(b, ct.int64) * 4294967296, ct.int32)   ->   int32(int64(b) * 4294967296)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tilecheck.ir.kernel import Binary, Const, Expr, Name, OpCall, walk

_LIMITS: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


def cast(value: Expr, kind: str | None, wide: Collection[str]) -> Expr | None:
    """`value` as the dtype `kind`, None if it is not known; `wide` are the names of values of 64 bits."""
    if kind in ("int64", "uint64"):
        return OpCall("int64", (value,), span=value.span)
    if kind == "int32":
        return OpCall("int32", (value,), span=value.span) if is_wide(value, wide) else value
    limits, taken = _LIMITS.get(kind or ""), _bounds(value)
    return value if limits and taken and limits[0] <= taken[0] <= taken[1] <= limits[1] else None


def is_wide(value: Expr, names: Collection[str]) -> bool:
    """Whether 64-bit values take part in `value`."""
    return any(
        (isinstance(n, OpCall) and n.op in ("int64", "lane64")) or (isinstance(n, Name) and n.id in names)
        for n in walk(value)
    )


def _bounds(value: Expr) -> tuple[int, int] | None:
    """Bounds of a value that hold in every launch, None if they cannot be told."""
    match value:
        case Const(value=int() as number):
            return int(number), int(number)
        case OpCall(op="lane" | "lane64", args=(_, Const(value=int() as size))):
            return 0, max(size - 1, 0)
        case Binary(op="%", right=Const(value=int() as divisor)) if divisor > 0:
            return 0, divisor - 1
    return None


def narrowed_lanes(lane: Expr, kind: str | None) -> Expr | None:
    """The lanes of an `arange` of the dtype `kind`, None if they may wrap; a dtype that is not read is a wide one."""
    return lane if kind not in _LIMITS else cast(lane, kind, ())
