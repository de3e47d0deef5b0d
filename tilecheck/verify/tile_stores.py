"""Void lanes and stores: a store drops the lanes beyond the edge of its target, and those may lie beyond another edge.

    z.store(x.partition(BM)[tc.block_id(0)])    fine if `x` is as long as `z`: what is void lies outside `z` too
    z.store(x.partition(BM)[i])                 the last tile of `x` may land in the middle of `z`, so BM must
                                                divide x.shape[0]

A tile that was read at the place where it is stored (the same tile index, the same tile extent) keeps its lanes in
step with the target's, so comparing the two extents is enough. Otherwise the tile must not hang over at all. `Lanes`
collects what the walk over the kernel reads and stores; `settle_stores` turns it into conditions, once all reads are
known.

Invariant: all reads along an edge count for each store whose tile has that edge, so it does not matter which of them
it came from. A place that a loop moves counts only if no tile with that edge outlives a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Assign, For, ForIndices, If, Inline, Name, Node, OpCall, Return, Stmt, While, walk
from tilecheck.ir.types import ArrayExtent, Extent, SubTilesType, TensorType, TileType, TupleType, Type, ViewType
from tilecheck.symbolic.linear import ONE, ZERO, Fresh, LaunchAxis, Poly, ceil_div
from tilecheck.symbolic.prove import implies
from tilecheck.symbolic.requires import Comparison
from tilecheck.verify.tile_conditions import LaunchCondition
from tilecheck.verify.tile_inference import Mixed
from tilecheck.verify.tile_ladder import Ledger
from tilecheck.verify.tile_path import Minted, Value, compare


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile lies along one axis: tile `index` of extent `tile`, and for sub-tiles the part of it."""

    index: Poly | None
    tile: Extent
    part: Poly | None = None
    part_tile: Extent | None = None

    @property
    def size(self) -> Extent:
        """The extent of the tile that was read or is written."""
        return self.tile if self.part_tile is None else self.part_tile

    def moves(self) -> bool:
        """Whether the place depends on a value of the kernel's own, such as a loop variable."""
        polys = [p for p in (self.index, self.part) if p is not None]
        return any(isinstance(atom, Fresh) for p in polys for atom in p.atoms())


@dataclass(frozen=True, slots=True)
class Store:
    """A store to `target` at `places`, inside `loops`."""

    node: Node
    span: Span
    target: str
    tile: TileType
    places: tuple[Place, ...]
    loops: tuple[Node, ...]


@dataclass(slots=True)
class Lanes:
    """The reads that hang over an edge, by edge, and the stores of one kernel."""

    reads: dict[ArrayExtent, set[Place]] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)

    def read(self, tile: Type | None, places: Sequence[Place]) -> None:
        """A load that gave `tile`."""
        if isinstance(tile, TileType):
            for axis, edge in tile.void:
                # A load whose place is not known counts as one at a place of its own.
                place = places[axis] if axis < len(places) else Place(None, tile.shape[axis])
                self.reads.setdefault(edge, set()).add(place)


def note(
    lanes: Lanes, node: OpCall, args: Sequence[Value], types: Mapping[Node, Type], span: Span, loops: Sequence[Node]
) -> None:
    """Note what a load or store at `node` does; `args` are the values of its arguments, `loops` those around it."""
    first = types.get(node.args[0]) if node.args else None
    match node.op, first:
        case "load_tile" | "load", ViewType():
            parts = spread(args[1:])
            lanes.read(types.get(node), [Place(_poly(i), t) for i, t in zip(parts, first.shape, strict=False)])
        case "load_tile" | "load", SubTilesType():
            lanes.read(types.get(node), _parts(first, args[1:]))
        case "load", TensorType():
            lanes.read(types.get(node), _own(first, args[1:]))
        case "load_like", TensorType():
            lanes.read(types.get(node), _own(types.get(node.args[1]), args[2:]))
        case "store", SubTilesType() | TensorType():
            tile = types.get(node.args[1])
            name = first.array if isinstance(first, SubTilesType) else first.name
            places = _parts(first, args[2:]) if isinstance(first, SubTilesType) else _own(first, args[2:])
            if isinstance(tile, TileType) and len(places) == len(tile.shape):
                lanes.stores.append(Store(node, span, name, tile, places, tuple(loops)))


def spread(index: Sequence[Value]) -> tuple[Value, ...]:
    """Indices one by one: a minted index or a tuple stands for all."""
    if len(index) == 1 and isinstance(index[0], Minted):
        return index[0].items
    if len(index) == 1 and isinstance(index[0], tuple):
        return index[0]
    return tuple(index)


def _poly(value: Value) -> Poly | None:
    return value if isinstance(value, Poly) else None


def _block(axis: int) -> Poly | None:
    return Poly.of(LaunchAxis("blockId", axis)) if axis < 3 else None


def _own(tensor: Type | None, at: Sequence[Value]) -> tuple[Place, ...]:
    """The block's own tile, or the tile at a minted index."""
    if not isinstance(tensor, TensorType) or tensor.shape is None:
        return ()
    if tensor.access == "Mut":
        return tuple(Place(_block(axis), tile) for axis, tile in enumerate(tensor.shape))
    items = at[0].items if at and isinstance(at[0], Minted) else ()
    return tuple(Place(_poly(items[a]) if a < len(items) else None, tile) for a, tile in enumerate(tensor.shape))


def _parts(part: SubTilesType, at: Sequence[Value]) -> tuple[Place, ...]:
    """A sub-tile of the block's own tile."""
    indices = spread(at)
    places: list[Place] = []
    for axis, (whole, size) in enumerate(zip(part.whole, part.shape, strict=True)):
        if size == whole:
            # The one part along this axis is all of it.
            places.append(Place(_block(axis), whole))
            continue
        index = _poly(indices[axis]) if axis < len(indices) else None
        places.append(Place(None if index is None else _block(axis), whole, index, size))
    return tuple(places)


def settle_stores(ledger: Ledger, lanes: Lanes, types: Mapping[Node, Type]) -> None:
    """Add what the stores ask of the launch to `ledger`."""
    for store in lanes.stores:
        for axis, edge in store.tile.void:
            reads = lanes.reads.get(edge, set())
            place = store.places[axis]
            kept = place.moves() and any(_outlives(loop, edge, types) for loop in store.loops)
            in_step = place.index is not None and not kept
            if in_step and reads == {place}:
                _covers(ledger, store, axis, edge, place)
            elif in_step and reads <= {place, replace(place, index=ZERO)}:
                # Where the target has one tile on this axis, its place is the first tile too.
                count = _count(ledger, store, axis, place)
                _covers(ledger, store, axis, edge, place, (compare("<=", count, ONE),))
                ledger.divides(Mixed(store.node, "store", edge, place.size, store.span), (compare(">", count, ONE),))
            else:
                for size in dict.fromkeys(read.size for read in reads):
                    ledger.divides(Mixed(store.node, "store", edge, size, store.span))


def _count(ledger: Ledger, store: Store, axis: int, place: Place) -> Poly:
    """How many tiles of the target are written along `axis`, or may be."""
    if place.index == _block(axis):
        return Poly.of(LaunchAxis("gridDim", axis))
    return ceil_div(ledger.extent(store.target, axis), ledger.of(place.tile))


def _covers(
    ledger: Ledger,
    store: Store,
    axis: int,
    edge: ArrayExtent,
    place: Place,
    guards: tuple[Comparison, ...] = (),
) -> None:
    """The array at whose edge the lanes lie is as long as the target, or as what the grid writes of it."""
    if edge == ArrayExtent(store.target, axis):
        return
    have, need = ledger.extent(edge.array, edge.axis), ledger.extent(store.target, axis)
    goal = compare(">=", have, need)
    if implies([*ledger.path.always, *ledger.path.declared], goal, known=ledger.path.known):
        return
    own = place.part is None and place.index == Poly.of(LaunchAxis("blockId", axis))
    covered = Poly.of(LaunchAxis("gridDim", axis)) * ledger.of(place.tile)
    ledger.conditions.append(
        LaunchCondition(
            "void-lanes",
            ledger.kernel.name,
            store.span.line,
            goal,
            f"`store` to `{store.target}` in line {store.node.span.line} would take lanes beyond the edge of `{edge.array}`: "
            f"`{edge.array}` has {{0}} elements on axis {edge.axis}, `{store.target}` has {{1}} on axis {axis}",
            f"pass a `{edge.array}` of at least {{1}} elements on axis {edge.axis}, or pad its load with `pad=`",
            (have, need),
            (*guards, compare("<", have, covered)) if own else guards,
        )
    )


def _outlives(loop: Node, edge: ArrayExtent, types: Mapping[Node, Type]) -> bool:
    """Whether a tile with this void edge may pass from one round of `loop` to the next in a variable."""
    assert isinstance(loop, For | ForIndices | While)
    carried = (
        _exposed(loop.body, set()) if not isinstance(loop, While) else _names(loop.cond) | _exposed(loop.body, set())
    )
    for node in walk(*loop.body):
        if isinstance(node, Assign) and node.target in carried and _may_hold(types.get(node.value), edge):
            return True
        if isinstance(node, Inline) and node.result in carried:
            given = [n.value for n in walk(*node.body) if isinstance(n, Return) and n.value is not None]
            if any(_may_hold(types.get(value), edge) for value in given):
                return True
    return False


def _may_hold(type: Type | None, edge: ArrayExtent) -> bool:
    """Whether a value of `type` may have lanes beyond `edge`."""
    match type:
        case None:
            return True
        case TileType(void=void):
            return any(found == edge for _, found in void)
        case TupleType(items=items):
            return any(_may_hold(item, edge) for item in items)
        case _:
            return False


def _names(*nodes: Node) -> set[str]:
    return {node.id for node in walk(*nodes) if isinstance(node, Name)}


def _exposed(body: Sequence[Stmt], known: set[str]) -> set[str]:
    """The names that `body` may read before it assigns them; `known` gains those that it assigns on every path."""
    found: set[str] = set()
    for node in body:
        match node:
            case Assign(target=target, value=value):
                found |= _names(value) - known
                known.add(target)
            case If(cond=cond, then=then, other=other):
                found |= _names(cond) - known
                yes, no = set(known), set(known)
                found |= _exposed(then, yes) | _exposed(other, no)
                known |= yes & no
            case For(target=target, start=start, stop=stop, step=step, body=inner):
                found |= _names(start, stop, step) - known
                found |= _exposed(inner, known | {target})
            case ForIndices(target=target, source=source, body=inner):
                found |= _names(source) - known
                found |= _exposed(inner, known | {target})
            case While(cond=cond, body=inner):
                found |= _names(cond) - known
                found |= _exposed(inner, set(known))
            case Inline(body=inner, result=result):
                found |= _exposed(inner, set(known))
                if result is not None:
                    known.add(result)
            case _:
                found |= _names(node) - known
    return found
