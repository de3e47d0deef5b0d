"""Expressions of numba kernels: arithmetic, subscripts, attributes, short-circuit logic.

Python's meaning is kept: operands left to right, `and`/`or`/ternaries evaluate only what they need, a chained
comparison evaluates its middle once (a load in the middle is repeated instead, which reads the same element). What is
not understood becomes `Opaque` with its reason.

Worked example: `0 <= a[i] < m` is `Logic("and", (Compare("<=", 0, Load(a, i)), Compare("<", Load(a, i), m)))`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.host_dtypes import dtype_name
from tilecheck.frontend.numba_build import Builder
from tilecheck.frontend.scopes import UNKNOWN, Ref
from tilecheck.ir.kernel import (
    Assign,
    Binary,
    Compare,
    Const,
    Expr,
    Extent,
    If,
    Item,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Select,
    Stmt,
    TupleExpr,
    Unary,
)
from tilecheck.ir.simt import Load, SliceExpr, SubArray

_BINARY: dict[type[cst.CSTNode], str] = {
    cst.Add: "+",
    cst.AddAssign: "+",
    cst.Subtract: "-",
    cst.SubtractAssign: "-",
    cst.Multiply: "*",
    cst.MultiplyAssign: "*",
    cst.Divide: "/",
    cst.DivideAssign: "/",
    cst.FloorDivide: "//",
    cst.FloorDivideAssign: "//",
    cst.Modulo: "%",
    cst.ModuloAssign: "%",
    cst.Power: "**",
    cst.PowerAssign: "**",
    cst.MatrixMultiply: "@",
    cst.MatrixMultiplyAssign: "@",
    cst.BitAnd: "&",
    cst.BitAndAssign: "&",
    cst.BitOr: "|",
    cst.BitOrAssign: "|",
    cst.BitXor: "^",
    cst.BitXorAssign: "^",
    cst.LeftShift: "<<",
    cst.LeftShiftAssign: "<<",
    cst.RightShift: ">>",
    cst.RightShiftAssign: ">>",
}
_COMPARE: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}
_UNARY: dict[type[cst.BaseUnaryOp], str] = {cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~", cst.Not: "not"}
_VIEWS = frozenset({"T", "flat"})


def binary_symbol(op: cst.CSTNode) -> str:
    """`+` of `cst.Add` or `cst.AddAssign`, and so on."""
    return _BINARY[type(op)]


class Expressions(Builder, ABC):
    """Lowering of expressions; calls are left to the subclass."""

    @abstractmethod
    def call(self, node: cst.Call) -> Expr:
        """Lower a call to its value, emitting what it does."""

    def expr(self, node: cst.BaseExpression) -> Expr:
        """Lower `node`; what it does besides having a value is emitted first."""
        span = self.span(node)
        match node:
            case cst.Integer() | cst.Float() | cst.SimpleString() | cst.ConcatenatedString():
                value = node.evaluated_value
                if isinstance(value, int | float | str):
                    return Const(value, span=span)
                return Opaque("a bytes literal", span=span)
            case cst.Imaginary():
                return Opaque("a complex number", span=span)
            case cst.Name():
                return self._name(node, span)
            case cst.Attribute():
                return self._attribute(node, span)
            case cst.Subscript():
                return self._subscript(node, span)
            case cst.Call():
                folded = self.static(node)
                if isinstance(folded, int | float | tuple) and not self._keeps_dtype(node):
                    return self.constant(folded, span, "")
                return self.call(node)
            case cst.UnaryOperation(operator=sign, expression=inner):
                folded = self.static(node)
                if isinstance(folded, int | float):
                    return Const(folded, span=span)
                return Unary(_UNARY[type(sign)], self.expr(inner), span=span)  # type: ignore[arg-type]
            case cst.BinaryOperation(left=left, operator=op, right=right):
                folded = self.static(node)
                if isinstance(folded, int | float):
                    return Const(folded, span=span)
                a, b = self.in_order([lambda: self.expr(left), lambda: self.expr(right)])
                return self._combine(binary_symbol(op), a, b, span)
            case cst.Comparison():
                return self._comparison(node, span)
            case cst.BooleanOperation(left=left, operator=logic, right=right):
                return self._logic("and" if isinstance(logic, cst.And) else "or", left, right, span)
            case cst.IfExp(test=test, body=body, orelse=orelse):
                return self._ternary(test, body, orelse, span)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                if any(not isinstance(element, cst.Element) for element in elements):
                    return Opaque("a starred tuple", span=span)
                items = self.in_order([self._thunk(element.value) for element in elements])
                return TupleExpr(tuple(items), span=span)
            case cst.NamedExpr(target=cst.Name(value=name), value=inner):
                target = self.local(name) or name
                self.assign(target, self.expr(inner), span)
                return Name(target, span=span)
        return Opaque(f"an expression of a kind not read ({type(node).__name__})", span=span)

    def _keeps_dtype(self, node: cst.Call) -> bool:
        """Whether a call is a cast such as `float32(0.5)` or `uint32(5)`, whose dtype a folded constant would lose."""
        function = self.static(node.func)
        return isinstance(function, Ref) and (dtype_name(function) or "").startswith(("float", "uint"))

    def _thunk(self, node: cst.BaseExpression) -> Callable[[], Expr]:
        return lambda: self.expr(node)

    def _combine(self, symbol: str, a: Expr, b: Expr, span: Span) -> Expr:
        left, right = self.tuple_items(a), self.tuple_items(b)
        if symbol == "+" and left is not None and right is not None:
            return TupleExpr((*left, *right), span=span)
        return Binary(symbol, a, b, span=span)  # type: ignore[arg-type]

    def _name(self, node: cst.Name, span: Span) -> Expr:
        name = node.value
        if name in ("True", "False", "None"):
            return Const({"True": True, "False": False, "None": None}[name], span=span)
        local = self.local(name)
        value = self.static(node)
        if local is not None and value is UNKNOWN:
            return Name(local, span=span)
        if value is UNKNOWN:
            if self.free_is_unknown(name):
                return Name(name, span=span)
            return Opaque(f"`{name}` is not defined in a file that was read", span=span)
        return self.constant(value, span, name)

    # ---- tuples

    def tuple_items(self, value: Expr) -> tuple[Expr, ...] | None:
        """The items of a tuple whose length is known, None for anything else."""
        if isinstance(value, Name):
            value = self.known.get(value.id, value)
        return value.items if isinstance(value, TupleExpr) else None

    def item(self, value: Expr, index: int, span: Span) -> Expr:
        """`value[index]` of a tuple."""
        items = self.tuple_items(value)
        if items is not None and -len(items) <= index < len(items):
            return items[index]
        known = self.known.get(value.id, value) if isinstance(value, Name) else value
        if isinstance(known, OpCall) and known.op == "shape" and index >= 0:
            return Extent(known.args[0], index, span=span)
        return Item(value, Const(index, span=span), span=span)

    # ---- attributes and subscripts

    def _attribute(self, node: cst.Attribute, span: Span) -> Expr:
        value = self.static(node)
        name = node.attr.value
        if value is not UNKNOWN:
            return self.constant(value, span, name)
        base = self.static(node.value)
        if name in ("real", "imag"):
            return OpCall(name, (self.expr(node.value),), span=span)
        if name == "dtype" or isinstance(base, Ref):
            return Opaque(f"`.{name}`", span=span)
        array = self.array(node.value)
        if name == "size":
            return Extent(array, None, span=span)
        if name == "shape":
            return OpCall("shape", (array,), span=span)
        if name in ("ndim", "strides", "nbytes", "itemsize") or name in _VIEWS:
            return OpCall(name, (array,), span=span)
        return self._field(array, name, span)

    def _field(self, record: Expr, name: str, span: Span) -> Expr:
        """Member `name` of a structured element, or of a scalar object such as a vector."""
        if isinstance(record, SubArray) and not any(isinstance(part, SliceExpr) for part in record.index):
            return Load(record.array, record.index, name, span=span)
        if isinstance(record, Name) and (record.id in self.known or record.id in self.params):
            return Load(record, (), name, span=span)
        return OpCall("getattr", (record, Const(name, span=span)), span=span)

    def array(self, node: cst.BaseExpression) -> Expr:
        """Lower an expression that is used as an array: a subscript of it is a view, not a load."""
        if isinstance(node, cst.Subscript):
            return self._subscript(node, self.span(node), view=True)
        return self.expr(node)

    def array_value(self, target: str | None, node: cst.BaseExpression) -> Expr:
        """Lower the right side of `target = node`: a subscript stays a view if `target` is used as an array."""
        used = target is not None and (target in self.frame.usage.arrays or target in self.frame.usage.records)
        return self.array(node) if used else self.expr(node)

    def subscript_parts(self, node: cst.Subscript) -> tuple[Expr, tuple[Expr, ...], str | None]:
        """Array, index and record member of `array[index]`, evaluated in that order."""
        base_node: cst.BaseExpression = node.value
        field = None
        elements = [element.slice for element in node.slice]
        if len(elements) == 1 and isinstance(elements[0], cst.Index):
            key = elements[0].value
            if isinstance(key, cst.SimpleString) and isinstance(key.evaluated_value, str):
                array = self.array(base_node)
                if isinstance(array, SubArray):
                    return array.array, array.index, key.evaluated_value
                return array, (), key.evaluated_value
        if isinstance(base_node, cst.Attribute) and self._is_member(base_node):
            field = base_node.attr.value
            base_node = base_node.value
        array = self.array(base_node)
        index = self._indices(elements)
        if isinstance(array, SubArray) and not any(isinstance(part, SliceExpr) for part in array.index):
            return array.array, (*array.index, *index), field
        return array, index, field

    def _is_member(self, node: cst.Attribute) -> bool:
        if self.static(node) is not UNKNOWN or isinstance(self.static(node.value), Ref):
            return False
        return node.attr.value not in ("shape", "T", "flat", "strides", "real", "imag")

    def _indices(self, elements: list[cst.BaseSlice]) -> tuple[Expr, ...]:
        if len(elements) == 1 and isinstance(elements[0], cst.Index) and isinstance(elements[0].value, cst.Tuple):
            elements = [cst.Index(value=e.value) for e in elements[0].value.elements]
        parts: list[Expr] = []
        thunks = [self._index_thunk(element) for element in elements]
        for part in self.in_order(thunks):  # a `SliceExpr` passes through as it is
            items = self.tuple_items(part)
            parts.extend(items if items is not None else (part,))
        return tuple(parts)

    def _index_thunk(self, element: cst.BaseSlice) -> Callable[[], Expr]:
        def lower() -> Expr:
            if isinstance(element, cst.Index):
                if isinstance(element.value, cst.Ellipsis):
                    return self._slice(cst.Slice(lower=None, upper=None), self.span(element.value), ellipsis=True)
                return self.expr(element.value)
            assert isinstance(element, cst.Slice)
            return self._slice(element, self.span(element), ellipsis=False)

        return lower

    def _slice(self, node: cst.Slice, span: Span, *, ellipsis: bool) -> Expr:
        if ellipsis:
            return Const("...", span=span)
        parts = [node.lower, node.upper, node.step]
        values = [None if part is None else self.expr(part) for part in parts]
        return SliceExpr(*values, span=span)

    def _subscript(self, node: cst.Subscript, span: Span, *, view: bool = False) -> Expr:
        folded = self.static(node)
        if isinstance(folded, int | float | bool | tuple | str):
            return self.constant(folded, span, "")
        shape = self._shape_item(node, span)
        if shape is not None:
            return shape
        array, index, field = self.subscript_parts(node)
        items = self.tuple_items(array)
        if (items is not None or self._is_tuple(array)) and len(index) == 1 and not isinstance(index[0], SliceExpr):
            return self._tuple_item(array, items, index[0], span)
        if any(isinstance(part, SliceExpr) or _is_ellipsis(part) for part in index) or (view and field is None):
            return SubArray(array, index, span=span)
        return Load(array, index, field, span=span)

    def _is_tuple(self, value: Expr) -> bool:
        if isinstance(value, Name):
            value = self.known.get(value.id, value)
        return isinstance(value, OpCall) and value.op in ("shape", "strides")

    def _tuple_item(self, array: Expr, items: tuple[Expr, ...] | None, index: Expr, span: Span) -> Expr:
        if isinstance(index, Const) and isinstance(index.value, int):
            return self.item(array, index.value, span)
        return Item(array, index, span=span)

    def _shape_item(self, node: cst.Subscript, span: Span) -> Expr | None:
        """`a.shape[k]` with a constant k."""
        base = node.value
        if not (isinstance(base, cst.Attribute) and base.attr.value == "shape" and len(node.slice) == 1):
            return None
        element = node.slice[0].slice
        index = self.static(element.value) if isinstance(element, cst.Index) else UNKNOWN
        whole = self.expr(base)
        if isinstance(index, int) and isinstance(whole, OpCall) and whole.op == "shape" and index >= 0:
            return Extent(whole.args[0], index, span=span)
        if isinstance(index, int) and isinstance(whole, TupleExpr):
            return self.item(whole, index, span)
        return None

    # ---- comparison and logic

    def _comparison(self, node: cst.Comparison, span: Span) -> Expr:
        operators = [target.operator for target in node.comparisons]
        nodes = [node.left, *(target.comparator for target in node.comparisons)]
        values = self.in_order([self._thunk(n) for n in nodes])
        parts: list[Expr] = []
        for op, left, right in zip(operators, values, values[1:], strict=False):
            parts.append(self._compare(op, left, right, span))
        return parts[0] if len(parts) == 1 else Logic("and", tuple(parts), span=span)

    def _compare(self, op: cst.BaseCompOp, left: Expr, right: Expr, span: Span) -> Expr:
        symbol = _COMPARE.get(type(op))
        if symbol is not None:
            return Compare(symbol, left, right, span=span)  # type: ignore[arg-type]
        if isinstance(op, cst.Is | cst.IsNot):
            if isinstance(left, Const) and isinstance(right, Const):
                return Const((left.value is right.value) == isinstance(op, cst.Is), span=span)
            return Opaque("an `is` comparison", span=span)
        items = self.tuple_items(right)
        if items is None or not items:
            return Opaque("an `in` comparison", span=span)
        equal: tuple[Expr, ...] = tuple(Compare("==", left, item, span=span) for item in items)
        found: Expr = equal[0] if len(equal) == 1 else Logic("or", equal, span=span)
        return found if isinstance(op, cst.In) else Unary("not", found, span=span)

    def _logic(self, op: str, left: cst.BaseExpression, right: cst.BaseExpression, span: Span) -> Expr:
        first = self.expr(left)
        with self.block() as emitted:
            second = self.expr(right)
        if not emitted:
            flat = first.operands if isinstance(first, Logic) and first.op == op else (first,)
            return Logic(op, (*flat, second), span=span)  # type: ignore[arg-type]
        result = self.fresh()
        self.emit(Assign(result, first, span=first.span))
        cond: Expr = Name(result, span=span)
        if op == "or":
            cond = Unary("not", cond, span=span)
        self.emit(If(cond, (*emitted, Assign(result, second, span=second.span)), span=span))
        return Name(result, span=span)

    def _ternary(
        self, test: cst.BaseExpression, body: cst.BaseExpression, orelse: cst.BaseExpression, span: Span
    ) -> Expr:
        chosen = self.static(test)
        if isinstance(chosen, int | float | str) or chosen is None:
            return self.expr(body if chosen else orelse)
        cond = self.expr(test)
        with self.block() as before_then:
            then = self.expr(body)
        with self.block() as before_other:
            other = self.expr(orelse)
        return self.choose(cond, (before_then, then), (before_other, other), span)

    def choose(self, cond: Expr, then: tuple[list[Stmt], Expr], other: tuple[list[Stmt], Expr], span: Span) -> Expr:
        """`then if cond else other`, each arm with the statements that it needs."""
        if not then[0] and not other[0]:
            return Select(cond, then[1], other[1], span=span)
        result = self.fresh()
        arms = [(*before, Assign(result, value, span=value.span)) for before, value in (then, other)]
        self.emit(If(cond, arms[0], arms[1], span=span))
        return Name(result, span=span)


def _is_ellipsis(part: Node) -> bool:
    return isinstance(part, Const) and part.value == "..."
