"""Explicit signatures of plain kernels: `@cuda.jit("void(float32[:], int32)")`, `@cuda.jit(void(float32[:], int32))`.

A kernel with a signature takes exactly those types: numba compiles no other version. Only arrays matter here, by dtype and rank; what
cannot be read, and a list of several signatures, is no signature.

Worked example: `"void(float32[:, ::1], float64)"` is an f32 array of two axes, then a scalar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilecheck.borrow.vocabulary import NUMBA_DTYPES, canonical
from tilecheck.ir import host as ir


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array argument: the short name of its dtype and its number of axes."""

    dtype: str
    rank: int


Signature = tuple[ArrayType | None, ...]

_CALL = re.compile(r"\s*\w*\s*\((.*)\)\s*", re.DOTALL)
_ARRAY = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*")


def signature_of(decorators: tuple[ir.Expr, ...]) -> Signature | None:
    """The one signature that a `cuda.jit` decorator states, None if it states none or several."""
    for decorator in decorators:
        if isinstance(decorator, ir.Call) and canonical(decorator.func) == "numba.cuda.jit" and decorator.args:
            first = decorator.args[0]
            if first.name in (None, "func_or_sig", "signature"):
                return _read(first.value)
    return None


def _read(node: ir.Expr) -> Signature | None:
    match node:
        case ir.Const(value=str() as text):
            found = _CALL.fullmatch(text)
            return tuple(_text(part) for part in _split(found[1])) if found is not None else None
        case ir.Call(args=args) if (canonical(node.func) or "").startswith("numba."):
            return tuple(_type(arg.value) for arg in args)
        case _:
            return None


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside of brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def _text(part: str) -> ArrayType | None:
    found = _ARRAY.fullmatch(part)
    dtype = NUMBA_DTYPES.get(found[1]) if found is not None else None
    return ArrayType(dtype, found[2].count(",") + 1) if found is not None and dtype is not None else None


def _type(node: ir.Expr) -> ArrayType | None:
    if not isinstance(node, ir.Sub):
        return None
    dtype = NUMBA_DTYPES.get((canonical(node.base) or "").rpartition(".")[2])
    axes = len(node.index.items) if isinstance(node.index, ir.Display) else 1
    return ArrayType(dtype, axes) if dtype is not None else None
