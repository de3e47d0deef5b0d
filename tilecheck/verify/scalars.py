"""Arithmetic of the walk: Python's operators on symbolic values.

Integers follow numba's 64-bit ones as unbounded integers, but for products with large constants, which wrap;
`overflow.py` sees to it that nothing else leaves 64 bits unseen. Bit operations with constant masks become quotients and
remainders; the others are functions with true but weak facts, asked again in bit-vectors when that is not enough.
Whatever involves a float is an opaque function of its operands, which keeps equality and uniformity.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import Symbols, give_fact, power_of_two_facts
from tilecheck.symbolic.smt_terms import (
    COMPARE,
    ONE,
    ZERO,
    add,
    conj,
    disj,
    div,
    eq,
    ge,
    ge0,
    implies,
    ite,
    le,
    linear_parts,
    lt,
    mod,
    mul,
    ne,
    neg,
    num,
    scale,
    sub,
    truth,
    value_of,
)
from tilecheck.verify.values import (
    Items,
    Kind,
    Literal_,
    Ratio,
    Scalar,
    Truth,
    Unknown,
    Value,
    as_int,
)

# The function of the values that may have wrapped in a type too small for them.
HELD = "held in"


def opaque(symbols: Symbols, op: str, *operands: Value, boolean: bool = False) -> Value:
    """An unknown function `op` of the operands: equal operands give equal values."""
    terms = tuple(_raw(symbols, v) for v in operands)
    term = symbols.apply(op, Level.GRID, terms, Taint.DATA, boolean=boolean)
    return Truth(term) if boolean else Scalar(term, Kind.FLOAT)


def _raw(symbols: Symbols, value: Value) -> Term:
    found = as_int(value)
    if found is not None:
        return found
    if isinstance(value, Ratio):
        return symbols.apply("/", Level.GRID, (value.over, value.under), Taint.DATA)
    if isinstance(value, Items):
        return symbols.apply("tuple", Level.GRID, tuple(_raw(symbols, v) for v in value.items), Taint.DATA)
    if isinstance(value, Literal_):
        return symbols.apply(f"literal {value.value!r}", Level.GRID, (), Taint.NONE)
    return symbols.fresh("value", Level.THREAD, Taint.HAVOC)


def integer(symbols: Symbols, value: Value) -> Term:
    """`value` where an integer is wanted."""
    return _raw(symbols, value)


def truth_of(symbols: Symbols, value: Value) -> Term:
    """Python's truth value."""
    match value:
        case Truth(term):
            return term
        case Scalar(term, Kind.FLOAT):
            return symbols.apply("!= 0", Level.GRID, (term,), Taint.DATA, boolean=True)
        case Scalar(term, _):
            return ne(term, ZERO)
        case Literal_(text):
            return truth(bool(text))
        case Items(items):
            return truth(bool(items))
        case Ratio(over, _):
            return ne(over, ZERO)
    return symbols.fresh("truth", Level.THREAD, Taint.HAVOC, boolean=True)


def compare(symbols: Symbols, op: str, left: Value, right: Value) -> Term:
    """`left op right` as a truth term."""
    if isinstance(left, Items) and isinstance(right, Items) and op in ("==", "!="):
        if len(left.items) != len(right.items):
            return truth(op == "!=")
        pairs = zip(left.items, right.items, strict=True)
        equal = conj(*(compare(symbols, "==", a, b) for a, b in pairs))
        return equal if op == "==" else neg(equal)
    if isinstance(left, Literal_) or isinstance(right, Literal_):
        same = isinstance(left, Literal_) and isinstance(right, Literal_) and left.value == right.value
        return truth(same == (op == "=="))
    if isinstance(left, Truth) and isinstance(right, Truth) and op in ("==", "!="):
        equal = eq(left.term, right.term)
        return equal if op == "==" else neg(equal)
    one, two = as_int(left), as_int(right)
    floats = any(isinstance(v, Scalar) and v.kind is Kind.FLOAT for v in (left, right))
    if one is None or two is None or floats:
        if op == "!=":
            return neg(compare(symbols, "==", left, right))
        made = opaque(symbols, f"{op} of floats", left, right, boolean=True)
        assert isinstance(made, Truth)
        return made.term
    return COMPARE[op](one, two)


def unary(symbols: Symbols, op: str, value: Value) -> Value:
    if op == "not":
        return Truth(neg(truth_of(symbols, value)))
    term = as_int(value)
    kind = value.kind if isinstance(value, Scalar) else Kind.INT
    if term is None or kind is Kind.FLOAT:
        return value if op == "+" else opaque(symbols, f"unary {op}", value)
    if op == "-":
        return Scalar(scale(term, -1))
    if op == "~":
        return Truth(neg(value.term)) if isinstance(value, Truth) else Scalar(sub(num(-1), term))
    return Scalar(term)


def binary(symbols: Symbols, op: str, left: Value, right: Value) -> Value:
    """`left op right`."""
    if isinstance(left, Items) or isinstance(right, Items):
        return _tuples(op, left, right)
    if isinstance(left, Truth) and isinstance(right, Truth) and op in ("&", "|", "^"):
        if op == "^":
            return Truth(neg(eq(left.term, right.term)))
        return Truth((conj if op == "&" else disj)(left.term, right.term))
    one, two = as_int(left), as_int(right)
    kinds = [v.kind if isinstance(v, Scalar) else Kind.INT for v in (left, right)]
    if one is None or two is None or Kind.FLOAT in kinds:
        return opaque(symbols, op, left, right)
    return _integers(symbols, op, one, two, left, right)


def _tuples(op: str, left: Value, right: Value) -> Value:
    if isinstance(left, Items) and isinstance(right, Items) and op == "+":
        return Items(left.items + right.items)
    if isinstance(left, Items) and op == "*":
        count = as_int(right)
        if count is not None and value_of(count) is not None:
            return Items(left.items * count.const)
    return Unknown(f"`{op}` on tuples")


def _integers(symbols: Symbols, op: str, x: Term, y: Term, left: Value, right: Value) -> Value:
    match op:
        case "+":
            return Scalar(add(x, y))
        case "-":
            return Scalar(sub(x, y))
        case "*":
            return Scalar(_large(symbols, mul(x, y), value_of(x), value_of(y)))
        case "/":
            return Ratio(x, y)
        case "//" | "%":
            if value_of(y) == 0:
                return Unknown("a division by zero")
            return Scalar(div(x, y) if op == "//" else mod(x, y))
        case "**":
            return _power(symbols, x, y, left, right)
        case "<<":
            power = power_of_two(symbols, y)
            return Scalar(_large(symbols, mul(x, power), value_of(power)))
        case ">>":
            return Scalar(div(x, power_of_two(symbols, y)))
        case "&" | "|" | "^":
            return Scalar(bits(symbols, op, x, y))
    return opaque(symbols, op, left, right)


def _large(symbols: Symbols, product: Term, *factors: int | None) -> Term:
    """A product with constants of 32 bits or more, which wraps for threads and extents of ordinary size."""
    weights = [*(factor or 0 for factor in factors), *(weight for _, weight in linear_parts(product)[1])]
    wraps = product.kind != "const" and any(abs(weight) >= 2**32 for weight in weights)
    return held_in(symbols, product, *INT64) if wraps else product


def _power(symbols: Symbols, x: Term, y: Term, left: Value, right: Value) -> Value:
    exponent = value_of(y)
    if exponent is not None and 0 <= exponent <= 4:
        result = ONE
        for _ in range(exponent):
            result = mul(result, x)
        return Scalar(result)
    if exponent is not None and value_of(x) is not None and 0 <= exponent < 64:
        return Scalar(num(x.const**exponent))
    if value_of(x) == 2:
        return Scalar(power_of_two(symbols, y))
    return opaque(symbols, "**", left, right)


def power_of_two(symbols: Symbols, exponent: Term) -> Term:
    """`2 ** exponent`; exact for exponents from 0 to 32. Shifts by less than 0 or more than 63 are for `overflow.py`."""
    value = value_of(exponent)
    if value is not None and 0 <= value < 64:
        return num(1 << value)
    made = symbols.apply("bits <<", Level.GRID, (exponent,), Taint.NONE, low=1, label="pow2")
    assert made.symbol is not None
    if not made.symbol.facts:
        power_of_two_facts(made, exponent)
    return made


def bits(symbols: Symbols, op: str, x: Term, y: Term) -> Term:
    """`x op y` for `&`, `|`, `^`."""
    if x.kind == "const" and y.kind == "const":
        return num({"&": x.const & y.const, "|": x.const | y.const, "^": x.const ^ y.const}[op])
    if x.kind == "const":
        x, y = y, x
    if y.kind == "const":
        known = _masked(op, x, y.const)
        if known is not None:
            return known
    if op == "&" and x.kind != "const" and (low_mask := _low_mask(y) or _low_mask(x)) is not None:
        other = x if _low_mask(y) is not None else y
        return mod(other, low_mask)
    if op != "&" and (_apart(x, y) or _apart(y, x)):
        return add(x, y)
    first, second = sorted((x, y), key=lambda t: t.serial)
    made = symbols.apply(
        f"bits {op}", Level.GRID, (first, second), Taint.NONE, label={"&": "and", "|": "or", "^": "xor"}[op]
    )
    assert made.symbol is not None
    if not made.symbol.facts:
        _bit_facts(op, made, first, second)
    return made


def _apart(high: Term, low: Term) -> bool:
    """Whether `high` is a multiple of a power of two above every value of `low`, so that they share no bit."""
    if low.low is None or low.low < 0 or low.high is None or high.low is None or high.low < 0:
        return False
    const, parts = linear_parts(high)
    common = gcd(const, *(weight for _, weight in parts))
    return common & -common > low.high


def _low_mask(term: Term) -> Term | None:
    """`p` if `term` is `p - 1` for a power of two `p` (a symbol made by `power_of_two`, or a multiple of one)."""
    if term.kind != "lin" or term.const != -1 or len(term.parts) != 1:
        return None
    atom, weight = term.parts[0], term.weights[0]
    is_power = atom.symbol is not None and atom.symbol.applied is not None and atom.symbol.applied.function == "bits <<"
    return scale(atom, weight) if is_power and weight > 0 and weight & (weight - 1) == 0 else None


def _masked(op: str, x: Term, mask: int) -> Term | None:
    if mask == 0:
        return ZERO if op == "&" else x
    if mask == -1 and op == "&":
        return x
    power = mask > 0 and mask & (mask - 1) == 0
    if op == "&":
        if mask > 0 and mask & (mask + 1) == 0:
            return mod(x, num(mask + 1))
        if power:
            return mul(mod(div(x, num(mask)), num(2)), num(mask))
        if mask < 0 and -mask & (-mask - 1) == 0:
            return mul(div(x, num(-mask)), num(-mask))
        if mask > 0:
            low = mask & -mask
            run = mask // low
            if run & (run + 1) == 0:
                return mul(mod(div(x, num(low)), num(run + 1)), num(low))
    bit = mod(div(x, num(mask)), num(2)) if power else None
    if bit is not None and op == "^":
        return ite(eq(bit, ZERO), add(x, num(mask)), sub(x, num(mask)))
    if bit is not None and op == "|":
        return ite(eq(bit, ZERO), add(x, num(mask)), x)
    return None


def _bit_facts(op: str, made: Term, x: Term, y: Term) -> None:
    both = conj(ge0(x), ge0(y))
    if op == "&":
        give_fact(made, implies(ge0(x), conj(ge0(made), le(made, x))))
        give_fact(made, implies(ge0(y), conj(ge0(made), le(made, y))))
    elif op == "|":
        give_fact(made, implies(both, conj(ge(made, x), ge(made, y), le(made, add(x, y)))))
    else:
        within = conj(ge0(made), le(made, add(x, y)), ge(made, sub(x, y)), ge(made, sub(y, x)))
        give_fact(made, implies(both, within))
        give_fact(made, eq(eq(made, ZERO), eq(x, y)))
        give_fact(made, eq(eq(made, x), eq(y, ZERO)))
        give_fact(made, eq(eq(made, y), eq(x, ZERO)))
    if op != "&":
        for k in range(3, 11):
            small = conj(both, lt(x, num(2**k)), lt(y, num(2**k)))
            give_fact(made, implies(small, lt(made, num(2**k))))


def held_in(symbols: Symbols, term: Term, low: int, high: int) -> Term:
    """`term` in an integer type of the range [low, high]: equal to it where it fits, else off by the type's period (in
    64 bits anything, until it is asked in bit-vectors)."""
    if term.low is not None and term.high is not None and low <= term.low and term.high <= high:
        return term
    if term.kind == "const":
        return num((term.const - low) % (high - low + 1) + low)
    made = symbols.apply(f"{HELD} {low}..{high}", Level.GRID, (term,), Taint.NONE, low, high, label="wrapped")
    assert made.symbol is not None
    if not made.symbol.facts:
        give_fact(made, implies(conj(ge(term, num(low)), le(term, num(high))), eq(made, term)))
        if (low, high) != INT64:
            periods = symbols.apply(f"periods of {low}..{high}", Level.GRID, (term,), Taint.NONE, label="periods")
            give_fact(made, eq(term, add(made, scale(periods, high - low + 1))))
    return made


def rounded(symbols: Symbols, value: Value, up: bool | None) -> Value:
    """`ceil` (up), `floor` (not up) or `int` (None, towards zero) of a number."""
    match value:
        case Ratio(over, under):
            if up is True:
                return Scalar(div(sub(add(over, under), ONE), under))
            if up is None and not (over.low is not None and over.low >= 0):
                return Scalar(ite(ge0(over), div(over, under), scale(div(scale(over, -1), under), -1)))
            return Scalar(div(over, under))
        case Truth(term):
            return Scalar(ite(term, ONE, ZERO))
        case Scalar(_, Kind.INT):
            return value
    word = {True: "ceil", False: "floor", None: "int"}[up]
    return Scalar(symbols.apply(word, Level.GRID, (_raw(symbols, value),), Taint.DATA), Kind.INT)


def extreme(symbols: Symbols, smallest: bool, values: Sequence[Value]) -> Value:
    """`min` or `max` of two or more values."""
    terms = [as_int(v) for v in values]
    kinds = [v.kind if isinstance(v, Scalar) else Kind.INT for v in values]
    if any(t is None for t in terms) or Kind.FLOAT in kinds:
        return opaque(symbols, "min" if smallest else "max", *values)
    result = terms[0]
    for term in terms[1:]:
        assert term is not None and result is not None
        result = ite(lt(term, result) if smallest else lt(result, term), term, result)
    assert result is not None
    return Scalar(result)


def absolute(symbols: Symbols, value: Value) -> Value:
    term = as_int(value)
    if term is None or (isinstance(value, Scalar) and value.kind is Kind.FLOAT):
        return opaque(symbols, "abs", value)
    return Scalar(ite(ge0(term), term, scale(term, -1)))
