"""The launch conditions that may excuse a suspect: a narrow vocabulary, likely ones first.

Relations between extents, scalars below extents, products, block extents against tiles, multiples, and ranges of casts.
A wider vocabulary explains true faults away (`blockDim.x <= 1` makes any race go). Where the guard compares a thread's
position with a size already, "the launch fits the array" is no candidate: it would hide `i <= n` written for `i < n`.

Worked example: for `a[i]` under `i < c.size` the first candidate is `a.size >= c.size`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from math import gcd

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_read import subterms
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import (
    ONE,
    ZERO,
    add,
    conj,
    conjuncts,
    div,
    eq0,
    ge,
    le,
    linear_parts,
    lt,
    mod,
    mul,
    num,
    product,
    scale,
    scale_down,
    sub,
    value_of,
    variable,
)
from tilecheck.verify.condition import Condition, at_least, words
from tilecheck.verify.cutile_owner import counted
from tilecheck.verify.guard_bounds import by_guard, by_remainder
from tilecheck.verify.pairs import Mode
from tilecheck.verify.ranges import most, wrapped_arguments
from tilecheck.verify.run import AXES, LARGEST_BLOCK, Run
from tilecheck.verify.suspects import Suspect
from tilecheck.verify.values import Array

# A condition that leaves fewer threads per axis than this is no launch anybody means.
_SMALLEST_TILE = 4


def _inputs(suspect: Suspect) -> tuple[list[Term], list[Term]]:
    """Extents and scalars that the suspect mentions, by name."""
    assert suspect.question is not None
    symbols = {
        s
        for s in (*suspect.question.first, *suspect.question.second)
        if s.taint is Taint.INPUT and not s.boolean and s.applied is None
    }
    launch = sorted((s for s in symbols if s.level is Level.GRID), key=lambda s: s.name)
    extents = [variable(s) for s in launch if is_extent(s)]
    scalars = [variable(s) for s in launch if not is_extent(s) and not s.name.startswith(("blockDim", "gridDim"))]
    return extents, scalars


def is_extent(symbol: Symbol) -> bool:
    return symbol.name.endswith(".size") or ".shape[" in symbol.name or symbol.name.startswith("dynamic_shared")


def _owner(term: Term) -> str:
    name = term.symbol.name if term.symbol is not None else ""
    return name.rpartition(".")[0]


def constants(terms: Sequence[Term]) -> set[int]:
    found: set[int] = set()
    for term in subterms(terms):
        const, weights = linear_parts(term) if not term.boolean else (0, ())
        found |= {abs(const), *(abs(w) for _, w in weights)}
    return found


def for_casts(run: Run, suspect: Suspect) -> Iterator[Condition]:
    """That what is cast to fewer bits fits there."""
    assert suspect.question is not None
    extents, scalars = _inputs(suspect)
    for argument, low, high in wrapped_arguments(iter(suspect.question.first)):
        if any(s.taint is Taint.INPUT and not s.name.startswith(("block", "grid")) for s in argument.symbols):
            sizes = [*scalars, *extents]
            for one, two in (*combinations(sizes, 2), *((size, size) for size in sizes)):
                yield Condition(f"{words(mul(one, two))} <= {high}", le(mul(one, two), num(high)))
        bound = most(run.dims, argument)
        if bound is not None and bound.kind != "const":
            const, parts = linear_parts(bound)
            common = gcd(*(weight for _, weight in parts))
            upper, limit = scale_down(sub(bound, num(const)), common), (high - const) // common
            yield Condition(f"{words(upper)} <= {limit}", le(upper, num(limit)))
        for scalar in scalars:
            if scalar.symbol in argument.symbols and scalar.low is not None and scalar.low < low:
                yield Condition(f"{words(scalar)} >= {low}", ge(scalar, num(low)))


def for_bounds(run: Run, suspect: Suspect) -> Iterator[Condition]:
    check, guard = suspect.check, suspect.guard
    assert check is not None and guard is not None
    length, position = check.length, check.position
    extents, scalars = _inputs(suspect)
    mine = _owner(length)
    # What the place itself is about comes first: others are there by conditions that were found before.
    about = closure([guard, position, length])
    others = sorted((e for e in extents if _owner(e) != mine), key=lambda e: e.symbol not in about)
    near = [e for e in others if e.symbol in about]
    twins = [e for e in extents if _owner(e) == mine and e is not length and _square(suspect, e, length)]
    numbers = constants([position])
    if run.kernel.track == "cutile":
        yield from _row_by_row(run, length, position)
    if value_of(length) is None:
        if position.kind == "const":
            yield at_least(length, num(position.const + 1))
        if run.kernel.track != "cutile":
            yield from by_remainder(length, position, guard)
            own = {e.symbol for e in extents if _owner(e) == mine} - {length.symbol, *(twin.symbol for twin in twins)}
            for condition in by_guard(length, position, guard):
                if not own & condition.term.symbols:
                    yield condition
            for one, two in combinations(scalars, 2):
                if any(part.kind == "mul" and {one, two} & {*part.parts} for part, _ in linear_parts(position)[1]):
                    yield at_least(length, mul(one, two))
        for other in near:
            yield at_least(length, other)
        for scalar in scalars:
            yield at_least(length, scalar)
        for twin in twins:
            yield at_least(length, twin)
        if not near and not scalars:
            yield from _launch_fits(run, suspect, length, position, guard)
        for other in others:
            yield at_least(length, other)
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
        if position.high is not None and position.high < 4096 and not guarded(guard, position):
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
        if not guarded(guard, position):
            for k in _sizes(run, position, guard):
                yield at_least(length, num(k))


def _square(suspect: Suspect, other: Term, length: Term) -> bool:
    """Whether the guard keeps both axes of an access below the extent `other` of one of them: the array is meant to be
    square. A guard that mixes up two axes, or looks at one for the other, is a mistake.
    """
    axis = re.search(r"\.shape\[(\d+)\]$", other.symbol.name) if other.symbol is not None else None
    access, guard = suspect.first, suspect.guard
    if axis is None or access is None or guard is None or length.symbol in guard.symbols:
        return False
    index = access.index[int(axis[1])] if int(axis[1]) < len(access.index) else ZERO
    moving = {s for s in index.symbols if s.level is not Level.GRID}
    return any(other.symbol in part.symbols and moving & part.symbols for part in conjuncts(guard))


def _sizes(run: Run, position: Term, guard: Term) -> list[int]:
    fixed = {k for k in constants([position, guard]) if 1 <= k <= 4096}
    for block, grid in zip(run.dims.block, run.dims.grid, strict=True):
        for term in (block, grid, mul(block, grid)):
            if term.kind == "const":
                fixed.add(term.const)
    return sorted({m for k in fixed for m in (k, k + 1, 2 * k) if m >= 1})


def guarded(guard: Term, position: Term) -> bool:
    """Whether the thread and block numbers of a position are compared with an extent or a scalar already."""
    own = {s for s in closure([position]) if s.name.startswith(("threadIdx", "blockIdx"))}
    for part in conjuncts(guard):
        inputs = any(s.taint is Taint.INPUT and not s.name.startswith(("blockDim", "gridDim")) for s in part.symbols)
        if inputs and own & part.symbols:
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
    used = closure([position])
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
            ahead = linear_parts(position)[0]
            if fixed and 0 < ahead <= length.const - _SMALLEST_TILE:
                yield at_least(num(length.const - ahead), block)
            for k in sorted(_divisors(position)) if fixed else ():
                yield Condition(f"{words(block)} <= {length.const * k}", le(block, num(length.const * k)))
        if fixed and by_block and by_thread and grid.kind != "const":
            yield at_least(length, mul(grid, block))
        if guarded(guard, position):
            continue
        if by_block and grid.kind != "const":
            if run.kernel.track == "cutile" and not _straight(position, dims.at[axis]):
                continue
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
    if not guarded(guard, position) and any(t.kind != "const" for t in dims.block[:2]):
        yield at_least(length, mul(dims.block[0], dims.block[1]))


def _block_per_tile(run: Run, array: Array, index: Sequence[Term]) -> Iterator[Condition]:
    """That the grid has a block per tile of the array at most, for tile kernels whose blocks find their own tile."""
    axes = [axis for axis in range(3) if run.dims.grid[axis].kind != "const"]
    if run.kernel.track != "cutile" or len(axes) != 1 or len(index) != len(array.extents):
        return
    named = run.kernel.options.get("positive", ())
    counts, texts = ONE, []
    for position, extent in zip(index, array.extents, strict=True):
        tile = _tile_of(position, named if isinstance(named, tuple) else ())
        whole = value_of(tile) == 1
        counts = mul(counts, extent if whole else div(add(extent, add(tile, num(-1))), tile))
        shown = words(extent)
        texts.append(shown if whole else f"(({shown} + {words(tile)} - 1) // {words(tile)})")
    grid = run.dims.grid[axes[0]]
    yield Condition(f"{words(grid)} <= {' * '.join(texts)}", le(grid, counts))


def _row_by_row(run: Run, length: Term, position: Term) -> Iterator[Condition]:
    """That blocks numbered row by row have no more rows than an array has tiles, for `tile * (block // columns)`."""
    for part, weight in linear_parts(position)[1]:
        scaled = part.parts if part.kind == "mul" else (part,)
        for row in scaled:
            if row.kind != "div" or row.parts[0] not in run.dims.at or row.parts[1].level is not Level.GRID:
                continue
            others = list(scaled)
            others.remove(row)
            tile, columns = scale(product(others), abs(weight)), row.parts[1]
            grid, rows = run.dims.grid[run.dims.at.index(row.parts[0])], div(add(length, add(tile, num(-1))), tile)
            if grid.kind != "const" and tile.level is Level.GRID:
                yield Condition(f"{words(grid)} <= {counted(rows)} * {counted(columns)}", le(grid, mul(rows, columns)))


def _tile_of(position: Term, named: Sequence[object]) -> Term:
    """The extent of the tiles that a position counts in: a parameter that is one, or a constant."""
    largest = 1
    for part, weight in linear_parts(position)[1]:
        for factor in part.parts if part.kind == "mul" else ():
            if factor.symbol is not None and factor.symbol.name in named:
                return factor
        largest = max(largest, abs(weight))
    return num(largest)


def _straight(position: Term, block: Term) -> bool:
    """Whether a block's number enters a position by a product alone, not through a quotient or a choice."""
    parts = [part for part, _ in linear_parts(position)[1] if block.symbol in part.symbols]
    return bool(parts) and all(part is block or (part.kind == "mul" and block in part.parts) for part in parts)


def _constant_length(length: Term, scalars: Sequence[Term], extents: Sequence[Term]) -> Iterator[Condition]:
    if value_of(length) is None:
        return
    for term in [*scalars, *extents]:
        yield at_least(length, term)
    for scalar in scalars:
        yield Condition(
            f"{words(scalar)} >= 0 and {words(scalar)} < {words(length)}", conj(ge(scalar, ZERO), lt(scalar, length))
        )


def for_races(run: Run, suspect: Suspect) -> Iterator[Condition]:
    assert suspect.first is not None and suspect.second is not None and suspect.array is not None
    yield from _block_per_tile(run, suspect.array, suspect.first.index)
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


def for_barriers(run: Run, suspect: Suspect) -> Iterator[Condition]:
    block = run.dims.block[0]
    if block.kind != "const":
        yield Condition(f"{words(block)} % 32 == 0", eq0(mod(block, num(32))))


def cover(run: Run, suspect: Suspect) -> Iterator[Condition]:
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
