"""Names and functions of cuTile kernels: what is a tile, of which shape, and where it came from.

Every value is a scalar expression, a tile of indices, or an opaque tile with a shape; a function of tiles computes the shape
of its result. A shape that cannot be told is None, and a store of such a tile is not read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_values import Loaded, Tile, View, ceil_div, has_lanes, is_one, met, moved, texts
from tilecheck.frontend.numba_inline import Lowering
from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Ref
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    Do,
    Expr,
    Extent,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Select,
    Stmt,
    Unary,
    walk,
)
from tilecheck.ir.simt import Axis, ThreadVar

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


class TileFunctions(Lowering):
    """Lowering of names, views and tile functions; memory is left to the subclass."""

    def __init__(self, kernel: FunctionValue) -> None:
        super().__init__(kernel)
        self.kinds: dict[str, str] = {}
        self._views: dict[str, View] = {}
        self._made: list[View] = []
        self._depth = 0
        self._lanes: dict[str, Expr] = {}
        self._tiles: dict[str, Tile] = {}
        # Opaque tile values and what is known of them; nodes compare by identity.
        self._values: dict[Node, Tile] = {}

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        self._depth += 1
        with super().block() as statements:
            yield statements
        self._depth -= 1

    def wide(self) -> tuple[str, ...]:
        """The scalar parameters of 64 bits."""
        return tuple(sorted(name for name, kind in self.kinds.items() if kind == "int64"))

    # ---- memory, in the subclass

    @abstractmethod
    def load(self, node: cst.Call, span: Span) -> Expr:
        """`ct.load(array, index, shape)`."""

    @abstractmethod
    def write(self, node: cst.Call, span: Span) -> None:
        """`ct.store(array, index, tile)`."""

    @abstractmethod
    def view_access(self, name: str, view: View, node: cst.Call, span: Span) -> Expr:
        """`load`, `store`, `num_tiles` and atomic stores of a tiled view."""

    @abstractmethod
    def by_element(self, name: str, node: cst.Call, span: Span) -> Expr:
        """`gather`, `scatter` and the atomics."""

    # ---- names that stand for views, lanes and loads

    def assign(self, name: str, value: Expr, span: Span) -> None:
        before, tile = self._tiles.get(name), self.tile_of(value)
        for table in (self._views, self._lanes, self._tiles):
            table.pop(name, None)
        if isinstance(value, OpCall) and value.op == "view":
            self._views[name] = self._made_view(value)
            return
        if has_lanes(value):
            self._lanes[name] = value
            self.emit(Assign(name, Opaque("a tile of indices", span=span), span=span))
            return
        if tile is not None:
            # In a branch or a loop another value may arrive here by another way, so the shapes have to agree.
            same = before is None or self._depth == 0 or texts(before.shape) == texts(tile.shape)
            self._tiles[name] = tile if same else Tile(None, tile.loaded)
        super().assign(name, value, span)

    def _view_value(self, view: View, span: Span) -> Expr:
        self._made.append(view)
        return OpCall("view", (Const(len(self._made) - 1, span=span),), span=span)

    def _made_view(self, value: OpCall) -> View:
        place = value.args[0]
        assert isinstance(place, Const) and isinstance(place.value, int)
        return self._made[place.value]

    def tile_of(self, value: Expr) -> Tile | None:
        """What is known of `value` if it is a tile, None if it is a scalar."""
        match value:
            case Opaque():
                return self._values.get(value, Tile(None))
            case Name(id=name):
                if name in self._lanes:
                    return self.tile_of(self._lanes[name])
                return self._tiles.get(name)
            case OpCall(op="lane" | "lane64", args=(Const(value=axis), size)):
                assert isinstance(axis, int)
                one = Const(1, span=value.span)
                return Tile((size, *[one] * (axis - 1)))
            case Binary(left=left, right=right) | Compare(left=left, right=right):
                return met([self.tile_of(left), self.tile_of(right)])
            case Unary(operand=operand):
                return self.tile_of(operand)
            case Logic(operands=operands):
                return met([self.tile_of(o) for o in operands])
            case Select(then=then, other=other):
                return met([self.tile_of(then), self.tile_of(other)])
            case OpCall(args=args):
                return met([self.tile_of(a) for a in args])
        return None

    def _tile_value(
        self,
        span: Span,
        shape: tuple[Expr, ...] | None,
        loaded: Loaded | None = None,
        why: str = "a tile",
    ) -> Expr:
        value = Opaque(why, span=span)
        self._values[value] = Tile(shape, loaded)
        return value

    def scalar(self, value: Expr) -> bool:
        """Whether `value` is a scalar that is known as an expression."""
        return self.tile_of(value) is None and not any(
            isinstance(n, Opaque) or (isinstance(n, OpCall) and n.op == "view") for n in walk(value)
        )

    def _name(self, node: cst.Name, span: Span) -> Expr:
        name = self.local(node.value)
        if name is not None and name in self._lanes:
            return self._lanes[name]
        return super()._name(node, span)

    def view_of(self, node: cst.BaseExpression) -> View:
        """The array or view that an expression names."""
        value = self.array(node)
        if isinstance(value, OpCall) and value.op == "view":
            return self._made_view(value)
        if isinstance(value, Name) and value.id in self._views:
            return self._views[value.id]
        if isinstance(value, Name):
            self.kinds.setdefault(value.id, "array")
        return View(value)

    # ---- calls

    def _library(self, path: str, node: cst.Call, span: Span) -> Expr:
        head, _, name = path.rpartition(".")
        if head == _MODULE:
            return self._ct(name, node, span)
        return super()._library(path, node, span)

    def _method(self, func: cst.Attribute, node: cst.Call, span: Span) -> Expr:
        name = func.attr.value
        if name == "tiled_view":
            given = self._given(node, "tile_shape")
            view = self.view_of(func.value)
            tile = self.extents(given.get("tile_shape"))
            steps = self.extents(given.get("traversal_steps")) or tile
            return self._view_value(replace(view, tile=tile, steps=steps, padded=self.pads(given)), span)
        if name == "slice":
            given = self._given(node, "axis", "start", "stop")
            axis = self.static(given["axis"]) if "axis" in given else UNKNOWN
            view = self.view_of(func.value)
            if isinstance(axis, int) and "start" in given:
                start = self.named(self.expr(given["start"]))
                return self._view_value(replace(view, starts=(*view.starts, (axis, start))), span)
        if name in ("load", "store", "num_tiles") or name.startswith("atomic_store"):
            view = self.view_of(func.value)
            if view.tile is not None:
                return self.view_access(name, view, node, span)
        receiver = self.expr(func.value)
        return self._tile_function(name, [receiver, *self._operands(node)], node, span, skip=1)

    def _ct(self, name: str, node: cst.Call, span: Span) -> Expr:
        if name in ("bid", "num_blocks"):
            given = self._given(node, "axis")
            axis = self.static(given["axis"]) if "axis" in given else UNKNOWN
            if axis not in (0, 1, 2):
                return Opaque(f"`ct.{name}` of an axis that is not constant", span=span)
            assert isinstance(axis, int)
            return ThreadVar("blockIdx" if name == "bid" else "gridDim", _AXES[axis], span=span)
        if name == "cdiv":
            a, b = self.arguments(node)
            return ceil_div(a, b, span)
        if name == "num_tiles":
            given = self._given(node, "array", "axis", "shape")
            axis, shape = self.static(given["axis"]), self.extents(given.get("shape"))
            if isinstance(axis, int) and shape is not None and axis < len(shape):
                return ceil_div(Extent(self.view_of(given["array"]).array, axis, span=span), shape[axis], span)
        if name == "load":
            return self.load(node, span)
        if name == "store":
            self.write(node, span)
            return Const(None, span=span)
        if name in ("gather", "scatter") or name in _RMW:
            return self.by_element(name, node, span)
        if name == "arange":
            given = self._given(node, "size")
            return self._arange(given, span)
        return self._tile_function(name, self._operands(node), node, span)

    def _arange(self, given: dict[str, cst.BaseExpression], span: Span) -> Expr:
        size = self.expr(given["size"])
        start = self.expr(given["start"]) if "start" in given else None
        step = self.expr(given["step"]) if "step" in given else None
        kind = self.static(given["dtype"]) if "dtype" in given else UNKNOWN
        wide = isinstance(kind, Ref) and kind.path.endswith("int64")
        lane: Expr = OpCall("lane64" if wide else "lane", (Const(1, span=span), size), span=span)
        if step is not None:
            lane = Binary("*", lane, step, span=span)
        return lane if start is None else Binary("+", start, lane, span=span)

    def _tile_function(self, name: str, values: list[Expr], node: cst.Call, span: Span, skip: int = 0) -> Expr:
        """A function of tiles without effect on memory; `skip` positions of `values` are not in the call."""
        given = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
        plain = [a.value for a in node.args if a.keyword is None]

        def argument(place: int, key: str) -> cst.BaseExpression | None:
            return plain[place - skip] if 0 <= place - skip < len(plain) else given.get(key)

        first = self.tile_of(values[0]) if values else None
        if name in _SAME_LANES and values and (has_lanes(values[0]) or self.scalar(values[0])):
            wide = any("int64" in str(self.static(a.value)) for a in node.args)
            return OpCall("int64", (values[0],), span=span) if wide else values[0]
        if values and has_lanes(values[0]) and name in ("expand_dims", "reshape"):
            return self._replaced(name, values[0], argument(1, "shape" if name == "reshape" else "axis"), span)
        if name in ("minimum", "maximum") and len(values) == 2 and all(map(self.scalar, values)):
            return OpCall(name[:3], tuple(values), span=span)
        if name == "where" and len(values) == 3 and all(map(self.scalar, values)):
            return Select(values[0], values[1], values[2], span=span)
        if name in ("mma", "matmul") and len(values) > 1:
            self._mixed(values[0], -1, span)
            self._mixed(values[1], -2, span)
            left, right = first, self.tile_of(values[1])
            known = left is not None and right is not None and left.shape and right.shape
            shape = (*left.shape[:-1], right.shape[-1]) if known else None  # type: ignore[index, union-attr]
            return self._tile_value(span, shape)
        if name in _REDUCTIONS and values:
            return self._reduction(name, values[0], argument(1, "axis"), given.get("keepdims"), span)
        if name in ("zeros", "ones", "full"):
            return self._tile_value(span, self.extents(argument(0, "shape")))
        if name in ("reshape", "broadcast_to"):
            return self._tile_value(span, self.extents(argument(1, "shape")))
        if name == "extract":
            return self._tile_value(span, self.extents(argument(2, "shape")))
        if name in ("transpose", "permute"):
            return self._tile_value(span, self._permuted(name, first, argument(1, "axes")))
        if name in ("cat", "expand_dims", "item"):
            return self._tile_value(span, () if name == "item" else None)
        found = met([self.tile_of(v) for v in values])
        if found is None:
            return OpCall(name, tuple(values), span=span) if values else Opaque(f"`ct.{name}`", span=span)
        return self._tile_value(span, found.shape, None if name == "where" else found.loaded)

    def _operands(self, node: cst.Call) -> list[Expr]:
        """The arguments that are values; dtypes and modes are not."""
        return self.in_order([self._argument(a.value) for a in node.args if not self._names_no_value(a.value)])

    def _names_no_value(self, node: cst.BaseExpression) -> bool:
        if isinstance(self.static(node), Ref):
            return True
        return isinstance(node, cst.Attribute) and node.attr.value == "dtype"

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
            return self._tile_value(span, tile.shape)
        if tile.shape is None or (axis is not None and given is not None and at is None):
            return self._tile_value(span, None)
        kept = isinstance(keep, cst.Name) and keep.value == "True"
        one = Const(1, span=span)
        axes = range(len(tile.shape)) if at is None else (at % len(tile.shape),)
        shape = tuple(one if k in axes else e for k, e in enumerate(tile.shape) if kept or k not in axes)
        return self._tile_value(span, shape)

    def _replaced(self, name: str, value: Expr, argument: cst.BaseExpression | None, span: Span) -> Expr:
        """`reshape` or `expand_dims` of a tile of indices: its one long axis goes elsewhere."""
        if name == "expand_dims":
            axis = self.static(argument) if argument is not None else UNKNOWN
            return moved(value, 1) if axis in (-1, 1) else value
        return self._reshaped(value, self.extents(argument), span)

    def _reshaped(self, value: Expr, shape: tuple[Expr, ...] | None, span: Span) -> Expr:
        wide = [] if shape is None else [k for k, e in enumerate(shape) if not is_one(e)]
        if shape is None or len(wide) != 1:
            return self._tile_value(span, shape, why="a reshaped tile of indices")
        return moved(value, len(shape) - 1 - wide[0])

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
        """`t[:, None]` of a tile of indices moves its axis; other subscripts are of arrays' shapes and tuples."""
        base = self.expr(node.value) if isinstance(node.value, cst.Name) else None
        if base is not None and has_lanes(base):
            places = [e.slice for e in node.slice]
            news = [
                k
                for k, e in enumerate(places)
                if isinstance(e, cst.Index) and isinstance(e.value, cst.Name) and e.value.value == "None"
            ]
            if len(places) == 2 and len(news) == 1:
                return moved(base, 1) if news == [1] else base
            return self._tile_value(span, None, why="a subscript of a tile of indices")
        return super()._subscript(node, span, view=view)

    def extents(self, node: cst.BaseExpression | None) -> tuple[Expr, ...] | None:
        """A shape argument as extents, None if there is none."""
        if node is None:
            return None
        value = self.expr(node)
        items = self.tuple_items(value)
        return items if items is not None else (value,)

    def pads(self, given: Mapping[str, cst.BaseExpression]) -> bool:
        """Whether a padding mode other than the undetermined default is given."""
        node = given.get("padding_mode")
        if node is None:
            return False
        mode = self.static(node)
        return not (isinstance(mode, Ref) and mode.path.endswith("UNDETERMINED"))
