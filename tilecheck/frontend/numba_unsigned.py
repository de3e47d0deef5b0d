"""Unsigned integers of numba kernels: where a value below zero turns into a huge one.

numba computes `uint32(a) - uint32(b)` in 64 unsigned bits, so 3 - 5 is 2**64 - 2, not -2; as soon as one operand is signed (a
literal is), the result is signed. The IR knows integers and casts, so this pass puts the casts in that numba leaves out:
`uint64(...)` around what two unsigned operands give, `int64(...)` around an unsigned operand of 64 bits that meets a signed
one. A variable is unsigned if everything assigned to it is.

Worked example: `d = np.uint32(i) - np.uint32(n)` becomes `d = uint64(np.uint32(i) - np.uint32(n))`, so `d < 8` fails for i < n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tilecheck.ir.kernel import (
    Assign,
    Binary,
    For,
    Inline,
    Name,
    Node,
    OpCall,
    Param,
    Return,
    ScalarParam,
    Select,
    Stmt,
    TensorParam,
    Unary,
    children,
    walk,
)
from tilecheck.ir.simt import AllocArray, Load

_UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64", "uintp", "ubyte", "ushort", "uintc", "ulonglong"})
_SMALL = frozenset({"uint8", "uint16", "uint32", "ubyte", "ushort", "uintc", "u8", "u16", "u32"})
_SHIFTS = ("<<", ">>")
_WRAPPING = ("+", "-", "*", "<<")


def with_unsigned_arithmetic(body: tuple[Stmt, ...], params: Mapping[str, Param]) -> tuple[Stmt, ...]:
    """`body` with the casts that numba's typing of unsigned operands amounts to."""
    dtypes: dict[str, str] = {}
    for param in params.values():
        if isinstance(param, TensorParam | ScalarParam) and param.dtype is not None and param.dtype.startswith("u"):
            dtypes[param.name] = param.dtype
    casts = False
    for node in walk(*body):
        if isinstance(node, AllocArray) and node.dtype is not None and node.dtype.startswith("u"):
            dtypes[node.name] = node.dtype
        casts = casts or (isinstance(node, OpCall) and node.op.rpartition(".")[2] in _UNSIGNED)
    if not casts and not dtypes:
        return body
    typing = _Typing(dtypes, {p.name for p in params.values() if isinstance(p, ScalarParam) and p.name in dtypes})
    typing.settle(body)
    return tuple(typing.rewritten(node) for node in body)


class _Typing:
    """Which variables are unsigned, and which of those may need more than 32 bits."""

    def __init__(self, dtypes: Mapping[str, str], scalars: set[str]) -> None:
        self._dtypes = dtypes
        self._scalars = scalars
        self._signed: set[str] = set()
        self._assigned: dict[str, list[Node]] = {}
        self._known: dict[Node, bool] = {}

    def settle(self, body: tuple[Stmt, ...]) -> None:
        """Find the signed variables: those that are assigned anything signed, to a fixed point."""
        self._collect(body, None)
        changed = True
        while changed:
            changed = False
            for name, values in self._assigned.items():
                if name not in self._signed and not all(self.unsigned(value) for value in values):
                    self._signed.add(name)
                    self._known.clear()
                    changed = True

    def _collect(self, body: tuple[Node, ...], result: str | None) -> None:
        for node in body:
            match node:
                case Assign(target=target, value=value):
                    self._assigned.setdefault(target, []).append(value)
                case For(target=target):
                    self._signed.add(target)
                case Return(value=value) if value is not None and result is not None:
                    self._assigned.setdefault(result, []).append(value)
            inner = node.result if isinstance(node, Inline) else result
            self._collect(tuple(children(node)), inner)

    def unsigned(self, node: Node) -> bool:
        """Whether numba types an expression as unsigned."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._unsigned(node)
        return known

    def _unsigned(self, node: Node) -> bool:
        match node:
            case Name(id=name):
                return name in self._scalars or (name in self._assigned and name not in self._signed)
            case OpCall(op=op):
                return op.rpartition(".")[2] in _UNSIGNED
            case Load(array=Name(id=name)):
                return name in self._dtypes
            case Binary(op=op, left=left, right=right):
                return self.unsigned(left) and (op in _SHIFTS or self.unsigned(right)) and op not in ("/", "**")
            case Unary(op=op, operand=operand):
                return op != "not" and self.unsigned(operand)
            case Select(then=then, other=other):
                return self.unsigned(then) and self.unsigned(other)
        return False

    def _wide(self, node: Node, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an unsigned expression may be 2**63 or more."""
        match node:
            case OpCall(op=op):
                return op.rpartition(".")[2] not in _SMALL
            case Load(array=Name(id=name)) | Name(id=name) if name in self._dtypes:
                return self._dtypes[name] not in _SMALL
            case Name(id=name):
                return name not in seen and any(self._wide(v, seen | {name}) for v in self._assigned.get(name, ()))
            case Select(then=then, other=other):
                return self._wide(then, seen) or self._wide(other, seen)
        return True

    def rewritten(self, node: Any) -> Any:
        """`node` with casts, below it too."""
        changes = {}
        for field in fields(node):
            value = getattr(node, field.name)
            if isinstance(value, Node):
                made: object = self.rewritten(value)
            elif isinstance(value, tuple) and any(isinstance(item, Node) for item in value):
                made = tuple(self.rewritten(item) if isinstance(item, Node) else item for item in value)
            else:
                continue
            if made is not value:
                changes[field.name] = made
        result = replace(node, **changes) if changes else node
        if isinstance(node, Binary):
            return self._binary(node, result)
        if isinstance(node, Unary) and node.op in ("-", "~") and self.unsigned(node):
            return OpCall("uint64", (result,), span=node.span)
        return result

    def _binary(self, node: Binary, result: Binary) -> Node:
        if self.unsigned(node):
            return OpCall("uint64", (result,), span=node.span) if node.op in _WRAPPING else result
        left, right = result.left, result.right
        if self.unsigned(node.left) and self._wide(node.left) and node.op not in ("/", "**"):
            left = OpCall("int64", (left,), span=left.span)
        if self.unsigned(node.right) and self._wide(node.right) and node.op not in ("/", "**"):
            right = OpCall("int64", (right,), span=right.span)
        return result if left is result.left and right is result.right else replace(result, left=left, right=right)
