"""The state after a loop, whatever number of rounds it took and whichever way it was left.

Facts about the exit (the condition failed there, and held one round earlier) belong to the fresh symbols that stand for
the values at the exit, never to the path: a path condition is negated when another thread takes the other branch, and
the facts would then be lost or, worse, denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.ir.kernel import For
from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure, give_fact
from tilecheck.symbolic.smt_terms import (
    FALSE,
    ONE,
    TRUE,
    add,
    conj,
    conjuncts,
    disj,
    ge,
    implies,
    le,
    mul,
    neg,
    sub,
    substitute,
)
from tilecheck.verify import phases, told
from tilecheck.verify.expressions import evaluate
from tilecheck.verify.loop_forms import like, proves, rotated
from tilecheck.verify.memory import written_arrays
from tilecheck.verify.run import Run, State
from tilecheck.verify.scalars import truth_of
from tilecheck.verify.values import Choice, Held, Kind, Scalar, Tags, Truth, Value, View, level_of, terms_of

if TYPE_CHECKING:
    from tilecheck.verify.loops import Loop, Round


def leave_loop(run: Run, this: Loop, state: State, round_: Round, follows: Term) -> None:
    """Make `state` what follows the loop. `follows` says whether another round comes after `round_`."""
    before = this.before
    levels = _levels(this, round_)
    broken = bool(round_.frame.breaks)
    rounds = _rounds(run, this, round_, broken)
    env = dict(before.env)
    fresh: dict[str, Value] = {}
    for name in this.assigned:
        value, is_fresh = _value(run, this, round_, name, rounds, levels, broken)
        if value is None:
            env.pop(name, None)
            continue
        env[name] = value
        if is_fresh:
            fresh[name] = value
    if isinstance(this.node, For):
        env[this.node.target] = Scalar(run.symbols.fresh(this.node.target, Level.THREAD, Taint.HAVOC))
    if not broken and not this.may_return:
        this.facts.impose(fresh, rounds if rounds.symbol is not None else None, rounds)
        if not this.counted:
            _condition_failed(this, round_, env, rounds)
    state.env = env
    if this.may_return:
        uniform = this.level if this.level > Level.GRID else Level.GRID
        level = max(this.alive_level, uniform) if this.scope is not None else levels["exits"]
        stayed = run.symbols.fresh("stayed", level, Taint.HAVOC, boolean=True)
        give_fact(stayed, implies(stayed, neg(disj(*round_.frame.exits))))
        state.live = conj(state.live, stayed)
    state.dirty = before.dirty | round_.after.dirty
    state.locks = _locks(this, round_)
    for array in written_arrays(run, this.node):
        told.forget(state, array)
    if this.scope is not None:
        state.tags = _tags(run, this, round_, follows, broken)
        if this.scope <= Level.BLOCK:
            state.version = run.new_version()


def _locks(this: Loop, round_: Round) -> frozenset[Held]:
    """The locks held after a loop: those held at every way out, and taken in terms that mean the same outside."""
    ways = [leave.locks for leave in round_.frame.breaks]
    if this.counted or round_.cond is not TRUE:
        ways.append(round_.after.locks & this.before.locks)
    held = frozenset.intersection(*ways) if ways else frozenset()
    return frozenset(h for h in held if all(s.order <= round_.mark for term in h.index for s in term.symbols))


def _rounds(run: Run, this: Loop, round_: Round, broken: bool) -> Term:
    """The number of rounds: a term if the loop counts and is never left early, else a symbol."""
    if this.counted and not broken and not this.may_return:
        return this.trips()
    if broken or this.counted:
        level = max(this.alive_level, level_of((this.trips(),))) if this.counted else Level.THREAD
        made = run.symbols.fresh("rounds", max(level, this.level), Taint.HAVOC, 0)
        if this.counted:
            give_fact(made, le(made, this.trips()))
        return made
    inner = round_.cond.symbols - round_.counter.symbols
    level = max((s.level for s in inner), default=Level.GRID)
    if this.scope is not None:
        level = max(level, this.level)
    tainted = any(s.taint in (Taint.DATA, Taint.HAVOC) for s in closure([round_.cond]))
    return run.symbols.fresh("rounds", level, Taint.HAVOC if tainted else Taint.NONE, 0)


def _value(
    run: Run, this: Loop, round_: Round, name: str, rounds: Term, levels: dict[str, Level], broken: bool
) -> tuple[Value | None, bool]:
    """The value of `name` after the loop, and whether it is a fresh symbol."""
    following = round_.after.env.get(name)
    if name not in this.carried:
        if following is None:
            return None, False
        inside = any(s.order > round_.mark for t in terms_of(following) for s in t.symbols)
        if isinstance(following, View | Choice) or not (inside or broken):
            return following, False
        return like(run, following, name, Level.THREAD), True
    before, form, head = this.before.env[name], this.forms[name], round_.heads[name]
    at_break = [leave.env.get(name) for leave in round_.frame.breaks]
    kept = all(value is not None and (value is head or value == head) for value in at_break)
    moved = all(value is not None and value in (head, following) for value in at_break)
    if this.arrays is not None and name in this.arrays.turns:
        return rotated(this.arrays, name, rounds), False
    if form.fixed and kept:
        return before, False
    if form.delta is not None and isinstance(before, Scalar) and moved:
        count = rounds
        if broken and not kept:
            count = run.symbols.fresh("rounds", rounds.level, Taint.HAVOC, 0)
            if this.counted:
                give_fact(count, le(count, this.trips()))
        return Scalar(add(before.term, mul(count, form.delta)), form.kind), False
    level = Level.THREAD
    if not broken:
        level = form.level if this.scope is not None else levels.get(name, Level.THREAD)
    if isinstance(before, Scalar) and any(_is_float(v) for v in (following, *at_break)):
        return Scalar(run.symbols.fresh(name, level, Taint.DATA), Kind.FLOAT), True
    return like(run, before, name, level, form if kept or not broken else None), True


def _is_float(value: Value | None) -> bool:
    return isinstance(value, Scalar) and value.kind is Kind.FLOAT


def _condition_failed(this: Loop, round_: Round, env: dict[str, Value], rounds: Term) -> None:
    """Facts of a `while` that ended by its condition."""
    mapping: dict[Term, Term] = {round_.counter: rounds}
    for name in this.carried:
        head, value = round_.heads[name], env.get(name)
        if (
            isinstance(head, Scalar) and isinstance(value, Scalar) and head.term.symbol and head.term is not value.term
        ) or (isinstance(head, Truth) and isinstance(value, Truth) and head.term.symbol):
            mapping[head.term] = value.term
    reached = conj(*this.before.path, this.before.live)
    bearers = [t for t in mapping.values() if t.symbol is not None and t.symbol.order > round_.mark]
    inner = {s for s in round_.cond.symbols if s.order > round_.mark}
    own = {t.symbol for t in mapping}
    if inner <= own:
        for bearer in bearers:
            give_fact(bearer, implies(reached, neg(substitute(round_.cond, mapping))))
    if rounds.symbol is not None and len(mapping) == 1:
        earlier = {round_.counter: sub(rounds, ONE)}
        sure = [c for c in conjuncts(round_.cond) if _symbols_after(c, round_.mark) <= {round_.counter.symbol}]
        held = substitute(conj(*sure), earlier)
        give_fact(rounds, implies(conj(reached, ge(rounds, ONE)), held))


def _symbols_after(term: Term, mark: int) -> set[Symbol | None]:
    return {s for s in term.symbols if s.order > mark}


def _levels(this: Loop, round_: Round) -> dict[str, Level]:
    """Who agrees on the carried values after a loop in which everybody does the same number of rounds.

    The counter then counts as shared. Under `exits` stands the level of the ways out.
    """
    if this.scope is not None:
        return {"exits": this.alive_level}
    agreed = level_of((this.start, this.stop, this.step)) if this.counted else Level.THREAD
    levels = {name: level_of(terms_of(this.before.env[name])) for name in this.carried}
    heads = {t.symbol: name for name, value in round_.heads.items() for t in terms_of(value) if t.symbol is not None}

    # Who is still in the loop at a round follows from the ways out of the earlier ones.
    neutral = {t.symbol for t in (round_.counter, round_.alive) if t is not None}

    def level(terms: tuple[Term, ...]) -> Level:
        result = agreed
        seen: set[Symbol] = set()
        work = [s for t in terms for s in t.symbols]
        while work:
            symbol = work.pop()
            if symbol in seen or symbol in neutral:
                continue
            seen.add(symbol)
            if symbol in heads:
                result = max(result, levels[heads[symbol]])
            elif symbol.applied is not None:
                result = max(result, symbol.applied.level)
                work.extend(s for a in symbol.applied.arguments for s in a.symbols)
            else:
                result = max(result, symbol.level)
        return result

    for _ in range(8):
        made = {name: max(old, level(terms_of(round_.after.env.get(name)))) for name, old in levels.items()}
        if made == levels:
            break
        levels = made
    else:
        levels = dict.fromkeys(levels, Level.THREAD)
    levels["exits"] = level(tuple(round_.frame.exits))
    return levels


def _tags(run: Run, this: Loop, round_: Round, follows: Term, broken: bool) -> Tags:
    assert this.scope is not None
    before = this.before
    if this.counted:
        none = neg(this.continues_at(this.start))
    else:
        recording, run.recording = run.recording, False
        assert not isinstance(this.node, For)
        none = neg(truth_of(run.symbols, evaluate(run, before.fork(), this.node.cond)))
        run.recording = recording
    if none is not FALSE and proves(run, before, neg(none), 200):
        none = FALSE
    last = TRUE if broken or this.may_return else neg(follows)
    tags = phases.under(before.tags, none, this.scope)
    tags = phases.joined(tags, phases.under(round_.after.tags, last, this.scope), this.scope)
    for leave in round_.frame.breaks:
        opened = {s: dict.fromkeys(inner, TRUE) for s, inner in leave.tags.items()}
        tags = phases.joined(tags, opened, this.scope)
    return tags
