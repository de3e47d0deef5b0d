"""Memory of cuTile kernels: tile loads and stores, gathers, scatters and atomics, as loops over elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_functions import RMW, TileFunctions
from tilecheck.frontend.cutile_values import Loaded, Tile, View, at_lane, axes_of, ceil_div, is_one, moved, rebuilt
from tilecheck.frontend.numba_build import names_in
from tilecheck.frontend.scopes import UNKNOWN, Ref
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    Do,
    Expr,
    For,
    If,
    Logic,
    Name,
    Opaque,
    OpCall,
    Select,
    Stmt,
    TupleExpr,
)
from tilecheck.ir.simt import Atomic, Load, Store


class CuTile(TileFunctions):
    """Lowering of one cuTile kernel."""

    # ---- tiles in memory

    def _index(self, node: cst.BaseExpression) -> tuple[Expr, ...]:
        value = self.expr(node)
        items = self.tuple_items(value)
        places = tuple(self.named(item) for item in (items if items is not None else (value,)))
        for place in places:
            self.count_bits(place)
        return places

    def load(self, node: cst.Call, span: Span) -> Expr:
        given = self._given(node, "array", "index", "shape")
        view = self.view_of(given["array"])
        index = self._index(given["index"])
        shape = self.shape_of(given.get("shape"), span)
        tile = shape or tuple(Const(1, span=span) for _ in index)
        order = self.order(given.get("order"), len(index))
        return self._loaded(view, index, tile, tile, order, self._checked(given), shape == (), self.pads(given), span)

    def _loaded(
        self,
        view: View,
        index: tuple[Expr, ...],
        tile: tuple[Expr, ...],
        steps: tuple[Expr, ...],
        order: tuple[int, ...],
        clipped: bool,
        flat: bool,
        padded: bool,
        span: Span,
    ) -> Expr:
        """A tile load and what is known of the tile; `flat` asks for a tile without axes."""
        names: list[str] = []

        def access(at: tuple[Expr, ...]) -> Stmt:
            names.append(self.fresh())
            return Assign(names[-1], Load(view.array, at, span=span), span=span)

        origin = self._touch(view, index, tile, steps, order, clipped, span, access)
        loaded = None if padded or not clipped else Loaded(view.array, order, tile, span)
        kind = f"of:{view.array.id}" if isinstance(view.array, Name) else None
        if origin is None:
            return self.tile_value(span, Tile(tile, loaded, kind=kind), "a loaded tile")
        if all(map(is_one, tile)):
            element = Name(names[0], span=span)
            return element if flat else self.tile_value(span, Tile(tile, loaded, element, kind), "a loaded tile")
        at = list(origin)
        for k, extent in enumerate(tile):
            if not is_one(extent):
                lane = OpCall("lane", (Const(len(tile) - k, span=span), extent), span=span)
                at[order[k]] = Binary("+", at[order[k]], lane, span=span)
        lanes = self._element(view, tuple(at), clipped, span)
        return self.tile_value(span, Tile(tile, loaded, lanes, kind), "a loaded tile")

    def _element(self, view: View, at: tuple[Expr, ...], clipped: bool, span: Span) -> Expr | None:
        """The element at `at`, 0 outside; None if the kernel changes the array."""
        if not isinstance(view.array, Name) or view.array.id in self.changing:
            return None
        self.remembered_arrays.add(view.array.id)
        value: Expr = Load(view.array, at, span=span)
        if not clipped:
            return value
        return Select(self._inside(view, at, span), value, Const(0, span=span), span=span)

    def _inside(self, view: View, at: tuple[Expr, ...], span: Span) -> Expr:
        bounds: list[Expr] = []
        for axis, place in enumerate(at):
            bounds.append(Compare("<=", Const(0, span=span), place, span=span))
            bounds.append(Compare("<", place, self.extent_of(view, axis, span), span=span))
        return Logic("and", tuple(bounds), span=span)

    def _checked(self, given: Mapping[str, cst.BaseExpression]) -> bool:
        """Whether the access is compared with the array's edge, as it is unless `check_bounds=False`."""
        return "check_bounds" not in given or self.static(given["check_bounds"]) is not False

    def _stored(self, value: Expr, rank: int, span: Span) -> tuple[tuple[Expr, ...] | None, Expr]:
        """The extents of a stored tile, and its value as a store may show it."""
        tile = self.tile_of(value)
        one = Const(1, span=span)
        if tile is None:
            return (one,) * rank, value
        shape = (one,) * rank if tile.shape == () else tile.shape
        return shape, Opaque("the stored tile", span=span)

    def _kinds_meet(self, view: View, value: Expr, span: Span) -> None:
        """Leave in the kernel that a tile of some dtype is written to an array, which has to take it."""
        tile = self.tile_of(value)
        if tile is not None and tile.kind is not None and isinstance(view.array, Name):
            names = (Const(view.array.id, span=span), Const(tile.kind, span=span))
            self.emit(Do(OpCall("takes_dtype", names, span=span), span=span))

    def write(self, node: cst.Call, span: Span) -> None:
        given = self._given(node, "array", "index", "tile")
        value = self.expr(given["tile"])
        view = self.view_of(given["array"])
        self._kinds_meet(view, value, span)
        index = self._index(given["index"])
        tile, stored = self._stored(value, len(index), span)
        if tile is None:
            self.unread("a store of a tile whose shape could not be read", span, names_in(view.array), barrier=False)
            return
        order, clipped = self.order(given.get("order"), len(index)), self._checked(given)
        first = self._touch(
            view, index, tile, tile, order, clipped, span, lambda at: Store(view.array, at, stored, span=span)
        )
        if first is not None and isinstance(view.array, Name) and not view.cuts:
            back = tuple(tile[order.index(axis)] for axis in range(len(tile)))
            places = (Const(view.array.id, span=span), TupleExpr(first, span=span), TupleExpr(back, span=span))
            self.emit(Do(OpCall("stores_tile", places, span=span), span=span))

    def view_access(self, name: str, view: View, node: cst.Call, span: Span) -> Expr:
        assert view.tile is not None
        given = self._given(node, "index", "tile")
        steps = view.steps or view.tile
        order = tuple(range(len(view.tile)))
        if name == "num_tiles":
            axis = self.static(node.args[0].value) if node.args else UNKNOWN
            if isinstance(axis, int) and 0 <= axis < len(steps):
                return ceil_div(self.length_of(view, axis, span), steps[axis], span)
            return self.unread_call(".num_tiles", node, span)
        index, clipped = self._index(given["index"]), self._checked(given)
        if name == "load":
            return self._loaded(view, index, view.tile, steps, order, clipped, False, view.padded, span)
        value = self.expr(given["tile"] if "tile" in given else node.args[-1].value)
        if name == "store":
            _, stored = self._stored(value, len(index), span)
            self._touch(
                view, index, view.tile, steps, order, clipped, span, lambda at: Store(view.array, at, stored, span=span)
            )
        else:
            op = name.rpartition("_")[2]
            update = Opaque("the added tile", span=span)
            self._touch(
                view,
                index,
                view.tile,
                steps,
                order,
                True,
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
        clipped: bool,
        span: Span,
        access: Callable[[tuple[Expr, ...]], Stmt],
    ) -> tuple[Expr, ...] | None:
        """Every element of a tile, clipped at the array's edge; the first one is not. Its place, None if not read."""
        rank = len(index)
        if len(tile) != rank:
            ranks = (Const(rank, span=span), Const(len(tile), span=span))
            self.emit(Do(OpCall("ranks_differ", ranks, span=span), span=span))
        if len(tile) != rank or len(steps) != rank or sorted(order) != list(range(rank)):
            self.unread("a tile access that could not be read", span, names_in(view.array), barrier=False)
            return None
        for extent in tile:
            if isinstance(extent, Name):
                self.extent_names.add(extent.id)
        cuts = dict(view.cuts)
        origin: list[Expr] = []
        for k in range(rank):
            place: Expr = index[k] if is_one(steps[k]) else Binary("*", index[k], steps[k], span=span)
            if order[k] in cuts:
                place = Binary("+", cuts[order[k]][0], place, span=span)
            origin.append(self.fixed(place))
        back = [order.index(axis) for axis in range(rank)]
        first = tuple(origin[b] for b in back)
        self.emit(access(first))
        if all(is_one(extent) for extent in tile):
            return first
        elements = list(origin)
        with self._loops(tile, span) as counters:
            for k, counter in counters.items():
                elements[k] = Binary("+", origin[k], counter, span=span)
            at = tuple(elements[b] for b in back)
            if not clipped:
                self.emit(access(at))
            else:
                inside = [Compare("<", e, self.extent_of(view, axis, span), span=span) for axis, e in enumerate(at)]
                cond = inside[0] if len(inside) == 1 else Logic("and", tuple(inside), span=span)
                self.emit(If(cond, (access(at),), span=span))
        return first

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
        items = self._places(given["indices"], span)
        for item in items:
            if item is not None:
                self.count_bits(item)
        mask = self._mask(given, span)
        clipped = self._checked(given)
        operand = self.expr(given["value"]) if "value" in given else Opaque("an update", span=span)
        shape = self._index_shape(items)
        if name in ("gather", "load_advanced_indexing"):
            self._each(
                view,
                items,
                mask,
                clipped,
                span,
                lambda at: Assign(self.fresh(), Load(view.array, at, span=span), span=span),
            )
            return self.tile_value(
                span, Tile(shape, lanes=self._gathered(view, items, mask, clipped, span)), "elements"
            )
        value = operand if self.scalar(operand) else Opaque("scattered elements", span=span)
        if name in ("scatter", "store_advanced_indexing"):
            self._kinds_meet(view, operand, span)
            self.lanes_meet(items, operand, span)
            self._each(view, items, mask, clipped, span, lambda at: Store(view.array, at, value, span=span))
            return Const(None, span=span)
        known = [item for item in items if item is not None]
        if mask is None and len(known) == len(items) and not any(axes_of(item) for item in known) and not view.cuts:
            return self.named(Atomic(RMW[name], view.array, tuple(known), (value,), span=span))
        self._each(
            view,
            items,
            mask,
            clipped,
            span,
            lambda at: Do(Atomic(RMW[name], view.array, at, (value,), span=span), span=span),
        )
        return self.tile_value(span, Tile(shape), why="old elements")

    def _places(self, node: cst.BaseExpression, span: Span) -> tuple[Expr | None, ...]:
        """The index of each axis lane by lane, None for an axis whose lanes are not known.

        A `ct.Slice(start, length)` runs along an axis of its own, and so does the tile beside it.
        """
        elements = [e.value for e in node.elements] if isinstance(node, cst.Tuple) else [node]
        cuts = [self._slice_parts(element) for element in elements]
        if any(cut is not None for cut in cuts):
            return tuple(self._own_axis(k, element, cuts, span) for k, element in enumerate(elements))
        value = self.expr(node)
        items = self.tuple_items(value) or (value,)
        return tuple(self._lanes_of(item) for item in items)

    def _slice_parts(self, node: cst.BaseExpression) -> tuple[Expr, Expr] | None:
        if isinstance(node, cst.Call) and self.static(node.func) == Ref("cuda.tile.Slice") and len(node.args) == 2:
            start, length = (self.expr(argument.value) for argument in node.args)
            return self.fixed(start), length
        return None

    def _own_axis(
        self, k: int, element: cst.BaseExpression, cuts: list[tuple[Expr, Expr] | None], span: Span
    ) -> Expr | None:
        place, cut = len(cuts) - k, cuts[k]
        if cut is not None:
            lane = OpCall("lane", (Const(place, span=span), cut[1]), span=span)
            return Binary("+", cut[0], lane, span=span)
        lanes = self._lanes_of(self.expr(element))
        return None if lanes is None else moved(lanes, {1: place})

    def _lanes_of(self, value: Expr) -> Expr | None:
        tile = self.tile_of(value)
        if tile is not None:
            return self._fixed(tile.lanes)
        return self.fixed(value) if self.scalar(value) else None

    def _mask(self, given: Mapping[str, cst.BaseExpression], span: Span) -> Expr | None:
        if "mask" not in given:
            return None
        lanes = self._lanes_of(self.expr(given["mask"]))
        return Opaque("a mask", span=span) if lanes is None else lanes

    def _gathered(
        self, view: View, items: tuple[Expr | None, ...], mask: Expr | None, clipped: bool, span: Span
    ) -> Expr | None:
        """The gathered elements lane by lane."""
        known = tuple(item for item in items if item is not None)
        if len(known) < len(items) or mask is not None:
            return None
        return self._element(view, known, clipped, span)

    def _index_shape(self, items: tuple[Expr | None, ...]) -> tuple[Expr, ...] | None:
        found: dict[int, Expr] = {}
        for item in items:
            if item is None:
                return None
            found |= axes_of(item)
        one = Const(1, span=items[0].span) if items and items[0] is not None else None
        assert one is not None or not found
        return tuple(found.get(place, one) for place in range(max(found, default=0), 0, -1))  # type: ignore[misc]

    def _each(
        self,
        view: View,
        items: tuple[Expr | None, ...],
        mask: Expr | None,
        clipped: bool,
        span: Span,
        access: Callable[[tuple[Expr, ...]], Stmt],
    ) -> None:
        """The access at every combination of lanes; indices outside are masked, as cuTile masks them."""
        lanes: dict[int, Expr] = {}
        for item in items:
            lanes |= {} if item is None else axes_of(item)
        axes = sorted(lanes)
        with self._loops(tuple(lanes[a] for a in axes), span) as counters:
            chosen = {axis: counters.get(k, Const(0, span=span)) for k, axis in enumerate(axes)}
            at = tuple(
                self.named(Opaque("an index", span=span) if item is None else self._read(at_lane(item, chosen)))
                for item in items
            )
            if view.cuts:
                starts = {axis: cut[0] for axis, cut in view.cuts}
                moved_at = [Binary("+", starts[k], e, span=span) if k in starts else e for k, e in enumerate(at)]
                at = tuple(self.named(e) for e in moved_at)
            inside: list[Expr] = [self._inside(view, at, span)] if clipped else []
            if mask is not None:
                inside.append(mask if isinstance(mask, Opaque) else self._read(at_lane(mask, chosen)))
            if not inside:
                self.emit(access(at))
                return
            cond = inside[0] if len(inside) == 1 else Logic("and", tuple(inside), span=span)
            self.emit(If(cond, (access(at),), span=span))

    def _read(self, value: Expr) -> Expr:
        """`value` with the elements that it takes from arrays read first, where they are inside."""

        def read(node: Expr) -> Expr | None:
            if not isinstance(node, Select) or not isinstance(node.then, Load):
                return None
            name, span = self.fresh(), node.span
            self.emit(Assign(name, node.other, span=span))
            cond = rebuilt(node.cond, read)
            with self.block() as then:
                index = tuple(rebuilt(place, read) for place in node.then.index)
                self.emit(Assign(name, replace(node.then, index=index), span=span))
            self.emit(If(cond, tuple(then), span=span))
            return Name(name, span=span)

        return rebuilt(value, read)
