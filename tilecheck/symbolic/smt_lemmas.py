"""What the solver is told about products and quotients of unknowns.

Nonlinear integer arithmetic makes solvers slow and moody, so a product of unknowns is handed over as an unknown of its
own, with linear lemmas that decide the index arithmetic of kernels: unique ids with symbolic block sizes, grid-stride
loops, row-major and mixed-radix positions, tree reductions.

- one product m = x*y: zero, one, sign, and m >= x, m >= y for positive factors, m >= 2*y for x >= 2;
- two products m = u*x, n = u*y that share the factors u >= 1: equal if x == y, and m + u <= n if x < y;
- x*(x + k) and y*(y + k), as in the rows of a packed triangle: x + y + k*(y - x) apart for 0 <= x < y;
- q = x // d and r = x % d for d >= 1: x == q*d + r and 0 <= r < d;
- tiles numbered in bands (`smt_bands.py`).

Every lemma is true of integers, so `unsat` means unsat. `sat` means only that the lemmas were not enough or that there
is a counterexample, which is then searched with concrete factors (`smt_solver.py`).

Worked example: `b*B + t == c*B + s` with `t, s` in [0, B) and `b < c` gives `b*B + B <= c*B`, hence t >= s + B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from tilecheck.symbolic.smt_bands import lemmas_of
from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_read import subterms
from tilecheck.symbolic.smt_terms import (
    ONE,
    ZERO,
    add,
    conj,
    div,
    eq,
    ge,
    ge0,
    implies,
    le,
    linear_parts,
    lt,
    mod,
    mul,
    num,
    product,
    scale,
    sub,
    total,
    value_of,
)

_ROUNDS = 4
_MOST_PRODUCTS = 44
_MOST_WEIGHT = 64


def nonlinear(term: Term) -> bool:
    """Whether the solver sees `term` as an unknown of its own."""
    return term.kind == "mul" or (term.kind in ("div", "mod") and term.parts[1].kind != "const")


def lemmas(formulas: Iterable[Term], keep_time: Callable[[], None] = lambda: None) -> list[Term]:
    """True statements about the nonlinear terms in `formulas`; empty if there are none. `keep_time` may end the work."""
    result: list[Term] = []
    known: dict[Term, None] = {}
    pairs: set[tuple[Term, Term]] = set()
    quotients: set[tuple[Term, Term]] = set()
    everything = subterms(formulas)
    result.extend(lemmas_of(everything))
    fresh = [t for t in (*everything, *subterms(result)) if nonlinear(t)]
    weights: dict[Term, set[int]] = {}
    for _ in range(_ROUNDS):
        if not fresh:
            break
        made: list[Term] = []
        for term in fresh:
            keep_time()
            if term.kind == "mul":
                known[term] = None
                made.extend(_one_product(term))
            elif (term.parts[0], term.parts[1]) not in quotients:
                quotients.add((term.parts[0], term.parts[1]))
                made.extend(_quotient(term.parts[0], term.parts[1]))
        _weigh(made, weights)
        products = sorted(known, key=lambda t: t.serial)
        if len(products) <= _MOST_PRODUCTS:
            for m, n in combinations(products, 2):
                if (m, n) not in pairs:
                    pairs.add((m, n))
                    made.extend(_two_products(m, n))
                    made.extend(_multiples(m, n, weights))
        result.extend(made)
        fresh = [t for t in subterms(made) if nonlinear(t) and t not in known and not _seen_quotient(t, quotients)]
    return result


def _seen_quotient(term: Term, quotients: set[tuple[Term, Term]]) -> bool:
    return term.kind in ("div", "mod") and (term.parts[0], term.parts[1]) in quotients


def _one_product(m: Term) -> list[Term]:
    made = []
    splits = range(1) if len(m.parts) == 2 else range(len(m.parts))
    for i in splits:
        x, y = m.parts[i], product(m.parts[:i] + m.parts[i + 1 :])
        made += [
            implies(eq(x, ZERO), eq(m, ZERO)),
            implies(eq(y, ZERO), eq(m, ZERO)),
            implies(eq(x, ONE), eq(m, y)),
            implies(eq(y, ONE), eq(m, x)),
            implies(conj(ge(x, ONE), ge(y, ONE)), conj(ge(m, x), ge(m, y))),
            implies(conj(ge(x, num(2)), ge(y, ONE)), ge(m, scale(y, 2))),
            implies(conj(ge(y, num(2)), ge(x, ONE)), ge(m, scale(x, 2))),
            implies(conj(ge0(x), ge0(y)), ge0(m)),
            implies(conj(le(x, num(-1)), ge(y, ONE)), conj(le(m, x), le(m, scale(y, -1)))),
            implies(conj(le(y, num(-1)), ge(x, ONE)), conj(le(m, y), le(m, scale(x, -1)))),
        ]
    return made


def _two_products(m: Term, n: Term) -> list[Term]:
    first, second = list(m.parts), list(n.parts)
    shared = []
    for factor in m.parts:
        if factor in second:
            shared.append(factor)
            first.remove(factor)
            second.remove(factor)
    if shared and first and second:
        u, x, y = product(shared), product(first), product(second)
        return [
            implies(
                ge(u, ONE),
                conj(
                    implies(eq(x, y), eq(m, n)),
                    implies(lt(x, y), le(add(m, u), n)),
                    implies(lt(y, x), le(add(n, u), m)),
                ),
            )
        ]
    if not shared and len(first) == len(second) == 2:
        (a, b), (c, d) = first, second
        return [
            *_triangles(m, n),
            implies(conj(eq(a, c), eq(b, d)), eq(m, n)),
            implies(conj(eq(a, d), eq(b, c)), eq(m, n)),
            *_equal_choices(m, n),
        ]
    return []


def _triangles(m: Term, n: Term) -> list[Term]:
    """x*(x + k) and y*(y + k) for a constant k: for 0 <= x < y they are x + y + k*(y - x) apart, or more."""
    made = []
    (x, further), *others = (m.parts, n.parts, n.parts[::-1])
    for y, beyond in others:
        k = value_of(sub(further, x))
        if k is not None and sub(beyond, y) is num(k):
            for low, less, high, more in ((x, m, y, n), (y, n, x, m)):
                apart = total([less, low, high, scale(sub(high, low), k)])
                made.append(implies(conj(ge0(low), lt(low, high)), le(apart, more)))
    return made


def _weigh(formulas: Iterable[Term], weights: dict[Term, set[int]]) -> None:
    """The constants above 1 that products are multiplied with."""
    for term in subterms(formulas):
        if not term.boolean:
            for part, weight in linear_parts(term)[1]:
                if part.kind == "mul" and 1 < abs(weight) <= _MOST_WEIGHT:
                    weights.setdefault(part, set()).add(abs(weight))


def _multiples(m: Term, n: Term, weights: dict[Term, set[int]]) -> list[Term]:
    """u*x and u*y where one of them is used k times: k*x against y decides k*(u*x) against u*y."""
    made: list[Term] = []
    for one, two in ((m, n), (n, m)):
        for k in sorted(weights.get(one, ()))[:2]:
            for u in one.parts:
                if u in two.parts:
                    x, y = (_without(term, u) for term in (one, two))
                    kx, km = scale(x, k), scale(one, k)
                    more = conj(implies(lt(kx, y), le(add(km, u), two)), implies(ge(kx, y), ge(km, two)))
                    made.append(implies(ge(u, ONE), more))
    return made


def _without(term: Term, factor: Term) -> Term:
    parts = list(term.parts)
    parts.remove(factor)
    return product(parts)


def _equal_choices(m: Term, n: Term) -> list[Term]:
    """`_two_products` for factors that need not be one term: what two threads chose (`min(rows - first, 8)`)."""
    made = []
    for u, x in (m.parts, m.parts[::-1]):
        for v, y in (n.parts, n.parts[::-1]):
            if u.kind == v.kind == "ite":
                further = conj(implies(lt(x, y), le(add(m, u), n)), implies(lt(y, x), le(add(n, u), m)))
                made.append(implies(conj(eq(u, v), ge(u, ONE)), further))
    return made


def _quotient(value: Term, divisor: Term) -> list[Term]:
    q, r = div(value, divisor), mod(value, divisor)
    positive = ge(divisor, ONE)
    return [
        implies(positive, conj(eq(value, add(mul(q, divisor), r)), ge0(r), lt(r, divisor))),
        implies(conj(positive, ge0(value)), conj(ge0(q), le(q, value))),
        implies(conj(positive, ge0(value), lt(value, divisor)), eq(q, ZERO)),
        implies(conj(positive, ge0(value), ge0(sub(value, divisor))), ge(q, ONE)),
    ]
