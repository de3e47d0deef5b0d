"""What one thread tells its block: a shared element that a single thread writes before a barrier, read after it.

The element then holds what its dtype keeps of the writer's value, for everybody. If the block agrees on that, the read
gives it; if it is the old value of an atomic counter, drawn once for the block, the range that it opens is no other
block's. A store that only some blocks make tells nothing to the others: `Told.when` is the condition of the store.

Invariant: a `Told` in `State.told` names the contents of its element since the last block barrier for every thread that
gets here and whose block keeps to `when`, provided that the kernel is free of races; what rests on it is withdrawn where
that is not shown (`prove.py`).

Worked example: after `if t == 0: tile[0] = cuda.atomic.add(head, 0, 1)` and a barrier, `tile[0]` is a ticket of the block.
"""

from __future__ import annotations

from dataclasses import replace

from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import give_fact
from tilecheck.symbolic.smt_terms import ONE, TRUE, ZERO, conj, conjuncts, eq, ge, implies, ite, le, num, sub
from tilecheck.verify.run import Run, State, Ticket
from tilecheck.verify.values import Access, Array, Told, Value, as_int
from tilecheck.verify.widths import stored, wide


def note(run: Run, state: State, access: Access | None, value: Value) -> None:
    """A store, already recorded: remember it if a single thread makes it, in every block that comes this way."""
    if access is None or access.array.space != "shared" or not _by_one_thread(run, state):
        return
    raw = as_int(value)
    # Counters are taken to stay below 2**31, which is listed; a narrower element starts again before.
    ticket = raw in run.draws and wide(access.array.dtype)
    term = raw if ticket else stored(run.symbols, access.array.dtype, value)
    if term is not None and all(at.level <= Level.BLOCK for at in access.index):
        when = conj(*(c for c in _parts(state) if c.level <= Level.BLOCK))
        state.telling = (*state.telling, Told(access.array, access.index, term, when))


def _parts(state: State) -> list[Term]:
    return [c for part in (*state.path, state.live) for c in conjuncts(part)]


def _by_one_thread(run: Run, state: State) -> bool:
    """Whether the path picks one thread that every block has, its first or its last, and nothing else but what the
    block agrees on.
    """
    dims = run.dims
    first = {eq(t, ZERO) for t in dims.thread if t.kind != "const"}
    last = {eq(dims.linear, sub(dims.threads, ONE))}
    picks = {c for c in _parts(state) if c.level > Level.BLOCK}
    return bool(picks) and picks in (first, last, {eq(dims.linear, ZERO)})


def written(state: State, array: Array) -> None:
    """This thread writes `array`."""
    state.wrote = state.wrote | {array}
    forget(state, array)


def forget(state: State, array: Array) -> None:
    """Something may have written `array`: what was told there may be gone."""
    state.told = tuple(told for told in state.told if told.array is not array)
    state.telling = tuple(told for told in state.telling if told.array is not array)


def forget_all(state: State) -> None:
    """Nothing that was told is known any more."""
    state.told = state.telling = ()


def publish(state: State) -> None:
    """A barrier that the whole block meets: what was being told is known. Who meets it is on its path anyway."""
    here = set(_parts(state))
    news = [replace(t, when=conj(*(c for c in conjuncts(t.when) if c not in here))) for t in state.telling]
    state.told, state.telling, state.wrote = (*state.told, *news), (), frozenset()


def joined(result: State, first: State, second: State) -> None:
    """What is known after a branch: what both sides know, and what one of them tells, under its condition, while the other
    leaves its array.
    """
    result.told = tuple(told for told in first.told if told in second.told)
    kept = [told for told in first.telling if told in second.telling]
    if first.version == second.version:
        for side, other in ((first, second), (second, first)):
            kept += [told for told in side.telling if told not in kept and told.array not in other.wrote]
    result.telling = tuple(kept)
    result.wrote = first.wrote | second.wrote


def gone(kept: State, side: State) -> None:
    """Some threads leave at the end of `side`; `kept` is what the others know."""
    for array in side.wrote:
        forget(kept, array)


def read(run: Run, state: State, array: Array, index: tuple[Term, ...], loaded: Term) -> Term:
    """The element of `array` that `loaded` stands for since the last barrier, with what was told there."""
    told = next((t for t in reversed(state.told) if t.array is array and t.index == index), None)
    if told is None or loaded.symbol is None or loaded.symbol.applied is None:
        return loaded
    run.leaned.add(array)
    value, when = told.value, told.when
    if value.level <= Level.BLOCK:
        give_fact(loaded, implies(when, eq(loaded, value)))
        return loaded
    if value.low is not None:
        give_fact(loaded, implies(when, ge(loaded, num(value.low))))
    if value.high is not None:
        give_fact(loaded, implies(when, le(loaded, num(value.high))))
    draw = run.draws.get(value)
    if draw is None or draw.increment.level > Level.BLOCK:
        return loaded
    if array.dtype not in ("int64", "uint64"):
        run.small.add(draw.array.name)
    # Where nothing was told the element is no ticket: the ticket is a symbol of its own.
    function = f"ticket of {loaded.symbol.applied.function}"
    ticket = loaded if when is TRUE else run.symbols.apply(function, Level.BLOCK, index, Taint.DATA)
    if all(t.old is not ticket for t in run.tickets):
        run.tickets.append(Ticket(ticket, draw.array, Level.GRID, draw.increment, draw.access))
    return ite(when, ticket, loaded)
