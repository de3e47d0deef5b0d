"""cuTile Python kernels of a file: `@ct.kernel` functions, lowered to the thread-level IR with one thread per block.

What cuTile calls a block is one logical thread, so a kernel becomes a SIMT kernel whose blocks have a single thread and
whose only parallelism is between blocks. A tile load or store is a loop over the tile's elements, clipped at the array's
edge as cuTile clips it; its first element is touched without the clip, so a tile that lies wholly outside is out of
bounds. The race prover, the replay and every rule then work unchanged.

Values of tiles are opaque. Tiles of indices are not: `ct.arange` is a `lane` of an axis, arithmetic on lanes is kept, and
a gather, scatter or atomic loops over the lanes of its index.

    ct.store(z, index=(b,), tile=t)  with TILE = 64   ->   for %e in range(64): if b*64 + %e < z.shape[0]: z[b*64 + %e] = t

Two things that only tiles have stay in the IR as effectless calls, for `verify/cutile.py`: `whole_tiles(extent, tile)`
where a load without padding is mixed along an axis, and `fits_int32(value)` for 32-bit index arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.fold import fold
from tilecheck.frontend.launch_run import HostRun
from tilecheck.frontend.launches import Launch, seen_launches
from tilecheck.frontend.numba import walk_scopes
from tilecheck.frontend.numba_exprs import names_in
from tilecheck.frontend.numba_inline import Lowering
from tilecheck.frontend.numba_params import inferred, plain_options
from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Ref, Resolve, Scope, World, parameters
from tilecheck.frontend.source import Source
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
    Kernel,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    ScalarParam,
    Select,
    Stmt,
    TensorParam,
    TupleExpr,
    Unary,
    walk,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Atomic, Axis, Load, Store, ThreadVar

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


def read_kernels(source: Source, resolve: Resolve) -> tuple[Kernel, ...]:
    """All cuTile kernels of `source`, in the order of the text. Raises `Unreadable` if it does not parse."""
    if _MODULE not in source.text and "cuda import tile" not in source.text:
        return ()
    return tuple(lower(function, options) for function, options in find(source, resolve))


def find(source: Source, resolve: Resolve) -> tuple[tuple[FunctionValue, dict[str, object]], ...]:
    """The functions decorated with `ct.kernel`, with the options given."""
    module = Scope(source, source.module, None, World(resolve))
    found: list[tuple[FunctionValue, dict[str, object]]] = []
    for scope, node in walk_scopes(module):
        if not isinstance(node, cst.FunctionDef):
            continue
        for decorator in node.decorators:
            expression = decorator.decorator
            call = expression if isinstance(expression, cst.Call) else None
            named = fold(call.func if call is not None else expression, scope.lookup)
            if isinstance(named, Ref) and named.path == f"{_MODULE}.kernel":
                options = (
                    {}
                    if call is None
                    else {a.keyword.value: fold(a.value, scope.lookup) for a in call.args if a.keyword is not None}
                )
                found.append((FunctionValue(node, scope), options))
    return tuple(sorted(found, key=lambda item: source.span(item[0].node)))


def lower(function: FunctionValue, options: dict[str, object]) -> Kernel:
    """Lower one kernel."""
    node, scope = function.node, function.scope
    source = scope.source
    builder = CuTile(function)
    params = parameters(node)
    names = [(p.name.value, source.span(p.name)) for p in params]
    builder.array_names.update(name for name, _ in names)
    for param in params:
        kind = _annotation(param, scope)
        if kind is not None:
            builder.kinds[param.name.value] = kind
    builder.suite(node.body)
    body = builder.body()
    guessed = inferred(names, body, None)
    for name, span in names:
        if builder.kinds.get(name) in ("int", "int64"):
            guessed[name] = ScalarParam(name, span, "int")
        elif builder.kinds.get(name) == "array" and not isinstance(guessed[name], TensorParam):
            guessed[name] = TensorParam(name, span)
    span = source.span(node.name)
    first = min((source.span(d).line for d in node.decorators), default=span.line)
    return Kernel(
        name=node.name.value,
        path=source.path,
        track="cutile",
        params=tuple(guessed[name] for name, _ in names),
        body=body,
        span=span,
        options={**plain_options(options), "block": (1, 1, 1), "wide": builder.wide()},
        constants=dict(builder.constants),
        lines=(first, source.span(node).end_line),
    )


def _annotation(param: cst.Param, scope: Scope) -> str | None:
    """What a parameter's annotation says: `int`, `int64`, `array`, or None."""
    if param.annotation is None:
        return None
    text = scope.source.module.code_for_node(param.annotation.annotation)
    if "ScalarInt64" in text:
        return "int64"
    if "IndexedWithInt64" in text or "Array" in text:
        return "array"
    if "Constant" in text:
        return "int" if "int" in text or "[" not in text else None
    return "int" if text.strip() == "int" else None


def read_launches(source: Source, resolve: Resolve) -> tuple[Launch, ...]:
    """The `ct.launch` calls of `source`, equal ones once; blocks have one thread."""
    kernels = frozenset(function.node for function, _ in find(source, resolve))
    return seen_launches(HostRun(source, resolve, kernels), source) if kernels else ()


class CuTile(Lowering):
    """Lowering of one cuTile kernel."""

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

    # ---- names that stand for views, lanes and loads

    def assign(self, name: str, value: Expr, span: Span) -> None:
        before, tile = self._tiles.get(name), self.tile_of(value)
        for table in (self._views, self._lanes, self._tiles):
            table.pop(name, None)
        if isinstance(value, OpCall) and value.op == "view":
            self._views[name] = self._made_view(value)
            return
        if _has_lanes(value):
            self._lanes[name] = value
            self.emit(Assign(name, Opaque("a tile of indices", span=span), span=span))
            return
        if tile is not None:
            # In a branch or a loop another value may arrive here by another way, so the shapes have to agree.
            same = before is None or self._depth == 0 or _texts(before.shape) == _texts(tile.shape)
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
                return _met([self.tile_of(left), self.tile_of(right)])
            case Unary(operand=operand):
                return self.tile_of(operand)
            case Logic(operands=operands):
                return _met([self.tile_of(o) for o in operands])
            case Select(then=then, other=other):
                return _met([self.tile_of(then), self.tile_of(other)])
            case OpCall(args=args):
                return _met([self.tile_of(a) for a in args])
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
            tile = self._extents(given.get("tile_shape"))
            steps = self._extents(given.get("traversal_steps")) or tile
            return self._view_value(replace(view, tile=tile, steps=steps, padded=_pads(given, self)), span)
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
                return self._view_access(name, view, node, span)
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
            return _ceil_div(a, b, span)
        if name == "num_tiles":
            given = self._given(node, "array", "axis", "shape")
            axis, shape = self.static(given["axis"]), self._extents(given.get("shape"))
            if isinstance(axis, int) and shape is not None and axis < len(shape):
                return _ceil_div(Extent(self.view_of(given["array"]).array, axis, span=span), shape[axis], span)
        if name == "load":
            return self._load(node, span)
        if name == "store":
            self._store(node, span)
            return Const(None, span=span)
        if name in ("gather", "scatter") or name in _RMW:
            return self._by_element(name, node, span)
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
        if name in _SAME_LANES and values and (_has_lanes(values[0]) or self.scalar(values[0])):
            wide = any("int64" in str(self.static(a.value)) for a in node.args)
            return OpCall("int64", (values[0],), span=span) if wide else values[0]
        if values and _has_lanes(values[0]) and name in ("expand_dims", "reshape"):
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
            return self._tile_value(span, self._extents(argument(0, "shape")))
        if name in ("reshape", "broadcast_to"):
            return self._tile_value(span, self._extents(argument(1, "shape")))
        if name == "extract":
            return self._tile_value(span, self._extents(argument(2, "shape")))
        if name in ("transpose", "permute"):
            return self._tile_value(span, self._permuted(name, first, argument(1, "axes")))
        if name in ("cat", "expand_dims", "item"):
            return self._tile_value(span, () if name == "item" else None)
        met = _met([self.tile_of(v) for v in values])
        if met is None:
            return OpCall(name, tuple(values), span=span) if values else Opaque(f"`ct.{name}`", span=span)
        return self._tile_value(span, met.shape, None if name == "where" else met.loaded)

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
            return _moved(value, 1) if axis in (-1, 1) else value
        return self._reshaped(value, self._extents(argument), span)

    def _reshaped(self, value: Expr, shape: tuple[Expr, ...] | None, span: Span) -> Expr:
        wide = [] if shape is None else [k for k, e in enumerate(shape) if not _is_one(e)]
        if shape is None or len(wide) != 1:
            return self._tile_value(span, shape, why="a reshaped tile of indices")
        return _moved(value, len(shape) - 1 - wide[0])

    def _mixed(self, value: Expr, axis: int | None, span: Span) -> None:
        """Lanes along `axis` (None: all) get mixed: an unpadded load must be whole there."""
        tile = self.tile_of(value)
        if tile is None or tile.loaded is None:
            return
        loaded = tile.loaded
        rank = len(loaded.tile)
        for at in range(rank) if axis is None else (axis % rank,):
            if not _is_one(loaded.tile[at]):
                extent = Extent(loaded.array, loaded.order[at], span=loaded.span)
                need = OpCall("whole_tiles", (extent, loaded.tile[at], Const(span.line, span=span)), span=loaded.span)
                self.emit(Do(need, span=loaded.span))

    def _subscript(self, node: cst.Subscript, span: Span, *, view: bool = False) -> Expr:
        """`t[:, None]` of a tile of indices moves its axis; other subscripts are of arrays' shapes and tuples."""
        base = self.expr(node.value) if isinstance(node.value, cst.Name) else None
        if base is not None and _has_lanes(base):
            places = [e.slice for e in node.slice]
            news = [k for k, e in enumerate(places) if isinstance(e, cst.Index) and _is_none(e.value)]
            if len(places) == 2 and len(news) == 1:
                return _moved(base, 1) if news == [1] else base
            return self._tile_value(span, None, why="a subscript of a tile of indices")
        return super()._subscript(node, span, view=view)

    # ---- tiles in memory

    def _extents(self, node: cst.BaseExpression | None) -> tuple[Expr, ...] | None:
        if node is None:
            return None
        value = self.expr(node)
        items = self.tuple_items(value)
        return items if items is not None else (value,)

    def _index(self, node: cst.BaseExpression) -> tuple[Expr, ...]:
        value = self.expr(node)
        items = self.tuple_items(value)
        return tuple(self.named(item) for item in (items if items is not None else (value,)))

    def _load(self, node: cst.Call, span: Span) -> Expr:
        given = self._given(node, "array", "index", "shape")
        view = self.view_of(given["array"])
        index = self._index(given["index"])
        tile = self._extents(given.get("shape")) or tuple(Const(1, span=span) for _ in index)
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
        loaded = None if _pads(given, self) else Loaded(view.array, order, tile, span)
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

    def _store(self, node: cst.Call, span: Span) -> None:
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

    def _view_access(self, name: str, view: View, node: cst.Call, span: Span) -> Expr:
        assert view.tile is not None
        given = self._given(node, "index", "tile")
        steps = view.steps or view.tile
        order = tuple(range(len(view.tile)))
        if name == "num_tiles":
            axis = self.static(node.args[0].value) if node.args else UNKNOWN
            if isinstance(axis, int):
                return _ceil_div(Extent(view.array, axis, span=span), steps[axis], span)
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
            place: Expr = index[k] if _is_one(steps[k]) else Binary("*", index[k], steps[k], span=span)
            if order[k] in starts:
                place = Binary("+", starts[order[k]], place, span=span)
            origin.append(self.named(place))
        back = [order.index(axis) for axis in range(rank)]
        self.emit(access(tuple(origin[b] for b in back)))
        if all(_is_one(extent) for extent in tile):
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
            if not _is_one(extent):
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

    def _by_element(self, name: str, node: cst.Call, span: Span) -> Expr:
        given = self._given(
            node,
            *(("array", "indices", "expected", "value") if name == "atomic_cas" else ("array", "indices", "value")),
        )
        view = self.view_of(given["array"])
        value = self.expr(given["indices"])
        items = self.tuple_items(value) or (value,)
        for item in items:
            if _has_lanes(item) or self.scalar(item):
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
        scalar = mask is None and not any(_has_lanes(i) for i in items) and all(map(self.scalar, items))
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
        met = _met([self.tile_of(item) for item in items])
        return () if met is None else met.shape

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
            at = tuple(self.named(_at_lane(item, chosen)) for item in items)
            inside: list[Expr] = []
            for k, e in enumerate(at):
                inside.append(Compare("<=", Const(0, span=span), e, span=span))
                inside.append(Compare("<", e, Extent(array, k, span=span), span=span))
            if mask is not None:
                shown = _has_lanes(mask) or self.scalar(mask)
                inside.append(_at_lane(mask, chosen) if shown else Opaque("a mask", span=span))
            self.emit(If(Logic("and", tuple(inside), span=span), (access(at),), span=span))


def _has_lanes(value: Expr) -> bool:
    return any(isinstance(n, OpCall) and n.op in ("lane", "lane64") for n in walk(value)) and not any(
        isinstance(n, Opaque) for n in walk(value)
    )


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, Const) and extent.value == 1


def _ceil_div(a: Expr, b: Expr, span: Span) -> Expr:
    top = Binary("-", Binary("+", a, b, span=span), Const(1, span=span), span=span)
    return Binary("//", top, b, span=span)


def _pads(given: dict[str, cst.BaseExpression], low: CuTile) -> bool:
    """Whether a padding mode other than the undetermined default is given."""
    node = given.get("padding_mode")
    if node is None:
        return False
    mode = low.static(node)
    return not (isinstance(mode, Ref) and mode.path.endswith("UNDETERMINED"))


def _met(tiles: list[Tile | None]) -> Tile | None:
    """The tile that elementwise operands give: None if all are scalars."""
    found = [tile for tile in tiles if tile is not None]
    if not found:
        return None
    loaded = next((tile.loaded for tile in found if tile.loaded is not None), None)
    shape: tuple[Expr, ...] | None = ()
    for tile in found:
        shape = None if shape is None or tile.shape is None else _wider(shape, tile.shape)
    return Tile(shape, loaded)


def _wider(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The shape of an elementwise result: trailing axes align, extent 1 stretches."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    head = longer[: len(longer) - len(shorter)]
    pairs = zip(longer[len(head) :], shorter, strict=True)
    return (*head, *(b if _is_one(a) else a for a, b in pairs))


def _texts(shape: tuple[Expr, ...] | None) -> tuple[str, ...] | None:
    return None if shape is None else tuple(show(extent) for extent in shape)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _moved(value: Expr, places: int) -> Expr:
    """A tile of indices whose last axis becomes the one `places` before the last."""
    return _rebuilt(value, lambda lane: replace(lane, args=(Const(1 + places, span=lane.span), lane.args[1])))


def _at_lane(value: Expr, lanes: dict[int, Expr]) -> Expr:
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
