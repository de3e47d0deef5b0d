"""Terms of the prover: integers and truth values over symbols, hash-consed and kept in a small normal form.

A sum is linear: a constant plus coefficients over atoms (symbols, products, floor quotients, remainders, choices).
Products keep the factors the source wrote, because the lemmas of `smt_products.py` speak about shared factors;
`(b*B + t) * w` is one product of two factors. Comparisons become `sum >= 0` or `sum == 0`. So `i + 1 - 1 < n` and
`i < n` are one object, and what constant ranges decide is decided here, without a solver.

Invariant: equal structure means the same object, so terms are compared with `is` and used as dictionary keys.
`//` and `%` are Python's (floor).

Worked example: with `t` in [0, 31], `lt(add(t, num(0)), num(32))` is `TRUE`, and `div(add(scale(b, 32), t), num(32))`
is `b`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from operator import attrgetter
from typing import Literal

from tilecheck.symbolic.smt_nodes import Symbol, Term, intern

# ---- leaves

TRUE = intern("true", boolean=True)
FALSE = intern("false", boolean=True)


_serial = attrgetter("serial")
_MOST_NEGATED = 64


def num(value: int) -> Term:
    return intern("const", const=int(value))


def truth(value: bool) -> Term:
    return TRUE if value else FALSE


def variable(symbol: Symbol) -> Term:
    return intern("sym", symbol=symbol, boolean=symbol.boolean)


ZERO, ONE = num(0), num(1)


def value_of(term: Term) -> int | None:
    """The number a constant term is."""
    return term.const if term.kind == "const" else None


# ---- sums


def _linear(term: Term) -> tuple[int, dict[Term, int]]:
    if term.kind == "const":
        return term.const, {}
    if term.kind == "lin":
        return term.const, dict(zip(term.parts, term.weights, strict=True))
    return 0, {term: 1}


def _sum(const: int, weights: Mapping[Term, int]) -> Term:
    atoms = sorted([t for t, w in weights.items() if w], key=_serial)
    if not atoms:
        return num(const)
    if const == 0 and len(atoms) == 1 and weights[atoms[0]] == 1:
        return atoms[0]
    return intern("lin", tuple(atoms), const, tuple([weights[t] for t in atoms]))


def add(left: Term, right: Term) -> Term:
    return combine(left, 1, right)


def sub(left: Term, right: Term) -> Term:
    return combine(left, -1, right)


def combine(left: Term, weight: int, right: Term) -> Term:
    """`left + weight * right`."""
    const, weights = _linear(left)
    more, others = _linear(right)
    for term, w in others.items():
        weights[term] = weights.get(term, 0) + weight * w
    return _sum(const + weight * more, weights)


def scale(term: Term, weight: int) -> Term:
    const, weights = _linear(term)
    return _sum(const * weight, {t: w * weight for t, w in weights.items()})


def total(terms: Iterable[Term]) -> Term:
    result = ZERO
    for term in terms:
        result = add(result, term)
    return result


def linear_parts(term: Term) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """The constant and the (atom, coefficient) pairs of a sum."""
    const, weights = _linear(term)
    return const, tuple(weights.items())


# ---- products, quotients


def factors(term: Term) -> tuple[int, tuple[Term, ...]]:
    """`term` as coefficient times factors: `6*a*b` is (6, (a, b)); a proper sum is its own only factor."""
    if term.kind == "const":
        return term.const, ()
    if term.kind == "mul":
        return 1, term.parts
    if term.kind == "lin":
        if term.const == 0 and len(term.parts) == 1:
            coefficient, inner = factors(term.parts[0])
            return coefficient * term.weights[0], inner
        common = gcd(term.const, *term.weights)
        if common > 1:
            return common, (scale_down(term, common),)
    return 1, (term,)


def scale_down(term: Term, divisor: int) -> Term:
    """`term / divisor` where every coefficient is a multiple of `divisor`."""
    const, weights = _linear(term)
    return _sum(const // divisor, {t: w // divisor for t, w in weights.items()})


def mul(left: Term, right: Term) -> Term:
    if left.kind == "const":
        return scale(right, left.const)
    if right.kind == "const":
        return scale(left, right.const)
    a, first = factors(left)
    b, second = factors(right)
    return scale(product((*first, *second)), a * b)


def product(parts: Iterable[Term]) -> Term:
    items = tuple(sorted(parts, key=lambda t: t.serial))
    if not items:
        return ONE
    if len(items) == 1:
        return items[0]
    return intern("mul", items)


def split(term: Term, divisor: Term) -> tuple[Term, Term]:
    """`term == quotient * divisor + rest` with as much in the quotient as the form shows."""
    const, weights = _linear(term)
    if divisor.kind == "const":
        d = divisor.const
        quotient = _sum(const // d, {t: w // d for t, w in weights.items() if w % d == 0})
        rest = _sum(const % d, {t: w for t, w in weights.items() if w % d})
        return quotient, rest
    coefficient, inner = factors(divisor)
    quotient_terms = ZERO
    left: dict[Term, int] = {}
    for t, w in weights.items():
        scale_, have = factors(t)
        remaining = list(have)
        for factor in inner:
            if factor in remaining:
                remaining.remove(factor)
            else:
                break
        else:
            if (w * scale_) % coefficient == 0:
                quotient_terms = add(quotient_terms, scale(product(remaining), w * scale_ // coefficient))
                continue
        left[t] = w
    return quotient_terms, _sum(const, left)


def div(left: Term, right: Term) -> Term:
    """Floor quotient; a quotient by zero stays as it is and has no value."""
    if right is ZERO:
        return intern("div", (left, right))
    if right.kind == "const":
        if right.const == 1:
            return left
        if right.const < 0:
            return div(scale(left, -1), num(-right.const))
    elif right.low is None or right.low < 1:
        return intern("div", (left, right))
    quotient, rest = split(left, right)
    if (
        rest.low is not None
        and rest.low >= 0
        and rest.high is not None
        and right.low is not None
        and rest.high < right.low
    ):
        return quotient
    if rest.kind == "div" and rest.parts[1].kind == "const" and right.kind == "const":
        return add(quotient, div(rest.parts[0], num(rest.parts[1].const * right.const)))
    if rest.kind == "const" and right.kind == "const":
        return add(quotient, num(rest.const // right.const))
    return add(quotient, intern("div", (rest, right)))


def mod(left: Term, right: Term) -> Term:
    """Floor remainder; a remainder by zero stays as it is and has no value."""
    if right is ZERO:
        return intern("mod", (left, right))
    if right.kind == "const":
        if right.const in (1, -1):
            return ZERO
        if right.const < 0:
            return scale(mod(scale(left, -1), num(-right.const)), -1)
    elif right.low is None or right.low < 1:
        return intern("mod", (left, right))
    _, rest = split(left, right)
    if (
        rest.low is not None
        and rest.low >= 0
        and rest.high is not None
        and right.low is not None
        and rest.high < right.low
    ):
        return rest
    if rest.kind == "const" and right.kind == "const":
        return num(rest.const % right.const)
    return intern("mod", (rest, right))


# ---- truth


def ge0(term: Term) -> Term:
    """`term >= 0`."""
    if term.low is not None and term.low >= 0:
        return TRUE
    if term.high is not None and term.high < 0:
        return FALSE
    if term.kind == "lin":
        common = gcd(*term.weights)
        if common > 1:
            const, weights = _linear(term)
            return ge0(_sum(const // common, {t: w // common for t, w in weights.items()}))
    return intern("ge", (term,), boolean=True)


def eq0(term: Term) -> Term:
    """`term == 0`."""
    if term.kind == "const":
        return truth(term.const == 0)
    if (term.low is not None and term.low > 0) or (term.high is not None and term.high < 0):
        return FALSE
    if term.kind == "lin":
        common = gcd(*term.weights)
        if term.const % common:
            return FALSE
        if term.weights[0] < 0:
            common = -common
        if common != 1:
            term = scale_down(term, common)
    return intern("eq", (term,), boolean=True)


def le(left: Term, right: Term) -> Term:
    return ge0(sub(right, left))


def lt(left: Term, right: Term) -> Term:
    return ge0(sub(right, add(left, ONE)))


def ge(left: Term, right: Term) -> Term:
    return le(right, left)


def gt(left: Term, right: Term) -> Term:
    return lt(right, left)


def eq(left: Term, right: Term) -> Term:
    """Equality of two integers or of two truth values."""
    if left is right:
        return TRUE
    if left.boolean:
        return disj(conj(left, right), conj(neg(left), neg(right)))
    return eq0(sub(left, right))


def ne(left: Term, right: Term) -> Term:
    return neg(eq(left, right))


COMPARE: Mapping[str, Callable[[Term, Term], Term]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def neg(term: Term) -> Term:
    """Not `term`."""
    match term.kind:
        case "true":
            return FALSE
        case "false":
            return TRUE
        case "not":
            return term.parts[0]
        case "ge":
            return ge0(sub(num(-1), term.parts[0]))
    return intern("not", (term,), boolean=True)


def _gather(kind: Literal["and", "or"], parts: Iterable[Term]) -> Term:
    stop, skip = (FALSE, TRUE) if kind == "and" else (TRUE, FALSE)
    seen: dict[Term, None] = {}
    for part in parts:
        inner = part.parts if part.kind == kind else (part,)
        for item in inner:
            if item is stop:
                return stop
            if item is skip or item in seen:
                continue
            if _is_small(item) and neg(item) in seen:
                return stop
            seen[item] = None
    if not seen:
        return skip
    if len(seen) == 1:
        return next(iter(seen))
    return intern(kind, tuple(seen), boolean=True)


def _is_small(item: Term) -> bool:
    """Whether it is worth while to write down the negation of `item`: sums of hundreds of terms hardly ever meet theirs."""
    return item.kind != "ge" or len(item.parts[0].parts) <= _MOST_NEGATED


def conj(*parts: Term) -> Term:
    return _gather("and", parts)


def disj(*parts: Term) -> Term:
    return _gather("or", parts)


def implies(left: Term, right: Term) -> Term:
    return disj(neg(left), right)


def ite(cond: Term, then: Term, other: Term) -> Term:
    """`then if cond else other`, on integers or truth values."""
    if cond is TRUE or then is other:
        return then
    if cond is FALSE:
        return other
    if then.boolean:
        return disj(conj(cond, then), conj(neg(cond), other))
    return intern("ite", (cond, then, other))


def conjuncts(term: Term) -> tuple[Term, ...]:
    return term.parts if term.kind == "and" else (term,)


# ---- walking


def rebuild(term: Term, parts: tuple[Term, ...]) -> Term:
    """`term` over other children, in normal form."""
    match term.kind:
        case "lin":
            result = num(term.const)
            for part, weight in zip(parts, term.weights, strict=True):
                result = combine(result, weight, part)
            return result
        case "mul":
            result = parts[0]
            for part in parts[1:]:
                result = mul(result, part)
            return result
        case "div":
            return div(*parts)
        case "mod":
            return mod(*parts)
        case "ite":
            return ite(*parts)
        case "ge":
            return ge0(parts[0])
        case "eq":
            return eq0(parts[0])
        case "and":
            return conj(*parts)
        case "or":
            return disj(*parts)
        case "not":
            return neg(parts[0])
    return term


def substitute(term: Term, mapping: Mapping[Term, Term], memo: dict[Term, Term] | None = None) -> Term:
    """`term` with symbols replaced; `memo` may be kept between calls with one mapping."""
    memo = {} if memo is None else memo
    found = memo.get(term)
    if found is not None:
        return found
    if term.kind == "sym":
        result = mapping.get(term, term)
    elif not term.parts:
        result = term
    else:
        parts = tuple(substitute(part, mapping, memo) for part in term.parts)
        result = term if parts == term.parts else rebuild(term, parts)
    memo[term] = result
    return result
