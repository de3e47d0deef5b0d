"""What an element keeps of an integer: the range of its dtype, and the value that a store leaves there.

Invariant: `stored` is what a load of the element gives after the store, or None where that is not known.

Worked example: a `uint8` element keeps 44 of 300, and of `gridDim.x` a value that differs from it by a multiple of 256.
"""

from __future__ import annotations

from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_symbols import Symbols
from tilecheck.symbolic.smt_terms import ONE, ZERO, ite, ne
from tilecheck.verify.scalars import held_in
from tilecheck.verify.values import Kind, Scalar, Truth, Value, as_int

_BITS = {"int8": 8, "int16": 16, "int32": 32, "uint8": 8, "uint16": 16, "uint32": 32, "int64": 64, "uint64": 64}


def integer_range(dtype: str | None) -> tuple[int | None, int | None] | None:
    """The values of an integer dtype, (None, None) for 64 bits; None if it is no integer dtype."""
    if dtype == "bool":
        return 0, 1
    bits = _BITS.get(dtype or "")
    if bits is None:
        return None
    if bits == 64:
        return (0, None) if dtype == "uint64" else (None, None)
    if dtype is not None and dtype.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def stored(symbols: Symbols, dtype: str | None, value: Value | None) -> Term | None:
    """The integer in an element of `dtype` once `value` has been stored there."""
    bounds = integer_range(dtype)
    if bounds is None or not (isinstance(value, Truth) or (isinstance(value, Scalar) and value.kind is Kind.INT)):
        return None
    term = as_int(value)
    if term is None or isinstance(value, Truth):
        return term
    if dtype == "bool":
        return ite(ne(term, ZERO), ONE, ZERO)
    low, high = bounds
    if low is not None and high is not None:
        return held_in(symbols, term, low, high)
    least, most = (0, 2**64 - 1) if dtype == "uint64" else INT64
    beyond = (term.low is not None and term.low < least) or (term.high is not None and term.high > most)
    unsure = dtype == "uint64" and term.low is None
    return None if beyond or unsure else term


def wide(dtype: str | None) -> bool:
    """Whether an integer of `dtype` has 32 bits or more."""
    return _BITS.get(dtype or "", 0) >= 32
