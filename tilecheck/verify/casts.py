"""Casts to integers: a value that does not fit wraps, without a word.

numba computes integers in 64 bits, whatever the operands, so only a cast loses bits: `int32(i * 65536)` meets itself
from thread 65,536 on. A cast whose argument fits by its constant range is its argument; any other is a symbol of the
type's range that differs from the argument by a multiple of 2**bits, which is exact. `conditions.py` knows the launches
in which such a cast fits.

Worked example: `int32(cuda.grid(1))` is the thread's number if `gridDim.x * blockDim.x <= 2147483648`.
"""

from __future__ import annotations

from tilecheck.ir.kernel import OpCall
from tilecheck.symbolic.linear import INT64
from tilecheck.verify.ranges import fits
from tilecheck.verify.run import Narrowing, Run, State
from tilecheck.verify.scalars import HELD, held_in, rounded
from tilecheck.verify.values import Kind, Scalar, Value, as_int
from tilecheck.verify.widths import integer_range

_DTYPES = {
    "int": "int64",
    "int_": "int64",
    "intp": "int64",
    "longlong": "int64",
    "uintp": "uint64",
    "intc": "int32",
    "short": "int16",
    "byte": "int8",
    "ubyte": "uint8",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
WHOLE_CASTS = frozenset(_DTYPES)


def cast(run: Run, state: State, expr: OpCall, name: str, value: Value) -> Value:
    """`value` cast to the integer type that the source calls `name`; a float's fraction is dropped."""
    dtype = _DTYPES[name]
    term = as_int(value)
    if term is not None and term.kind in ("lin", "mul") and run.recording and run.only_tags is None:
        run.narrowings.append(Narrowing(dtype, term, state.guard, expr))
    whole = rounded(run.symbols, value, None)
    bounds = (0, 2**64 - 1) if dtype == "uint64" else integer_range(dtype)
    if bounds is None or not isinstance(whole, Scalar) or whole.kind is not Kind.INT:
        return whole
    low, high = bounds
    if dtype == "int64" and whole.term.symbol is not None and (whole.term.high or 0) > INT64[1]:
        low, high = INT64
        applied = whole.term.symbol.applied
        if applied is not None and applied.function.startswith(HELD) and fits(applied.arguments[0]):
            # There and back again.
            return Scalar(applied.arguments[0])
    if (
        low is None
        or high is None
        or (dtype == "uint64" and whole.term.low is not None and whole.term.low >= 0 and fits(whole.term))
    ):
        return whole
    return Scalar(held_in(run.symbols, whole.term, low, high))
