"""Asking z3, with a limit per question and one for the whole kernel.

Three kinds of question, from cheap to dear:

- `refutes`: do the formulas have no solution? Nonlinear terms are unknowns with lemmas; `True` is a proof.
- `model`: a solution, exact. Factors of products (block sizes, pitches) are fixed to a few likely values, which makes
  the question linear, then the exact nonlinear question is asked. The values returned satisfy every formula by
  evaluation, not by z3's word.
- bit operations enter as functions with bounds; where those were too weak `smt_bits.py` asks again in bit-vectors.

Invariant: answers depend on the formulas alone while the limits are not hit; resource limits are counted in z3's own
units, so that a slow machine gives the same answers as a fast one, and the clock only bounds the whole kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import z3

from tilecheck.symbolic.smt_bits import checked, has_bits, refutes_bits
from tilecheck.symbolic.smt_lemmas import lemmas, nonlinear
from tilecheck.symbolic.smt_nodes import Symbol, Term
from tilecheck.symbolic.smt_read import evaluate, subterms
from tilecheck.symbolic.smt_terms import FALSE, num, substitute, truth, variable

# A question in bit-vectors, in milliseconds of z3.
_BITS_MS = 1000
# The clock of the process is dear to read.
_LOOK_EVERY = 0.002
# About two seconds of z3 on a current core.
_UNITS_PER_MS = 2500


class OutOfBudget(Exception):
    """The kernel's whole time is used up."""


@dataclass
class Statistics:
    asked: int = 0
    seconds: float = 0.0
    unknown: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)


Model = Mapping[Symbol, int]

# Likely values of factors, tried together: block sizes, then grids, then pitches and scalars.
PRESETS: Mapping[str, tuple[int, ...]] = {
    "blockDim.x": (32, 8, 64, 256, 2, 48, 1024),
    "blockDim.y": (4, 8, 2, 16, 1, 4, 1),
    "blockDim.z": (2, 1, 2, 1, 1, 1, 1),
    "gridDim.x": (2, 4, 3, 1, 64, 2, 2),
    "gridDim.y": (2, 4, 3, 1, 8, 2, 2),
    "gridDim.z": (2, 1, 2, 1, 1, 1, 1),
}
_EXTENTS = (8, 33, 64, 5, 100, 1, 2)
_SCALARS = (1, 2, 3, 8, 64, 5, 0)


class Solver:
    """z3 for one kernel. `deadline` is a `time.process_time` value; past it every question raises `OutOfBudget`."""

    def __init__(self, deadline: float, query_ms: int = 2000) -> None:
        self.deadline = deadline
        self.query_ms = query_ms
        self.statistics = Statistics()
        self._next_look = 0.0
        self._context = z3.Context()
        self._zero = z3.IntVal(0, self._context)
        self._abstract: dict[Term, object] = {}
        self._exact: dict[Term, object] = {}
        self._answers: dict[frozenset[Term], bool] = {}

    # ---- questions

    def refutes(self, formulas: Iterable[Term], ms: int | None = None, exact_bits: bool = False) -> bool:
        """Whether `formulas` have no solution. False also means "not shown in time".

        `exact_bits` asks again in bit-vectors if bit operations are in the way.
        """
        wanted = frozenset(formulas)
        if FALSE in wanted:
            return True
        known = self._answers.get(wanted)
        if known or (known is not None and not exact_bits):
            return known
        ordered = sorted(wanted, key=lambda t: t.serial)
        limit = ms or self.query_ms
        answer = self._ask([*ordered, *lemmas(ordered, self.keep_time)], self._abstract, False, limit)[0] == "unsat"
        if not answer and exact_bits and has_bits(ordered):
            answer = refutes_bits(ordered, min(limit, _BITS_MS))
        self._answers[wanted] = answer
        return answer

    def model(self, formulas: Sequence[Term], factors: Sequence[Symbol] = (), ms: int | None = None) -> Model | None:
        """A solution over all symbols of `formulas`, checked by evaluation. None if none was found in time.

        `factors` are the launch symbols to fix when products are in the way.
        """
        limit = ms or self.query_ms
        wanted = list(dict.fromkeys(formulas))
        status, raw = self._ask([*wanted, *lemmas(wanted, self.keep_time)], self._abstract, False, limit)
        if status == "unsat":
            return None
        guess = self._values(raw, wanted) if raw is not None else None
        if guess is not None and satisfied(wanted, guess):
            return guess
        names = self._to_fix(wanted, factors)
        for fixed in _assignments(names, guess):
            concrete = [
                substitute(f, {variable(s): truth(bool(v)) if s.boolean else num(v) for s, v in fixed.items()})
                for f in wanted
            ]
            if FALSE in concrete:
                continue
            status, raw = self._ask(
                [*concrete, *lemmas(concrete, self.keep_time)], self._abstract, False, min(limit, 700)
            )
            if raw is None:
                continue
            found = {**self._values(raw, wanted), **fixed}
            if satisfied(wanted, found):
                return found
        status, raw = self._ask(wanted, self._exact, True, min(limit, 1000))
        if raw is not None:
            found = dict(self._values(raw, wanted))
            if satisfied(wanted, found):
                return found
        return None

    def keep_time(self) -> None:
        """Raise `OutOfBudget` past the deadline; long work outside of z3 calls this now and then."""
        now = time.monotonic()
        if now >= self._next_look:
            # A process cannot use more than this much of its time meanwhile, unless its other threads work too.
            self._next_look = now + _LOOK_EVERY
            if time.process_time() > self.deadline:
                raise OutOfBudget

    # ---- inside

    def _ask(
        self, formulas: Sequence[Term], memo: dict[Term, object], exact: bool, ms: int
    ) -> tuple[str, z3.ModelRef | None]:
        left = self.deadline - time.process_time()
        if left <= 0:
            raise OutOfBudget
        begun = time.process_time()
        solver = z3.SimpleSolver(ctx=self._context)
        solver.set("timeout", max(20, int(min(ms * 3, left * 1000))))
        solver.set("rlimit", ms * _UNITS_PER_MS)
        if FALSE in formulas:
            return "unsat", None
        for term in subterms(formulas):
            if not term.boolean and (term.kind == "sym" or (nonlinear(term) and not exact)):
                for bound in self._range(term, memo, exact):
                    self._assert(solver, bound)
        for formula in formulas:
            self.keep_time()
            self._assert(solver, self._translate(formula, memo, exact))
        status = checked(solver)
        self.statistics.asked += 1
        self.statistics.seconds += time.process_time() - begun
        if status == "unknown":
            self.statistics.unknown += 1
        return status, solver.model() if status == "sat" else None

    def _assert(self, solver: z3.Solver, formula: z3.ExprRef) -> None:
        """`solver.add`, without z3's checks of Python arguments."""
        z3.Z3_solver_assert(self._context.ref(), solver.solver, formula.ast)

    def _range(self, term: Term, memo: dict[Term, object], exact: bool) -> list[z3.BoolRef]:
        """The constant bounds of an unknown, which folding has removed from the formulas."""
        unknown = self._translate(term, memo, exact)
        low = [] if term.low is None else [unknown >= term.low]
        return low if term.high is None else [*low, unknown <= term.high]

    def _translate(self, term: Term, memo: dict[Term, object], exact: bool) -> z3.ExprRef:
        found = memo.get(term)
        if found is not None:
            return found
        made = self._build(term, memo, exact)
        memo[term] = made
        return made

    def _build(self, term: Term, memo: dict[Term, object], exact: bool) -> z3.ExprRef:
        context = self._context
        if term.kind == "sym":
            assert term.symbol is not None
            name = f"{term.symbol.name}#{term.symbol.order}"
            return z3.Bool(name, context) if term.boolean else z3.Int(name, context)
        if nonlinear(term) and not exact:
            return z3.Int(f"${term.kind}{term.serial}", context)
        parts = [self._translate(part, memo, exact) for part in term.parts]
        match term.kind:
            case "const":
                return z3.IntVal(term.const, context)
            case "true" | "false":
                return z3.BoolVal(term.kind == "true", context)
            case "lin":
                weighted = zip(parts, term.weights, strict=True)
                pieces = [p if w == 1 else self._many(z3.Z3_mk_mul, [z3.IntVal(w, context), p]) for p, w in weighted]
                if term.const:
                    pieces.append(z3.IntVal(term.const, context))
                return pieces[0] if len(pieces) == 1 else self._many(z3.Z3_mk_add, pieces)
            case "mul":
                return self._many(z3.Z3_mk_mul, parts)
            case "div":
                return z3.ArithRef(z3.Z3_mk_div(context.ref(), parts[0].ast, parts[1].ast), context)
            case "mod":
                return z3.ArithRef(z3.Z3_mk_mod(context.ref(), parts[0].ast, parts[1].ast), context)
            case "ite":
                asts = [part.ast for part in parts]
                return z3.ArithRef(z3.Z3_mk_ite(context.ref(), *asts), context)
            case "ge":
                return z3.BoolRef(z3.Z3_mk_ge(context.ref(), parts[0].ast, self._zero.ast), context)
            case "eq":
                return z3.BoolRef(z3.Z3_mk_eq(context.ref(), parts[0].ast, self._zero.ast), context)
            case "and" | "or":
                return self._many(z3.Z3_mk_and if term.kind == "and" else z3.Z3_mk_or, parts, z3.BoolRef)
            case _:
                return z3.BoolRef(z3.Z3_mk_not(context.ref(), parts[0].ast), context)

    def _many(self, make: Callable[..., object], parts: Sequence[z3.ExprRef], kind: type = z3.ArithRef) -> z3.ExprRef:
        """An n-ary application, without the type coercions of z3's Python layer, which cost more than the solving."""
        asts = (z3.Ast * len(parts))(*(part.ast for part in parts))
        return kind(make(self._context.ref(), len(parts), asts), self._context)

    def _values(self, raw: z3.ModelRef, formulas: Sequence[Term]) -> dict[Symbol, int]:
        values: dict[Symbol, int] = {}
        for term in subterms(formulas):
            if term.kind == "sym" and term.symbol is not None:
                value = raw.eval(self._translate(term, self._abstract, False), model_completion=True)
                values[term.symbol] = int(z3.is_true(value)) if term.boolean else value.as_long()
        return values

    def _to_fix(self, formulas: Sequence[Term], factors: Sequence[Symbol]) -> list[Symbol]:
        inside: set[Symbol] = set()
        for term in subterms(formulas):
            if term.kind == "mul":
                inside |= term.symbols
            elif term.kind in ("div", "mod") and term.parts[1].kind != "const":
                inside |= term.parts[1].symbols
        return [s for s in factors if s in inside]


def _assignments(names: Sequence[Symbol], guess: Model | None) -> list[dict[Symbol, int]]:
    if not names:
        return []
    made: list[dict[Symbol, int]] = []
    for row in range(7):
        chosen: dict[Symbol, int] = {}
        for column, symbol in enumerate(names):
            preset = PRESETS.get(symbol.name)
            if preset is not None:
                chosen[symbol] = preset[row]
            elif symbol.boolean:
                chosen[symbol] = (row + column) % 2
            elif ".shape[" in symbol.name:
                chosen[symbol] = _EXTENTS[(row + column) % 7]
            else:
                chosen[symbol] = _SCALARS[(row + column) % 7]
        made.append(chosen)
    if guess is not None:
        made.insert(1, {s: guess[s] for s in names if s in guess})
    return [m for m in made if _fits(m)]


def _fits(chosen: Mapping[Symbol, int]) -> bool:
    block = 1
    for symbol, value in chosen.items():
        if symbol.name.startswith("blockDim"):
            block *= value
        if (symbol.low is not None and value < symbol.low) or (symbol.high is not None and value > symbol.high):
            return False
    return 1 <= block <= 1024


def satisfied(formulas: Iterable[Term], values: Model) -> bool:
    """Whether `values` are in range and make every formula true; a division by zero makes none."""
    for symbol, value in values.items():
        if (symbol.low is not None and value < symbol.low) or (symbol.high is not None and value > symbol.high):
            return False
    try:
        return all(evaluate(f, values) for f in formulas)
    except (ZeroDivisionError, KeyError):
        return False
