"""Which loads of a loop run ahead: the tiles that a contraction takes from global memory and nothing else looks at.

    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)

Both loads qualify: they read `Shared` arrays (nothing writes those during the launch), their indices are known a few
rounds ahead, every use is an operand of a product on tensor cores, and each row of the tile is whole 16-byte chunks. Such a
load goes from global to shared memory by `cp.async` and never through registers. A load may reach its product by way of
variables, reshapes that add or drop axes of extent 1, and permutations: they only rename rows and columns.

A load of such a loop that has another reader as well, or that is computed with first, runs ahead too; it is read back into
registers in its own round (`taken`).

Invariant: a load that runs ahead happens in the same rounds as before, only sooner. So a loop that can be left early is
left alone; where a bounds check stays in place, what it forbids is not read ahead either, and the check itself stays.

Alternative that lost: ahead loads into registers. Three tiles of 128 x 64 take 192 registers a thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import copysign
from typing import Final

from tilecheck.ir.kernel import (
    Access,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    DimRef,
    Expr,
    Extent,
    For,
    ForIndices,
    Item,
    Kernel,
    Logic,
    Name,
    Node,
    OpCall,
    Return,
    Select,
    Stmt,
    TensorParam,
    TupleExpr,
    Unary,
    assigned,
    walk,
)
from tilecheck.ir.types import ScalarType, TileType, Type, ViewType
from tilecheck_runtime.backends.numba_cuda.layout import Fragments
from tilecheck_runtime.backends.numba_cuda.matrix import TENSOR_DTYPES
from tilecheck_runtime.backends.numba_cuda.plan import Facts, divides, tile_shape
from tilecheck_runtime.backends.numba_cuda.swizzle import Swizzled

_RENAMING: Final = ("reshape", "expand_dims", "squeeze", "permute_dims", "transpose")
_SCALAR: Final = (Const, Name, DimRef, Unary, Binary, Compare, Logic, Select, TupleExpr, Item, Extent, OpCall)


@dataclass(frozen=True, slots=True)
class Ahead:
    """A load that runs ahead: the rows and columns of its tile are `axes` of the view, columns with stride one."""

    load: OpCall
    array: str
    form: Swizzled
    axes: tuple[int, int]
    whole: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Use:
    """An operand of a product that is a load ahead. `transposed`: the tile's rows are the operand's columns; `by_way_of`
    are the values of the variables on its way there.
    """

    ahead: Ahead
    product: OpCall
    transposed: bool
    by_way_of: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Staging:
    """What runs ahead in one loop: `uses` by operand expression, `taken` by load, for those that go to registers."""

    loop: For
    uses: Mapping[Node, Use]
    taken: Mapping[Node, Ahead]

    @property
    def loads(self) -> tuple[Ahead, ...]:
        """Each load once, in the order of the products."""
        return tuple(dict.fromkeys([*(use.ahead for use in self.uses.values()), *self.taken.values()]))

    @property
    def unspoken(self) -> frozenset[Node]:
        """The values that are assigned to variables and never computed."""
        return frozenset(value for use in self.uses.values() for value in use.by_way_of)

    @property
    def products(self) -> tuple[OpCall, ...]:
        return tuple(dict.fromkeys(use.product for use in self.uses.values()))

    def ahead(self, product: OpCall) -> tuple[bool, bool]:
        """Which operands of a product run ahead."""
        return product.args[0] in self.uses, product.args[1] in self.uses

    @property
    def size(self) -> int:
        """Bytes of one round's tiles."""
        return sum(ahead.form.size for ahead in self.loads)


@dataclass(frozen=True, slots=True)
class Found:
    """An operand traced to its load: the view's axes that are its last two, and the readings of variables on the way."""

    operand: Expr
    product: OpCall
    load: OpCall
    axes: tuple[int, ...]
    names: tuple[Name, ...]


class Search:
    """One kernel's facts, as the search asks for them."""

    def __init__(self, kernel: Kernel, types: Mapping[Node, Type], facts: Mapping[str, Facts]) -> None:
        self.types = types
        self.facts = facts
        self.shared = {p.name for p in kernel.params if isinstance(p, TensorParam) and p.access is Access.SHARED}
        loops = [node for node in walk(*kernel.body) if isinstance(node, For)]
        reads = Counter(node.id for node in walk(*kernel.body) if isinstance(node, Name))
        local = {loop: dict(local_values(loop.body)) for loop in loops}
        inside = Counter(name for values in local.values() for name, (_, count) in values.items() for _ in range(count))
        # The variables that a loop gives a value in each round and nobody reads in another place: name to value, readings.
        self.local = {
            loop: {name: value for name, value in values.items() if inside[name] == reads[name]}
            for loop, values in local.items()
        }

    def shape(self, expr: Expr) -> tuple[int, ...] | None:
        kind = self.types.get(expr)
        return tile_shape(kind) if isinstance(kind, TileType) else None

    def trace(self, operand: Expr, product: OpCall, values: Mapping[str, tuple[Expr, int]]) -> Found | None:
        """The load that `operand` of a product renames, by way of variables with known `values`."""
        names: list[Name] = []
        steps: list[OpCall] = []
        expr = operand
        while not (isinstance(expr, OpCall) and expr.op == "load_tile"):
            if isinstance(expr, Name):
                if expr.id not in values:
                    return None
                names.append(expr)
                expr = values[expr.id][0]
            elif isinstance(expr, OpCall) and expr.op in _RENAMING:
                steps.append(expr)
                expr = expr.args[0]
            else:
                return None
        shape = self.shape(expr)
        if shape is None:
            return None
        axes = self.long_axes(expr)
        for step in reversed(steps):
            renamed = self._renamed(step, axes)
            if renamed is None:
                return None
            axes = renamed
        ends = self.shape(operand)
        if len(axes) != 2 or ends is None or ends[-2:] != tuple(shape[a] for a in axes):
            return None
        return Found(operand, product, expr, axes, tuple(names))

    def _renamed(self, step: OpCall, axes: tuple[int, ...]) -> tuple[int, ...] | None:
        """The axes of extent above 1 after `step`, given those before."""
        before, after = self.shape(step.args[0]), self.shape(step)
        if before is None or after is None:
            return None
        long = [extent for extent in before if extent > 1]
        if step.op not in ("permute_dims", "transpose"):
            return axes if long == [extent for extent in after if extent > 1] else None
        if step.op == "transpose":
            order: list[int] = [1, 0]
        else:
            given = step.args[1] if len(step.args) > 1 else dict(step.kwargs)["axes"]
            items = [self.number(item) for item in given.items] if isinstance(given, TupleExpr) else [None]
            order = [item % len(before) for item in items if item is not None]
            if len(order) != len(before):
                return None
        position = {axis: i for i, axis in enumerate(a for a, extent in enumerate(before) if extent > 1)}
        return tuple(axes[position[axis]] for axis in order if axis in position)

    def number(self, expr: Expr) -> int | None:
        """The value of an int that is known."""
        if isinstance(expr, Const) and isinstance(expr.value, int):
            return expr.value
        kind = self.types.get(expr)
        return kind.value if isinstance(kind, ScalarType) and isinstance(kind.value, int) else None

    def climbs(self, step: Expr) -> bool:
        """Whether a loop with this step is known to count up."""
        if isinstance(step, OpCall):
            return step.op == "num_blocks"
        return isinstance(step, DimRef) or (self.number(step) or 0) > 0

    def long_axes(self, expr: Expr) -> tuple[int, ...]:
        """The axes of a tile with more than one element."""
        return tuple(axis for axis, extent in enumerate(self.shape(expr) or ()) if extent > 1)

    def ahead(self, load: OpCall, axes: tuple[int, ...], loop: For, changing: frozenset[str]) -> Ahead | None:
        """A load as one that runs ahead, None if something speaks against it; `axes` are its rows and columns, if two."""
        if not all(self._foreseen(index, loop, changing) for index in load.args[1:]):
            return None
        return self.copied(load, axes)

    def copied(self, load: OpCall, axes: tuple[int, ...]) -> Ahead | None:
        """A load whose tile `cp.async` can bring to shared memory, None if it cannot."""
        view = self.types.get(load.args[0])
        shape = self.shape(load)
        if not isinstance(view, ViewType) or shape is None or view.array not in self.shared:
            return None
        facts = self.facts[view.array]
        if facts.dtype not in TENSOR_DTYPES:
            return None
        neighbours = [axis for axis in axes if view.permute[axis] == facts.neighbours]
        if not neighbours or len(axes) != 2:
            return None
        columns = neighbours[0]
        rows = next(axis for axis in axes if axis != columns)
        form = Swizzled.of(shape[rows], shape[columns])
        whole = tuple(divides(shape[a], facts.divisors[view.permute[a]]) for a in (rows, columns))
        if form is None or not (all(whole) or _adds_nothing(view.pad)):
            return None
        return Ahead(load, view.array, form, (rows, columns), (whole[0], whole[1]))

    def _foreseen(self, index: Expr, loop: For, changing: frozenset[str]) -> bool:
        """Whether an index depends on nothing but the loop variable and what the loop leaves as it is."""
        for node in walk(index):
            if not isinstance(node, _SCALAR) or isinstance(self.types.get(node), TileType):
                return False
            if isinstance(node, Name) and node.id in changing and node.id != loop.target:
                return False
        return True


def local_values(body: Sequence[Stmt]) -> Iterator[tuple[str, tuple[Expr, int]]]:
    """The variables assigned once in `body`, by a statement of its own, before all their readings in it; with the value
    and how many readings there are.
    """
    targets = Counter(node.target for node in walk(*body) if isinstance(node, Assign | For | ForIndices))
    for place, statement in enumerate(body):
        if isinstance(statement, Assign) and targets[statement.target] == 1:
            early, late = (
                sum(isinstance(node, Name) and node.id == statement.target for node in walk(*part))
                for part in (body[: place + 1], body[place + 1 :])
            )
            if not early:
                yield statement.target, (statement.value, late)


def _adds_nothing(pad: str | float | None) -> bool:
    """Whether zeros may stand for what lies outside: they are asked for, or nobody looks."""
    return pad in (None, "zero") or (isinstance(pad, int | float) and pad == 0 and copysign(1, pad) > 0)


def find_stagings(search: Search, kernel: Kernel) -> tuple[Staging, ...]:
    """What could run ahead, loop by loop."""
    found = (_in_loop(search, loop) for loop in walk(*kernel.body) if isinstance(loop, For))
    return tuple(staging for staging in found if staging.uses)


def _in_loop(search: Search, loop: For) -> Staging:
    changing = assigned(loop.body)
    left_early = any(isinstance(node, Break | Continue | Return) for node in walk(*loop.body))
    if not search.climbs(loop.step) or left_early or loop.target in changing:
        return Staging(loop, {}, {})
    own = [s.value for s in loop.body if isinstance(s, Assign)]
    traced: list[Found] = []
    aheads: dict[Node, Ahead] = {}
    for product in walk(*own):
        if not (isinstance(product, OpCall) and product.op == "mma"):
            continue
        for operand in product.args[:2]:
            found = search.trace(operand, product, search.local[loop])
            ahead = (
                None
                if found is None
                else aheads.get(found.load) or search.ahead(found.load, found.axes, loop, changing)
            )
            if found is not None and ahead is not None:
                aheads[found.load] = ahead
                traced.append(found)
    uses: dict[Node, Use] = {
        f.operand: Use(
            aheads[f.load],
            f.product,
            f.axes[0] != aheads[f.load].axes[0],
            tuple(search.local[loop][name.id][0] for name in f.names),
        )
        for f in _nobody_else(search, loop, traced)
    }
    used = {use.ahead.load for use in uses.values()}
    taken: dict[Node, Ahead] = {}
    for value in own if uses else ():
        # What stands under a condition is not loaded in every round.
        nodes = [] if any(isinstance(node, Select) for node in walk(value)) else list(walk(value))
        for load in nodes:
            if isinstance(load, OpCall) and load.op == "load_tile" and load not in used:
                ahead = search.ahead(load, search.long_axes(load), loop, changing)
                if ahead is not None:
                    taken[load] = ahead
    return Staging(loop, uses, taken)


def _nobody_else(search: Search, loop: For, traced: Sequence[Found]) -> list[Found]:
    """The operands whose variables nobody else reads; a load with another reader is needed in registers anyway."""
    kept = list(traced)
    while True:
        read = Counter(name.id for name in {name for found in kept for name in found.names})
        other = {name for name, (_, count) in search.local[loop].items() if read[name] != count}
        bad = {found.load for found in kept if any(name.id in other for name in found.names)}
        if not bad:
            return kept
        kept = [found for found in kept if found.load not in bad]


def settle_staging(staging: Staging, accumulator: Callable[[OpCall], Fragments | None]) -> Staging:
    """`staging` without the loads that do not suit their products once warps have their shares of the accumulators."""
    bad = {use.ahead for operand, use in staging.uses.items() if not _suits(operand, use, accumulator(use.product))}
    uses = {operand: use for operand, use in staging.uses.items() if use.ahead not in bad}
    return Staging(staging.loop, uses, staging.taken if uses else {})


def _suits(operand: Node, use: Use, fragments: Fragments | None) -> bool:
    if fragments is None:
        return False
    rows, columns = fragments.pieces
    right = operand is use.product.args[1]
    if right and columns % 2:
        return False
    # A warp's share of M or N lies along the columns of the tile, unless these are along K.
    along_columns = use.transposed != right
    return not along_columns or use.ahead.form.takes(8 * columns if right else 16 * rows)
