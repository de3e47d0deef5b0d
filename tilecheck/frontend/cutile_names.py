"""Names of cuTile kernels: which of them are tiles, of which shape, and what their lanes are worth.

A tile is opaque, but its shape is known, and so is every lane of a tile of indices: an expression over `lane(k, n)`. Lanes
are remembered by name and go where the name goes: through branches, loops and helpers.

Invariant: the lanes of a name are what it holds now. Where ways meet, only what they agree on is kept; at the head of a
loop nothing is known of the lanes of what the loop assigns; and a lane expression mentions no variable that may change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_casts import is_wide
from tilecheck.frontend.cutile_lanes import told_apart
from tilecheck.frontend.cutile_values import Tile, View, axes_of, met, rebuilt, same_lanes, texts
from tilecheck.frontend.numba_inline import Lowering
from tilecheck.frontend.numba_loops import assigned_below
from tilecheck.frontend.scopes import FunctionValue
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    Do,
    Expr,
    Item,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Return,
    Select,
    Stmt,
    TupleExpr,
    Unary,
    walk,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Atomic, Load, ThreadVar


class TileNames(Lowering):
    """Lowering of names, assignments and the results of helpers; functions and memory are left to subclasses.

    `changing` are arrays that the kernel writes, whose loaded elements are therefore not remembered.
    """

    def __init__(self, kernel: FunctionValue, changing: frozenset[str] = frozenset()) -> None:
        super().__init__(kernel)
        self.kinds: dict[str, str] = {}
        self.changing = changing
        # Arrays whose elements some lane expression reads.
        self.remembered_arrays: set[str] = set()
        # Parameters that are extents of tiles.
        self.extent_names: set[str] = set()
        # Names of 64-bit values, and the axes of the grid that the kernel asks for its place on.
        self.wide_names: set[str] = set()
        self.numbered: dict[str, ThreadVar] = {}
        self._views: dict[str, View] = {}
        self._made: list[View] = []
        # Names that are others' for good, such as parameters of helpers, so that equal extents read the same.
        self._aliases: dict[str, str] = {}
        self._tiles: dict[str, Tile] = {}
        # Opaque tile values and what is known of them; nodes compare by identity.
        self._values: dict[Node, Tile] = {}

    # ---- assignment

    def emit(self, statement: Stmt) -> None:
        if isinstance(statement, Assign) and is_wide(statement.value, self.wide_names):
            self.wide_names.add(statement.target)
        super().emit(statement)

    def assign(self, name: str, value: Expr, span: Span) -> None:
        tile, view = self.tile_of(value), self.view_value(value)
        for table in (self._views, self._tiles):
            table.pop(name, None)
        if view is not None:
            self._views[name] = view
            self.kinds.setdefault(name, "view")
            return
        if tile is None:
            self._aliases.pop(name, None)
            if isinstance(value, Name) and self._bound_once(name) and self._bound_once(value.id):
                self._aliases[name] = self._aliases.get(value.id, value.id)
            super().assign(name, value, span)
            return
        self._tiles[name] = replace(tile, lanes=self._fixed(tile.lanes))
        super().assign(name, Opaque("a tile", span=span), span)

    def _fixed(self, lanes: Expr | None) -> Expr | None:
        """`lanes` without variables that may change: those are copied here and now."""
        if lanes is None:
            return None

        def copied(name: Name) -> Expr:
            if self._bound_once(name.id):
                return name
            copy = self.fresh()
            self.emit(Assign(copy, name, span=name.span))
            return Name(copy, span=name.span)

        return rebuilt(lanes, lambda node: copied(node) if isinstance(node, Name) else None)

    def _bound_once(self, name: str) -> bool:
        own = name.removeprefix(self.frame.prefix)
        return name.startswith(("%", "::")) or self.frame.usage.assigned.get(own, 1) == 1

    def fixed(self, value: Expr) -> Expr:
        """`value` under a name that nobody assigns again."""
        named = self.named(value)
        found = self._fixed(named)
        assert found is not None
        return found

    def called(self, value: Expr) -> Expr:
        """A name by the one it is another word for."""
        if isinstance(value, Name) and value.id in self._aliases:
            return replace(value, id=self._aliases[value.id])
        return value

    # ---- views

    def view_value(self, value: Expr) -> View | None:
        """The view that an expression stands for."""
        if isinstance(value, Name):
            return self._views.get(value.id)
        if isinstance(value, OpCall) and value.op == "view":
            place = value.args[0]
            assert isinstance(place, Const) and isinstance(place.value, int)
            return self._made[place.value]
        return None

    def made_view(self, view: View, span: Span) -> Expr:
        """An expression that stands for `view`."""
        self._made.append(view)
        return OpCall("view", (Const(len(self._made) - 1, span=span),), span=span)

    # ---- what is known of a value

    def tile_of(self, value: Expr) -> Tile | None:
        """What is known of `value` if it is a tile, None if it is a scalar."""
        parts: tuple[Expr, ...]
        match value:
            case Opaque():
                return self._values.get(value, Tile(None))
            case Name(id=name):
                return self._tiles.get(name)
            case OpCall(op="lane" | "lane64", args=(Const(value=axis), size)):
                assert isinstance(axis, int)
                one = Const(1, span=value.span)
                return Tile((size, *[one] * (axis - 1)), lanes=value)
            case Binary(left=left, right=right) | Compare(left=left, right=right):
                parts = (left, right)
            case Unary(operand=operand):
                parts = (operand,)
            case Logic(operands=operands):
                parts = operands
            case Select(cond=cond, then=then, other=other):
                parts = (cond, then, other)
            case OpCall(args=args):
                parts = args
            case _:
                return None
        tiles = [self.tile_of(part) for part in parts]
        found = met(tiles)
        if found is None:
            return None
        if isinstance(value, Select) and tiles[0] is not None:
            # A mask picks the lanes: those that hang over an edge are taken for dropped.
            found = replace(found, loaded=tiles[0].loaded)
        if not isinstance(value, Binary | Unary):
            found = replace(found, kind=None)
        lanes = [part if tile is None else tile.lanes for part, tile in zip(parts, tiles, strict=True)]
        known = [lane for lane in lanes if lane is not None]
        return replace(found, lanes=same_lanes(value, known) if len(known) == len(lanes) else None)

    def tile_value(self, span: Span, tile: Tile, why: str = "a tile") -> Expr:
        """A value of which `tile` is known."""
        value = Opaque(why, span=span)
        self._values[value] = tile
        return value

    def scalar(self, value: Expr) -> bool:
        """Whether `value` is a scalar that is known as an expression."""
        return self.tile_of(value) is None and not any(
            isinstance(n, Opaque) or (isinstance(n, OpCall) and n.op == "view") for n in walk(value)
        )

    def count_bits(self, place: Expr) -> None:
        """Leave in the kernel that an index is computed in 32 bits."""
        if not isinstance(place, Const | Opaque) and not any(isinstance(part, Load | Atomic) for part in walk(place)):
            self.emit(Do(OpCall("fits_int32", (place,), span=place.span), span=place.span))

    def lanes_meet(self, items: tuple[Expr | None, ...], operand: Expr, span: Span) -> None:
        """Leave in the kernel that two lanes of a scatter may write different values to one element."""
        known = tuple(item for item in items if item is not None)
        tile = self.tile_of(operand)
        lanes = tile.lanes if tile is not None else None
        same = tile is None or (lanes is not None and (not axes_of(lanes) or show(lanes) in map(show, known)))
        if not same and len(known) == len(items) and not told_apart(known):
            loads = any(isinstance(part, Load) for part in walk(*known))
            self.emit(Do(OpCall("lanes_apart", () if loads else known, span=span), span=span))

    # ---- where ways part and meet

    def remembered(self) -> tuple[dict[str, Any], ...]:
        return (*super().remembered(), dict(self._views), dict(self._tiles))

    def recall(self, tables: tuple[dict[str, Any], ...]) -> None:
        super().recall(tables[:1])
        self._views, self._tiles = dict(tables[1]), dict(tables[2])

    def meet(self, tables: tuple[dict[str, Any], ...]) -> None:
        super().meet(tables[:1])
        views, tiles = tables[1], tables[2]
        self._views = {name: view for name, view in self._views.items() if views.get(name) is view}
        both = {**tiles, **self._tiles}
        self._tiles = {name: _either(tiles.get(name), self._tiles.get(name)) for name in both}

    def _forget(self, node: cst.While | cst.For) -> None:
        super()._forget(node)
        for own in assigned_below(node):
            name = self.local(own) or own
            self._views.pop(name, None)
            if name in self._tiles:
                self._tiles[name] = replace(self._tiles[name], lanes=None)

    # ---- results of helpers

    def _know_result(self, result: str, body: list[Stmt]) -> None:
        """A helper with one return, at its end: what is known of its value is known of the call."""
        super()._know_result(result, body)
        last = body[-1] if body else None
        if not isinstance(last, Return) or last.value is None or sum(isinstance(n, Return) for n in walk(*body)) > 1:
            return
        value, span = last.value, last.span
        items = self.tuple_items(value)
        if items is None:
            self._pass_on(result, value)
            return
        parts: list[Expr] = []
        for index, item in enumerate(items):
            part = f"{result}.{index}"
            self.emit(Assign(part, Item(Name(result, span=span), Const(index, span=span), span=span), span=span))
            self._pass_on(part, item)
            parts.append(Name(part, span=span))
        self.known[result] = TupleExpr(tuple(parts), span=span)

    def _pass_on(self, name: str, value: Expr) -> None:
        tile, view = self.tile_of(value), self.view_value(value)
        for table in (self._views, self._tiles):
            table.pop(name, None)
        if view is not None:
            self._views[name] = view
        elif tile is not None:
            self._tiles[name] = tile


def _either(one: Tile | None, other: Tile | None) -> Tile:
    """What is known of a tile that comes from one way or the other."""
    if one is other and one is not None:
        return one
    if one is None or other is None:
        found = one or other
        assert found is not None
        return replace(found, lanes=None)
    loaded = one.loaded if one.loaded is not None else other.loaded
    kind = one.kind if one.kind == other.kind else None
    return Tile(one.shape if texts(one.shape) == texts(other.shape) else None, loaded, kind=kind)
