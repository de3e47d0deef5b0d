"""Functions of cuTile kernels: what a tile function or method makes of its operands, without touching memory.

Every value is a scalar expression or an opaque tile with a shape and, where it matters, lanes; a function of tiles
computes the shape of its result. A shape that cannot be told is None, and a store of such a tile is not read. A function
that is not in the tables below may do anything: the call is not read, with its line as the reason.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.cutile_arguments import lacking, required
from tilecheck.frontend.cutile_casts import cast, narrowed_lanes
from tilecheck.frontend.cutile_shapes import TileShapes
from tilecheck.frontend.cutile_values import Tile, View, ceil_div, met
from tilecheck.frontend.numba_build import names_in
from tilecheck.frontend.scopes import UNKNOWN, Ref
from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    Expr,
    Extent,
    Name,
    Opaque,
    OpCall,
    Select,
)
from tilecheck.ir.simt import Axis, ThreadVar

_AXES: tuple[Axis, ...] = ("x", "y", "z")
_MODULE: Final = "cuda.tile"
RMW: Final = {
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
_SAME_LANES: Final = frozenset({"astile", "ensure_constant", "assume_divisible_by", "static_eval"})
# Functions by the number of operands that are values; the others are shapes, axes, dtypes and modes.
_NULLARY: Final = ("zeros", "ones", "full")
_UNARY: Final = (
    *("astype", "astile", "ensure_constant", "assume_divisible_by", "static_eval", "bitcast", "item"),
    *(
        "reshape",
        "broadcast_to",
        "permute",
        "transpose",
        "expand_dims",
        "extract",
        "pack_to_bytes",
        "unpack_from_bytes",
    ),
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil"),
    *("abs", "negative", "isnan", "bitwise_not", "cat"),
    *_REDUCTIONS,
)
_BINARY: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "atan2", "minimum", "maximum", "cdiv"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_lshift", "bitwise_rshift", "matmul"),
    *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
)
_OPERANDS: Final = {
    **dict.fromkeys(_NULLARY, 0),
    **dict.fromkeys(_UNARY, 1),
    **dict.fromkeys(_BINARY, 2),
    "where": 3,
    "mma": 3,
    "insert": 3,
    "mma_scaled": 5,
}
# The operators behind functions, where lanes are followed.
_OPERATORS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_lshift": "<<",
    "bitwise_rshift": ">>",
}
_COMPARISONS: Final = {
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "equal": "==",
    "not_equal": "!=",
}
# Calls without a value and without an effect on memory.
_SILENT: Final = frozenset(
    {"print", "printf", "assert_", "static_assert", "grid_dependency_control_wait"}
    | {"grid_dependency_control_launch_dependents"}
)


class TileFunctions(TileShapes):
    """Lowering of views and tile functions; memory is left to the subclass."""

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

    def view_of(self, node: cst.BaseExpression) -> View:
        """The array or view that an expression names."""
        value = self.array(node)
        view = self.view_value(value)
        if view is not None:
            return view
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
            tile = self.shape_of(given.get("tile_shape"), span)
            steps = self.extents(given.get("traversal_steps")) or tile
            return self.made_view(replace(view, tile=tile, steps=steps, padded=self.pads(given)), span)
        if name == "slice":
            return self._slice_of(func, node, span)
        if name in ("load", "store", "num_tiles") or name.startswith("atomic_store"):
            view = self.view_of(func.value)
            names = {"num_tiles": ("axis",), "store": ("index", "tile")}.get(name, ("index",))
            lacks = lacking(self._given(node, *names), names)
            if view.tile is not None and lacks:
                return self.unread_call(f".{name}", node, span, lacks)
            if view.tile is not None:
                return self.view_access(name, view, node, span)
        if name not in _OPERANDS:
            return self.unread_call(f".{name}", node, span)
        receiver = self.expr(func.value)
        return self._tile_function(name, [receiver, *self._operands(name, node, 1)], node, span, skip=1)

    def _slice_of(self, func: cst.Attribute, node: cst.Call, span: Span) -> Expr:
        given = self._given(node, "axis", "start", "stop")
        axis = self.static(given["axis"]) if "axis" in given else UNKNOWN
        view = self.view_of(func.value)
        if not isinstance(axis, int) or "start" not in given or "stop" not in given or axis < 0:
            return self.unread_call(".slice", node, span)
        start, stop = (self.fixed(self.expr(given[key])) for key in ("start", "stop"))
        cuts = dict(view.cuts)
        if axis in cuts:
            inner = cuts[axis][0]
            start, stop = (self.fixed(Binary("+", inner, part, span=span)) for part in (start, stop))
        cuts[axis] = (start, stop)
        return self.made_view(replace(view, cuts=tuple(sorted(cuts.items()))), span)

    def extent_of(self, view: View, axis: int, span: Span) -> Expr:
        """How far a view reaches along an axis of its array."""
        cut = dict(view.cuts).get(axis)
        return cut[1] if cut is not None else Extent(view.array, axis, span=span)

    def length_of(self, view: View, axis: int, span: Span) -> Expr:
        """How many elements a view has along an axis."""
        cut = dict(view.cuts).get(axis)
        end = self.extent_of(view, axis, span)
        return end if cut is None else Binary("-", end, cut[0], span=span)

    def _attribute(self, node: cst.Attribute, span: Span) -> Expr:
        """`view.shape` of a slice is the slice's."""
        if node.attr.value == "shape" and isinstance(node.value, cst.Name):
            view = self.view_value(Name(self.local(node.value.value) or node.value.value, span=span))
            if view is not None and view.cuts and view.tile is None:
                return OpCall("shape_of_slice", (self.made_view(view, span),), span=span)
        return super()._attribute(node, span)

    def _shape_item(self, node: cst.Subscript, span: Span) -> Expr | None:
        base, element = node.value, node.slice[0].slice
        if isinstance(base, cst.Attribute) and base.attr.value == "shape" and isinstance(element, cst.Index):
            whole, index = self.expr(base), self.static(element.value)
            if isinstance(whole, OpCall) and whole.op == "shape_of_slice" and isinstance(index, int) and index >= 0:
                view = self.view_value(whole.args[0])
                assert view is not None
                return self.length_of(view, index, span)
            tile = self.tile_of(self.expr(base.value)) if not isinstance(whole, OpCall) else None
            if tile is not None and tile.shape is not None and isinstance(index, int):
                return tile.shape[index]
        return super()._shape_item(node, span)

    def _ct(self, name: str, node: cst.Call, span: Span) -> Expr:
        names = required(name)
        if lacking(self._given(node, *names), names):
            return self.unread_call(f"ct.{name}", node, span, lacking(self._given(node, *names), names))
        if name in ("bid", "num_blocks"):
            given = self._given(node, "axis")
            axis = self.static(given["axis"]) if "axis" in given else UNKNOWN
            if axis not in (0, 1, 2):
                return self.unread_call(f"ct.{name}", node, span)
            assert isinstance(axis, int)
            found = ThreadVar("blockIdx" if name == "bid" else "gridDim", _AXES[axis], span=span)
            self.numbered.setdefault(_AXES[axis], found)
            return found
        if name == "num_tiles":
            given = self._given(node, "array", "axis", "shape")
            axis, shape = self.static(given["axis"]), self.extents(given.get("shape"))
            view = self.view_of(given["array"])
            if isinstance(axis, int) and shape is not None and 0 <= axis < len(shape):
                order = self.order(given.get("order"), len(shape))
                return ceil_div(self.length_of(view, order[axis], span), shape[axis], span)
            return self.unread_call("ct.num_tiles", node, span)
        if name == "load":
            return self.load(node, span)
        if name == "store":
            self.write(node, span)
            return Const(None, span=span)
        if name in ("gather", "scatter", "load_advanced_indexing", "store_advanced_indexing") or name in RMW:
            return self.by_element(name, node, span)
        if name == "arange":
            given = self._given(node, "size")
            return self._arange(given, span)
        if name in _SILENT:
            for argument in node.args:
                self.expr(argument.value)
            return Const(None, span=span)
        if name not in _OPERANDS:
            return self.unread_call(f"ct.{name}", node, span)
        return self._tile_function(name, self._operands(name, node, 0), node, span)

    def unread_call(
        self, name: str, node: cst.Call, span: Span, lacks: str | None = None, *, receiver: Expr | None = None
    ) -> Expr:
        """A call that could not be read; what it may touch are its arguments, the arrays behind views included.

        `lacks` is the argument that it should have been given.
        """
        values = [self.array(argument.value) for argument in node.args]
        if receiver is not None:
            values.append(receiver)
        elif isinstance(node.func, cst.Attribute) and not isinstance(self.static(node.func.value), Ref):
            values.append(self.array(node.func.value))
        views = [self.view_value(value) for value in values]
        touched = [value if view is None else view.array for value, view in zip(values, views, strict=True)]
        why = "which could not be read" if lacks is None else f"without its argument `{lacks}`"
        self.unread(f"calls `{name}`, {why}", span, names_in(*touched), barrier=False)
        return Opaque(f"the result of `{name}`", span=span)

    def _range(self, node: cst.BaseExpression) -> tuple[Expr, Expr, Expr] | None:
        """`ct.static_iter(range(...))` runs over the range, unrolled or not."""
        if (
            isinstance(node, cst.Call)
            and self.static(node.func) == Ref(f"{_MODULE}.static_iter")
            and len(node.args) == 1
        ):
            return super()._range(node.args[0].value)
        return super()._range(node)

    def order(self, node: cst.BaseExpression | None, rank: int) -> tuple[int, ...]:
        """Which axis of the array each axis of a tile is."""
        folded = self.static(node) if node is not None else "C"
        if isinstance(folded, tuple) and all(isinstance(a, int) for a in folded):
            return tuple(int(a) % rank for a in folded if isinstance(a, int))
        return tuple(reversed(range(rank))) if folded == "F" else tuple(range(rank))

    def _arange(self, given: dict[str, cst.BaseExpression], span: Span) -> Expr:
        size = self.expr(given["size"])
        self._extents_at((self.called(size),), span)
        start = self.expr(given["start"]) if "start" in given else None
        step = self.expr(given["step"]) if "step" in given else None
        kind = self.static(given["dtype"]) if "dtype" in given else UNKNOWN
        wide = isinstance(kind, Ref) and kind.path.endswith("int64")
        lane: Expr = OpCall("lane64" if wide else "lane", (Const(1, span=span), size), span=span)
        if step is not None:
            lane = Binary("*", lane, step, span=span)
        if start is not None:
            lane = Binary("+", start, lane, span=span)
        kept = narrowed_lanes(lane, self.kind_of(given.get("dtype")))
        return lane if kept is not None else self.tile_value(span, Tile((size,)), "lanes that may wrap")

    def _cast(self, value: Expr, kind: str | None, span: Span) -> Expr:
        """`astype`: every lane, or the scalar, wraps in the new dtype."""
        tile = self.tile_of(value)
        if tile is not None:
            lanes = None if tile.lanes is None else cast(tile.lanes, kind, self.wide_names)
            return self.tile_value(span, replace(tile, lanes=lanes, kind=kind))
        found = cast(value, kind, self.wide_names)
        return found if found is not None else self.tile_value(span, Tile(()), f"a cast to {kind or 'some dtype'}")

    def _tile_function(self, name: str, values: list[Expr], node: cst.Call, span: Span, skip: int = 0) -> Expr:
        """A function of tiles without effect on memory; `skip` positions of `values` are not in the call."""
        given = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
        plain = [a.value for a in node.args if a.keyword is None]

        def argument(place: int, key: str) -> cst.BaseExpression | None:
            return plain[place - skip] if 0 <= place - skip < len(plain) else given.get(key)

        lacks = len(values) < _OPERANDS[name]
        if lacks and (not given or not values or name == "mma_scaled"):
            return self.tile_value(span, Tile(None), f"`ct.{name}` without an argument")
        first = self.tile_of(values[0]) if values else None
        if name == "astype" and values:
            return self._cast(values[0], self.kind_of(argument(1, "dtype")), span)
        if name in _SAME_LANES and values:
            return values[0]
        scalars = bool(values) and all(self.tile_of(v) is None for v in values)
        if name == "cdiv" and len(values) == 2:
            return ceil_div(values[0], values[1], span)
        if name in _OPERATORS and len(values) == 2:
            return Binary(_OPERATORS[name], values[0], values[1], span=span)  # type: ignore[arg-type]
        if name in _COMPARISONS and len(values) == 2:
            return Compare(_COMPARISONS[name], values[0], values[1], span=span)  # type: ignore[arg-type]
        if name in ("minimum", "maximum") and len(values) == 2:
            return OpCall(name[:3], tuple(values), span=span)
        if name == "where" and len(values) == 3:
            return Select(values[0], values[1], values[2], span=span)
        if name in ("mma", "matmul", "mma_scaled") and len(values) > 1:
            second = values[1] if name != "mma_scaled" else values[2]
            self._mixed(values[0], -1, span)
            self._mixed(second, -2, span)
            sums = self.tile_of(values[2]) if name == "mma" and len(values) > 2 else None
            kind = sums.kind if sums is not None else None
            return self.tile_value(span, Tile(self._product(first, self.tile_of(second)), kind=kind))
        if name in _REDUCTIONS and values:
            return self._reduction(name, values[0], argument(1, "axis"), given.get("keepdims"), span)
        if name in _NULLARY:
            dtype = argument(2 if name == "full" else 1, "dtype")
            return self._filled(name, argument(0, "shape"), argument(1, "fill_value"), dtype, span)
        if name in ("reshape", "broadcast_to"):
            return self._reshaped(name, values[0], self.shape_of(argument(1, "shape"), span), span)
        if name == "extract":
            return self.tile_value(span, Tile(self.shape_of(argument(2, "shape"), span)))
        if name in ("transpose", "permute"):
            return self.tile_value(span, Tile(self._permuted(name, first, argument(1, "axes"))))
        if name == "expand_dims":
            axis = argument(1, "axis")
            return self._expanded(values[0], self.static(axis) if axis is not None else UNKNOWN, span)
        if name == "cat":
            return self._joined(values[0], argument(1, "axis"), span)
        if name == "insert" and first is not None:
            return self.tile_value(span, Tile(first.shape))
        if name == "item":
            return first.lanes if first is not None and first.lanes is not None else self.tile_value(span, Tile(()))
        found = met([self.tile_of(v) for v in values])
        if scalars or found is None:
            return OpCall(name, tuple(values), span=span) if values else Opaque(f"`ct.{name}`", span=span)
        return self.tile_value(span, Tile(found.shape, found.loaded))

    def _operands(self, name: str, node: cst.Call, skip: int) -> list[Expr]:
        """The arguments that are values; shapes, axes, dtypes and modes are not."""
        plain = [a.value for a in node.args if a.keyword is None]
        return self.in_order([self._argument(a) for a in plain[: _OPERANDS[name] - skip]])

    def pads(self, given: Mapping[str, cst.BaseExpression]) -> bool:
        """Whether a padding mode other than the undetermined default is given."""
        node = given.get("padding_mode")
        if node is None:
            return False
        mode = self.static(node)
        return not (isinstance(mode, Ref) and mode.path.endswith("UNDETERMINED"))
