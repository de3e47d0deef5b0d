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

_BINARY: dict[type[cst.BaseBinaryOp], Callable[..., Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
    cst.LeftShift: operator.lshift,
    cst.RightShift: operator.rshift,
    cst.BitAnd: operator.and_,
    cst.BitOr: operator.or_,
    cst.BitXor: operator.xor,
}
_UNARY: dict[type[cst.BaseUnaryOp], Callable[..., Any]] = {
    cst.Minus: operator.neg,
    cst.Plus: operator.pos,
    cst.BitInvert: operator.invert,
    cst.Not: operator.not_,
}
_COMPARE: dict[type[cst.BaseCompOp], Callable[..., Any]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}
_MATH = {f"math.{name}": getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")}
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
        case cst.UnaryOperation(operator=sign, expression=inner) if type(sign) in _UNARY:
            value = fold(inner, lookup)
            return _guarded(lambda: _UNARY[type(sign)](value))
        case cst.BinaryOperation(left=left, operator=op, right=right) if type(op) in _BINARY:
            a, b = fold(left, lookup), fold(right, lookup)
            if isinstance(op, cst.Power | cst.LeftShift) and isinstance(b, int) and abs(b) > _BITS:
                raise NotConstant
            return _guarded(lambda: _BINARY[type(op)](a, b))
        case cst.Comparison(left=left, comparisons=[only]) if type(only.operator) in _COMPARE:
            a, b = fold(left, lookup), fold(only.comparator, lookup)
            return _guarded(lambda: _COMPARE[type(only.operator)](a, b))
        case cst.Tuple(elements=elements) if all(type(e) is cst.Element for e in elements):
            return tuple(fold(e.value, lookup) for e in elements)
        case cst.Call(func=cst.Name(value="float" | "int" as kind), args=[arg]) if arg.keyword is None and not arg.star:
            operand: Any = fold(arg.value, lookup)
            return _guarded(lambda: float(operand) if kind == "float" else int(operand))
        case _:
            raise NotConstant


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
