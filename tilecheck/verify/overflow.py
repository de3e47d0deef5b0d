"""Integers that leave 64 bits: where it would be seen, and the launches in which it does not happen.

The walk computes with unbounded integers, numba with 64 bits. Sums and products wrap modulo 2**64 whatever becomes of them, so
only what tells the two apart is looked at (`observe`): comparisons, quotients, shifts to the right, bit operations, bounds of
loops and slices, and the index of an access. As long as no such value leaves 64 bits in the unbounded run, both runs are one.

What must fit does so by constant range (grids and blocks have limits, no array is larger than an address space), by the
guard, by conditions that other properties need anyway, or by a condition of its own (`n <= 2147483647`). Scalars and the
contents of arrays that are only added up are taken to be below 2**60, which is listed where it matters.

Invariant: `proven` and `proven-given` are said only if every observed value that the property can depend on fits.

Worked example: `j = i * n; if j < a.size: a[j] = 0` is in bounds for `n >= 0`, until n = 2**62 makes j negative for thread 2;
so `n <= 2147483647` becomes a condition, with one that bounds the threads of the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.ir.kernel import Node
from tilecheck.ir.printer import show
from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import conj, disj, ge, gt, implies, le, lt, mul, neg, num, variable
from tilecheck.verify.condition import Condition, words
from tilecheck.verify.conditions import Conditions, fewest
from tilecheck.verify.pairs import Question, about_one
from tilecheck.verify.ranges import fits, modest, unbounded_elements
from tilecheck.verify.run import LARGEST_ARRAY, Observation, Run, State
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.values import Kind, Scalar, Value, as_int
from tilecheck.verify.verdict import Property

_BATCH = 8
_QUERY_MS = 400
_INT32 = (-(2**31), 2**31 - 1)
# No thread lives for more rounds of a loop that does not count; few launches have more blocks along an axis.
_ROUNDS = 2**31
_BLOCKS = 2**21
_SHIFTS = (0, 63)
# What the index of an access alone decides; the bounds of arrays keep it in range where those are shown.
INDEXED = (Property.RACE_FREE, Property.SHARED_INITIALISED)


def observe(run: Run, state: State, node: Node, *values: Value, index: bool = False) -> None:
    """Note that the size of `values` matters at `state`; `index` if they are positions of an access."""
    if not run.recording or run.only_tags is not None or run.kernel.track == "cutile":
        # cuTile counts in 32 bits: what a launch overflows is found there (`cutile.py`), and assumed not to happen here.
        return
    for value in values:
        term = None if isinstance(value, Scalar) and value.kind is Kind.FLOAT else as_int(value)
        if term is None or term.kind in ("const", "sym"):
            continue
        if fits(term):
            run.modest |= unbounded_elements(term)
            continue
        scalars = modest(term)
        if scalars is None:
            run.observations.append(Observation(term, state.guard, node, index))
        else:
            run.modest |= scalars | unbounded_elements(term)


def observe_shift(run: Run, state: State, node: Node, value: Value) -> None:
    """Note that something is shifted by `value` bits at `state`: by less than none or more than 63 is not defined."""
    term = as_int(value) if run.kernel.track != "cutile" else None
    if run.recording and run.only_tags is None and term is not None and not fits(term, limits=_SHIFTS):
        run.observations.append(Observation(term, state.guard, node, limits=_SHIFTS))


def _outside(seen: Observation) -> Term:
    """That what is seen is not in its limits."""
    return disj(lt(seen.term, num(seen.limits[0])), gt(seen.term, num(seen.limits[1])))


def suspects(run: Run, excuses: Conditions) -> Iterator[Suspect]:
    """The observed values that may leave 64 bits, each once per property that it matters to; those that fit only under
    conditions are EXCUSED.
    """
    about = relevant(run)
    wanted: dict[tuple[object, ...], Observation] = {}
    for seen in run.observations:
        if _inputs(seen.term) <= about:
            key = (seen.term, seen.guard, seen.limits)
            known = wanted.get(key)
            if known is None or known.index:
                wanted[key] = seen
    everything = list(wanted.values())
    # What fits under conditions, which the properties that it matters to then have, may be what bounds the next value.
    settled: list[Term] = []
    for start in range(0, len(everything), _BATCH):
        chunk = everything[start : start + _BATCH]
        if run.solver.refutes(_ask(run, [*settled, disj(*(conj(s.guard, _outside(s)) for s in chunk))]).formulas):
            continue
        for seen in chunk:
            question = _ask(run, [*settled, seen.guard, _outside(seen)])
            if run.solver.refutes(question.formulas):
                continue
            made = list(_judged(run, seen, question, excuses))
            if not seen.index and all(suspect.standing is Standing.EXCUSED for suspect in made):
                settled.append(implies(seen.guard, neg(_outside(seen))))
            yield from made


def _judged(run: Run, seen: Observation, question: Question, excuses: Conditions) -> Iterator[Suspect]:
    """The suspects that one value makes."""
    text = f"`{show(seen.node)}` may need more than 64 bits"
    if seen.limits == _SHIFTS:
        text = f"`{show(seen.node)}` may shift by less than 0 or more than 63 bits"
    first = Suspect(Property.RACE_FREE, "index-overflow", Standing.UNKNOWN, seen.node, text, question=question)
    first.guard, first.replayable = seen.guard, False
    if excuses.terms and run.solver.refutes([*question.formulas, *excuses.terms]):
        excuses.settle(run, first, question.formulas)
    else:
        excuses.excuse(first, _conditions(run, seen, excuses.terms))
    for name in _properties(run, seen):
        made = Suspect(name, first.rule, first.standing, first.node, first.reason, question=question)
        made.guard, made.replayable, made.conditions = first.guard, False, first.conditions
        yield made


def _properties(run: Run, seen: Observation) -> list[Property]:
    """The properties that a value which may wrap leaves open: of those that there is something to say about."""
    idle = set() if any(a.space == "shared" for a in run.arrays.values()) else {Property.SHARED_INITIALISED}
    if not run.barriers and not run.warp_ops:
        idle.add(Property.BARRIERS_UNIFORM)
    return [name for name in (INDEXED if seen.index else Property) if name not in idle]


def _conditions(run: Run, seen: Observation, assumed: Sequence[Term]) -> tuple[Condition, ...]:
    """The fewest scalars of 32 bits, without or with a grid of ordinary size, that keep the value in range; () if none do."""
    scalars = sorted((s for s in _inputs(seen.term) if _is_scalar(s)), key=lambda s: s.name)
    rounds = {s: (0, _ROUNDS) for s in seen.term.symbols if s.name.startswith("round")}
    grids = [g for at, g in zip(run.dims.at, run.dims.grid, strict=True) if at.symbol in seen.term.symbols and g.symbol]
    blocks = {at.symbol: (0, _BLOCKS - 1) for at in run.dims.at if at.symbol is not None}
    if seen.limits == _SHIFTS:
        return _shifted(run, seen, assumed)
    few = [*((s,) for s in scalars), tuple(scalars)]
    for chosen, wide in [*((chosen, []) for chosen in few), ((), grids), *((chosen, grids) for chosen in few)]:
        ranges = {s: _held(run, seen, s, assumed) for s in chosen}
        ends = {s: (max(low, _INT32[0]), min(high, _INT32[1])) for s, (low, high) in ranges.items()}
        limits = {g.symbol: (1, _BLOCKS) for g in wide if g.symbol is not None}
        if fits(seen.term, {**rounds, **ends, **limits, **(blocks if wide else {})}, seen.limits):
            made = [_at_most(variable(s), _INT32[1]) for s, (_, high) in ranges.items() if high > _INT32[1]]
            made += [_at_least(variable(s), _INT32[0]) for s, (low, _) in ranges.items() if low < _INT32[0]]
            made += [_at_most(g, _BLOCKS) for g in wide]
            counted = [gt(variable(s), num(_ROUNDS)) for s in rounds if not _is_round(s)]
            asked = _ask(run, [seen.guard, disj(*counted), *assumed, *(c.term for c in made)])
            if not counted or run.solver.refutes(asked.formulas, _QUERY_MS):
                return tuple(made)
    return ()


def _shifted(run: Run, seen: Observation, assumed: Sequence[Term]) -> tuple[Condition, ...]:
    """The ends of the limits that a scalar, by which something is shifted, has to keep."""
    if seen.term.symbol is None or seen.term.symbol.taint is not Taint.INPUT:
        return ()
    made = [_at_least(seen.term, seen.limits[0]), _at_most(seen.term, seen.limits[1])]
    asked = [seen.guard, _outside(seen), *assumed]
    return fewest(run, _ask(run, asked).formulas, made)


def _held(run: Run, seen: Observation, symbol: Symbol, assumed: Sequence[Term]) -> tuple[int, int]:
    """The range of a scalar where the value is seen: from zero or one on, if the guard says so."""
    low, high = symbol.low or INT64[0], symbol.high or INT64[1]
    below = lt(variable(symbol), num(0))
    if low < 0 and run.solver.refutes(_ask(run, [seen.guard, below, *assumed]).formulas, _QUERY_MS):
        low = 0
    return low, high


def _at_most(term: Term, limit: int) -> Condition:
    return Condition(f"{words(term)} <= {limit}", le(term, num(limit)))


def _at_least(term: Term, limit: int) -> Condition:
    return Condition(f"{words(term)} >= {limit}", ge(term, num(limit)))


def _is_round(symbol: Symbol) -> bool:
    return symbol.high is None and symbol.name.startswith("round")


def _is_scalar(symbol: Symbol) -> bool:
    return not symbol.name.startswith(("blockDim", "gridDim")) and symbol.high is not None and symbol.high > _INT32[1]


def _inputs(term: Term) -> set[Symbol]:
    return {s for s in closure([term]) if s.taint is Taint.INPUT and not s.name.startswith(("blockDim", "gridDim"))}


def relevant(run: Run) -> set[Symbol]:
    """The symbols that accesses and barriers depend on."""
    terms: list[Term] = []
    for access in run.accesses:
        terms += [access.guard, *access.index, *(t for c in access.checks for t in (c.position, c.length))]
    for array, checks, guard, _ in run.view_checks:
        terms += [guard, *array.extents, *(t for c in checks for t in (c.position, c.length))]
    for point in (*run.barriers, *run.warp_ops):
        terms += [point.guard, *((point.mask,) if point.mask is not None else ())]
    terms += [guard for guard, _ in run.ends]
    return set(closure(terms))


def _ask(run: Run, terms: Sequence[Term]) -> Question:
    """A question about one thread in which no array is larger than an address space, and no loop runs for ever."""
    question = about_one(run, terms)
    question.facts += [le(variable(s), num(_ROUNDS)) for s in question.first if _is_round(s)]
    for array in run.arrays.values():
        size = num(1)
        for extent in array.extents:
            size = mul(size, extent)
        if size.kind == "mul" and any(s in question.first for s in size.symbols):
            question.facts.append(le(size, num(LARGEST_ARRAY)))
    return question
