"""Values of cuTile kernels as the reader knows them: views of arrays, opaque tiles, tiles of indices.

A tile of indices is an expression over `lane(k, n)`: the counter of the k-th axis from the end, of extent n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    Expr,
    Logic,
    Opaque,
    OpCall,
    TupleExpr,
    Unary,
    walk,
)
from tilecheck.ir.printer import show


@dataclass(frozen=True, slots=True)
class View:
    """An array, or a cut of it: `starts` per axis, `tile` and `steps` for a tiled view."""

    array: Expr
    starts: tuple[tuple[int, Expr], ...] = ()
    tile: tuple[Expr, ...] | None = None
    steps: tuple[Expr, ...] | None = None
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """What is known of an opaque tile: its extents (None if they could not be read), and the load it comes from."""

    shape: tuple[Expr, ...] | None
    loaded: Loaded | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where a tile came from: its axes may hang over the edges of `array`, and no padding was asked for."""

    array: Expr
    order: tuple[int, ...]
    tile: tuple[Expr, ...]
    span: Span


def has_lanes(value: Expr) -> bool:
    """Whether `value` is a tile of indices whose lanes are all known."""
    return any(isinstance(n, OpCall) and n.op in ("lane", "lane64") for n in walk(value)) and not any(
        isinstance(n, Opaque) for n in walk(value)
    )


def is_one(extent: Expr) -> bool:
    """Whether an extent is the constant 1."""
    return isinstance(extent, Const) and extent.value == 1


def ceil_div(a: Expr, b: Expr, span: Span) -> Expr:
    """`a` over `b`, rounded up, for positive `b`."""
    top = Binary("-", Binary("+", a, b, span=span), Const(1, span=span), span=span)
    return Binary("//", top, b, span=span)


def met(tiles: list[Tile | None]) -> Tile | None:
    """The tile that elementwise operands give: None if all are scalars."""
    found = [tile for tile in tiles if tile is not None]
    if not found:
        return None
    loaded = next((tile.loaded for tile in found if tile.loaded is not None), None)
    shape: tuple[Expr, ...] | None = ()
    for tile in found:
        shape = None if shape is None or tile.shape is None else wider(shape, tile.shape)
    return Tile(shape, loaded)


def wider(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The shape of an elementwise result: trailing axes align, extent 1 stretches."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    head = longer[: len(longer) - len(shorter)]
    pairs = zip(longer[len(head) :], shorter, strict=True)
    return (*head, *(b if is_one(a) else a for a, b in pairs))


def texts(shape: tuple[Expr, ...] | None) -> tuple[str, ...] | None:
    """A shape as text, to compare shapes by."""
    return None if shape is None else tuple(show(extent) for extent in shape)


def moved(value: Expr, places: int) -> Expr:
    """A tile of indices whose last axis becomes the one `places` before the last."""
    return _rebuilt(value, lambda lane: replace(lane, args=(Const(1 + places, span=lane.span), lane.args[1])))


def at_lane(value: Expr, lanes: dict[int, Expr]) -> Expr:
    """A tile of indices at one combination of lanes."""

    def pick(lane: OpCall) -> Expr:
        axis = lane.args[0]
        assert isinstance(axis, Const) and isinstance(axis.value, int)
        return lanes[axis.value]

    return _rebuilt(value, pick)


def _rebuilt(value: Expr, change: Callable[[OpCall], Expr]) -> Expr:
    match value:
        case OpCall(op="lane" | "lane64"):
            return change(value)
        case Binary(left=left, right=right):
            return replace(value, left=_rebuilt(left, change), right=_rebuilt(right, change))
        case Compare(left=left, right=right):
            return replace(value, left=_rebuilt(left, change), right=_rebuilt(right, change))
        case Unary(operand=operand):
            return replace(value, operand=_rebuilt(operand, change))
        case Logic(operands=operands):
            return replace(value, operands=tuple(_rebuilt(o, change) for o in operands))
        case OpCall(args=args):
            return replace(value, args=tuple(_rebuilt(a, change) for a in args))
        case TupleExpr(items=items):
            return replace(value, items=tuple(_rebuilt(i, change) for i in items))
    return value
