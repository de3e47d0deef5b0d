"""The block that comes last: every block leaves its part, takes a ticket, and the one with the last ticket adds up.

Two accesses in different blocks are ordered by this if one block's access comes before a device fence and then its
ticket, and the other's comes after its ticket and a device fence and is made only with the last ticket. Of accesses that
both need the last ticket only one block makes any.

A ticket is the old value of an atomic that adds 1, once per block, to a counter that nothing else writes but the holder
of the last ticket. The counter is assumed to start at zero, which is listed. The last ticket is known by comparing it, or
by a shared flag that its taker stored (the comparison, or one constant for the last ticket and another for the rest) and
that is read after a barrier.

Worked example: `p[b] = v; fence; k = atomic.add(c, 0, 1); if k == gridDim.x - 1: fence; read p[0 .. b]`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.symbolic.smt_nodes import Level, Symbol, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import ONE, ZERO, conj, disj, eq, implies, mul, ne, neg, sub, variable
from tilecheck.verify.pairs import Mode, Pairing, about_one
from tilecheck.verify.run import Run, Ticket
from tilecheck.verify.values import Access, Tags, as_int
from tilecheck.verify.widths import stored, wide

_QUERY_MS = 500


def ordered_by_ticket(run: Run, first: Access, second: Access) -> bool:
    """Whether some ticket keeps two accesses in different blocks apart."""
    for ticket in run.tickets:
        if ticket.level is not Level.GRID or ticket.increment is not ONE or not ticket.once:
            continue
        if ticket.array.name in run.not_zero:
            continue
        last = [_needs_last(run, ticket, access) for access in (first, second)]
        early, late = (second, first) if last[0] else (first, second)
        apart = all(last) or (any(last) and _before(run, ticket, early) and _after(run, ticket, late))
        if apart and _is_ticket(run, ticket):
            run.zeroed.add(ticket.array.name)
            return True
    return False


def missing(run: Run, first: Access, second: Access) -> str | None:
    """What would let some ticket order two accesses in different blocks, in words; None if nothing simple would."""
    for ticket in run.tickets:
        if ticket.level is not Level.GRID or ticket.increment is not ONE or not ticket.once:
            continue
        last = [_needs_last(run, ticket, access) for access in (first, second)]
        early, late = (second, first) if last[0] else (first, second)
        if not any(last) or early.order >= ticket.access.order or not _is_ticket(run, ticket):
            continue
        line, after = ticket.access.node.span.line, "a `cuda.threadfence()` after"
        lacking = None if _before(run, ticket, early) else f"{_unreleased(run, ticket, early)} before"
        if not _after(run, ticket, late):
            return (
                f"put {after} the ticket of line {line}"
                if lacking is None
                else (f"put {lacking} the ticket of line {line}, and {after} it")
            )
        if lacking is not None:
            return f"put {lacking} the ticket of line {line}"
    return None


def _is_ticket(run: Run, ticket: Ticket) -> bool:
    """Whether one thread of a block takes the ticket, and nobody else writes its counter before the last is taken."""
    guard = ticket.access.guard
    if any(t.kind != "const" for t in run.dims.thread):
        twice = Pairing(run, Mode.SAME_BLOCK).ask([guard], [guard])
        if not run.solver.refutes(twice.formulas, _QUERY_MS):
            return False
    writes = [a for a in run.accesses if a.array is ticket.array and a.kind != "read"]
    others = [a for a in writes if a.node is not ticket.access.node]
    mine = [a for a in writes if a.node is ticket.access.node]
    return len(mine) == 1 and all(a.kind == "write" and _needs_last(run, ticket, a) for a in others)


def _needs_last(run: Run, ticket: Ticket, access: Access) -> bool:
    """Whether a thread gets to `access` only if its block has the last ticket."""
    if access.order <= ticket.access.order:
        return False
    grid = run.dims.grid
    total = mul(mul(grid[0], grid[1]), grid[2])
    known = _flags(run, ticket, access)
    question = about_one(run, [access.guard, *known, ne(ticket.old, sub(total, ONE))])
    return run.solver.refutes(question.formulas, _QUERY_MS)


def _flags(run: Run, ticket: Ticket, access: Access) -> list[Term]:
    """What the loads that `access` depends on gave, if they read what the taker of the ticket stored."""
    known: list[Term] = []
    for symbol in closure([access.guard]):
        applied = symbol.applied
        if applied is None or not applied.function.startswith("load "):
            continue
        name = applied.function.removeprefix("load ").partition(" at ")[0]
        uses = [a for a in run.accesses if a.array.name == name and a.array.space == "shared"]
        writes = [a for a in uses if a.kind != "read"]
        if len(writes) > 1:
            known += _either_flag(run, ticket, symbol, uses)
        if len(writes) != 1:
            continue
        (store,) = writes
        value = _flag_of(run, ticket, store)
        if (
            value is None
            or applied.arguments != store.index
            or store.kind != "write"
            or store.order < ticket.access.order
            or store.update
        ):
            continue
        taken = ticket.access.guard
        by_taker = _implies(run, store.guard, taken) and _implies(run, taken, store.guard)
        read_later = all(a is store or (a.order > store.order and _apart(a.tags, store.tags)) for a in uses)
        if by_taker and read_later and all(t.kind == "const" for t in store.index):
            loaded = variable(symbol)
            known.append(eq(loaded, ne(value, ZERO)) if symbol.boolean else eq(loaded, value))
    return known


def _either_flag(run: Run, ticket: Ticket, symbol: Symbol, uses: Sequence[Access]) -> list[Term]:
    """What a load of the flag `symbol` says of the ticket whose taker stored one constant or another there."""
    taken, loaded, applied = ticket.access.guard, variable(symbol), symbol.applied
    stores = sorted((a for a in uses if a.kind != "read"), key=lambda a: a.order)
    told_later = all(
        a.kind != "read" or all(a.order > store.order and _apart(a.tags, store.tags) for store in stores) for a in uses
    )
    plain = all(
        store.kind == "write" and not store.update and applied is not None and applied.arguments == store.index
        and all(t.kind == "const" for t in store.index)
        for store in stores
    )  # fmt: skip
    if not (told_later and plain and not symbol.boolean and all(_implies(run, s.guard, taken) for s in stores)):
        return []
    if not _implies(run, taken, disj(*(store.guard for store in stores))):
        return []
    grid = run.dims.grid
    is_last = eq(ticket.old, sub(mul(mul(grid[0], grid[1]), grid[2]), ONE))
    shows: dict[Term, bool] = {}
    for at, store in enumerate(stores):
        value = _flag_of(run, ticket, store)
        if value is None or value.kind != "const":
            return []
        kept = conj(store.guard, *(neg(later.guard) for later in stores[at + 1 :]))
        shows[value] = shows.get(value, True) and _implies(run, kept, is_last)
    known = [implies(eq(loaded, value), is_last) for value, last in shows.items() if last]
    return [disj(*(eq(loaded, value) for value in shows)), *known]


def _flag_of(run: Run, ticket: Ticket, store: Access) -> Term | None:
    """What the element keeps of the value stored there; of the ticket itself all, if it has 32 bits or more."""
    value = as_int(store.value) if store.value is not None else None
    if value is ticket.old and wide(store.array.dtype):
        run.small.add(ticket.array.name)
        return value
    return stored(run.symbols, store.array.dtype, store.value)


def _before(run: Run, ticket: Ticket, access: Access) -> bool:
    """Whether `access`, then a device fence, come before the block's ticket."""
    taken = ticket.access
    if access.order >= taken.order:
        # The counter itself: an earlier ticket.
        return access is taken
    for fence in run.fences:
        if not access.order < fence.at <= taken.order:
            continue
        own = _implies(run, access.guard, fence.guard) and _apart(fence.tags, taken.tags)
        takers = _implies(run, taken.guard, fence.guard) and _apart(access.tags, fence.tags)
        if own or takers or (_one_thread(run, access.guard, taken.guard) and _implies(run, taken.guard, fence.guard)):
            return True
    return False


def _unreleased(run: Run, ticket: Ticket, access: Access) -> str:
    """What lacks between `access` and the block's ticket."""
    taken = ticket.access
    if _one_thread(run, access.guard, taken.guard):
        return "a `cuda.threadfence()`"
    between = (fence for fence in run.fences if access.order < fence.at <= taken.order)
    if any(_implies(run, access.guard, fence.guard) for fence in between):
        return "a `cuda.syncthreads()`"
    return "a `cuda.threadfence()` of every thread and then a `cuda.syncthreads()`"


def _after(run: Run, ticket: Ticket, access: Access) -> bool:
    """Whether a device fence, then `access`, come after the block's ticket."""
    taken = ticket.access
    for fence in run.fences:
        if not taken.order < fence.at <= access.order:
            continue
        own = _implies(run, access.guard, fence.guard) and _apart(taken.tags, fence.tags)
        takers = _implies(run, taken.guard, fence.guard) and _apart(fence.tags, access.tags)
        if own or takers or (_one_thread(run, access.guard, taken.guard) and _implies(run, access.guard, fence.guard)):
            return True
    return False


def _implies(run: Run, guard: Term, other: Term) -> bool:
    return run.solver.refutes(about_one(run, [guard, neg(other)]).formulas, _QUERY_MS)


def _one_thread(run: Run, guard: Term, other: Term) -> bool:
    """Whether no two threads of a block satisfy one guard each."""
    if all(t.kind == "const" for t in run.dims.thread):
        return True
    question = Pairing(run, Mode.SAME_BLOCK).ask([guard], [other])
    return run.solver.refutes(question.formulas, _QUERY_MS)


def _apart(one: Tags, two: Tags) -> bool:
    """Whether a block barrier lies between two points."""
    return not one[Level.BLOCK].keys() & two[Level.BLOCK].keys()
