"""Shared memory starts undefined: has some thread written every element before anybody reads it?

For a read of `s[r]` an earlier write `s[w]` is looked for whose index equation `w == r` can be solved for the writing
thread (and its loop counters): linear terms by mixed radix, remainders by their inner term, else the reading thread
itself. Only who writes and in which round can be chosen, not what the writer has read. The solved writer must exist and have passed its guard. Several writes may cover a read together, such as one
before a loop for round 0 and one in round k - 1.

The claim leans on freedom from races: a write that stands earlier in the text and meets the read in one barrier
interval is then the reading thread's own.

Worked example: after `s[t] = a[t]; sync` the read `s[(t + 1) % 32]` is covered by the writer t' = (t + 1) % 32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import (
    ONE,
    TRUE,
    ZERO,
    add,
    conj,
    conjuncts,
    div,
    eq,
    factors,
    ge,
    le,
    linear_parts,
    mod,
    mul,
    neg,
    num,
    product,
    scale,
    sub,
    substitute,
    variable,
)
from tilecheck.verify.pairs import about_one
from tilecheck.verify.races import distinct, in_bounds
from tilecheck.verify.run import Run
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.values import Access
from tilecheck.verify.verdict import Property

Mapping_ = Mapping[Term, Term]
# How many writes are looked at: the nearest before the read, the first of the kernel, some more.
_NEAREST, _FIRST, _NEAR = 4, 8, 16
_FILLED_MS = 300


def suspects(run: Run, assumed: Sequence[Term] = ()) -> list[Suspect]:
    """The reads of shared memory for which no earlier write was found, one per array."""
    found: list[Suspect] = []
    accesses = [a for a in distinct(run.accesses) if a.array.space == "shared"]
    for array in dict.fromkeys(a.array for a in accesses):
        mine = [a for a in accesses if a.array is array and not a.again]
        writes = [a for a in mine if a.kind == "write"]
        for read in mine:
            if read.kind != "write" and not _covered(run, read, writes, assumed):
                reason = f"no write was found that covers every read of `{array.name}`"
                suspect = Suspect(
                    Property.SHARED_INITIALISED,
                    "uninitialised-shared",
                    Standing.UNKNOWN,
                    read.node,
                    reason,
                    array,
                    read,
                    guard=read.guard,
                )
                found.append(suspect)
                break
    return found


def _covered(run: Run, read: Access, writes: Sequence[Access], assumed: Sequence[Term]) -> bool:
    if _filled(run, read, writes, assumed):
        return True
    near = sorted(writes, key=lambda w: (w.order > read.order, abs(w.order - read.order)))
    known = [*assumed, read.guard, in_bounds(read)]
    uncovered: list[Term] = []
    tried: dict[Access, None] = {}
    for batch in (near[:_NEAREST], writes[:_FIRST], near[_NEAREST:_NEAR]):
        fresh = [write for write in batch if write not in tried]
        tried.update(dict.fromkeys(fresh))
        for write in fresh:
            for mapping in _writers(run, read, write):
                reached = _writes_there(run, read, write, mapping)
                if reached is not None:
                    uncovered.append(neg(reached))
        if fresh and run.solver.refutes(about_one(run, [*known, *uncovered]).formulas, 1000):
            return True
    return False


def _filled(run: Run, read: Access, writes: Sequence[Access], assumed: Sequence[Term]) -> bool:
    """Whether the first write that all threads come to covers the read, wherever the array is read."""
    for write in writes:
        if write.guard is TRUE and write.order < read.order:
            reached = (_writes_there(run, read, write, mapping) for mapping in _writers(run, read, write))
            uncovered = [neg(term) for term in reached if term is not None]
            return run.solver.refutes(about_one(run, [*assumed, in_bounds(read), *uncovered]).formulas, _FILLED_MS)
    return False


def _writes_there(run: Run, read: Access, write: Access, mapping: Mapping_) -> Term | None:
    """That the writer given by `mapping` exists, gets to the write, and writes the element read."""
    pieces: list[Term] = []
    full = dict(mapping)
    for symbol in closure([write.guard, *write.index]):
        term = variable(symbol)
        if symbol.applied is not None and symbol.level > Level.GRID:
            if symbol.applied.level > Level.BLOCK:
                return None
            arguments = tuple(substitute(a, full) for a in symbol.applied.arguments)
            full[term] = run.symbols.apply(
                symbol.applied.function,
                symbol.applied.level,
                arguments,
                symbol.taint,
                symbol.low,
                symbol.high,
                symbol.boolean,
            )
        elif term not in full and symbol.level > Level.BLOCK:
            return None
    for old, new in full.items():
        symbol_ = old.symbol
        assert symbol_ is not None
        if symbol_.applied is not None:
            continue
        if symbol_.low is not None:
            pieces.append(ge(new, num(symbol_.low)))
        if symbol_.high is not None:
            pieces.append(le(new, num(symbol_.high)))
        pieces.extend(substitute(fact, full) for fact in symbol_.facts)
    pieces.append(substitute(write.guard, full))
    for at_write, at_read in zip(write.index, read.index, strict=False):
        pieces.append(eq(substitute(at_write, full), at_read))
    return conj(*pieces) if len(write.index) == len(read.index) else None


def _writers(run: Run, read: Access, write: Access) -> Iterator[Mapping_]:
    """Candidates for who wrote: the reader itself, and the solution of the index equation."""
    inside = closure([write.guard, *write.index])
    shared = closure([read.guard, *read.index])
    unknown: list[Symbol] = []
    rounds: list[Symbol] = []
    for symbol in inside:
        if symbol.applied is not None or symbol.boolean or symbol.level <= Level.GRID:
            continue
        if symbol.level > Level.BLOCK:
            unknown.append(symbol)
        elif symbol.name.startswith("round"):
            (rounds if symbol in shared else unknown).append(symbol)
    earlier = write.order < read.order
    if not earlier and not rounds:
        return
    base: dict[Term, Term] = {}
    if not earlier:
        # Only an earlier round of a loop that both stand in can have written it.
        base = {variable(rounds[-1]): sub(variable(rounds[-1]), ONE)}
    threads = [t for t in run.dims.thread if t.symbol is not None]
    own = {variable(s): variable(s) for s in unknown}
    yield {**own, **base}
    if any(s.level > Level.BLOCK and s.taint in (Taint.DATA, Taint.HAVOC) for s in unknown):
        # What another thread has read or counted is its own: it is not for us to choose.
        return
    equations = [(_plain(w), r) for w, r in zip(write.index, read.index, strict=False)]
    guards = [part.parts[0] for part in conjuncts(write.guard) if part.kind == "eq"]
    solved = solve(unknown, [*equations, *((part, ZERO) for part in guards)], base)
    for term in threads:
        if term.symbol in unknown:
            solved.setdefault(term, term)
    for symbol in unknown:
        solved.setdefault(variable(symbol), ZERO if symbol.name.startswith("round") else variable(symbol))
    yield {**solved, **base}


def _plain(index: Term) -> Term:
    """The position without numba's wrap of negative indices."""
    return index.parts[1] if index.kind == "ite" else index


def solve(unknown: Sequence[Symbol], equations: Sequence[tuple[Term, Term]], known: Mapping_) -> dict[Term, Term]:
    """Values for the unknowns that may make every left side equal to its right side; partial where it is not linear."""
    # The writer's symbols are the reader's too; they are renamed while the equations mix both.
    names = {variable(s): variable(Symbol(f"{s.name}^", s.order, s.level, s.taint, s.low, s.high)) for s in unknown}
    back = {new: old for old, new in names.items()}
    waiting = [(substitute(substitute(left, names), known), right) for left, right in equations]
    solved = _solve_renamed([t.symbol for t in back if t.symbol is not None], waiting)
    return {back[term]: value for term, value in solved.items()}


def _solve_renamed(unknown: Sequence[Symbol], waiting: list[tuple[Term, Term]]) -> dict[Term, Term]:
    solved: dict[Term, Term] = {}
    remainders = _remainders(waiting)
    # Quotients before remainders: `x // d == e` with `x % d == m` gives x, the remainder alone does not.
    waiting.sort(key=lambda equation: equation[0].kind != "div")
    for _ in range(3):
        for left, right in waiting:
            open_symbols = [s for s in unknown if variable(s) not in solved]
            for term, value in _solve_one(set(open_symbols), substitute(left, solved), right, remainders):
                solved[term] = value
    return solved


def _remainders(equations: Sequence[tuple[Term, Term]]) -> dict[tuple[Term, Term], Term]:
    """`m` of every equation `x % d == m`."""
    found: dict[tuple[Term, Term], Term] = {}
    for left, right in equations:
        const, parts = linear_parts(left)
        if len(parts) == 1 and parts[0][0].kind == "mod" and abs(parts[0][1]) == 1:
            atom, weight = parts[0]
            found[(atom.parts[0], atom.parts[1])] = scale(sub(right, num(const)), weight)
    return found


def _solve_one(
    unknown: set[Symbol], left: Term, right: Term, remainders: Mapping[tuple[Term, Term], Term]
) -> list[tuple[Term, Term]]:
    if left.kind == "mod" and not left.parts[1].symbols & unknown:
        inner = _linear_in(unknown, left.parts[0])
        if inner is None or len(inner[0]) != 1 or inner[0][0][1] is not ONE:
            return []
        term, value = inner[0][0][0], mod(sub(right, inner[1]), left.parts[1])
        return [(term, value)] if term.symbol is not None else _solve_one(unknown, term, value, remainders)
    if left.kind == "div" and left.parts[1].kind == "const":
        whole, divisor = left.parts[0], left.parts[1]
        remainder = remainders.get((whole, divisor), ZERO)
        return _solve_one(unknown, whole, add(mul(right, divisor), remainder), remainders)
    found = _linear_in(unknown, left)
    # A quotient by what is not constant is not solved.
    if found is None or not found[0] or (left.kind == "div" and found[0][0][0] is left):
        return []
    made: list[tuple[Term, Term]] = []
    for term, value in _mixed_radix(*found, right):
        made.extend([(term, value)] if term.symbol is not None else _solve_one(unknown, term, value, remainders))
    return made


def _mixed_radix(parts: list[tuple[Term, Term]], rest: Term, right: Term) -> list[tuple[Term, Term]]:
    """What the weighted terms of a sum are, if the sum is `right` and each term is below the next weight."""
    value = sub(right, rest)
    if len(parts) == 1:
        term, weight = parts[0]
        if weight is ONE:
            return [(term, value)]
        if weight is num(-1):
            return [(term, scale(value, -1))]
        return [(term, div(value, weight))]
    made = []
    for term, weight in reversed(parts):
        made.append((term, value if weight is ONE else div(value, weight)))
        value = value if weight is ONE else mod(value, weight)
    return made


def _linear_in(unknown: set[Symbol], term: Term) -> tuple[list[tuple[Term, Term]], Term] | None:
    """`term` as a sum of weighted unknowns and quotients of them, small weights first, and a rest without them; None if
    it is none.
    """
    const, weights = linear_parts(term)
    rest = num(const)
    parts: list[tuple[Term, Term]] = []
    for atom, weight in weights:
        if not atom.symbols & unknown:
            rest = sub(rest, scale(atom, -weight))
            continue
        _, inner = factors(atom)
        mine = [f for f in inner if f.symbol in unknown or (f.kind == "div" and f.symbols & unknown)]
        others = [f for f in inner if f not in mine]
        if len(mine) != 1 or any(f.symbols & unknown for f in others):
            return None
        parts.append((mine[0], mul(num(weight), product(others))))
    parts.sort(key=lambda p: (p[1].kind != "const", abs(p[1].const) if p[1].kind == "const" else len(factors(p[1])[1])))
    return parts, rest
