"""Shapes of cuTile tiles: what reshapes, reductions, products and subscripts make of them.

Lanes go along where each long axis stays one axis: a reshape that joins or splits axes loses them. A reduction, a scan or a
product along an axis mixes its lanes, so a load that was not padded has to be whole there.

    rows[:, None]   of a tile of indices of shape (8,)   ->   shape (8, 1), lanes along the axis before the last
"""

from __future__ import annotations

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_names import TileNames
from tilecheck.frontend.cutile_values import Tile, is_one, moved, texts
from tilecheck.frontend.scopes import Ref
from tilecheck.ir.kernel import (
    Binary,
    Const,
    Do,
    Expr,
    Extent,
    Name,
    OpCall,
)

_POWERS = frozenset(2**k for k in range(31))
# What a subscript may follow that is no array's shape.
_VALUES = (cst.Name, cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)


class TileShapes(TileNames):
    """Lowering of what changes a tile's shape."""

    def _filled(
        self,
        name: str,
        shape: cst.BaseExpression | None,
        value: cst.BaseExpression | None,
        dtype: cst.BaseExpression | None,
        span: Span,
    ) -> Expr:
        """`zeros`, `ones` and `full`: every lane has one value."""
        extents = self.shape_of(shape, span)
        fill = Const(0 if name == "zeros" else 1, span=span) if name != "full" else None
        if fill is None and value is not None:
            given = self.expr(value)
            fill = given if isinstance(given, Const) and isinstance(given.value, int) else None
        lanes = fill if extents is not None else None
        return self.tile_value(span, Tile(extents, lanes=lanes, kind=self.kind_of(dtype)))

    def kind_of(self, dtype: cst.BaseExpression | None) -> str | None:
        """A dtype argument: `ct.float32` is `float32`, `x.dtype` is `of:x`."""
        if dtype is None:
            return None
        known = self.static(dtype)
        if isinstance(known, Ref):
            return known.path.removeprefix("cuda.tile.")
        if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype" and isinstance(dtype.value, cst.Name):
            named = self.called(Name(self.local(dtype.value.value) or dtype.value.value, span=self.span(dtype)))
            return f"of:{named.id}" if isinstance(named, Name) else None
        return None

    def _product(self, left: Tile | None, right: Tile | None) -> tuple[Expr, ...] | None:
        if left is None or right is None or not left.shape or not right.shape:
            return None
        batch = max((left.shape[:-2], right.shape[:-2]), key=len)
        if len(left.shape) == len(right.shape):
            batch = tuple(b if is_one(a) else a for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True))
        return (*batch, left.shape[-2], right.shape[-1]) if len(left.shape) > 1 else None

    def _joined(self, parts: Expr, axis: cst.BaseExpression | None, span: Span) -> Expr:
        """`cat`: the extents along the axis add up."""
        items = self.tuple_items(parts) or ()
        tiles = [self.tile_of(item) for item in items]
        at = self.static(axis) if axis is not None else 0
        shapes = [tile.shape for tile in tiles if tile is not None and tile.shape is not None]
        if (
            not shapes
            or len(shapes) < len(items)
            or not isinstance(at, int)
            or not -len(shapes[0]) <= at < len(shapes[0])
        ):
            return self.tile_value(span, Tile(None))
        place = at % len(shapes[0])
        total = shapes[0][place]
        for shape in shapes[1:]:
            total = _sum(total, shape[place], span)
        return self.tile_value(span, Tile((*shapes[0][:place], total, *shapes[0][place + 1 :])))

    def _permuted(self, name: str, tile: Tile | None, axes: cst.BaseExpression | None) -> tuple[Expr, ...] | None:
        if tile is None or tile.shape is None:
            return None
        if name == "transpose":
            return (tile.shape[1], tile.shape[0]) if len(tile.shape) == 2 else None
        order = self.static(axes) if axes is not None else None
        if not isinstance(order, tuple) or len(order) != len(tile.shape):
            return None
        return tuple(tile.shape[a] for a in order if isinstance(a, int))

    def _reduction(
        self, name: str, value: Expr, axis: cst.BaseExpression | None, keep: cst.BaseExpression | None, span: Span
    ) -> Expr:
        tile = self.tile_of(value)
        if tile is None:
            return OpCall(name, (value,), span=span)
        given = self.static(axis) if axis is not None else None
        at = given if isinstance(given, int) else None
        self._mixed(value, at, span)
        if name in ("cumsum", "cumprod", "scan"):
            return self.tile_value(span, Tile(tile.shape))
        if tile.shape is None or (axis is not None and given is not None and at is None):
            return self.tile_value(span, Tile(None))
        kept = isinstance(keep, cst.Name) and keep.value == "True"
        one = Const(1, span=span)
        axes = range(len(tile.shape)) if at is None else (at % len(tile.shape),)
        shape = tuple(one if k in axes else e for k, e in enumerate(tile.shape) if kept or k not in axes)
        return self.tile_value(span, Tile(shape))

    def _expanded(self, value: Expr, axis: object, span: Span) -> Expr:
        """`expand_dims`: one more axis of extent 1."""
        tile = self.tile_of(value)
        if tile is None or tile.shape is None or not isinstance(axis, int):
            return self.tile_value(span, Tile(None))
        rank = len(tile.shape) + 1
        place = axis % rank
        shape = (*tile.shape[:place], Const(1, span=span), *tile.shape[place:])
        return self.tile_value(span, Tile(shape, lanes=self._shifted(tile, {place}, rank)))

    def _shifted(self, tile: Tile, new: set[int], rank: int) -> Expr | None:
        """The lanes of `tile` with axes of extent 1 put in at the places `new` of the result."""
        if tile.lanes is None or tile.shape is None:
            return None
        kept = [place for place in range(rank) if place not in new]
        behind = {len(tile.shape) - k: rank - place for k, place in enumerate(kept)}
        return moved(tile.lanes, behind)

    def _reshaped(self, name: str, value: Expr, shape: tuple[Expr, ...] | None, span: Span) -> Expr:
        """`reshape` and `broadcast_to`: lanes are kept where at most one axis is long and only its place changes."""
        tile = self.tile_of(value)
        if tile is None:
            return self.tile_value(span, Tile(shape, lanes=value if shape is not None and self.scalar(value) else None))
        lanes = None
        if tile.lanes is not None and tile.shape is not None and shape is not None:
            if name == "broadcast_to":
                lanes = tile.lanes
            else:
                old = [len(tile.shape) - k for k, e in enumerate(tile.shape) if not is_one(e)]
                new = [len(shape) - k for k, e in enumerate(shape) if not is_one(e)]
                same = texts(tuple(tile.shape[-k] for k in old)) == texts(tuple(shape[-k] for k in new))
                if same or len(old) == len(new) == 1:
                    lanes = moved(tile.lanes, dict(zip(old, new, strict=True)))
        return self.tile_value(span, Tile(shape, lanes=lanes, kind=tile.kind))

    def _mixed(self, value: Expr, axis: int | None, span: Span) -> None:
        """Lanes along `axis` (None: all) get mixed: an unpadded load must be whole there."""
        tile = self.tile_of(value)
        if tile is None or tile.loaded is None:
            return
        loaded = tile.loaded
        rank = len(loaded.tile)
        for at in range(rank) if axis is None else (axis % rank,):
            if not is_one(loaded.tile[at]):
                extent = Extent(loaded.array, loaded.order[at], span=loaded.span)
                need = OpCall("whole_tiles", (extent, loaded.tile[at], Const(span.line, span=span)), span=loaded.span)
                self.emit(Do(need, span=loaded.span))

    def _subscript(self, node: cst.Subscript, span: Span, *, view: bool = False) -> Expr:
        """`t[:, None]` of a tile gets an axis; other subscripts are of arrays' shapes and tuples."""
        base = self.expr(node.value) if isinstance(node.value, _VALUES) else None
        tile = self.tile_of(base) if base is not None and self.tuple_items(base) is None else None
        if tile is None:
            return super()._subscript(node, span, view=view)
        places = [e.slice for e in node.slice]
        whole = [isinstance(e, cst.Slice) and e.lower is None and e.upper is None for e in places]
        new = {k for k, e in enumerate(places) if isinstance(e, cst.Index) and _is_none(e.value)}
        if tile.shape is None or len(new) + sum(whole) < len(places) or sum(whole) > len(tile.shape):
            return self.tile_value(span, Tile(None), "a subscript of a tile")
        rank = len(tile.shape) + len(new)
        extents = iter(tile.shape)
        shape = tuple(Const(1, span=span) if k in new else next(extents) for k in range(rank))
        return self.tile_value(span, Tile(shape, lanes=self._shifted(tile, new, rank)))

    def shape_of(self, node: cst.BaseExpression | None, span: Span) -> tuple[Expr, ...] | None:
        """The shape argument of a tile, whose extents have to be powers of two that are known when it is compiled."""
        found = self.extents(node)
        self._extents_at(found or (), span)
        return found

    def _extents_at(self, extents: tuple[Expr, ...], span: Span) -> None:
        doubtful = tuple(e for e in extents if not (isinstance(e, Const) and e.value in _POWERS))
        if doubtful:
            self.emit(Do(OpCall("tile_extents", doubtful, span=span), span=span))

    def extents(self, node: cst.BaseExpression | None) -> tuple[Expr, ...] | None:
        """A shape argument as extents, None if there is none."""
        if node is None:
            return None
        value = self.expr(node)
        items = self.tuple_items(value)
        return tuple(map(self.called, items if items is not None else (value,)))


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _sum(left: Expr, right: Expr, span: Span) -> Expr:
    if (
        isinstance(left, Const)
        and isinstance(right, Const)
        and isinstance(left.value, int)
        and isinstance(right.value, int)
    ):
        return Const(left.value + right.value, span=span)
    return Binary("+", left, right, span=span)
