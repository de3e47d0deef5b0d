"""The accesses of a tile kernel and what the ladder makes of them; the conditions that are left to the launch.

`Ledger` collects what `tile_walk` meets: accesses with their rung, hoisted asserts, launch conditions, faults. Besides
bounds, it knows the other conditions of a launch: inputs of `load_like` are as long as the output, tiles divide extents
where an op would mix void lanes, partners of `indices_with` have equal tile grids, and `requires` holds.

Extents are canonical here: the extent of a `Shared` parameter that is a `Dim` is that Dim, so `x: Tensor[Shared, f32, N]`
and `y: Tensor[Shared, f32, N]` are as long as each other without a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Access, Kernel, Node, TensorParam
from tilecheck.ir.types import ArrayExtent, DimExtent, Extent, Type
from tilecheck.symbolic.linear import ZERO, Atom, LaunchAxis, Poly, Size, ceil_div, divide, replace
from tilecheck.symbolic.prove import implies
from tilecheck.symbolic.requires import Comparison, RequiresError, parse, vocabulary
from tilecheck.verify.tile_asserts import HoistedCheck, Writer
from tilecheck.verify.tile_conditions import LaunchCondition, host_comparisons
from tilecheck.verify.tile_goals import Goal, Outcome, decide
from tilecheck.verify.tile_inference import Mixed
from tilecheck.verify.tile_path import Path, compare
from tilecheck.verify.tile_report import CHECKED, ArrayAccess, MapUse, Rung

# More elements than any block holds in registers.
_LARGEST_TILE = 1 << 24
# So many facts that hold at every launch are kept; proofs slow down with each.
_FACTS = 48


@dataclass(slots=True)
class Ledger:
    """What the walk over one kernel has found so far."""

    kernel: Kernel
    types: dict[Node, Type]
    path: Path = field(default_factory=Path)
    accesses: list[ArrayAccess] = field(default_factory=list)
    conditions: list[LaunchCondition] = field(default_factory=list)
    hoisted: dict[Node, list[HoistedCheck]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    maps: list[MapUse] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tiles()
        self._declare()
        self._grid()

    # ---- what holds at every launch

    def _declare(self) -> None:
        """`requires`, as facts and as conditions; what does not parse is a fault."""
        text = self.kernel.options.get("requires")
        if not isinstance(text, str):
            return
        try:
            found = parse(text, vocabulary(self.kernel))
        except RequiresError as error:
            message = f"`requires` of `{self.kernel.name}`: {error.message}"
            self.faults.append(Fault("usage", message, self.kernel.span, self.kernel.name, (), error.help))
            return
        for comparison in found:
            if not isinstance(comparison, Comparison):
                # Checked by the launch; elements that become indices are compared in the kernel.
                continue
            goal = Comparison(
                comparison.relation, self.canonical(comparison.left), self.canonical(comparison.right), comparison.text
            )
            self.path.ensure(goal, declared=True)
            self.conditions.append(
                LaunchCondition(
                    "launch-contract",
                    self.kernel.name,
                    self.kernel.span.line,
                    goal,
                    f"the declared condition `{comparison.text}` does not hold: {{0}} against {{1}}",
                    "pass arguments for which it holds",
                    (goal.left, goal.right),
                )
            )

    def _tiles(self) -> None:
        """A Dim that is no extent of a whole tensor is that of a tile, which registers bound."""
        params = [
            p for p in self.kernel.params if isinstance(p, TensorParam) and p.access not in (Access.MUT, Access.MAPPED)
        ]
        whole = {key for param in params for key in param.extents or ()}
        for key, decl in self.kernel.dims.items():
            if key not in whole and decl.size is None:
                self.path.ensure(compare("<=", self.dim(key), Poly.of(_LARGEST_TILE)))

    def _grid(self) -> None:
        """The grid never exceeds the tile grid of a `Mut` output, and block ids are below the grid."""
        for param in self.kernel.params:
            if isinstance(param, TensorParam) and param.access is Access.MUT and param.extents is not None:
                for axis, key in enumerate(param.extents[:3]):
                    if key is not None:
                        tiles = ceil_div(self.extent(param.name, axis), self.dim(key))
                        self.path.ensure(compare("<=", Poly.of(LaunchAxis("gridDim", axis)), tiles))
        for axis in range(3):
            block, grid = Poly.of(LaunchAxis("blockId", axis)), Poly.of(LaunchAxis("gridDim", axis))
            self.path.ensure(compare("<", block, grid))

    # ---- extents

    def dim(self, key: str) -> Poly:
        """The value of a Dim."""
        decl = self.kernel.dims[key]
        return Poly.of(decl.size if decl.size is not None else DimExtent(key, decl.name))

    def of(self, extent: Extent) -> Poly:
        """An extent of a type."""
        return self.extent(extent.array, extent.axis) if isinstance(extent, ArrayExtent) else Poly.of(extent)

    def extent(self, array: str, axis: int) -> Poly:
        """The whole extent of a tensor parameter."""
        param = self.kernel.param(array)
        if (
            isinstance(param, TensorParam)
            and param.extents is not None
            and param.access not in (Access.MUT, Access.MAPPED)
        ):
            key = param.extents[axis]
            if key is not None:
                return self.dim(key)
        return Poly.of(ArrayExtent(array, axis))

    def size(self, array: str) -> Poly:
        """The number of elements of a tensor parameter; of one axis it is the extent."""
        param = self.kernel.param(array)
        flat = isinstance(param, TensorParam) and param.extents is not None and len(param.extents) == 1
        return self.extent(array, 0) if flat else Poly.of(Size(array))

    def canonical(self, poly: Poly) -> Poly:
        """A polynomial of `requires` in the extents used here."""

        def by(atom: Atom) -> Poly | None:
            match atom:
                case ArrayExtent(array=array, axis=axis):
                    return self.extent(array, axis)
                case Size(array=array):
                    return self.size(array)
                case _:
                    return None

        return replace(poly, by)

    # ---- collecting

    def goal(self, goal: Goal, span: Span) -> Outcome:
        """Decide one axis of an access and note the outcome."""
        outcome = decide(goal, self.path, self.kernel.name)
        if outcome.wrong is not None:
            self.fault(
                "out-of-bounds",
                f"tile index out of bounds on axis {goal.axis} of `{goal.array}`: {outcome.wrong}",
                span,
                f"tile indices go from 0 to below `num_tiles({goal.axis})`",
            )
        self.accesses.append(ArrayAccess(goal.node, span, goal.array, goal.axis, outcome.rung, outcome.reason))
        self.conditions.extend(outcome.conditions)
        if outcome.rung not in CHECKED and goal.index.constant is None and len(self.path.always) < _FACTS:
            # What every launch is checked for holds for the accesses that follow.
            for condition in outcome.conditions:
                if not condition.guards:
                    self.path.ensure(condition.goal)
        if outcome.loop is not None:
            writer = Writer(outcome.loop.before, span, self.types)
            check = HoistedCheck(
                goal.node,
                goal.array,
                goal.axis,
                goal.array_axis,
                goal.tile_extent,
                writer.poly(outcome.low),
                writer.poly(outcome.high),
                tuple(writer.comparison(guard) for guard in outcome.guards),
                goal.local,
            )
            self.hoisted.setdefault(outcome.loop.node, []).append(check)
        return outcome

    def fault(self, rule: str, message: str, span: Span, help: str | None = None) -> None:
        """A fault, once."""
        found = Fault(rule, message, span, self.kernel.name, (), help)
        if found not in self.faults:
            self.faults.append(found)

    def as_long_as(self, node: Node, span: Span, source: str, like: str, axis: int, tile: Extent, mapped: bool) -> None:
        """`load_like`: the input covers what the blocks write of the output."""
        have, need = self.extent(source, axis), self.extent(like, axis)
        goal = compare(">=", have, need)
        facts = self.path.facts()
        if implies(facts[: len(self.path.always)], goal, known=self.path.known):
            rung: Rung = "static"
        elif implies(facts, goal, known=self.path.known):
            rung = "declared"
        else:
            rung = "launch"
            covered = None if mapped else Poly.of(LaunchAxis("gridDim", axis)) * self.of(tile)
            short = () if covered is None else (compare("<", have, covered),)
            self.conditions.append(
                LaunchCondition(
                    "shape-mismatch",
                    self.kernel.name,
                    span.line,
                    goal,
                    f"`load_like` reads `{source}` at the place of `{like}`: `{source}` has {{0}} elements on axis {axis}, "
                    f"`{like}` has {{1}}",
                    f"`{source}` needs at least {{1}} elements on axis {axis}; `.prefix()` writes a part of `{like}` alone",
                    (have, need),
                    (*short, *host_comparisons(self.path.path)),
                )
            )
        self.accesses.append(ArrayAccess(node, span, source, axis, rung))

    def same_tiles(self, span: Span, first: str, second: str, tiles: Mapping[str, tuple[Extent, ...]]) -> None:
        """`indices_with`: both partitions have the same grid of tiles."""
        for axis, (one, other) in enumerate(zip(tiles[first], tiles[second], strict=True)):
            left = ceil_div(self.extent(first, axis), self.of(one))
            right = ceil_div(self.extent(second, axis), self.of(other))
            goal = compare("==", left, right)
            if left == right or implies(self.path.facts(), goal, known=self.path.known):
                continue
            self.conditions.append(
                LaunchCondition(
                    "shape-mismatch",
                    self.kernel.name,
                    span.line,
                    goal,
                    f"`{first}` and `{second}` share indices: `{first}` has {{0}} tiles on axis {axis}, `{second}` has {{1}}",
                    "pass outputs with equal grids of tiles",
                    (left, right),
                )
            )
            # What was checked at the launch holds in the loop.
            self.path.ensure(goal)

    def divides(self, mixed: Mixed, guards: tuple[Comparison, ...] = ()) -> None:
        """An op mixes lanes beyond an edge, where `guards` hold, unless the tile divides the extent."""
        extent, tile = self.extent(mixed.edge.array, mixed.edge.axis), self.of(mixed.tile)
        goal = compare("==", divide("%", extent, tile), ZERO)
        if extent == tile or implies(self.path.facts(), goal, known=self.path.known):
            return
        array, axis = mixed.edge.array, mixed.edge.axis
        help = (
            f'pad the load, for example `{array}.partition(..., pad="zero")`, or declare and pass extents that divide'
        )
        if goal.left.constant is not None and not guards:
            self.fault(
                "void-lanes",
                f"`{mixed.op}` would mix void lanes: tiles of {tile} do not divide `{array}.shape[{axis}]`, which is {extent}",
                mixed.at,
                help,
            )
            return
        condition = LaunchCondition(
            "void-lanes",
            self.kernel.name,
            mixed.at.line,
            goal,
            f"`{mixed.op}` in line {mixed.node.span.line} would mix void lanes: tiles of {{1}} do not divide "
            f"`{array}.shape[{axis}]`, which is {{0}}",
            help,
            (extent, tile),
            guards,
        )
        if all(c.goal != goal or c.rule != "void-lanes" or c.guards not in ((), guards) for c in self.conditions):
            self.conditions.append(condition)
