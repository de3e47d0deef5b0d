"""Questions with bit operations, asked again in 64-bit vectors, where `&`, `|`, `^` and shifts are exact.

Kernel integers are 64-bit, so bit-vectors of that width are their meaning; the integer encoding keeps the bit
operations as functions with true but weak facts. A question goes here only after that encoding failed, because
bit-vector arithmetic on products is slow.

Invariant: `refutes_bits` says True only if z3 finds the formulas unsatisfiable over 64-bit values in the constant
ranges of their symbols. What has no translation (a quotient of a signed value by no power of two) gives False.

Worked example: `i ^ (i >> 1)` takes different values for different i in [0, 64).
"""

from __future__ import annotations

from collections.abc import Sequence

import z3

from tilecheck.symbolic.smt_nodes import Symbol, Term
from tilecheck.symbolic.smt_read import subterms

WIDTH = 64
_LIMIT = 1 << (WIDTH - 1)
_MANY_QUOTIENTS = 6
_OPERATIONS = ("bits &", "bits |", "bits ^", "bits <<")


class Untranslatable(Exception):
    """A term that has no exact 64-bit form here."""


def has_bits(formulas: Sequence[Term]) -> bool:
    """Whether bit operations occur in formulas, or so many quotients by powers of two that they take bits apart."""
    symbols = {s for f in formulas for s in f.symbols}
    if any(s.applied is not None and s.applied.function in _OPERATIONS for s in symbols):
        return True
    bits = [t for t in subterms(formulas) if t.kind in ("div", "mod") and t.parts[1].kind == "const"]
    return sum(t.parts[1].const & (t.parts[1].const - 1) == 0 for t in bits) >= _MANY_QUOTIENTS


def refutes_bits(formulas: Sequence[Term], ms: int) -> bool:
    """Whether `formulas`, with the exact meaning of their bit operations, have no solution in 64-bit integers."""
    context = z3.Context()
    translation = _Translation(context)
    solver = z3.SolverFor("QF_BV", ctx=context)
    solver.set("timeout", ms)
    try:
        for formula in formulas:
            solver.add(translation.of(formula))
        solver.add(*translation.ranges(formulas))
    except Untranslatable:
        return False
    return checked(solver) == "unsat"


def checked(solver: z3.Solver) -> str:
    """What z3 says of `solver`: `sat`, `unsat` or `unknown`. Raises KeyboardInterrupt, which z3 takes for itself."""
    status = str(solver.check())
    if status == "unknown" and "interrupted" in solver.reason_unknown():
        raise KeyboardInterrupt
    return status


class _Translation:
    def __init__(self, context: z3.Context) -> None:
        self.context = context
        self._memo: dict[Term, z3.ExprRef] = {}

    def of(self, term: Term) -> z3.ExprRef:
        found = self._memo.get(term)
        if found is None:
            found = self._memo[term] = self._build(term)
        return found

    def ranges(self, formulas: Sequence[Term]) -> list[z3.BoolRef]:
        made: list[z3.BoolRef] = []
        for term in subterms(formulas):
            if term.kind == "sym" and not term.boolean:
                if term.low is not None:
                    made.append(self.of(term) >= self._number(term.low))
                if term.high is not None:
                    made.append(self.of(term) <= self._number(term.high))
        return made

    def _number(self, value: int) -> z3.BitVecRef:
        if not -_LIMIT <= value < _LIMIT:
            raise Untranslatable
        return z3.BitVecVal(value, WIDTH, self.context)

    def _symbol(self, symbol: Symbol) -> z3.ExprRef:
        applied = symbol.applied
        if applied is not None and applied.function in _OPERATIONS:
            parts = [self.of(argument) for argument in applied.arguments]
            match applied.function:
                case "bits &":
                    return parts[0] & parts[1]
                case "bits |":
                    return parts[0] | parts[1]
                case "bits ^":
                    return parts[0] ^ parts[1]
                case _:
                    # A shift by less than 0 or by 64 and more is not defined.
                    defined = z3.And(parts[0] >= 0, parts[0] < WIDTH)
                    other = z3.BitVec(f"{symbol.name}#{symbol.order}", WIDTH, self.context)
                    return z3.If(defined, self._number(1) << parts[0], other)
        name = f"{symbol.name}#{symbol.order}"
        return z3.Bool(name, self.context) if symbol.boolean else z3.BitVec(name, WIDTH, self.context)

    def _build(self, term: Term) -> z3.ExprRef:
        match term.kind:
            case "const":
                return self._number(term.const)
            case "true" | "false":
                return z3.BoolVal(term.kind == "true", self.context)
            case "sym":
                assert term.symbol is not None
                return self._symbol(term.symbol)
            case "div" | "mod":
                return self._quotient(term)
        parts = [self.of(part) for part in term.parts]
        match term.kind:
            case "lin":
                total = self._number(term.const)
                for part, weight in zip(parts, term.weights, strict=True):
                    total = total + self._number(weight) * part
                return total
            case "mul":
                result = parts[0]
                for part in parts[1:]:
                    result = result * part
                return result
            case "ite":
                return z3.If(*parts)
            case "ge":
                return parts[0] >= 0
            case "eq":
                return parts[0] == 0
            case "and":
                return z3.And(parts)
            case "or":
                return z3.Or(parts)
            case _:
                return z3.Not(parts[0])

    def _quotient(self, term: Term) -> z3.BitVecRef:
        value, divisor = term.parts
        left = self.of(value)
        if divisor.kind == "const" and divisor.const > 0 and divisor.const & (divisor.const - 1) == 0:
            shift = divisor.const.bit_length() - 1
            if term.kind == "div":
                return left >> self._number(shift)
            return left & self._number(divisor.const - 1)
        if value.low is None or value.low < 0 or divisor.low is None or divisor.low < 1:
            raise Untranslatable
        right = self.of(divisor)
        return z3.UDiv(left, right) if term.kind == "div" else z3.URem(left, right)
