"""Data races: can two threads touch one element in one barrier interval, one of them writing, not both atomically?

Every two accesses of an array are compared for two threads of a block (of a warp, and of different warps, if warp
barriers are used) and, in global memory, for two threads of different blocks. Pairs are asked in batches, one solver
question for up to sixteen; only a batch that cannot be cleared is looked at pair by pair.

Worked example: in `out[i] = a[i]; out[i + 1] = 0` the two stores meet for threads t and t + 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import FALSE, conj, conjuncts, disj, eq, ge, lt, ne, neg, num, scale
from tilecheck.verify.condition import Condition
from tilecheck.verify.conditions import leaves_room
from tilecheck.verify.counters import Room, room_of
from tilecheck.verify.cutile_owner import conditions_apart, inside
from tilecheck.verify.last_block import ordered_by_ticket
from tilecheck.verify.locks import kept_apart
from tilecheck.verify.masks import ordered, same, why_unordered
from tilecheck.verify.pairs import Mode, Pairing, Question, about_one
from tilecheck.verify.run import Crossing, Run, Ticket
from tilecheck.verify.suspects import Excuses, Standing, Suspect, classify
from tilecheck.verify.values import Access, Array, Held, Scalar, Truth
from tilecheck.verify.verdict import Property

_BATCH = 16
# Time for a batch without what it asks of array contents.
_BARE_MS = 300
# Pairs grow with the square of a kernel's accesses; beyond this many the time for a kernel could not cover them.
_MOST_PAIRS = 1_000_000
# An array with this many open suspects is not shown free of races, whatever its other pairs say.
_ENOUGH = 12


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses that may overlap in time under one of `intervals` (condition of the first, of the second)."""

    first: Access
    second: Access
    mode: Mode
    intervals: tuple[tuple[Term, Term], ...]


def suspects(run: Run, excuses: Excuses) -> Iterator[Suspect]:
    """Every pair that could not be cleared, at most one LAUNCH suspect and a few others per array."""
    pairings = {mode: Pairing(run, mode, exclusive_tickets(run, mode)) for mode in Mode}
    groups: dict[tuple[Array, Mode], list[Pair]] = {}
    for count, pair in enumerate(pairs(run)):
        if count % 1024 == 0:
            run.solver.keep_time()
        if count >= _MOST_PAIRS:
            raise OutOfBudget
        groups.setdefault((pair.first.array, pair.mode), []).append(pair)
    open_ones: Counter[Array] = Counter()
    for (array, mode), grouped in groups.items():
        members: list[Pair] = []
        for found in _by_block(run, grouped, excuses) if _of_tiles(run, mode) else grouped:
            if isinstance(found, Suspect):
                yield found
            else:
                members.append(found)
        for start in range(0, len(members), _BATCH):
            chunk = members[start : start + _BATCH]
            if open_ones[array] >= _ENOUGH:
                break
            if len(chunk) > 1 and _cleared(run, pairings[mode], chunk):
                continue
            for pair in chunk:
                suspect = _one(run, pairings[mode], pair, excuses)
                if suspect is None:
                    continue
                yield suspect
                if suspect.standing > Standing.EXCUSED:
                    open_ones[array] += _ENOUGH if suspect.standing is Standing.LAUNCH else 1
                if open_ones[array] >= _ENOUGH:
                    break


def _of_tiles(run: Run, mode: Mode) -> bool:
    return run.kernel.track == "cutile" and mode is Mode.OTHER_BLOCK


def distinct(accesses: Sequence[Access]) -> list[Access]:
    """Accesses without repetitions: the same element under the same condition in the same intervals is one."""
    kept: dict[tuple[object, ...], Access] = {}
    for access in accesses:
        value = access.value.term if isinstance(access.value, Scalar | Truth) else None
        tags = tuple(tuple(sorted((t, c.serial) for t, c in tags.items())) for tags in access.tags.values())
        key = (
            access.array,
            access.index,
            access.kind,
            access.guard,
            access.again,
            access.member,
            access.update,
            access.locks,
        )
        kept.setdefault((*key, tags, value), access)
    return list(kept.values())


def pairs(run: Run) -> Iterator[Pair]:
    """Every two accesses that may conflict in time."""
    by_array: dict[Array, list[Access]] = {}
    for access in distinct(run.accesses):
        if access.array.space in ("global", "shared"):
            by_array.setdefault(access.array, []).append(access)
    threads_vary = any(t.kind != "const" for t in run.dims.thread)
    blocks_vary = any(t.kind != "const" for t in run.dims.at)
    for array, accesses in by_array.items():
        if all(access.kind == "read" for access in accesses):
            continue
        for i, first in enumerate(accesses):
            for second in accesses[i:]:
                if not _may_conflict(first, second):
                    continue
                if threads_vary:
                    yield from _in_a_block(run, first, second)
                if array.space == "global" and blocks_vary and not (first.again or second.again):
                    yield from _overlap(first, second, Mode.OTHER_BLOCK, Level.GRID)


def _may_conflict(first: Access, second: Access) -> bool:
    if first.kind == second.kind and first.kind in ("read", "atomic"):
        return False
    return first.member is None or second.member is None or first.member == second.member


def _in_a_block(run: Run, first: Access, second: Access) -> Iterator[Pair]:
    if not run.uses_warp_barrier:
        yield from _overlap(first, second, Mode.SAME_BLOCK, Level.BLOCK)
        return
    yield from _overlap(first, second, Mode.SAME_WARP, Level.WARP)
    yield from _overlap(first, second, Mode.OTHER_WARP, Level.BLOCK)


def _overlap(first: Access, second: Access, mode: Mode, scope: Level) -> Iterator[Pair]:
    one, two = first.tags[scope], second.tags[scope]
    shared = tuple((one[tag], two[tag]) for tag in one if tag in two)
    if shared:
        yield Pair(first, second, mode, shared)


def _collision(pairing: Pairing, pair: Pair) -> Term:
    """That the two accesses happen in one interval and meet on one element."""
    of = pairing.twin.of
    together = disj(*(conj(a, of(b)) for a, b in pair.intervals))
    meet = [eq(x, of(y)) for x, y in zip(pair.first.index, pair.second.index, strict=True)]
    apart = [neg(_both_cross(pairing, crossing)) for crossing in _between(pairing.run, pair)]
    return conj(pair.first.guard, of(pair.second.guard), together, *meet, *apart, *_inside(pairing.run, pair.first))


def _inside(run: Run, access: Access) -> list[Term]:
    """That a tile begins inside of its array, which is asked apart: one that does not is undefined behaviour."""
    return inside(access) if run.kernel.track == "cutile" else []


def _by_block(run: Run, members: Sequence[Pair], excuses: Excuses) -> Iterator[Pair | Suspect]:
    """The pairs of tile accesses whose block cannot be read off the element, and suspects for those that need launch
    conditions for that.
    """
    likely: tuple[Condition, ...] = ()
    for pair in members:
        first, second = pair.first, pair.second
        found = None
        if len(first.index) == len(second.index):
            found = conditions_apart(run, first, second, likely)
        if found is None:
            yield pair
        elif found:
            base = Suspect(
                Property.RACE_FREE, "data-race", Standing.UNKNOWN, first.node, "", first.array, first, second, pair.mode
            )
            if leaves_room(run, base, excuses.terms, found):
                excuses.excuse(base, found)
                likely = found
                yield base
            else:
                yield pair


def _between(run: Run, pair: Pair) -> list[Crossing]:
    """The warp barriers of some lanes between the two accesses."""
    if pair.mode is not Mode.SAME_WARP:
        return []
    first, last = sorted((pair.first.order, pair.second.order))
    return [crossing for crossing in run.crossings if first < crossing.at <= last]


def _both_cross(pairing: Pairing, crossing: Crossing) -> Term:
    """That the two threads meet at a warp barrier."""
    of = pairing.twin.of
    lanes = ordered(pairing.run, crossing.mask, of)
    return FALSE if lanes is None else conj(crossing.guard, of(crossing.guard), lanes, same(crossing.mask, of))


def _mentions(run: Run, pair: Pair) -> list[Term]:
    first, second = pair.first, pair.second
    made = [first.guard, second.guard, *first.index, *second.index]
    for crossing in _between(run, pair):
        made += [crossing.guard, *((crossing.mask,) if crossing.mask is not None else ()), run.dims.linear]
        made += [run.ballots[crossing.mask]] if crossing.mask in run.ballots else []
    return [*made, *(t for a, b in pair.intervals for t in (a, b))]


def _cleared(run: Run, pairing: Pairing, chunk: Sequence[Pair]) -> bool:
    if any(len(p.first.index) != len(p.second.index) for p in chunk):
        return False
    mentions = [t for pair in chunk for t in _mentions(pairing.run, pair)]
    bare = [_without_data(pair) for pair in chunk]
    if any(one is not two for one, two in zip(bare, chunk, strict=True)):
        # Mostly the places alone keep threads apart, and what is read from memory only makes the question long.
        fewer = [t for pair in bare for t in _mentions(pairing.run, pair)]
        question = pairing.ask((), (), [disj(*(_collision(pairing, pair) for pair in bare))], fewer)
        if run.solver.refutes(question.formulas, _BARE_MS):
            return True
    question = pairing.ask((), (), [disj(*(_collision(pairing, pair) for pair in chunk))], mentions)
    return run.solver.refutes(question.formulas)


def _without_data(pair: Pair) -> Pair:
    """The pair with guards that do not ask for array contents: it happens wherever the pair does."""
    first, second = _unguarded(pair.first), _unguarded(pair.second)
    if first is pair.first and second is pair.second:
        return pair
    return replace(pair, first=first, second=second)


def _unguarded(access: Access) -> Access:
    parts = conjuncts(access.guard)
    kept = [part for part in parts if all(symbol.taint is not Taint.DATA for symbol in closure([part]))]
    return access if len(kept) == len(parts) else replace(access, guard=conj(*kept))


def in_bounds(access: Access) -> Term:
    """That the positions of an access are legal to numba: from -n up to n - 1."""
    return conj(*(conj(lt(c.position, c.length), ge(c.position, scale(c.length, -1))) for c in access.checks))


def question_of(pairing: Pairing, pair: Pair, within: bool, assumed: Sequence[Term] = ()) -> Question:
    both = [_collision(pairing, pair)]
    if within:
        both += [in_bounds(pair.first), pairing.twin.of(in_bounds(pair.second))]
        mentions = [*_mentions(pairing.run, pair), in_bounds(pair.first), in_bounds(pair.second)]
    else:
        mentions = _mentions(pairing.run, pair)
    return pairing.ask(assumed, (), both, mentions)


def _one(run: Run, pairing: Pairing, pair: Pair, excuses: Excuses) -> Suspect | None:
    first, second = pair.first, pair.second
    base = Suspect(
        Property.RACE_FREE, "data-race", Standing.UNKNOWN, first.node, "", first.array, first, second, pair.mode
    )
    if len(first.index) != len(second.index):
        base.reason = f"`{first.array.name}` is indexed with different ranks"
        return base
    if run.solver.refutes(question_of(pairing, pair, False).formulas):
        return None
    question = question_of(pairing, pair, True)
    if run.solver.refutes(question.formulas, exact_bits=True):
        return None
    if excuses.terms:
        without = question.formulas
        question = question_of(pairing, pair, True, excuses.terms)
        if run.solver.refutes(question.formulas):
            excuses.settle(run, base, without)
            return base
    base.question = question
    base.model = run.solver.model(question.formulas, launch_symbols(run))
    if base.model is None:
        base.reason = "the solver gave up on this pair"
        if run.kernel.track == "cutile":
            excuses.try_on(run, base)
            if base.conditions:
                excuses.settle(run, base, question_of(pairing, pair, True).formulas)
        return base
    if any(
        _same_lock(run, pairing, pair, a, b)
        for a, b in kept_apart(run, first, second, one_block=pair.mode is not Mode.OTHER_BLOCK)
    ):
        return None
    if pair.mode is Mode.OTHER_BLOCK and run.fences and ordered_by_ticket(run, first, second):
        return None
    if _same_value(run, pairing, pair, question):
        base.standing, base.reason = Standing.SAME_VALUE, "all of them write the same value"
        return base
    unread = [c.mask for c in _between(run, pair) if ordered(run, c.mask, pairing.twin.of) is None]
    if unread:
        base.reason, base.replayable = why_unordered(run, unread[0]), False
        return base
    if run.uses_lock:
        base.reason = "threads synchronise through an atomic exchange or compare-and-swap"
        return base
    if pair.mode is Mode.OTHER_BLOCK and run.uses_fence:
        base.reason = "blocks synchronise through fences and atomics"
        return base
    base.standing, base.reason = classify(run, (first, second), question)
    if base.standing is Standing.LAUNCH:
        excuses.try_on(run, base)
        if base.conditions:
            excuses.settle(run, base, question_of(pairing, pair, True).formulas)
    return base


def _same_lock(run: Run, pairing: Pairing, pair: Pair, one: Held, two: Held) -> bool:
    """Whether the two threads hold the same lock wherever they meet."""
    of = pairing.twin.of
    if len(one.index) != len(two.index):
        return False
    other = disj(*(ne(x, of(y)) for x, y in zip(one.index, two.index, strict=True)))
    mentions = [*_mentions(run, pair), *one.index, *two.index]
    asked = pairing.ask((), (), [_collision(pairing, pair), other], mentions)
    return run.solver.refutes(asked.formulas, 500)


def launch_symbols(run: Run) -> list[Symbol]:
    """The symbols of the launch, block sizes first: the factors worth fixing."""
    dims = [t.symbol for t in run.dims.symbols if t.symbol is not None]
    seen = dict.fromkeys(dims)
    for access in run.accesses:
        for term in (access.guard, *access.index, *(c.length for c in access.checks)):
            for symbol in sorted(term.symbols, key=lambda s: s.order):
                if symbol.level is Level.GRID and symbol.taint is Taint.INPUT:
                    seen[symbol] = None
    return list(seen)


def _same_value(run: Run, pairing: Pairing, pair: Pair, question: Question) -> bool:
    first, second = pair.first, pair.second
    if first.kind != "write" or second.kind != "write" or first.update or second.update:
        return False
    one, two = first.value, second.value
    if not isinstance(one, Scalar | Truth) or type(one) is not type(two) or not isinstance(two, Scalar | Truth):
        return False
    if one.term is two.term and one.term.level <= pair.mode.shared:
        return True
    both = [_collision(pairing, pair), ne(one.term, pairing.twin.of(two.term))]
    asked = pairing.ask((), (), both, [*_mentions(pairing.run, pair), one.term, two.term])
    return run.solver.refutes(asked.formulas, 500)


def exclusive_tickets(run: Run, mode: Mode) -> Mapping[Term, Term]:
    """Old values of counters that give each of two threads of `mode` a range of its own: the two share the counter (each
    block has its own in shared memory), no other access writes it, no thread whatsoever moves it back, and it does not
    wrap.
    """
    made: dict[Term, Term] = {}
    for ticket in run.tickets:
        if ticket.level > mode.shared:
            continue
        writes = [a for a in run.accesses if a.array is ticket.array and a.kind != "read"]
        atomics = {(a.index, a.node) for a in writes if a.kind == "atomic"}
        stores = [a for a in writes if a.kind == "write"]
        if len(atomics) > 1 or (ticket.array.space == "global" and stores):
            continue
        interval = ticket.access.tags[Level.BLOCK]
        if any(interval.keys() & store.tags[Level.BLOCK].keys() for store in stores):
            continue
        room = room_of(run, ticket.access)
        if room is not Room.WRAPS and _moves_on(run, ticket):
            made[ticket.old] = ticket.increment
            if room is Room.ASSUMED:
                run.unwrapped.add(ticket.array.name)
    return made


def _moves_on(run: Run, ticket: Ticket) -> bool:
    """Whether the increment of `ticket` is never negative, be it of a thread that uses no ticket."""
    if ticket.increment.low is not None and ticket.increment.low >= 0:
        return True
    question = about_one(run, [ticket.access.guard, lt(ticket.increment, num(0))])
    return run.solver.refutes(question.formulas, 500)
