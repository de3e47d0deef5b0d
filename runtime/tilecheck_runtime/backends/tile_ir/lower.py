"""A specialised tile kernel to one readable cuTile Python function.

cuTile's language is close to ours, so the text keeps the user's variables and control flow; what differs is spelled out:
dtypes of scalars that meet tiles, propagation of nan, accumulation in f32, clipping of sub-tiles (a slice of the array).

    def saxpy(z, x, y, a):
        b0 = ct.bid(0)
        ct.store(z, (b0,), (a * ct.load(x, (b0,), (4096,))) + ct.load(y, (b0,), (4096,)))

Invariant: the text stores only what the kernel stores. A check that stays in the kernel notes its line in the fault record
and turns off every later store of the block, since cuTile functions cannot leave a loop of their own accord.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tilecheck.interp.arguments import OWNED
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    DimRef,
    Do,
    Expr,
    Extent,
    For,
    ForIndices,
    If,
    Inline,
    Item,
    Logic,
    Name,
    Node,
    OpCall,
    Return,
    Select,
    Stmt,
    TupleExpr,
    Unary,
    While,
    walk,
)
from tilecheck.ir.types import (
    DimType,
    IndexType,
    ScalarType,
    SubTilesType,
    TensorType,
    TileType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.verify.tile import TileReport
from tilecheck.verify.tile_report import CHECKED
from tilecheck_runtime.backends.tile_walk import walk_lines

CT_DTYPE: Final = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "bool_": "bool_",
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
}
_NARROW: Final = ("f16", "bf16")

# Rows whose cuTile spelling is an operator between their operands.
_INFIX: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "pow": "**",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "logical_and": "&",
    "logical_or": "|",
    "logical_xor": "^",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
}
# Rows that are one cuTile call on their operands; `{0}` and so on are the operands.
_CALLS: Final = {
    "negative": "(-{0})",
    "positive": "{0}",
    "abs": "ct.abs({0})",
    "square": "({0} * {0})",
    "minimum": "ct.minimum({0}, {1}, propagate_nan=True)",
    "maximum": "ct.maximum({0}, {1}, propagate_nan=True)",
    "clip": "ct.minimum(ct.maximum({0}, {1}, propagate_nan=True), {2}, propagate_nan=True)",
    "fma": "({0} * {1} + {2})",
    "ceil_div": "ct.cdiv({0}, {1})",
    "logical_not": "ct.bitwise_not({0})",
    "bitwise_invert": "ct.bitwise_not({0})",
    "hypot": "ct.sqrt({0} * {0} + {1} * {1})",
    "isnan": "ct.isnan({0})",
    "isinf": "(ct.abs({0}) == math.inf)",
    "isfinite": "(ct.abs({0}) < math.inf)",
}
# Functions that cuTile computes in f32 and f64; narrower floats go through f32.
_MATH: Final = {
    name: f"ct.{name}({{0}})"
    for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
} | {
    "floor": "ct.floor({0})",
    "ceil": "ct.ceil({0})",
    "trunc": "ct.where({0} < 0, ct.ceil({0}), ct.floor({0}))",
    "log10": "(ct.log2({0}) * 0.3010299956639812)",
    "atan2": "ct.atan2({0}, {1})",
    "atan": "ct.atan2({0}, {0} * 0 + 1)",
    "asin": "ct.atan2({0}, ct.sqrt(1 - {0} * {0}))",
    "acos": "ct.atan2(ct.sqrt(1 - {0} * {0}), {0})",
}
# Ops that compare at run time.
_ASSERTING: Final = frozenset({"device_assert", "gather"}) | {
    f"atomic_{op}" for op in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")
}
_PADDING: Final = {
    "zero": "ZERO",
    "neg_zero": "NEG_ZERO",
    "nan": "NAN",
    "inf": "POS_INF",
    "-inf": "NEG_INF",
}
_REDUCTIONS: Final = {"sum": "", "prod": "", "max": ", propagate_nan=True", "min": ", propagate_nan=True"}


# The row behind each operator token.
_ROWS: Final = {token: row for row, token in reversed(_INFIX.items()) if not row.startswith("logical")}


class NoLowering(Exception):
    """An op or form that cuTile does not take; `what` names it in the user's words."""

    def __init__(self, what: str, node: Node) -> None:
        super().__init__(f"the tile-ir backend does not compile {what}")
        self.what = what
        self.span = node.span


@dataclass(frozen=True, slots=True)
class Lowered:
    """The text of one cuTile function and its parameters in order; a fault record is the last one if `checks`."""

    name: str
    source: str
    parameters: tuple[str, ...]
    checks: bool


class Lowering:
    """The state of one lowering."""

    def __init__(self, report: TileReport, maps: Mapping[str, tuple[int, ...]]) -> None:
        self.kernel = report.kernel
        self.types: Mapping[Node, Type] = report.types
        self.dims = {key: decl.size for key, decl in report.kernel.dims.items() if decl.size is not None}
        self.maps = maps
        self.lines: list[str] = []
        self.hoisted = report.hoisted
        self.in_place: dict[Node, list[int]] = {}
        for access in report.accesses:
            if access.rung == "in-place":
                self.in_place.setdefault(access.node, []).append(access.axis)
        self.checks = has_checks(report)
        self._indent = 1
        self._inlined = 0
        self.own = {
            t.name: tuple(self.extent(e) for e in t.shape)
            for t in self.types.values()
            if isinstance(t, TensorType) and t.access in ("Mut", "Mapped") and t.shape is not None
        }

    # ---- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1

    def variable(self, name: str) -> str:
        return name.replace(".", "__")

    def extent(self, extent: object) -> int:
        if isinstance(extent, int):
            return extent
        raise AssertionError(f"the extent {extent} is not bound: the kernel was not specialised")

    def shape(self, kind: TileType) -> tuple[int, ...]:
        """The extents of a tile, which cuTile wants to be powers of two."""
        return tuple(self.extent(e) for e in kind.shape)

    def constant_int(self, expr: Expr) -> int:
        kind = self.types.get(expr)
        if isinstance(expr, Const) and isinstance(expr.value, int):
            return expr.value
        if isinstance(expr, DimRef):
            return self.dims[expr.key]
        if isinstance(kind, ScalarType) and isinstance(kind.value, int):
            return kind.value
        if isinstance(kind, DimType):
            return self.extent(kind.extent)
        raise AssertionError("not a constant")

    # ---- expressions

    def expr(self, node: Expr, dtype: str | None = None) -> str:
        """The text of `node`; `dtype` is that of the tile which a scalar meets."""
        text = self._expr(node)
        kind = self.types.get(node)
        if dtype is not None and isinstance(kind, ScalarType) and kind.value is None:
            return f"ct.astype({text}, ct.{CT_DTYPE[dtype]})"
        return text

    def _expr(self, node: Expr) -> str:
        kind = self.types.get(node)
        if isinstance(kind, ScalarType) and kind.value is not None:
            return _literal(kind.value)
        match node:
            case Const(value=value):
                return _literal(value)
            case DimRef(key=key):
                return str(self.dims[key])
            case Name(id=name):
                return self.variable(name)
            case Binary(op="@", left=left, right=right):
                return self._matmul(node, left, right)
            case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
                dtype = self._meeting((left, right))
                if dtype is not None:
                    return self._call(OpCall(_ROWS[op], (left, right), span=node.span))
                return f"({self.expr(left, dtype)} {op} {self.expr(right, dtype)})"
            case Unary(op="not", operand=operand):
                return f"(not {self.expr(operand)})"
            case Unary(op="~", operand=operand):
                return f"ct.bitwise_not({self.expr(operand)})"
            case Unary(op=op, operand=operand):
                return f"({op}{self.expr(operand)})"
            case Logic(op=op, operands=operands):
                return "(" + f" {op} ".join(self.expr(o) for o in operands) + ")"
            case Select(cond=cond, then=then, other=other):
                return f"({self.expr(then)} if {self.expr(cond)} else {self.expr(other)})"
            case TupleExpr(items=items):
                return "(" + "".join(f"{self.expr(i)}, " for i in items) + ")"
            case Item(base=base, index=index):
                return f"{self.expr(base)}[{self.expr(index)}]"
            case Extent(array=Name(id=array), axis=axis) if axis is not None:
                return f"{self.variable(array)}.shape[{axis}]"
            case OpCall():
                return self._call(node)
        raise NoLowering(type(node).__name__.lower(), node)

    def _meeting(self, operands: Sequence[Expr]) -> str | None:
        for operand in operands:
            kind = self.types.get(operand)
            if isinstance(kind, TileType):
                return kind.dtype.name
        return None

    def _call(self, node: OpCall) -> str:
        op = node.op
        refused = self._refused(node)
        if refused is not None:
            raise NoLowering(refused, node)
        if op in _INFIX:
            dtype = self._meeting(node.args)
            left, right = (self.expr(a, dtype) for a in node.args)
            return f"({left} {_INFIX[op]} {right})"
        if op in _CALLS:
            dtype = self._meeting(node.args)
            return _CALLS[op].format(*(self.expr(a, dtype) for a in node.args))
        if op in _MATH:
            dtype = self._meeting(node.args)
            texts = [self.expr(a, dtype) for a in node.args]
            if dtype in _NARROW:
                wide = [f"ct.astype({t}, ct.float32)" for t in texts]
                return f"ct.astype({_MATH[op].format(*wide)}, ct.{CT_DTYPE[dtype]})"
            return _MATH[op].format(*texts)
        special = _SPECIAL.get(op)
        if special is None:
            raise NoLowering(f"`{op}`", node)
        return special(self, node)

    def _refused(self, node: OpCall) -> str | None:
        """What Tile IR has not for the dtype at hand, in words."""
        dtype = self._meeting(node.args)
        if dtype is None or dtype[0] not in "iu":
            return None
        if node.op == "pow":
            return f"`pow` of `{dtype}` tiles"
        if node.op in ("floor_divide", "remainder", "ceil_div") and dtype[0] == "u":
            return f"`{node.op}` of `{dtype}` tiles"
        return None

    def _matmul(self, node: Expr, left: Expr, right: Expr) -> str:
        kind = self.types[node]
        assert isinstance(kind, TileType)
        accumulator = "float64" if kind.dtype.name == "f64" else "float32"
        product = f"ct.mma({self.expr(left)}, {self.expr(right)}, ct.zeros({self.shape(kind)}, ct.{accumulator}))"
        return f"ct.astype({product}, ct.{CT_DTYPE[kind.dtype.name]})"

    # ---- memory

    def index(self, items: Sequence[Expr]) -> str:
        if len(items) == 1 and isinstance(self.types[items[0]], IndexType | TupleType):
            return self.expr(items[0])
        return "(" + "".join(f"{self.expr(i)}, " for i in items) + ")"

    def block_index(self, rank: int) -> str:
        return "(" + "".join(f"ct.bid({axis}), " for axis in range(rank)) + ")"

    def sub_array(self, array: str) -> str:
        """The block's own tile of `array` as an array of its own, clipped at the array's edge."""
        text = self.variable(array)
        for axis, tile in enumerate(self.own[array]):
            start = f"ct.bid({axis}) * {tile}"
            stop = f"min({start} + {tile}, {self.variable(array)}.shape[{axis}])"
            text = f"{text}.slice(axis={axis}, start={start}, stop={stop})"
        return text

    def load(self, call: OpCall) -> str:
        source, kind = self.types[call.args[0]], self.types[call]
        assert isinstance(kind, TileType)
        shape, rest, extra = self.shape(kind), call.args[1:], ""
        match source:
            case ViewType(array=array, permute=permute, pad=pad):
                text, index = self.variable(array), self.index(rest)
                if permute != tuple(range(len(shape))):
                    extra += f", order={permute}"
                if pad is not None:
                    extra += f", padding_mode=ct.PaddingMode.{self._padding(pad, call)}"
            case SubTilesType(array=array):
                text, index = self.sub_array(array), self.index(rest)
            case TensorType(name=array):
                text = self.variable(array)
                if call.op == "load_like":
                    rest = rest[1:]
                shared = source.access == "Shared" and call.op == "load"
                index = (
                    "(" + "0, " * len(shape) + ")"
                    if shared
                    else self.index(rest)
                    if rest
                    else self.block_index(len(shape))
                )
            case _:
                raise AssertionError(f"a load of {type(source).__name__}")
        if call in self.in_place:
            index = self._checked_index(call, rest, source, shape)
        return f"ct.load({text}, {index}, {shape}{extra})"

    def _checked_index(self, call: OpCall, items: Sequence[Expr], source: Type, shape: tuple[int, ...]) -> str:
        """The index of an access whose check stays: compared first, and tile 0 once a check has failed."""
        whole = len(items) == 1 and isinstance(self.types[items[0]], IndexType | TupleType)
        texts = [f"{self.expr(items[0])}[{a}]" if whole else self.expr(items[a]) for a in range(len(shape))]
        for axis in self.in_place[call]:
            tiles = self.tile_count(source, axis, shape[axis])
            self.fault_unless(f"(0 <= {texts[axis]}) & ({texts[axis]} < {tiles})", call.span.line)
        return "(" + "".join(f"ct.where(ok, {t}, 0), " for t in texts) + ")"

    def tile_count(self, source: Type, axis: int, tile: int) -> str:
        """How many tiles of `tile` elements a view, tensor or the block's own tile has along `axis`."""
        match source:
            case SubTilesType(array=array):
                return str(-(-self.own[array][axis] // tile))
            case ViewType(array=array, permute=permute):
                return f"ct.cdiv({self.variable(array)}.shape[{permute[axis]}], {tile})"
            case TensorType(name=array):
                return f"ct.cdiv({self.variable(array)}.shape[{axis}], {tile})"
        raise AssertionError("tiles of something that has none")

    def fault_unless(self, test: str, line: int) -> None:
        """Note `line` and the block once, and turn later stores of the block off, unless `test` holds."""
        with self.block(f"if ok & ct.bitwise_not({test}):"):
            number = "ct.bid(0) + ct.num_blocks(0) * (ct.bid(1) + ct.num_blocks(1) * ct.bid(2))"
            self.line(f"ct.scatter(fault, 0, ct.astype({number}, ct.int64) + {(line << 32) + 1})")
            self.line("ok = False")

    def _padding(self, pad: object, call: OpCall) -> str:
        if isinstance(pad, str):
            return _PADDING[pad]
        if pad == 0:
            return "ZERO"
        raise NoLowering(f"a padding of {pad}", call)

    def _store(self, call: OpCall) -> None:
        target, kind = self.types[call.args[0]], self.types[call.args[1]]
        assert isinstance(kind, TileType)
        rest = call.args[2:]
        match target:
            case SubTilesType(array=array):
                text, index = self.sub_array(array), self.index(rest)
            case TensorType(name=array):
                text = self.variable(array)
                index = self.index(rest) if rest else self.block_index(len(kind.shape))
            case _:
                raise AssertionError(f"a store to {type(target).__name__}")
        if call in self.in_place:
            index = self._checked_index(call, rest, target, self.shape(kind))
        value = self.expr(call.args[1])
        if self.checks:
            with self.block("if ok:"):
                self.line(f"ct.store({text}, {index}, {value})")
        else:
            self.line(f"ct.store({text}, {index}, {value})")

    # ---- statements

    def body(self, statements: Sequence[Stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: Stmt) -> None:
        match node:
            case Assign(target=target, value=value):
                self._assign(target, value)
            case Do(value=OpCall(op="store") as call):
                self._store(call)
            case Do(value=OpCall(op=op) as call) if op.startswith("atomic_"):
                text = self.expr(call)
                with self.block("if ok:"):
                    self.line(text)
            case If(cond=cond, then=then, other=other):
                with self.block(f"if {self.expr(cond)}:"):
                    self.body(then)
                if other:
                    with self.block("else:"):
                        self.body(other)
            case Assert(cond=cond) | Do(value=OpCall(op="device_assert", args=(cond, *_))):
                self._user_assert(cond, node.span.line)
            case ForIndices():
                self._before(node)
                self._for_indices(node)
            case For(target=target, start=start, stop=stop, step=step, body=inner):
                self._before(node)
                bounds = ", ".join(self.expr(e) for e in (start, stop, step))
                with self.block(f"for {self.variable(target)} in range({bounds}):"):
                    self.body(inner)
            case While(cond=cond, body=inner):
                self._before(node)
                with self.block("while True:"):
                    with self.block(f"if not {self.expr(cond)}:"):
                        self.line("break")
                    self.body(inner)
            case Break():
                self.line("break")
            case Continue():
                self.line("continue")
            case Return() if self._inlined == 0:
                self.line("return")
            case Inline():
                self._inline(node)
            case _:
                what = node.value.op if isinstance(node, Do) and isinstance(node.value, OpCall) else type(node).__name__
                raise NoLowering(f"`{what}`", node)

    def _before(self, loop: Node) -> None:
        """The asserts that were moved out of a loop."""
        for check in self.hoisted.get(loop, ()):
            tile = self.extent(check.tile)
            array = self.variable(check.array)
            own = self.own.get(check.array)
            count = (
                str(-(-own[check.array_axis] // tile))
                if check.local and own is not None
                else f"ct.cdiv({array}.shape[{check.array_axis}], {tile})"
            )
            test = f"((0 <= {self.expr(check.low)}) & ({self.expr(check.high)} < {count}))"
            guards = [f"ct.bitwise_not({self.expr(guard)})" for guard in check.guards]
            self.fault_unless(" | ".join([*guards, test]), check.node.span.line)

    def _user_assert(self, cond: Expr, line: int) -> None:
        text = self.expr(cond)
        if isinstance(self.types[cond], TileType):
            text = f"(ct.min(ct.astype({text}, ct.int32)) != 0)"
        self.fault_unless(text, line)

    def _for_indices(self, node: ForIndices) -> None:
        """The tiles that a block of a mapped partition visits."""
        source = self.types[node.source.args[0]]
        assert isinstance(source, TensorType)
        if dict(node.source.kwargs).get("within") is not None:
            raise NoLowering("`indices(within=...)`", node)
        groups = self.maps[source.name]
        if OWNED in groups:
            raise NoLowering("an `OWNED` axis", node)
        target, own = self.variable(node.target), self.own[source.name]
        counts = [f"{target}_n{axis}" for axis in range(len(groups))]
        for axis, count in enumerate(counts):
            self.line(f"{count} = {self.tile_count(source, axis, own[axis])}")
        lines, places = walk_lines(target, f"{target}_q", counts, groups)
        with self.block(f"for {target}_p in range(ct.bid(0), {' * '.join(counts)}, ct.num_blocks(0)):"):
            self.line(f"{target}_q = {target}_p")
            for text in lines:
                self.line(text)
            self.line(f"{target} = ({''.join(f'{p}, ' for p in places)})")
            self.body(node.body)

    def _assign(self, target: str, value: Expr) -> None:
        kind = self.types.get(value)
        if isinstance(kind, TileType | ScalarType | IndexType | TupleType | DimType):
            self.line(f"{self.variable(target)} = {self.expr(value)}")
        # Views, dtypes and functions have no value at run time: their uses are resolved by type.

    def _inline(self, node: Inline) -> None:
        if not node.body or not isinstance(node.body[-1], Return):
            raise NoLowering(f"the helper `{node.callee}`, which may end without a value", node)
        self._inlined += 1
        self.body(node.body[:-1])
        self._inlined -= 1
        last = node.body[-1]
        if last.value is not None and node.result is not None:
            self._assign(node.result, last.value)


def _literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "(-math.inf)"
    return repr(value)


# ---- ops with a form of their own


def _tile(low: Lowering, node: Expr) -> TileType:
    kind = low.types[node]
    assert isinstance(kind, TileType)
    return kind


def _dtype(low: Lowering, node: OpCall) -> str:
    return f"ct.{CT_DTYPE[_tile(low, node).dtype.name]}"


def _shape(low: Lowering, node: OpCall) -> tuple[int, ...]:
    return low.shape(_tile(low, node))


def _axis(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    axis = node.args[1] if len(node.args) > 1 else given.get("axis")
    if axis is None or (isinstance(axis, Const) and axis.value is None):
        return "None"
    if isinstance(axis, TupleExpr):
        return "(" + "".join(f"{low.constant_int(i)}, " for i in axis.items) + ")"
    return str(low.constant_int(axis))


def _keepdims(node: OpCall) -> bool:
    given = dict(node.kwargs)
    flag = node.args[2] if len(node.args) > 2 else given.get("keepdims")
    return isinstance(flag, Const) and bool(flag.value)


def _reduction(low: Lowering, node: OpCall) -> str:
    x, kind = low.expr(node.args[0]), _tile(low, node)
    narrow = _tile(low, node.args[0]).dtype.name in _NARROW
    if narrow:
        x = f"ct.astype({x}, ct.float32)"
    text = f"ct.{node.op}({x}, {_axis(low, node)}, keepdims={_keepdims(node)}{_REDUCTIONS[node.op]})"
    return f"ct.astype({text}, ct.{CT_DTYPE[kind.dtype.name]})" if narrow else text


def _truth(low: Lowering, node: OpCall) -> str:
    function = "max" if node.op == "any" else "min"
    inner = f"ct.astype({low.expr(node.args[0])}, ct.int32)"
    return f"(ct.{function}({inner}, {_axis(low, node)}, keepdims={_keepdims(node)}) != 0)"


def _arg(low: Lowering, node: OpCall) -> str:
    x = low.expr(node.args[0])
    text = f"ct.{node.op}({x}, {_axis(low, node)}, keepdims={_keepdims(node)}, propagate_nan=True)"
    return f"ct.astype({text}, {_dtype(low, node)})"


def _scan(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    axis = _axis(low, node)
    backwards = given.get("reverse")
    reverse = isinstance(backwards, Const) and bool(backwards.value)
    narrow = _tile(low, node.args[0]).dtype.name in _NARROW
    x = f"ct.astype({low.expr(node.args[0])}, ct.float32)" if narrow else low.expr(node.args[0])
    text = f"ct.{node.op}({x}, {0 if axis == 'None' else axis}, reverse={reverse})"
    return f"ct.astype({text}, {_dtype(low, node)})" if narrow else text


def _arange(low: Lowering, node: OpCall) -> str:
    given = dict(node.kwargs)
    start = low.constant_int(given["start"]) if "start" in given else 0
    step = low.constant_int(given["step"]) if "step" in given else 1
    return f"ct.arange({_shape(low, node)[0]}, dtype={_dtype(low, node)}, start={start}, step={step})"


def _full(low: Lowering, node: OpCall) -> str:
    value = node.args[1]
    if isinstance(low.types[value], TileType):
        return f"ct.broadcast_to({low.expr(value)}, {_shape(low, node)})"
    return f"ct.full({_shape(low, node)}, {low.expr(value, _tile(low, node).dtype.name)}, {_dtype(low, node)})"


def _permute(low: Lowering, node: OpCall) -> str:
    rank = len(_shape(low, node))
    if len(node.args) == 1:
        axes = tuple(reversed(range(rank)))
    elif node.op == "transpose":
        order = list(range(rank))
        first, second = (low.constant_int(a) % rank for a in node.args[1:3])
        order[first], order[second] = order[second], order[first]
        axes = tuple(order)
    else:
        given = node.args[1]
        items = given.items if isinstance(given, TupleExpr) else node.args[1:]
        axes = tuple(low.constant_int(i) % rank for i in items)
    return f"ct.permute({low.expr(node.args[0])}, {axes})"


def _where(low: Lowering, node: OpCall) -> str:
    dtype = _tile(low, node).dtype.name
    cond, x, y = node.args
    return f"ct.where({low.expr(cond)}, {low.expr(x, dtype)}, {low.expr(y, dtype)})"


def _num_tiles(low: Lowering, node: OpCall) -> str:
    view, axis = low.types[node.args[0]], low.constant_int(node.args[1])
    match view:
        case ViewType(array=array, shape=shape, permute=permute):
            at = axis % len(shape)
            return f"ct.cdiv({low.variable(array)}.shape[{permute[at]}], {low.extent(shape[at])})"
        case TensorType(name=array, shape=shape) if shape is not None:
            at = axis % len(shape)
            return f"ct.cdiv({low.variable(array)}.shape[{at}], {low.extent(shape[at])})"
        case SubTilesType(array=array, shape=shape):
            at = axis % len(shape)
            return str(-(-low.own[array][at] // low.extent(shape[at])))
    raise AssertionError("`num_tiles` of something that has no tiles")


def _sign(low: Lowering, node: OpCall) -> str:
    x, dtype = low.expr(node.args[0]), _tile(low, node).dtype.name
    if dtype[0] == "u":
        return f"ct.astype({x} > 0, {_dtype(low, node)})"
    return f"ct.where({x} > 0, {x} * 0 + 1, ct.where({x} < 0, {x} * 0 - 1, {x} * 0))"


def _round(low: Lowering, node: OpCall) -> str:
    # Halves go to the even neighbour: one below `floor(x + 1/2)` where that is odd and x lies half way.
    dtype = _tile(low, node).dtype.name
    x = low.expr(node.args[0])
    if dtype in _NARROW:
        x = f"ct.astype({x}, ct.float32)"
    up = f"ct.floor({x} + 0.5)"
    text = f"({up} - ct.where(({up} - {x} == 0.5) & ({up} - 2 * ct.floor({up} * 0.5) != 0), 1.0, 0.0))"
    return f"ct.astype({text}, ct.{CT_DTYPE[dtype]})"


def _extract(low: Lowering, node: OpCall) -> str:
    given = node.args[1]
    items = given.items if isinstance(given, TupleExpr) else (given,)
    index = "(" + "".join(f"{low.constant_int(i)}, " for i in items) + ")"
    return f"ct.extract({low.expr(node.args[0])}, {index}, {_shape(low, node)})"


def _concat(low: Lowering, node: OpCall) -> str:
    parts = node.args[0]
    assert isinstance(parts, TupleExpr)
    axis = node.args[1] if len(node.args) > 1 else dict(node.kwargs).get("axis")
    at = low.constant_int(axis) % len(_shape(low, node)) if axis is not None else 0
    if len(parts.items) != 2:
        raise NoLowering(f"`concat` of {len(parts.items)} tiles", node)
    first, second = (low.expr(item) for item in parts.items)
    return f"ct.cat(({first}, {second}), {at})"


def _places(low: Lowering, node: OpCall, mask: Expr | None) -> tuple[str, str, str | None]:
    """Array, index and mask of an access by element, after a check of every lane."""
    target = low.types[node.args[0]]
    assert isinstance(target, TensorType)
    array = low.variable(target.name)
    given = node.args[1]
    items = [low.expr(i) for i in (given.items if isinstance(given, TupleExpr) else (given,))]
    allowed = None if mask is None else low.expr(mask)
    inside = " & ".join(f"(0 <= {i}) & ({i} < {array}.shape[{axis}])" for axis, i in enumerate(items))
    if allowed is not None:
        inside = f"({inside}) | ct.bitwise_not({allowed})"
    low.fault_unless(f"(ct.min(ct.astype({inside}, ct.int32)) != 0)", node.span.line)
    return array, "(" + "".join(f"{i}, " for i in items) + ")", allowed


def _option(node: OpCall, position: int, name: str) -> Expr | None:
    found = node.args[position] if len(node.args) > position else dict(node.kwargs).get(name)
    return None if isinstance(found, Const) and found.value is None else found


def _gather(low: Lowering, node: OpCall) -> str:
    array, index, mask = _places(low, node, _option(node, 2, "mask"))
    pad = _option(node, 3, "pad")
    extra = "" if mask is None else f", mask={mask}"
    return f"ct.gather({array}, {index}{extra}, padding_value={'0' if pad is None else low.expr(pad)})"


def _atomic(low: Lowering, node: OpCall) -> str:
    count = 2 if node.op == "atomic_cas" else 1
    array, index, mask = _places(low, node, _option(node, 2 + count, "mask"))
    if mask is not None:
        raise NoLowering(f"`{node.op}` with a mask", node)
    dtype = _tile(low, node).dtype.name
    values = ", ".join(low.expr(v, dtype) for v in node.args[2 : 2 + count])
    name = "atomic_xchg" if node.op == "atomic_exchange" else node.op
    return f"ct.{name}({array}, {index}, {values})"


_SPECIAL: Final[dict[str, Callable[[Lowering, OpCall], str]]] = {
    "load": Lowering.load,
    "load_tile": Lowering.load,
    "load_like": Lowering.load,
    "num_tiles": _num_tiles,
    "block_id": lambda low, node: f"ct.bid({low.constant_int(node.args[0])})",
    "num_blocks": lambda low, node: f"ct.num_blocks({low.constant_int(node.args[0])})",
    "zeros": lambda low, node: f"ct.zeros({_shape(low, node)}, {_dtype(low, node)})",
    "ones": lambda low, node: f"ct.ones({_shape(low, node)}, {_dtype(low, node)})",
    "full": _full,
    "arange": _arange,
    "astype": lambda low, node: f"ct.astype({low.expr(node.args[0])}, {_dtype(low, node)})",
    "bitcast": lambda low, node: f"ct.bitcast({low.expr(node.args[0])}, {_dtype(low, node)})",
    "where": _where,
    "mma": lambda low, node: f"ct.mma({', '.join(low.expr(a) for a in node.args)})",
    "matmul": lambda low, node: low._matmul(node, node.args[0], node.args[1]),
    "reshape": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "expand_dims": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "squeeze": lambda low, node: f"ct.reshape({low.expr(node.args[0])}, {_shape(low, node)})",
    "broadcast_to": lambda low, node: f"ct.broadcast_to({low.expr(node.args[0])}, {_shape(low, node)})",
    "permute_dims": _permute,
    "transpose": _permute,
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "any": _truth,
    "all": _truth,
    "argmax": _arg,
    "argmin": _arg,
    "cumsum": _scan,
    "cumprod": _scan,
    "sign": _sign,
    "round": _round,
    "extract": _extract,
    "concat": _concat,
    "gather": _gather,
    **{f"atomic_{op}": _atomic for op in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")},
}


def has_checks(report: TileReport) -> bool:
    """Whether a check remains in the kernel."""
    if any(access.rung in CHECKED for access in report.accesses):
        return True
    asserts = (n for n in walk(*report.kernel.body) if isinstance(n, Assert | OpCall))
    return any(isinstance(n, Assert) or n.op in _ASSERTING for n in asserts)


def lower(report: TileReport, maps: Mapping[str, tuple[int, ...]] | None = None) -> Lowered:
    """The cuTile function of a kernel whose `report` is that of a specialisation. Raises `NoLowering` for what cuTile does
    not take.
    """
    kernel = report.kernel
    low = Lowering(report, maps or {})
    for node, kind in report.types.items():
        if isinstance(kind, TileType):
            odd = [e for e in low.shape(kind) if e & (e - 1)]
            if odd:
                raise NoLowering(f"a tile extent of {odd[0]}, which is no power of two", node)
    if low.checks:
        low.line("ok = True")
    low.body(kernel.body)
    parameters = tuple(low.variable(p.name) for p in kernel.params)
    if low.checks:
        parameters += ("fault",)
    head = f"def {kernel.name}({', '.join(parameters)}):"
    return Lowered(kernel.name, "\n".join([head, *low.lines, ""]), parameters, low.checks)
