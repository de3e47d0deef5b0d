"""Constant expressions of Python source: literals, arithmetic on them, and names that mean constants.

What is folded here is what Python would compute at import time, on exact ints and IEEE doubles. Anything else raises
`NotConstant`; so does an error that Python itself would raise, and a number that grows past 4,096 bits.

    fold(cst.parse_expression("2 ** 10 - N"), lookup) == 1020        # lookup(Name("N")) == 4
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import libcst as cst


class NotConstant(Exception):
    """The expression is no constant."""


Lookup = Callable[[cst.BaseExpression], object]

BINARY: dict[type[cst.BaseBinaryOp], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
}
AUGMENTED: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
}
UNARY: dict[type[cst.BaseUnaryOp], str] = {cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~", cst.Not: "not"}
COMPARE: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}
_MEANING: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY_MEANING: dict[str, Callable[..., Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "not": operator.not_,
}
_MATH = {f"math.{name}": getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"math.{name}": getattr(math, name)
    for name in ("ceil", "cos", "exp", "floor", "log", "log10", "log2", "pow", "radians", "sin", "sqrt", "tan", "tanh")
}
_BITS = 4096


def literal(node: cst.BaseExpression) -> object:
    """The value of a literal. Raises `NotConstant` for anything else."""
    match node:
        case cst.Integer() | cst.Float():
            return node.evaluated_value
        case cst.SimpleString() | cst.ConcatenatedString():
            value = node.evaluated_value
            if isinstance(value, str):
                return value
        case cst.Name(value="True"):
            return True
        case cst.Name(value="False"):
            return False
        case cst.Name(value="None"):
            return None
        case _:
            pass
    raise NotConstant


def fold(node: cst.BaseExpression, lookup: Lookup) -> object:
    """The value of `node`. `lookup` gives the value of a name or attribute, or raises `NotConstant`."""
    match node:
        case cst.Name(value="True" | "False" | "None") | cst.Integer() | cst.Float():
            return literal(node)
        case cst.SimpleString() | cst.ConcatenatedString():
            return literal(node)
        case cst.Name():
            return lookup(node)
        case cst.Attribute():
            text = _text(node)
            return _MATH[text] if text in _MATH else lookup(node)
        case cst.UnaryOperation(operator=sign, expression=inner) if type(sign) in UNARY:
            return compute(UNARY[type(sign)], fold(inner, lookup))
        case cst.BinaryOperation(left=left, operator=op, right=right) if type(op) in BINARY:
            return compute(BINARY[type(op)], fold(left, lookup), fold(right, lookup))
        case cst.Comparison(left=left, comparisons=[only]) if type(only.operator) in COMPARE:
            return compute(COMPARE[type(only.operator)], fold(left, lookup), fold(only.comparator, lookup))
        case cst.Tuple(elements=elements) if all(type(e) is cst.Element for e in elements):
            return tuple(fold(e.value, lookup) for e in elements)
        case cst.Call(func=cst.Name(value="float" | "int" as kind), args=[arg]) if arg.keyword is None and not arg.star:
            operand: Any = fold(arg.value, lookup)
            return _guarded(lambda: float(operand) if kind == "float" else int(operand))
        case cst.Call(func=func, args=args) if _text(func) in _FUNCTIONS and args:
            if any(a.keyword is not None or a.star for a in args):
                raise NotConstant
            values: list[Any] = [fold(a.value, lookup) for a in args]
            return _guarded(lambda: _FUNCTIONS[_text(func)](*values))
        case _:
            raise NotConstant


def compute(op: str, *operands: object) -> object:
    """`op` on constants, by its token. Raises `NotConstant` where Python would raise or the number grows too large."""
    meaning = (_UNARY_MEANING if len(operands) == 1 else _MEANING).get(op)
    if meaning is None:
        raise NotConstant
    last = operands[-1]
    if op in ("**", "<<") and isinstance(last, int) and abs(last) > _BITS:
        raise NotConstant
    return _guarded(lambda: meaning(*operands))


def _text(node: cst.BaseExpression) -> str:
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(value=base, attr=cst.Name(value=attr)):
            return f"{_text(base)}.{attr}"
        case _:
            return ""


def _guarded(compute: Callable[[], object]) -> object:
    try:
        value = compute()
    except (ArithmeticError, TypeError, ValueError):
        raise NotConstant from None
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise NotConstant
    if isinstance(value, complex):
        raise NotConstant
    return value
