"""What the lanes of a warp tell each other: votes, ballots, shuffles, and the ranks that ballots give.

A value of a full mask is one for the warp; of any other mask it is only the thread's own. Who takes part is noted, and
held against the masks by `barriers.py`.

The old value of a counter that one lane draws, and a shuffle from that lane gives to all, is a ticket of the warp.

Worked example: `popc(votes & lanes below mine)`, for the votes of a ballot, is a rank that no other voter of the warp has.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.simt import Warp
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import give_fact
from tilecheck.symbolic.smt_terms import ONE, disj, eq, lt, mod, neg, num, sub
from tilecheck.verify import scalars
from tilecheck.verify.masks import FULL_MASK, is_full
from tilecheck.verify.run import WARP_LANES, BarrierPoint, Run, State, Ticket
from tilecheck.verify.values import Kind, Scalar, Truth, Value, as_int


def meet(run: Run, state: State, expr: Warp, mask: Term | None, operands: Sequence[Value]) -> Value:
    """The value of a warp operation at `state`, whose `mask` and operands have been evaluated."""
    if run.recording and run.only_tags is None and expr.op != "activemask":
        run.warp_ops.append(BarrierPoint(Level.WARP, state.guard, expr, expr.op, mask))
    full = mask is not None and is_full(mask)
    if expr.op == "activemask":
        active = run.symbols.fresh("active lanes", Level.THREAD, Taint.DATA, 0, FULL_MASK)
        run.active_masks[active] = state.guard
        return Scalar(active)
    if expr.op in ("all", "any", "eq"):
        level = Level.WARP if full else Level.THREAD
        return Truth(run.symbols.fresh(expr.op, level, Taint.DATA, boolean=True))
    if expr.op == "ballot" and operands:
        predicate = scalars.truth_of(run.symbols, operands[0])
        votes = run.symbols.fresh("votes", Level.WARP if full else Level.THREAD, Taint.DATA, 0, 2**32 - 1)
        if full:
            # The votes of some lanes name, and rank, nobody outside of them.
            run.ballots[votes] = predicate
        return Scalar(votes)
    handed = _handed(run, state, operands) if full and expr.op == "shfl" else None
    if handed is not None:
        return Scalar(handed)
    level = Level.THREAD
    first = operands[0] if operands else None
    kind = first.kind if isinstance(first, Scalar) and not expr.op.startswith("match") else Kind.INT
    return Scalar(run.symbols.fresh(expr.op, level, Taint.DATA), kind)


def _handed(run: Run, state: State, operands: Sequence[Value]) -> Term | None:
    """The ticket that one lane drew for its warp and hands to all lanes, None if it is no such value.

    All lanes of the warp have to be there, so nothing on the path may pick some of them.
    """
    value, lane = (as_int(operand) for operand in operands[:2]) if len(operands) > 1 else (None, None)
    if value is None or lane is None or value.kind != "ite" or lane.kind != "const" or state.guard.level > Level.WARP:
        return None
    cond, old, _ = value.parts
    draw = run.draws.get(old)
    if draw is None or draw.increment.level > Level.WARP or cond is not eq(mod(run.dims.linear, num(WARP_LANES)), lane):
        return None
    ticket = run.symbols.fresh("ticket of the warp", Level.WARP, Taint.DATA, old.low, old.high)
    run.tickets.append(Ticket(ticket, draw.array, Level.GRID, draw.increment, draw.access))
    if old in run.counted:
        run.counted[ticket] = run.counted[old]
    return ticket


def below(run: Run) -> Value:
    """`lanemask_lt()`: a bit for each lane of the warp before one's own."""
    return Scalar(sub(scalars.power_of_two(run.symbols, mod(run.dims.linear, num(WARP_LANES))), ONE))


def rank_of(run: Run, value: Value) -> Value | None:
    """`popc(votes)` and `popc(votes & lanes below mine)`: a count, and a rank no two voters of a warp share."""
    term = as_int(value)
    if term is None:
        return None
    votes = next((s for s in term.symbols for t in run.ballots if t.symbol is s), None)
    if votes is None:
        return None
    ballot = next(t for t in run.ballots if t.symbol is votes)
    count = run.symbols.apply("popc", Level.GRID, (ballot,), Taint.DATA, 0, WARP_LANES, label="voters")
    if term is ballot:
        return Scalar(count)
    below = scalars.power_of_two(run.symbols, mod(run.dims.linear, num(WARP_LANES)))
    if term is mod(ballot, below):
        rank = run.symbols.apply("rank", Level.GRID, (ballot, mod(run.dims.linear, num(WARP_LANES))), Taint.DATA, 0, 31)
        give_fact(rank, disj(neg(run.ballots[ballot]), lt(rank, count)))
        run.ranks[rank] = run.ballots[ballot]
        return Scalar(rank)
    return None
