"""Memory of cuTile kernels: tile loads and stores, gathers, scatters and atomics, as loops over elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_functions import TileFunctions
from tilecheck.frontend.cutile_values import Loaded, View, at_lane, ceil_div, has_lanes, is_one, met
from tilecheck.frontend.numba_exprs import names_in
from tilecheck.frontend.scopes import UNKNOWN
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    Do,
    Expr,
    Extent,
    For,
    If,
    Logic,
    Name,
    Opaque,
    OpCall,
    Stmt,
    walk,
)
from tilecheck.ir.simt import Atomic, Axis, Load, Store

_AXES: tuple[Axis, ...] = ("x", "y", "z")
_MODULE: Final = "cuda.tile"
_RMW: Final = {
    "atomic_add": "add",
    "atomic_max": "max",
    "atomic_min": "min",
    "atomic_and": "and",
    "atomic_or": "or",
    "atomic_xor": "xor",
    "atomic_xchg": "exch",
    "atomic_cas": "cas",
}
_REDUCTIONS: Final = frozenset({"sum", "max", "min", "prod", "argmax", "argmin", "reduce", "cumsum", "cumprod", "scan"})
# Functions whose value is their first argument, lane by lane.
_SAME_LANES: Final = frozenset({"astype", "broadcast_to", "astile", "ensure_constant", "assume_divisible_by"})


class CuTile(TileFunctions):
    """Lowering of one cuTile kernel."""

    # ---- tiles in memory

    def _index(self, node: cst.BaseExpression) -> tuple[Expr, ...]:
        value = self.expr(node)
        items = self.tuple_items(value)
        return tuple(self.named(item) for item in (items if items is not None else (value,)))

    def load(self, node: cst.Call, span: Span) -> Expr:
        given = self._given(node, "array", "index", "shape")
        view = self.view_of(given["array"])
        index = self._index(given["index"])
        tile = self.extents(given.get("shape")) or tuple(Const(1, span=span) for _ in index)
        order = self._order(given.get("order"), len(index))
        self._touch(
            view,
            index,
            tile,
            tile,
            order,
            span,
            lambda at: Assign(self.fresh(), Load(view.array, at, span=span), span=span),
        )
        loaded = None if self.pads(given) else Loaded(view.array, order, tile, span)
        return self._tile_value(span, tile, loaded, "a loaded tile")

    def _order(self, node: cst.BaseExpression | None, rank: int) -> tuple[int, ...]:
        folded = self.static(node) if node is not None else "C"
        if isinstance(folded, tuple) and all(isinstance(a, int) for a in folded):
            return tuple(int(a) for a in folded if isinstance(a, int))
        return tuple(reversed(range(rank))) if folded == "F" else tuple(range(rank))

    def _stored(self, value: Expr, rank: int, span: Span) -> tuple[tuple[Expr, ...] | None, Expr]:
        """The extents of a stored tile, and its value as a store may show it."""
        tile = self.tile_of(value)
        one = Const(1, span=span)
        if tile is None:
            return (one,) * rank, value
        shape = (one,) * rank if tile.shape == () else tile.shape
        return shape, Opaque("the stored tile", span=span)

    def write(self, node: cst.Call, span: Span) -> None:
        given = self._given(node, "array", "index", "tile")
        value = self.expr(given["tile"])
        view = self.view_of(given["array"])
        index = self._index(given["index"])
        tile, stored = self._stored(value, len(index), span)
        if tile is None or len(tile) != len(index):
            self.unread("a store of a tile whose shape could not be read", span, names_in(view.array), barrier=False)
            return
        order = self._order(given.get("order"), len(index))
        self._touch(view, index, tile, tile, order, span, lambda at: Store(view.array, at, stored, span=span))

    def view_access(self, name: str, view: View, node: cst.Call, span: Span) -> Expr:
        assert view.tile is not None
        given = self._given(node, "index", "tile")
        steps = view.steps or view.tile
        order = tuple(range(len(view.tile)))
        if name == "num_tiles":
            axis = self.static(node.args[0].value) if node.args else UNKNOWN
            if isinstance(axis, int):
                return ceil_div(Extent(view.array, axis, span=span), steps[axis], span)
            return Opaque("`num_tiles` of an axis that is not constant", span=span)
        index = self._index(given["index"])
        if name == "load":
            self._touch(
                view,
                index,
                view.tile,
                steps,
                order,
                span,
                lambda at: Assign(self.fresh(), Load(view.array, at, span=span), span=span),
            )
            loaded = None if view.padded else Loaded(view.array, order, view.tile, span)
            return self._tile_value(span, view.tile, loaded, "a loaded tile")
        value = self.expr(given["tile"] if "tile" in given else node.args[-1].value)
        if name == "store":
            _, stored = self._stored(value, len(index), span)
            self._touch(view, index, view.tile, steps, order, span, lambda at: Store(view.array, at, stored, span=span))
        else:
            op = name.rpartition("_")[2]
            update = Opaque("the added tile", span=span)
            self._touch(
                view,
                index,
                view.tile,
                steps,
                order,
                span,
                lambda at: Do(Atomic(op, view.array, at, (update,), span=span), span=span),
            )
        return Const(None, span=span)

    def _touch(
        self,
        view: View,
        index: tuple[Expr, ...],
        tile: tuple[Expr, ...],
        steps: tuple[Expr, ...],
        order: tuple[int, ...],
        span: Span,
        access: Callable[[tuple[Expr, ...]], Stmt],
    ) -> None:
        """Every element of a tile, clipped at the array's edge; the first one is not clipped."""
        rank = len(index)
        if len(tile) != rank or len(steps) != rank or sorted(order) != list(range(rank)):
            self.unread("a tile access that could not be read", span, names_in(view.array), barrier=False)
            return
        starts = dict(view.starts)
        origin: list[Expr] = []
        for k in range(rank):
            place: Expr = index[k] if is_one(steps[k]) else Binary("*", index[k], steps[k], span=span)
            if order[k] in starts:
                place = Binary("+", starts[order[k]], place, span=span)
            origin.append(self.named(place))
        back = [order.index(axis) for axis in range(rank)]
        self.emit(access(tuple(origin[b] for b in back)))
        if all(is_one(extent) for extent in tile):
            return
        elements = list(origin)
        with self._loops(tile, span) as counters:
            for k, counter in counters.items():
                elements[k] = Binary("+", origin[k], counter, span=span)
            at = tuple(elements[b] for b in back)
            inside = [Compare("<", e, Extent(view.array, axis, span=span), span=span) for axis, e in enumerate(at)]
            cond = inside[0] if len(inside) == 1 else Logic("and", tuple(inside), span=span)
            self.emit(If(cond, (access(at),), span=span))

    @contextmanager
    def _loops(self, extents: tuple[Expr, ...], span: Span) -> Iterator[dict[int, Expr]]:
        """Nested loops over the axes that are longer than 1: their counters by axis."""
        counters: dict[int, Expr] = {}
        names: list[tuple[str, Expr]] = []
        for axis, extent in enumerate(extents):
            if not is_one(extent):
                name = self.fresh()
                counters[axis] = Name(name, span=span)
                names.append((name, extent))
        with self.block() as body:
            yield counters
        inner = tuple(body)
        for name, extent in reversed(names):
            inner = (For(name, Const(0, span=span), extent, Const(1, span=span), inner, span=span),)
        for statement in inner:
            self.emit(statement)

    # ---- element by element

    def by_element(self, name: str, node: cst.Call, span: Span) -> Expr:
        given = self._given(
            node,
            *(("array", "indices", "expected", "value") if name == "atomic_cas" else ("array", "indices", "value")),
        )
        view = self.view_of(given["array"])
        value = self.expr(given["indices"])
        items = self.tuple_items(value) or (value,)
        for item in items:
            if has_lanes(item) or self.scalar(item):
                self.emit(Do(OpCall("fits_int32", (item,), span=item.span), span=item.span))
        mask = self.expr(given["mask"]) if "mask" in given else None
        operand = self.expr(given["value"]) if "value" in given else Opaque("an update", span=span)
        if name == "gather":
            self._each(
                view.array,
                items,
                mask,
                span,
                lambda at: Assign(self.fresh(), Load(view.array, at, span=span), span=span),
            )
            return self._tile_value(span, self._index_shape(items), why="gathered elements")
        if name == "scatter":
            stored = operand if self.scalar(operand) else Opaque("scattered elements", span=span)
            self._each(view.array, items, mask, span, lambda at: Store(view.array, at, stored, span=span))
            return Const(None, span=span)
        update = operand if self.scalar(operand) else Opaque("an update", span=span)
        scalar = mask is None and not any(has_lanes(i) for i in items) and all(map(self.scalar, items))
        if scalar:
            return self.named(Atomic(_RMW[name], view.array, items, (update,), span=span))
        self._each(
            view.array,
            items,
            mask,
            span,
            lambda at: Do(Atomic(_RMW[name], view.array, at, (update,), span=span), span=span),
        )
        return self._tile_value(span, self._index_shape(items), why="old elements")

    def _index_shape(self, items: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        found = met([self.tile_of(item) for item in items])
        return () if found is None else found.shape

    def _each(
        self,
        array: Expr,
        items: tuple[Expr, ...],
        mask: Expr | None,
        span: Span,
        access: Callable[[tuple[Expr, ...]], Stmt],
    ) -> None:
        """The access at every combination of lanes; indices outside are masked, as cuTile masks them."""
        lanes: dict[int, Expr] = {}
        for item in items:
            for found in walk(item):
                if isinstance(found, OpCall) and found.op in ("lane", "lane64"):
                    axis = found.args[0]
                    assert isinstance(axis, Const) and isinstance(axis.value, int)
                    lanes[axis.value] = found.args[1]
        axes = sorted(lanes)
        with self._loops(tuple(lanes[a] for a in axes), span) as counters:
            chosen = {axis: counters.get(k, Const(0, span=span)) for k, axis in enumerate(axes)}
            at = tuple(self.named(at_lane(item, chosen)) for item in items)
            inside: list[Expr] = []
            for k, e in enumerate(at):
                inside.append(Compare("<=", Const(0, span=span), e, span=span))
                inside.append(Compare("<", e, Extent(array, k, span=span), span=span))
            if mask is not None:
                shown = has_lanes(mask) or self.scalar(mask)
                inside.append(at_lane(mask, chosen) if shown else Opaque("a mask", span=span))
            self.emit(If(Logic("and", tuple(inside), span=span), (access(at),), span=span))
