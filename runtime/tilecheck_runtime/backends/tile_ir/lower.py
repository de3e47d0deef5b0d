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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
)
from tilecheck.ir.types import (
    DimType,
    IndexType,
    ScalarType,
    StrType,
    SubTilesType,
    TensorType,
    TileType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends.tile_ir import functions
from tilecheck_runtime.backends.tile_ir.mapped import for_indices
from tilecheck_runtime.backends.tile_ir.rows import SPECIAL, shown
from tilecheck_runtime.backends.tile_ir.texts import Texts
from tilecheck_runtime.backends.tile_ir.words import (
    CALLS,
    CT_DTYPE,
    FLUSHING,
    INFIX,
    MATH,
    NARROW,
    ROUNDED,
    ROUNDINGS,
    ROWS,
    NoLowering,
    literal,
    wide,
)


@dataclass(frozen=True, slots=True)
class Lowered:
    """The text of one cuTile function and its parameters in order; a fault record is the last one if `checks`. `walks`: any
    number of blocks, along one axis, computes all tiles.
    """

    name: str
    source: str
    parameters: tuple[str, ...]
    checks: bool
    walks: bool


class Lowering(Texts):
    """Expressions, memory and statements of one kernel as text."""

    # ---- text

    # ---- expressions

    def expr(self, node: Expr, dtype: str | None = None) -> str:
        """The text of `node`; `dtype` is that of the tile which a scalar meets."""
        kind = self.types.get(node)
        value = kind.value if isinstance(kind, ScalarType) else node.value if isinstance(node, Const) else None
        exact = wide(value) if dtype == "f64" and isinstance(value, float) else None
        if exact is not None:
            return exact
        text = self._expr(node)
        if dtype is not None and isinstance(kind, ScalarType) and kind.value is None:
            return f"ct.astype({text}, ct.{CT_DTYPE[dtype]})"
        return text

    def _expr(self, node: Expr) -> str:
        kind = self.types.get(node)
        if isinstance(kind, ScalarType) and kind.value is not None:
            return literal(kind.value)
        match node:
            case Const(value=value):
                return literal(value)
            case DimRef(key=key):
                return str(self.dims[key])
            case Name(id=name):
                return self.variable(name)
            case Binary(op="@", left=left, right=right):
                return self._matmul(node, left, right)
            case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
                dtype = self._meeting((left, right))
                if dtype is not None:
                    return self._call(OpCall(ROWS[op], (left, right), span=node.span))
                meets = "f64" if self._is_float(left) or self._is_float(right) else None
                return f"({self.expr(left, meets)} {op} {self.expr(right, meets)})"
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

    def _is_float(self, operand: Expr) -> bool:
        """Whether it is a float of the kernel that only the launch knows; those have 64 bits."""
        kind = self.types.get(operand)
        return isinstance(kind, ScalarType) and kind.kind == "float" and kind.value is None

    def _meeting(self, operands: Sequence[Expr]) -> str | None:
        for operand in operands:
            kind = self.types.get(operand)
            if isinstance(kind, TileType):
                return kind.dtype.name
        return None

    def _call(self, node: OpCall) -> str:
        op = node.op
        helper = self._helper(node)
        if helper is not None:
            return helper
        if op in ("fma", *ROUNDED) and node.kwargs:
            return self._rounded(node)
        if op in FLUSHING and node.kwargs:
            flush = self.types[dict(node.kwargs)["flush_to_zero"]]
            operand = self.expr(node.args[0], self._meeting(node.args))
            return f"ct.{op}({operand}, flush_to_zero={isinstance(flush, ScalarType) and bool(flush.value)})"
        if op in ("minimum", "maximum") and node.kwargs:
            propagate = self.types[dict(node.kwargs)["propagate_nan"]]
            operands = ", ".join(self.expr(a, self._meeting(node.args)) for a in node.args)
            return f"ct.{op}({operands}, propagate_nan={isinstance(propagate, ScalarType) and bool(propagate.value)})"
        if op in INFIX:
            dtype = self._meeting(node.args)
            left, right = (self.expr(a, dtype) for a in node.args)
            return f"({left} {INFIX[op]} {right})"
        if op in CALLS:
            dtype = self._meeting(node.args)
            return CALLS[op].format(*(self.expr(a, dtype) for a in node.args))
        if op in MATH:
            dtype = self._meeting(node.args)
            texts = [self.expr(a, dtype) for a in node.args]
            if dtype in NARROW:
                wide = [f"ct.astype({t}, ct.float32)" for t in texts]
                return f"ct.astype({MATH[op].format(*wide)}, ct.{CT_DTYPE[dtype]})"
            return MATH[op].format(*texts)
        special = SPECIAL.get(op)
        if special is None:
            raise NoLowering(f"`{op}`", node)
        return special(self, node)

    def _rounded(self, node: OpCall) -> str:
        """Arithmetic that is asked how to round."""
        given = {name: self.types[value] for name, value in node.kwargs}
        if node.op not in ROUNDED:
            raise NoLowering(f"`{node.op}` with `{next(iter(given))}`", node)
        rounding, flush = given.get("rounding"), given.get("flush_to_zero")
        # Exact to the last bit is what asking for the nearest number means.
        mode = ROUNDINGS[rounding.value] if isinstance(rounding, StrType) else "RN"
        flushes = isinstance(flush, ScalarType) and flush.value is True
        operands = ", ".join(self.expr(a, self._meeting(node.args)) for a in node.args)
        return f"ct.{ROUNDED[node.op]}({operands}, rounding_mode=ct.RoundingMode.{mode}, flush_to_zero={flushes})"

    def _helper(self, node: OpCall) -> str | None:
        """A call of a function that the text brings along, where cuTile's own does not do."""
        if node.op not in functions.ROWS:
            return None
        dtype = self._meeting(node.args)
        if dtype is None:
            return None
        if dtype[0] not in "iu":
            form = functions.FLOATS.get(node.op)
            texts = [self.expr(a, dtype) for a in node.args]
            if form is not None and dtype in NARROW:
                wide = [f"ct.astype({t}, ct.float32)" for t in texts]
                return f"ct.astype({form.format(*wide)}, ct.{CT_DTYPE[dtype]})"
            return None if form is None else form.format(*texts)
        divisor = self.types.get(node.args[-1])
        plain = node.op in INFIX and node.op != "pow" and isinstance(divisor, ScalarType) and bool(divisor.value)
        if plain and (dtype[0] == "i" or node.op == "remainder"):
            return None
        table = functions.SIGNED if dtype[0] == "i" else functions.UNSIGNED
        operands = [self.typed(a, dtype) for a in node.args]
        return table[node.op].format(*operands, bits=int(dtype[1:]))

    def typed(self, value: Expr, dtype: str) -> str:
        """An operand as a tile of `dtype`: a constant gets the dtype that cuTile would not infer."""
        text, kind = self.expr(value, dtype), self.types[value]
        if isinstance(kind, ScalarType) and kind.value is not None and not text.startswith("_f64("):
            return f"ct.astile({text}, dtype=ct.{CT_DTYPE[dtype]})"
        return text

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
                    extra += f", padding_mode=ct.PaddingMode.{self.padding(pad, call)}"
            case SubTilesType(array=array):
                text, index = self.sub_array(array), self.index(rest)
            case TensorType(name=array):
                text = self.variable(array)
                if call.op == "load_like":
                    rest = rest[1:]
                given = self.types.get(dict(call.kwargs).get("pad", call))
                if isinstance(given, StrType | ScalarType):
                    extra += f", padding_mode=ct.PaddingMode.{self.padding(given.value, call)}"
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
        if self.latency is not None:
            extra += f", latency={self.latency}"
        return f"ct.load({text}, {index}, {shape}{extra})"

    def _checked_index(self, call: OpCall, items: Sequence[Expr], source: Type, shape: tuple[int, ...]) -> str:
        """The index of an access whose check stays: compared first, and tile 0 once a check has failed."""
        whole = len(items) == 1 and isinstance(self.types[items[0]], IndexType | TupleType)
        texts = [f"{self.expr(items[0])}[{a}]" if whole else self.expr(items[a]) for a in range(len(shape))]
        for axis in self.in_place[call]:
            tiles = self.tile_count(source, axis, shape[axis])
            self.fault_unless(f"(0 <= {texts[axis]}) & ({texts[axis]} < {tiles})", call.span.line)
        return "(" + "".join(f"ct.where(ok, {t}, 0), " for t in texts) + ")"

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
            case Do(value=OpCall(op=op) as call) if op == "scatter" or op.startswith("atomic_"):
                text = self.expr(call)
                with self.block("if ok:"):
                    self.line(text)
            case Do(value=OpCall(op="print", args=args)):
                self.line(f"ct.print({', '.join(shown(self, value) for value in args)})")
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
                for_indices(self, node)
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


def lower(report: TileReport, maps: Mapping[str, tuple[int, ...]] | None = None, latency: int | None = None) -> Lowered:
    """The cuTile function of a kernel whose `report` is that of a specialisation; `latency` is a hint for every load.

    Raises `NoLowering` for what cuTile does not take.
    """
    kernel = report.kernel
    low = Lowering(report, maps or {}, latency)
    for node, kind in report.types.items():
        if isinstance(kind, TileType):
            odd = [e for e in low.shape(kind) if e & (e - 1)]
            if odd:
                raise NoLowering(f"a tile extent of {odd[0]}, which is no power of two", node)
    if low.checks:
        low.line("ok = True")
    with low.tiles():
        low.body(kernel.body)
    parameters = tuple(low.variable(p.name) for p in kernel.params)
    if low.checks:
        parameters += ("fault",)
    head = f"def {kernel.name}({', '.join(parameters)}):"
    text = "\n".join([*low.functions, head, *low.lines, ""])
    return Lowered(kernel.name, functions.before(text) + text, parameters, low.checks, low.walks)
