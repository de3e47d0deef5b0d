"""What a kernel touches: each op of the walk as goals of the ladder and conditions of the launch.

`Accesses.call` gets an op with the values of its arguments. Loads through views and of sub-tiles become a goal per axis;
the block's own tile and minted indices are in bounds by construction; `load_like` compares extents; element indices
(`gather`, atomics) keep their check. Grid numbers and tile counts have a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Name, Node, OpCall, walk
from tilecheck.ir.printer import show
from tilecheck.ir.types import Extent as TileExtent
from tilecheck.ir.types import IndexType, SubTilesType, TensorType, Type, ViewType
from tilecheck.symbolic.contents import Relation
from tilecheck.symbolic.linear import ONE, ZERO, Fresh, LaunchAxis, Poly, ceil_div, fits_int64
from tilecheck.verify.tile_goals import Goal
from tilecheck.verify.tile_ladder import Ledger
from tilecheck.verify.tile_path import Minted, Range, Value, compare
from tilecheck.verify.tile_report import ArrayAccess, MapUse
from tilecheck.verify.tile_specialise import parameter_types
from tilecheck.verify.tile_stores import Lanes, note, spread


@dataclass(slots=True)
class Accesses:
    """Notes accesses in a ledger. `foreign` are the calls of helpers of other files that are open, where findings stand."""

    ledger: Ledger
    types: Mapping[Node, Type]
    lanes: Lanes = field(default_factory=Lanes)
    foreign: list[Span] = field(default_factory=list)

    def span(self, node: Node) -> Span:
        """Where a finding about `node` stands."""
        return self.foreign[0] if self.foreign else node.span

    def tile_of(self, array: str) -> tuple[TileExtent, ...]:
        """The tile of a `Mut` or `Mapped` parameter, by axis."""
        held = parameter_types(self.ledger.kernel)[array]
        return held.shape if isinstance(held, TensorType) and held.shape is not None else ()

    def call(self, node: OpCall, args: Sequence[Value]) -> Value:
        """An op with these arguments: what it touches is noted; grid and tile counts have values."""
        first = self.types.get(node.args[0]) if node.args else None
        note(self.lanes, node, args, self.types, self.span(node), [frame.node for frame in self.ledger.path.loops])
        match node.op:
            case "block_id" | "num_blocks":
                axis = args[0].constant if isinstance(args[0], Poly) else None
                if axis is not None and 0 <= axis < 3:
                    return Poly.of(LaunchAxis("blockId" if node.op == "block_id" else "gridDim", axis))
            case "num_tiles":
                return self.num_tiles(first, args[1] if len(args) > 1 else None)
            case "load_tile" | "load" if isinstance(first, ViewType):
                self.tiles(node, args[1:], first)
            case "load_tile" | "load" | "store" if isinstance(first, SubTilesType):
                self.subtiles(node, args[2:] if node.op == "store" else args[1:], first)
            case "load" | "store" if isinstance(first, TensorType):
                self.own(node, first, args[2:] if node.op == "store" else args[1:])
            case "load_like":
                self.like(node)
            case "gather":
                self.elements(node, first)
            case "at" if isinstance(first, TensorType):
                return self.owned(node, first, args)
            case "minimum" | "maximum" if all(isinstance(a, Poly) for a in args):
                return self.extreme(node.op, args)
            case _ if node.op == "scatter" or node.op.startswith("atomic_"):
                self.elements(node, first)
        return None

    def extreme(self, op: str, args: Sequence[Value]) -> Value:
        """`min` and `max` of ints: a new atom, on the right side of both."""
        path = self.ledger.path
        polys = [a for a in args if isinstance(a, Poly)]
        ends = [path.bounds(p) for p in polys]
        pick = min if op == "minimum" else max
        lows, highs = [e[0] for e in ends if e[0] is not None], [e[1] for e in ends if e[1] is not None]
        whole = len(lows) == len(ends) and len(highs) == len(ends)
        atom = path.fresh(op, pick(lows) if whole else None, pick(highs) if whole else None)
        relation: Relation = "<=" if op == "minimum" else ">="
        path.choices[atom] = (relation, tuple(polys))
        path.assume([compare(relation, Poly.of(atom), p) for p in polys])
        return Poly.of(atom)

    def num_tiles(self, of: Type | None, axis: Value) -> Value:
        at = axis.constant if isinstance(axis, Poly) else None
        if at is None:
            return None
        match of:
            case ViewType() if -len(of.shape) <= at < len(of.shape):
                at %= len(of.shape)
                return ceil_div(self.ledger.extent(of.array, of.permute[at]), self.ledger.of(of.shape[at]))
            case SubTilesType() if -len(of.shape) <= at < len(of.shape):
                return ceil_div(self.ledger.of(of.whole[at]), self.ledger.of(of.shape[at]))
            case TensorType(shape=shape) if shape is not None and -len(shape) <= at < len(shape):
                at %= len(shape)
                return ceil_div(self.ledger.extent(of.name, at), self.ledger.of(shape[at]))
        return None

    def tiles(self, node: OpCall, index: Sequence[Value], view: ViewType) -> None:
        """A load through a view: a goal per axis."""
        parts = spread(index)
        for axis, tile in enumerate(view.shape):
            item = parts[axis] if axis < len(parts) else None
            along = view.permute[axis]
            self.goal(
                node, view.array, axis, along, item, self.shown(node, axis), self.ledger.extent(view.array, along), tile
            )

    def subtiles(self, node: OpCall, index: Sequence[Value], part: SubTilesType) -> None:
        """A load or store of sub-tiles: local indices below the local tile count."""
        parts = spread(index)
        for axis, tile in enumerate(part.shape):
            item = parts[axis] if axis < len(parts) else None
            self.goal(
                node, part.array, axis, axis, item, self.shown(node, axis), self.ledger.of(part.whole[axis]), tile, True
            )

    def goal(
        self,
        node: OpCall,
        array: str,
        axis: int,
        along: int,
        index: Value,
        shown: str,
        extent: Poly,
        tile: TileExtent,
        local: bool = False,
    ) -> None:
        if not isinstance(index, Poly):
            index = Poly.of(self.ledger.path.fresh("the index"))
        self.ledger.goal(
            Goal(node, array, axis, along, index, shown, extent, self.ledger.of(tile), tile, local),
            self.span(node),
        )

    def shown(self, node: OpCall, axis: int) -> str:
        """The index as the user wrote it, where it is short."""
        given = node.args[2:] if node.op == "store" else node.args[1:]
        if axis < len(given):
            text = show(given[axis])
            # Cells of inlined helpers are no names of the user's.
            if len(text) <= 40 and not any(
                "." in n.id or "$" in n.id for n in walk(given[axis]) if isinstance(n, Name)
            ):
                return f"`{text}`"
        return "the index"

    def own(self, node: OpCall, tensor: TensorType, index: Sequence[Value]) -> None:
        """The block's own tile, or a minted index: in bounds by construction. A whole `Shared` tensor too."""
        if tensor.access == "Mapped" and index and isinstance(index[0], Minted):
            self.ledger.maps.append(MapUse(tensor.name, index[0].owned, self.span(node)))
        for axis in range(len(tensor.shape or ())):
            self.ledger.accesses.append(ArrayAccess(node, self.span(node), tensor.name, axis, "provenance"))

    def like(self, node: OpCall) -> None:
        source, model = (self.types.get(a) for a in node.args[:2])
        if isinstance(source, TensorType) and isinstance(model, TensorType) and model.shape is not None:
            for axis, tile in enumerate(model.shape):
                mapped = model.access == "Mapped"
                self.ledger.as_long_as(node, self.span(node), source.name, model.name, axis, tile, mapped)

    def elements(self, node: OpCall, of: Type | None) -> None:
        """Element indices in tiles: checked lane by lane."""
        if isinstance(of, TensorType):
            for axis in range(len(of.shape or (0,))):
                reason = "element indices are computed in the kernel"
                self.ledger.accesses.append(ArrayAccess(node, self.span(node), of.name, axis, "in-place", reason))

    def owned(self, node: OpCall, tensor: TensorType, args: Sequence[Value]) -> Value:
        """`z.at(index, j)`: the owned ints count through the last axes of `z`, or through the axis they were taken from."""
        rank = len(tensor.shape or ())
        minted = args[1] if len(args) > 1 else None
        items = list(minted.items) if isinstance(minted, Minted) else []
        given = list(args[2:])
        axes: list[int] = []
        for position, index in enumerate(given):
            axis = rank - len(given) + position
            atom = index.atom if isinstance(index, Poly) else None
            counted = self.ledger.path.ranges.get(atom) if isinstance(atom, Fresh) else None
            if counted is not None:
                counts = [self.num_tiles(tensor, Poly.of(a)) for a in range(rank)]
                if counts[axis] != counted.stop and counted.stop in counts[:axis]:
                    axis = counts.index(counted.stop)
            axes.append(axis)
            tile = (tensor.shape or ())[axis]
            self.goal(
                node, tensor.name, axis, axis, index, "the owned index", self.ledger.extent(tensor.name, axis), tile
            )
            if isinstance(index, Poly) and axis < len(items):
                items[axis] = index
        return Minted(tuple(items), tuple(axes)) if items else None

    # ---- minted indices

    def minted(self, source: OpCall, type: IndexType, within: Value) -> Minted:
        """The items of an index of `indices` or `indices_with`: below the tile count of each axis, and inside `within`."""
        path, ledger = self.ledger.path, self.ledger
        tiles = {name: self.tile_of(name) for name in type.arrays}
        if len(type.arrays) == 2:
            ledger.same_tiles(self.span(source), type.arrays[0], type.arrays[1], tiles)
        array = type.arrays[0]
        pairs = _pairs(within, type.rank)
        items: list[Poly] = []
        for axis, tile in enumerate(tiles[array]):
            count = ceil_div(ledger.extent(array, axis), ledger.of(tile))
            _, high = path.bounds(count)
            atom = path.fresh(f"index[{axis}]", 0, None if high is None else high - 1)
            item = Poly.of(atom)
            start, stop = ZERO, count
            if pairs is not None:
                start, stop = self._part(source, array, axis, pairs[axis], count)
                path.assume([compare(">=", item, start)])
            path.ranges[atom] = Range(atom, start, stop, ONE, True, None)
            path.assume([compare("<", item, count), compare("<", item, stop), compare("<", start, stop)])
            items.append(item)
        return Minted(tuple(items))

    def _part(self, source: OpCall, array: str, axis: int, pair: Value, count: Poly) -> tuple[Poly, Poly]:
        """The sub-range `(start, count)` of one axis as start and stop, its check noted: `0 <= start`, `stop <= tiles`. A
        count of -1, constant or not, is the rest of the axis.
        """
        ledger, path, span = self.ledger, self.ledger.path, self.span(source)
        start, length = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        if not isinstance(start, Poly) or not isinstance(length, Poly):
            reason = "the sub-range of `within` is computed in the kernel"
            ledger.accesses.append(ArrayAccess(source, span, array, axis, "in-place", reason))
            return ZERO, count
        low, _ = path.bounds(length)
        stop = start + length if low is not None and low >= 0 and fits_int64(start + length, path.known) else count
        if start.constant is None or length.constant is None:
            reason = "the sub-range of `within` is known at the launch alone"
            ledger.accesses.append(ArrayAccess(source, span, array, axis, "in-place", reason))
        elif length.constant != 0:
            last = start if length.constant == -1 else stop - ONE
            tile = self.tile_of(array)[axis]
            extent = ledger.extent(array, axis)
            ledger.goal(Goal(source, array, axis, axis, last, "`within`", extent, ledger.of(tile), tile), span)
        # What the check ensures holds in the loop.
        path.assume([compare(">=", start, ZERO)])
        return start, stop


def _pairs(within: Value, rank: int) -> tuple[Value, ...] | None:
    """One `(start, count)` per axis; for rank 1 the pair alone will do."""
    if not isinstance(within, tuple):
        return None
    if rank == 1 and len(within) == 2 and not any(isinstance(part, tuple) for part in within):
        return (within,)
    return within if len(within) == rank else (None,) * rank
