"""Functions in cuTile's language for rows that cuTile has no function for, as text that a kernel's module begins with.

Only what a kernel calls is put in front of it, so the text of a kernel is whole: it can be read, kept and compiled by
itself. Rows that are one of these functions on their operands are in `CALLED`.

- `expm1`, `log1p`: Kahan's formulas, which cancel the error of exp and log near 0 (Higham, "Accuracy and Stability of
  Numerical Algorithms", 2002, section 1.14.1).
- `philox`: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) on 64-bit words, bit for bit `tilecheck.ops.philox`.
- integers: a divisor of 0 gives 0, as the interpreter has it; 64-bit unsigned quotients come from signed ones by halving.
"""

from __future__ import annotations

import math
import re
from typing import Final

from tilecheck_runtime.backends.tile_ir.words import wide

# Rows that are one of these functions on their operands: for floats, for ints with a sign and for ints without.
FLOATS: Final = {
    "fmod": "_fmod({0}, {1})",
    "expm1": "_expm1({0})",
    "log1p": "_log1p({0})",
    "log10": "_log10({0})",
    # Here for 16-bit floats, which are divided in 32: a quotient that rounds up to a whole number is not below it.
    "floor_divide": "({0} // {1})",
}
SIGNED: Final = {
    "floor_divide": "_floor_divide({0}, {1})",
    "remainder": "_remainder({0}, {1})",
    "fmod": "_rem({0}, {1})",
    "ceil_div": "_ceil_div({0}, {1})",
    "pow": "_int_pow({0}, {1}, {bits})",
    "mul_hi": "_mul_hi({0}, {1}, {bits})",
}
UNSIGNED: Final = {
    **SIGNED,
    "floor_divide": "_floor_divide_u({0}, {1})",
    "fmod": "_remainder({0}, {1})",
    "ceil_div": "_ceil_div_u({0}, {1})",
    "pow": "_uint_pow({0}, {1}, {bits})",
    "mul_hi": "_mul_hi_u({0}, {1}, {bits})",
}
ROWS: Final = frozenset(FLOATS) | frozenset(UNSIGNED)

_TEXTS: Final = {
    "_fmod": """
def _fmod(x, y):
    r = ct.abs(x) % ct.abs(y)
    return ct.where(x < 0, -r, r)
""",
    "_expm1": """
def _expm1(x):
    u = ct.exp(x)
    near = u - 1
    plain = (u == 1) | (near == -1) | (u == math.inf)
    exact = near * x / ct.where(plain, 1, ct.log(u))
    return ct.where(u == 1, x, ct.where(plain, near, exact))
""",
    "_log1p": """
def _log1p(x):
    u = 1 + x
    plain = (u == 1) | (u == math.inf)
    return ct.where(plain, x, ct.log(u) * x / ct.where(plain, 1, u - 1))
""",
    "_f64": """
def _f64(a, b, c):
    return ct.astile(a, dtype=ct.float64) + ct.astile(b, dtype=ct.float64) + ct.astile(c, dtype=ct.float64)
""",
    "_log10": f"""
def _log10(x):
    return ct.log2(x) * ct.astype({wide(math.log10(2))}, x.dtype)
""",
    "_floor_divide": """
def _floor_divide(x, y):
    return ct.where(y == 0, 0, x // ct.where(y == 0, 1, y))
""",
    "_remainder": """
def _remainder(x, y):
    return ct.where(y == 0, 0, x % ct.where(y == 0, 1, y))
""",
    "_rem": """
def _rem(x, y):
    r = _remainder(x, y)
    return ct.where((r != 0) & ((x < 0) != (y < 0)), r - y, r)
""",
    "_ceil_div": """
def _ceil_div(x, y):
    return _floor_divide(x, y) + ct.astype(_remainder(x, y) != 0, x.dtype)
""",
    "_floor_divide_u": """
def _floor_divide_u(x, y):
    # A signed quotient of the halves, doubled, is at most one too small; a divisor above the signed range goes in once.
    wide, by = ct.astype(x, ct.uint64), ct.astype(ct.where(y == 0, 1, y), ct.uint64)
    huge = (by >> 63) != 0
    half = ct.bitcast(wide >> 1, ct.int64) // ct.bitcast(ct.where(huge, 1, by), ct.int64)
    q = ct.bitcast(half, ct.uint64) << 1
    q = q + ct.astype(wide - q * by >= by, ct.uint64)
    q = ct.where(huge, ct.astype(wide >= by, ct.uint64), q)
    return ct.where(y == 0, 0, ct.astype(q, x.dtype))
""",
    "_ceil_div_u": """
def _ceil_div_u(x, y):
    return _floor_divide_u(x, y) + ct.astype(_remainder(x, y) != 0, x.dtype)
""",
    "_uint_pow": """
def _uint_pow(x, y, bits):
    power, base, left = x * 0 + 1, x, y
    for _ in range(bits):
        power = ct.where((left & 1) != 0, power * base, power)
        base = base * base
        left = left >> 1
    return power
""",
    "_int_pow": """
def _int_pow(x, y, bits):
    power = _uint_pow(x, ct.where(y < 0, 0, y), bits - 1)
    sign = ct.where((y & 1) == 0, 1, x)
    return ct.where(y >= 0, power, ct.where(ct.abs(x) == 1, sign, 0))
""",
    "_mul_hi": """
def _mul_hi(x, y, bits):
    if bits < 64:
        return ct.astype((ct.astype(x, ct.int64) * ct.astype(y, ct.int64)) >> bits, x.dtype)
    a, b = ct.bitcast(x, ct.uint64), ct.bitcast(y, ct.uint64)
    high = _mul_hi_u(a, b, 64) - ct.where(x < 0, b, 0) - ct.where(y < 0, a, 0)
    return ct.bitcast(high, ct.int64)
""",
    "_mul_hi_u": """
def _mul_hi_u(x, y, bits):
    if bits < 64:
        return ct.astype((ct.astype(x, ct.uint64) * ct.astype(y, ct.uint64)) >> bits, x.dtype)
    a0, a1, b0, b1 = x & 0xFFFFFFFF, x >> 32, y & 0xFFFFFFFF, y >> 32
    mid = a1 * b0 + ((a0 * b0) >> 32)
    mid2 = a0 * b1 + (mid & 0xFFFFFFFF)
    return a1 * b1 + (mid >> 32) + (mid2 >> 32)
""",
    "_words": """
def _words(counter, seed):
    counter, key = ct.bitcast(counter, ct.uint64), ct.bitcast(seed, ct.uint64)
    c0, c1 = counter & 0xFFFFFFFF, counter >> 32
    c2, c3 = c0 ^ c0, c0 ^ c0
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF
        c2, c3 = (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3
""",
    "_bits": """
def _bits(counter, seed):
    a, b, c, d = _words(counter, seed)
    return ct.astype(a, ct.uint32)
""",
    "_unit": """
def _unit(first, second, digits):
    if digits > 32:
        return ct.astype((first << 21) | (second >> 11), ct.float64) * 2.0**-53
    return ct.astype(first >> (32 - digits), ct.float32) * 2.0**-digits
""",
    "_rand": """
def _rand(counter, seed, digits):
    a, b, c, d = _words(counter, seed)
    return _unit(a, b, digits)
""",
    "_randn": f"""
def _randn(counter, seed, digits):
    a, b, c, d = _words(counter, seed)
    radius = ct.sqrt(-2.0 * ct.log(1.0 - _unit(a, b, digits)))
    turn = _unit(c, d, digits)
    return radius * ct.cos(ct.astype({wide(2 * math.pi)}, turn.dtype) * turn)
""",
}


def before(text: str) -> str:
    """The functions that `text` calls, and those that they call, each once, callees first."""
    wanted: dict[str, None] = {}

    def visit(body: str) -> None:
        for name in re.findall(r"\b(_\w+)\(", body):
            if name in _TEXTS and name not in wanted:
                visit(_TEXTS[name].partition("\n    ")[2])
                wanted[name] = None

    visit(text)
    return "".join(f"{_TEXTS[name].strip()}\n\n\n" for name in wanted)
