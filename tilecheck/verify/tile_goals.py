"""The bounds ladder: how `0 <= index < count` of one axis is known, by the first rung that shows it.

| rung | shown by |
|---|---|
| provenance | the index counts through the tiles of this very array, axis and tile extent |
| static | constants, Dims and the branches around the access |
| block-id | it is a bare block id: the grid must not exceed the tile count, checked at each launch unless provable |
| declared | facts of `requires` |
| launch | everything in the comparison is an extent, a Dim or a constant: compared at each launch |
| hoisted | one assert before the outermost loop in which that is legal |
| in-place | an assert at the access |

A scalar of the launch is not compared on the host unless `requires` speaks of it: the kernel keeps its assert, as in the
original. The launch also tries such an assert where no loop or unreadable branch stands before it (`early`), so most wrong
scalars never reach the device.

Hoisting moves an assert out of a `for` that counts by 1 and runs every round to its end, if the access is not under a
branch inside; the index must be constant there or affine in the loop variable. A hoisted assert is guarded by the loops
having a round at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilecheck.ir.kernel import Node
from tilecheck.ir.types import Extent
from tilecheck.symbolic.linear import ONE, ZERO, Fresh, LaunchAxis, Poly, Quotient, Scalar, ceil_div, divide, fits_int64
from tilecheck.symbolic.prove import implies
from tilecheck.symbolic.requires import Comparison
from tilecheck.verify.tile_conditions import LaunchCondition, host_comparisons, host_known
from tilecheck.verify.tile_path import LoopFrame, Path, Range, available, compare
from tilecheck.verify.tile_report import Rung


@dataclass(frozen=True, slots=True)
class Goal:
    """`0 <= index < ceil(extent / tile)` for axis `axis` of an access, which is `node`.

    `array_axis` is the axis of the array, which differs from `axis` for a permuted view.
    """

    node: Node
    array: str
    axis: int
    array_axis: int
    index: Poly
    shown: str
    extent: Poly
    tile: Poly
    tile_extent: Extent
    # Whether the extent is that of the block's own tile, as for sub-tiles.
    local: bool = False

    @property
    def count(self) -> Poly:
        """How many tiles there are."""
        return ceil_div(self.extent, self.tile)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a goal was decided. `low` and `high` are the smallest and largest index for a hoisted assert before `loop`.
    `wrong` is set if no launch can satisfy the goal.
    """

    rung: Rung
    conditions: tuple[LaunchCondition, ...] = ()
    reason: str = ""
    loop: LoopFrame | None = None
    low: Poly = ZERO
    high: Poly = ZERO
    guards: tuple[Comparison, ...] = ()
    wrong: str | None = None


def decide(goal: Goal, path: Path, kernel: str) -> Outcome:
    """The first rung that shows `goal`."""
    index, count = goal.index, goal.count
    wrong = _never(goal, path)
    if wrong is not None:
        return Outcome("static", wrong=wrong)
    counting = path.ranges.get(index.atom) if isinstance(index.atom, Fresh) else None
    if (
        counting is not None
        and counting.stop == count
        and path.bounds(counting.start)[0] in _not_negative(path, counting)
    ):
        return Outcome("provenance")
    facts = [*path.always, *path.path]
    if _shown(goal, facts, path):
        return Outcome("block-id" if _bare_block(index) else "static")
    if _bare_block(index):
        if _shown(goal, path.facts(), path):
            return Outcome("block-id")
        return Outcome("block-id", (_block_condition(goal, path, kernel),))
    if path.declared and _shown(goal, path.facts(), path):
        return Outcome("declared")
    low, high = _extreme(index, path, high=False), _extreme(index, path, high=True)
    if low is not None and high is not None and all(_on_host(p) for p in (low, high, count)):
        return Outcome("launch", tuple(_launch_conditions(goal, low, high, path, kernel)))
    return _asserted(goal, path, kernel)


def _not_negative(path: Path, counting: Range) -> tuple[int | None, ...]:
    low = path.bounds(counting.start)[0]
    return (low,) if low is not None and low >= 0 and counting.up else ()


def _never(goal: Goal, path: Path) -> str | None:
    """Why no launch satisfies the goal, if it is so."""
    low, high = path.bounds(goal.index)
    count = goal.count.constant
    if high is not None and high < 0:
        return f"{goal.shown} is {high if low == high else f'at most {high}'}: a negative tile index does not wrap"
    if count is not None and low is not None and low >= count:
        return f"{goal.shown} is {low if low == high else f'at least {low}'}, there are {count} tiles of {goal.tile}"
    return None


def _shown(goal: Goal, facts: Sequence[Comparison], path: Path) -> bool:
    """Whether the goal follows; above also as `index * tile < extent`, which is the same for a positive tile."""
    chosen = path.choices.get(goal.index.atom) if isinstance(goal.index.atom, Fresh) else None
    if chosen is not None:
        relation, options = chosen
        return all(
            _shown(replace(goal, index=one), [*facts, *(compare(relation, one, other) for other in options)], path)
            for one in options
        )
    if not implies(facts, compare(">=", goal.index, ZERO), known=path.known):
        return False
    if implies(facts, compare("<", goal.index, goal.count), known=path.known):
        return True
    return implies(facts, compare("<", goal.index * goal.tile, goal.extent), (goal.tile,), path.known)


def _bare_block(index: Poly) -> bool:
    return isinstance(index.atom, LaunchAxis) and index.atom.kind == "blockId"


def _block_condition(goal: Goal, path: Path, kernel: str) -> LaunchCondition:
    atom = goal.index.atom
    assert isinstance(atom, LaunchAxis)
    grid = Poly.of(LaunchAxis("gridDim", atom.axis))
    least = (grid - ONE) * goal.tile + ONE
    return LaunchCondition(
        "out-of-bounds",
        kernel,
        goal.node.span.line,
        compare("<=", grid, goal.count),
        f"the grid has {{0}} blocks on axis {atom.axis}, `{goal.array}` has {{1}} tiles of {{2}} on its axis {goal.array_axis}",
        f"`{goal.array}` needs at least {{3}} elements on axis {goal.array_axis}, or the launch fewer blocks",
        (grid, goal.count, goal.tile, least),
        host_comparisons(path.path),
    )


def _on_host(poly: Poly) -> bool:
    """Extents, Dims and constants alone."""
    return host_known(poly) and not any(isinstance(a, Scalar | LaunchAxis) for a in poly.atoms())


def _launch_conditions(goal: Goal, low: Poly, high: Poly, path: Path, kernel: str) -> list[LaunchCondition]:
    """The parts of the goal that are still open, as comparisons of the launch."""
    facts, found = path.facts(), []
    guards = host_comparisons([*path.path, *_rounds(path)])
    below = compare("<", high, goal.count)
    if high + ONE != high and len(high.terms) > 0 and (high + ONE).constant is None:
        below = compare("<=", high + ONE, goal.count)
    words = (
        f"{goal.shown} reaches tile {{0}} of `{goal.array}` on axis {goal.axis}, which has {{1}} tiles of {{2}} there",
        f"`{goal.array}` needs at least {{3}} elements on axis {goal.array_axis}",
    )
    if not implies(facts, below, known=path.known):
        values = (high, goal.count, goal.tile, high * goal.tile + ONE)
        found.append(LaunchCondition("out-of-bounds", kernel, goal.node.span.line, below, *words, values, guards))
    above = compare(">=", low, ZERO)
    if not implies(facts, above, known=path.known):
        message = f"{goal.shown} is {{0}} on axis {goal.axis} of `{goal.array}`: a negative tile index does not wrap"
        found.append(
            LaunchCondition("out-of-bounds", kernel, goal.node.span.line, above, message, None, (low,), guards)
        )
    return found


def _rounds(path: Path) -> list[Comparison]:
    """That each counting loop around has a round."""
    return [_round(f.range) for f in path.loops if f.range is not None]


def _round(counted: Range) -> Comparison:
    return compare("<" if counted.up else ">", counted.start, counted.stop)


def _extreme(index: Poly, path: Path, high: bool, within: LoopFrame | None = None) -> Poly | None:
    """The largest (or smallest) value of `index` over the loops around, or over those inside `within`."""
    inside = path.loops if within is None else path.loops[path.loops.index(within) :]
    only = {f.range.atom for f in inside if f.range is not None} if within is not None else None
    for atom in sorted((a for a in path.ranges if only is None or a in only), key=lambda a: -a.number):
        if atom not in set(index.atoms()):
            continue
        slope = _slope(index, atom)
        counted = path.ranges[atom]
        if slope is None or not counted.up:
            return None
        end = counted.start if (slope > 0) != high else _last(counted)
        index = index + (end - Poly.of(atom)) * Poly.of(slope)
    return index


def _last(counted: Range) -> Poly:
    """The last value of a range that has one."""
    if counted.step == ONE:
        return counted.stop - ONE
    return counted.start + divide("//", counted.stop - ONE - counted.start, counted.step) * counted.step


def _slope(index: Poly, atom: Fresh) -> int | None:
    """The constant factor of `atom`, if it occurs in one linear term alone."""
    slope = None
    for monomial, coefficient in index.terms:
        if monomial == (atom,):
            slope = coefficient
        elif any(a == atom or (isinstance(a, Quotient) and atom in set(Poly.of(a).atoms())) for a in monomial):
            return None
    return slope


def _asserted(goal: Goal, path: Path, kernel: str) -> Outcome:
    """An assert: before the outermost loop where that is legal, else at the access."""
    best: Outcome | None = None
    reason = _why(goal)
    for at in range(len(path.loops) - 1, -1, -1):
        frame = path.loops[at]
        inner = path.loops[at + 1].depth if at + 1 < len(path.loops) else path.depth
        if frame.range is None or not frame.whole or inner != frame.depth or frame.range.step != ONE:
            break
        low, high = _extreme(goal.index, path, False, frame), _extreme(goal.index, path, True, frame)
        if low is None or high is None or not all(fits_int64(p, path.known) for p in (low, high)):
            break
        guards = tuple(compare("<", f.range.start, f.range.stop) for f in path.loops[at:] if f.range is not None)
        needed = [low, high, *(side for guard in guards for side in (guard.left, guard.right))]
        if not all(available(poly, frame.before) for poly in needed):
            break
        best = Outcome("hoisted", (), reason, frame, low, high, guards)
    if best is None:
        return Outcome("in-place", _early(goal, goal.index, goal.index, path, kernel, None), reason)
    return replace(best, conditions=_early(goal, best.low, best.high, path, kernel, best.loop))


def _early(
    goal: Goal, low: Poly, high: Poly, path: Path, kernel: str, before: LoopFrame | None
) -> tuple[LaunchCondition, ...]:
    """The same check on the host, where every operand is a scalar, extent or Dim and the path to it is readable. An
    assert `before` a loop does not depend on what holds for its variable.
    """
    inside = path.loops[path.loops.index(before) :] if before is not None else []
    counted = {f.range.atom for f in inside if f.range is not None}
    facts = [c for c in path.path if not counted & {*c.left.atoms(), *c.right.atoms()}]
    whole = dict.fromkeys([*facts, *_rounds(path)])
    readable = host_comparisons(tuple(whole))
    if path.unreadable or len(readable) < len(whole) or not all(host_known(p) for p in (low, high, goal.count)):
        return ()
    return tuple(_launch_conditions(goal, low, high, path, kernel))


def _why(goal: Goal) -> str:
    """Why no earlier rung shows the goal, in words."""
    atoms = list(goal.index.atoms())
    scalars = sorted({a.name for a in atoms if isinstance(a, Scalar)})
    if scalars:
        names = " and ".join(f"`{s}`" for s in scalars)
        if goal.shown == names:
            return f"{names} is a scalar that only the launch knows"
        return f"{goal.shown} depends on {names}, which only the launch knows"
    if any(isinstance(a, LaunchAxis) for a in atoms):
        return f"{goal.shown} is computed from a block id, and only a bare block id is compared with the grid"
    return f"{goal.shown} is computed in the kernel"
