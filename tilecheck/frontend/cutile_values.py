"""Values of cuTile kernels as the reader knows them: views of arrays, opaque tiles, tiles of indices.

A tile of indices is an expression over `lane(k, n)`: the counter of the k-th axis from the end, of extent n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    Expr,
    Logic,
    OpCall,
    Select,
    TupleExpr,
    Unary,
    walk,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Load


@dataclass(frozen=True, slots=True)
class View:
    """An array, or a cut of it: `cuts` are axis, first and past-the-end element; `tile` and `steps` are a tiled view's."""

    array: Expr
    cuts: tuple[tuple[int, tuple[Expr, Expr]], ...] = ()
    tile: tuple[Expr, ...] | None = None
    steps: tuple[Expr, ...] | None = None
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """What is known of a tile: its extents (None if they could not be read), the load it comes from, the value of each
    lane (None if that could not be read), and its dtype: a name, or `of:x` for that of the array `x`.
    """

    shape: tuple[Expr, ...] | None
    loaded: Loaded | None = None
    lanes: Expr | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where a tile came from: its axes may hang over the edges of `array`, and no padding was asked for."""

    array: Expr
    order: tuple[int, ...]
    tile: tuple[Expr, ...]
    span: Span


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
    kinds = {tile.kind for tile in found}
    shape: tuple[Expr, ...] | None = ()
    for tile in found:
        shape = None if shape is None or tile.shape is None else wider(shape, tile.shape)
    return Tile(shape, loaded, kind=kinds.pop() if len(kinds) == 1 else None)


def wider(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The shape of an elementwise result: trailing axes align, extent 1 stretches."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    head = longer[: len(longer) - len(shorter)]
    pairs = zip(longer[len(head) :], shorter, strict=True)
    return (*head, *(b if is_one(a) else a for a, b in pairs))


def texts(shape: tuple[Expr, ...] | None) -> tuple[str, ...] | None:
    """A shape as text, to compare shapes by."""
    return None if shape is None else tuple(show(extent) for extent in shape)


def moved(value: Expr, places: dict[int, int]) -> Expr:
    """The lanes of a tile whose axes, counted from the end, go to other places."""

    def shift(node: Expr) -> Expr | None:
        if isinstance(node, OpCall) and node.op in ("lane", "lane64"):
            axis = node.args[0]
            assert isinstance(axis, Const) and isinstance(axis.value, int)
            place = Const(places.get(axis.value, axis.value), span=node.span)
            return replace(node, args=(place, node.args[1]))
        return None

    return rebuilt(value, shift)


def axes_of(value: Expr) -> dict[int, Expr]:
    """The axes that the lanes of a tile run along, counted from the end, with their extents."""
    found: dict[int, Expr] = {}
    for node in walk(value):
        if isinstance(node, OpCall) and node.op in ("lane", "lane64"):
            axis = node.args[0]
            assert isinstance(axis, Const) and isinstance(axis.value, int)
            found[axis.value] = node.args[1]
    return found


def at_lane(value: Expr, lanes: dict[int, Expr]) -> Expr:
    """A tile of indices at one combination of lanes."""

    def pick(node: Expr) -> Expr | None:
        if isinstance(node, OpCall) and node.op in ("lane", "lane64"):
            axis = node.args[0]
            assert isinstance(axis, Const) and isinstance(axis.value, int)
            return lanes[axis.value]
        return None

    return rebuilt(value, pick)


def same_lanes(value: Expr, parts: Sequence[Expr]) -> Expr | None:
    """`value`, an operation on tiles lane by lane, on `parts` in place of its operands; None for other operations."""
    match value:
        case Binary(op="@"):
            return None
        case Binary(op="&" | "|" as op) if all(map(_is_truth, parts)):
            return Logic("and" if op == "&" else "or", tuple(parts), span=value.span)
        case Binary() | Compare():
            return replace(value, left=parts[0], right=parts[1])
        case Unary(op="~") if _is_truth(parts[0]):
            return Unary("not", parts[0], span=value.span)
        case Unary():
            return replace(value, operand=parts[0])
        case Logic():
            return replace(value, operands=tuple(parts))
        case Select():
            return replace(value, cond=parts[0], then=parts[1], other=parts[2])
        case OpCall(op="min" | "max" | "int32" | "int64" | "abs"):
            return replace(value, args=tuple(parts))
    return None


def _is_truth(value: Expr) -> bool:
    return (
        isinstance(value, Compare | Logic)
        or (isinstance(value, Const) and isinstance(value.value, bool))
        or (isinstance(value, Unary) and value.op == "not")
    )


def rebuilt(value: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """`value` with the parts that `change` replaces (None keeps one and goes on below it)."""
    found = change(value)
    if found is not None:
        return found

    def inner(part: Expr) -> Expr:
        return rebuilt(part, change)

    match value:
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return replace(value, left=inner(left), right=inner(right))
        case Unary(operand=operand):
            return replace(value, operand=inner(operand))
        case Logic(operands=operands):
            return replace(value, operands=tuple(map(inner, operands)))
        case Select(cond=cond, then=then, other=other):
            return replace(value, cond=inner(cond), then=inner(then), other=inner(other))
        case OpCall(args=args):
            return replace(value, args=tuple(map(inner, args)))
        case TupleExpr(items=items):
            return replace(value, items=tuple(map(inner, items)))
        case Load(index=index):
            return replace(value, index=tuple(map(inner, index)))
    return value
