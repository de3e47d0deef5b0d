"""Launch conditions: the weakest readable fact about a launch that excuses a suspect.

Candidates come from a narrow vocabulary, in a fixed order, single ones before pairs: relations between extents, scalars
below extents, products, block extents against tiles, multiples. A wider vocabulary explains true faults away (`blockDim.x
<= 1` makes any race go), so a candidate is accepted only if the suspect cannot happen under it and launches with several
threads and blocks still reach the accesses.

Where the guard compares a thread's position with a size already, "the launch fits the array" is no candidate: it would
hide `i <= n` written for `i < n`.

Worked example: `if i < c.size: c[i] = a[i]` leaves a[i] open; `a.size >= c.size` closes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement, islice

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_read import show, subterms
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.symbolic.smt_terms import (
    ONE,
    ZERO,
    add,
    conj,
    conjuncts,
    eq0,
    ge,
    le,
    linear_parts,
    lt,
    mod,
    mul,
    num,
    scale,
    value_of,
    variable,
)
from tilecheck.verify.pairs import Mode, about_one
from tilecheck.verify.run import AXES, LARGEST_BLOCK, Run
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.verdict import Property

_MOST_SINGLE = 60
_PAIRED = 8
_QUERY_MS = 400
# A condition that leaves fewer threads per axis than this is no launch anybody means.
_SMALLEST_TILE = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """A launch condition in the `requires` grammar, and its meaning."""

    text: str
    term: Term


class Conditions:
    """The conditions found so far for one kernel, each once, and the properties that lean on them."""

    def __init__(self, given: Sequence[Term] = ()) -> None:
        self.given = tuple(given)
        self.terms: list[Term] = list(given)
        self.found: list[Condition] = []

    def try_on(self, run: Run, suspect: Suspect) -> None:
        """Excuse `suspect` by a condition of the vocabulary, if one does."""
        self.excuse(suspect, find(run, suspect, self.terms))

    def excuse(self, suspect: Suspect, conditions: Sequence[Condition]) -> None:
        """Assume `conditions` from now on, because they excuse `suspect`; none excuse nothing."""
        for condition in conditions:
            suspect.standing = Standing.EXCUSED
            suspect.conditions = (*suspect.conditions, condition.text)
            if condition not in self.found:
                self.terms.append(condition.term)
                self.found.append(condition)


def full_block(run: Run, suspect: Suspect) -> tuple[Condition, ...]:
    """That the block has a thread for every element of the suspect's array, its last axis along x; () if the block is
    known or the array's extents are not.
    """
    if suspect.array is None:
        return ()
    extents = [value_of(extent) for extent in reversed(suspect.array.extents)]
    pairs = [(block, extent) for block, extent in zip(run.dims.block, extents, strict=False) if block.kind != "const"]
    if len(extents) > len(run.dims.block) or len(pairs) < len(extents):
        return ()
    return tuple(at_least(block, num(extent)) for block, extent in pairs if extent is not None and extent > 1)


def at_least(left: Term, right: Term) -> Condition:
    """`left >= right`; `right <= left` where the left side is a constant."""
    if left.kind == "const":
        return Condition(f"{words(right)} <= {words(left)}", ge(left, right))
    return Condition(f"{words(left)} >= {words(right)}", ge(left, right))


def words(term: Term) -> str:
    """A term in the grammar of conditions, without outer brackets."""
    text = show(term).replace("*", " * ")
    return text[1:-1] if text.startswith("(") and text.endswith(")") and term.kind == "lin" else text


def find(run: Run, suspect: Suspect, assumed: Sequence[Term]) -> tuple[Condition, ...]:
    """One or two conditions that excuse the suspect, () if there are none."""
    assert suspect.question is not None
    if suspect.property is Property.IN_BOUNDS:
        candidates = list(islice(_unique(_for_bounds(run, suspect)), _MOST_SINGLE))
    elif suspect.property is Property.RACE_FREE:
        candidates = list(islice(_unique(_for_races(run, suspect)), _MOST_SINGLE))
    else:
        candidates = list(_unique(_for_barriers(run)))
    formulas = [*suspect.question.formulas, *assumed]
    for condition in candidates:
        if run.solver.refutes([*formulas, condition.term], _QUERY_MS) and leaves_room(
            run, suspect, assumed, [condition]
        ):
            return (condition,)
    pool = candidates[:_PAIRED]
    for pair in combinations(pool, 2):
        terms = [condition.term for condition in pair]
        if run.solver.refutes([*formulas, *terms], _QUERY_MS) and leaves_room(run, suspect, assumed, pair):
            return pair
    return ()


def barrier_hint(run: Run, suspect: Suspect) -> str | None:
    """The condition under which a divergent barrier would be met by all: part of the advice, never an excuse."""
    assert suspect.question is not None
    try:
        for condition in _unique(chain(_for_barriers(run), _cover(run, suspect))):
            if run.solver.refutes([*suspect.question.formulas, condition.term], _QUERY_MS):
                return condition.text
    except OutOfBudget:
        return None
    return None


def _unique(candidates: Iterator[Condition]) -> Iterator[Condition]:
    seen: set[Term] = set()
    for condition in candidates:
        if condition.term not in seen and condition.term.kind not in ("true", "false"):
            seen.add(condition.term)
            yield condition


def leaves_room(run: Run, suspect: Suspect, assumed: Sequence[Term], conditions: Sequence[Condition]) -> bool:
    """Whether launches of several threads and blocks still reach the accesses."""
    dims = run.dims
    room: list[Term] = [*assumed, *(c.term for c in conditions)]
    if any(t.kind != "const" for t in dims.block):
        room.append(ge(dims.threads, num(2)))
    if any(t.kind != "const" for t in dims.grid):
        blocks = mul(mul(dims.grid[0], dims.grid[1]), dims.grid[2])
        room.append(ge(blocks, num(2)))
    guards = [access.guard for access in (suspect.first, suspect.second) if access is not None]
    guards = guards or ([suspect.guard] if suspect.guard is not None else [])
    return all(not run.solver.refutes(about_one(run, [*room, guard]).formulas, _QUERY_MS) for guard in guards)


# ---- vocabulary


def _inputs(suspect: Suspect) -> tuple[list[Term], list[Term]]:
    """Extents and scalars that the suspect mentions, by name."""
    assert suspect.question is not None
    symbols = {
        s for s in (*suspect.question.first, *suspect.question.second) if s.taint is Taint.INPUT and not s.boolean
    }
    launch = sorted((s for s in symbols if s.level is Level.GRID), key=lambda s: s.name)
    extents = [variable(s) for s in launch if is_extent(s)]
    scalars = [variable(s) for s in launch if not is_extent(s) and not s.name.startswith(("blockDim", "gridDim"))]
    return extents, scalars


def is_extent(symbol: Symbol) -> bool:
    return symbol.name.endswith(".size") or ".shape[" in symbol.name


def _owner(term: Term) -> str:
    name = term.symbol.name if term.symbol is not None else ""
    return name.rpartition(".")[0]


def constants(terms: Sequence[Term]) -> set[int]:
    found: set[int] = set()
    for term in subterms(terms):
        const, weights = linear_parts(term) if not term.boolean else (0, ())
        found |= {abs(const), *(abs(w) for _, w in weights)}
    return found


def _for_bounds(run: Run, suspect: Suspect) -> Iterator[Condition]:
    check, guard = suspect.check, suspect.guard
    assert check is not None and guard is not None
    length, position = check.length, check.position
    extents, scalars = _inputs(suspect)
    mine = _owner(length)
    others = [e for e in extents if _owner(e) != mine]
    numbers = constants([position])
    if value_of(length) is None:
        if position.kind == "const":
            yield at_least(length, num(position.const + 1))
        for other in others:
            yield at_least(length, other)
        for scalar in scalars:
            yield at_least(length, scalar)
        offset = linear_parts(position)[0]
        for other in [*others, *scalars]:
            for more in sorted({offset, 1} - {0}):
                yield at_least(length, add(other, num(more)))
        for other in [*others, *scalars]:
            for weight in sorted(_multiples(position) - {1}):
                yield at_least(length, scale(other, weight))
        for one, two in combinations_with_replacement([*scalars, *others], 2):
            yield at_least(length, mul(one, two))
    for scalar in scalars:
        if scalar.symbol in position.symbols:
            yield at_least(scalar, ZERO)
            yield at_least(scalar, ONE)
    yield from _launch_fits(run, suspect, length, position, guard)
    yield from _constant_length(length, scalars, extents)
    if value_of(length) is None:
        if position.high is not None and position.high < 4096 and not guarded(guard):
            yield at_least(length, num(position.high + 1))
        for k in sorted(k for k in numbers | constants([guard]) if 2 <= k <= 64):
            yield Condition(f"{words(length)} % {k} == 0", eq0(mod(length, num(k))))
        for axis in range(3):
            block = run.dims.block[axis]
            if block.kind != "const" and block.symbol in position.symbols:
                yield Condition(f"{words(length)} % {words(block)} == 0", eq0(mod(length, block)))
        for scalar in scalars:
            if scalar.symbol in position.symbols:
                yield Condition(
                    f"{words(scalar)} >= 0 and {words(scalar)} < {words(length)}",
                    conj(ge(scalar, ZERO), lt(scalar, length)),
                )
        if not guarded(guard):
            for k in _sizes(run, position, guard):
                yield at_least(length, num(k))


def _sizes(run: Run, position: Term, guard: Term) -> list[int]:
    fixed = {k for k in constants([position, guard]) if 1 <= k <= 4096}
    for block, grid in zip(run.dims.block, run.dims.grid, strict=True):
        for term in (block, grid, mul(block, grid)):
            if term.kind == "const":
                fixed.add(term.const)
    return sorted({m for k in fixed for m in (k, k + 1, 2 * k) if m >= 1})


def guarded(guard: Term) -> bool:
    """Whether a thread's position is compared with an extent or a scalar already."""
    for part in conjuncts(guard):
        inputs = any(s.taint is Taint.INPUT and not s.name.startswith(("blockDim", "gridDim")) for s in part.symbols)
        if inputs and any(s.name.startswith(("threadIdx", "blockIdx")) for s in part.symbols):
            return True
    return False


def _weights(position: Term) -> set[int]:
    """The constants that thread and block numbers are multiplied with."""
    found: set[int] = set()
    for term in subterms([position]):
        if not term.boolean:
            for part, weight in linear_parts(term)[1]:
                if 2 <= abs(weight) <= 1024 and any(s.level >= Level.BLOCK for s in part.symbols):
                    found.add(abs(weight))
    return found


def _multiples(position: Term) -> set[int]:
    """The constants that anything in the position is multiplied with."""
    weights = {abs(w) for t in subterms([position]) if not t.boolean for _, w in linear_parts(t)[1]}
    return {w for w in weights if 2 <= w <= 64}


def _divisors(term: Term) -> set[int]:
    return {t.parts[1].const for t in subterms([term]) if t.kind == "div" and t.parts[1].kind == "const"}


def _launch_fits(run: Run, suspect: Suspect, length: Term, position: Term, guard: Term) -> Iterator[Condition]:
    """`length >= k * gridDim.x * blockDim.x` and its kin, for axes that the position uses."""
    assert suspect.question is not None
    used = set(suspect.question.first)
    fixed = value_of(length) is not None
    multiples = [1, *sorted(_weights(position) - {1})]
    dims = run.dims
    for axis in range(3):
        block, grid = dims.block[axis], dims.grid[axis]
        by_thread = dims.thread[axis].symbol in used and dims.thread[axis].symbol is not None
        by_block = dims.at[axis].symbol in used and dims.at[axis].symbol is not None
        if by_thread and (not by_block or fixed) and block.kind != "const":
            for k in multiples:
                if not fixed or length.const // k >= _SMALLEST_TILE:
                    yield at_least(length, scale(block, k))
            for k in sorted(_divisors(position)) if fixed else ():
                yield Condition(f"{words(block)} <= {length.const * k}", le(block, num(length.const * k)))
        if fixed and by_block and by_thread and grid.kind != "const":
            yield at_least(length, mul(grid, block))
        if guarded(guard):
            continue
        if by_block and grid.kind != "const":
            if not by_thread:
                # The last block's first element is inside: its tile may hang over.
                tiles = [num(k) for k in multiples[1:]]
                tiles += [s for s in _inputs(suspect)[1] if s.symbol in position.symbols]
                for tile in tiles:
                    last = mul(tile, add(grid, num(-1)))
                    yield Condition(f"{words(length)} > {words(tile)} * ({words(grid)} - 1)", lt(last, length))
            for k in multiples:
                yield at_least(length, scale(grid, k))
            for scalar in _inputs(suspect)[1]:
                if scalar.symbol in position.symbols:
                    yield at_least(length, mul(scalar, grid))
        if by_block and by_thread and not (block.kind == "const" and grid.kind == "const"):
            for k in multiples:
                yield at_least(length, scale(mul(grid, block), k))
            for scalar in _inputs(suspect)[1]:
                if scalar.symbol in position.symbols:
                    yield at_least(length, add(scalar, mul(grid, block)))
    if not guarded(guard) and any(t.kind != "const" for t in dims.block[:2]):
        yield at_least(length, mul(dims.block[0], dims.block[1]))


def _constant_length(length: Term, scalars: Sequence[Term], extents: Sequence[Term]) -> Iterator[Condition]:
    if value_of(length) is None:
        return
    for term in [*scalars, *extents]:
        yield at_least(length, term)
    for scalar in scalars:
        yield Condition(
            f"{words(scalar)} >= 0 and {words(scalar)} < {words(length)}", conj(ge(scalar, ZERO), lt(scalar, length))
        )


def _for_races(run: Run, suspect: Suspect) -> Iterator[Condition]:
    assert suspect.first is not None and suspect.second is not None and suspect.array is not None
    index = [*suspect.first.index, *suspect.second.index]
    inside = {s for t in index for s in t.symbols}
    extents, scalars = _inputs(suspect)
    dims = run.dims
    pitches = [t for t in [*scalars, *extents] if t.symbol in inside]
    for pitch in pitches:
        yield at_least(pitch, ONE)
    for pitch in pitches:
        for width in [*scalars, *(e for e in extents if not words(e).endswith((".size", ".shape[0]")))]:
            if width is not pitch:
                yield at_least(pitch, width)
    for pitch in pitches:
        for axis in range(2):
            if dims.block[axis].kind != "const":
                yield at_least(pitch, dims.block[axis])
            whole_axis = mul(dims.grid[axis], dims.block[axis])
            if whole_axis.kind != "const":
                yield at_least(pitch, whole_axis)
    blocks = [(axis, dims.block[axis]) for axis in range(3) if dims.block[axis].kind != "const"]
    tiles: list[int] = []
    if suspect.mode is not Mode.OTHER_BLOCK:
        tiles += [e.const for e in suspect.array.extents if e.kind == "const" and e.const >= _SMALLEST_TILE]
    tiles += sorted(k for k in constants(index) if _SMALLEST_TILE <= k <= 1024)
    for tile in dict.fromkeys(tiles):
        for axis, block in blocks:
            if tile < LARGEST_BLOCK[AXES[axis]]:
                yield Condition(f"{words(block)} <= {tile}", le(block, num(tile)))
    for tile in dict.fromkeys(tiles):
        for _, block in blocks:
            yield Condition(f"{words(block)} % {tile} == 0", eq0(mod(block, num(tile))))
    if run.uses_warp_barrier and len(blocks) == 1:
        block = blocks[0][1]
        yield Condition(f"{words(block)} <= 32", le(block, num(32)))


def _for_barriers(run: Run) -> Iterator[Condition]:
    block = run.dims.block[0]
    if block.kind != "const":
        yield Condition(f"{words(block)} % 32 == 0", eq0(mod(block, num(32))))


def _cover(run: Run, suspect: Suspect) -> Iterator[Condition]:
    extents, scalars = _inputs(suspect)
    dims = run.dims
    for size in [*extents, *scalars]:
        for axis in range(2):
            block = dims.block[axis]
            threads = mul(dims.grid[axis], block)
            yield at_least(size, threads)
            yield at_least(size, block)
            if block.kind != "const" or block.const > 1:
                yield Condition(f"{words(size)} % {words(block)} == 0", eq0(mod(size, block)))
