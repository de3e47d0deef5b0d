"""Expressions of host code in the user's words, for messages.

The text is rebuilt from the host IR, not cut from the file, so that linter and plugin spell alike; what is long or
unreadable is shortened to `...`.
"""

from __future__ import annotations

from functools import lru_cache

from tilecheck.ir import host as ir

_LONGEST = 48
# What is nested deeper is longer than that anyway.
_DEEPEST = 24


# Nodes are the same only if they are one; the last ones are kept, since each is told about several times.
@lru_cache(maxsize=256)
def spell(node: ir.Expr) -> str:
    """`z.partition(128)` for the expression that says so; at most 48 characters."""
    text = _text(node, 0)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text(node: ir.Expr | None, depth: int) -> str:
    if depth > _DEEPEST:
        return "..."
    inner = depth + 1
    match node:
        case None:
            return ""
        case ir.Const(value=value, known=known):
            return repr(value) if known else "..."
        case ir.Name(id=name):
            return name
        case ir.Attr(base=base, name=name):
            return f"{_text(base, inner)}.{name}"
        case ir.Sub(base=base, index=index):
            return f"{_text(base, inner)}[{_index(index, inner)}]"
        case ir.Slice(start=start, stop=stop, step=step):
            tail = f":{_text(step, inner)}" if step is not None else ""
            return f"{_text(start, inner)}:{_text(stop, inner)}{tail}"
        case ir.Call(func=func, args=args):
            return f"{_text(func, inner)}({', '.join(_arg(arg, inner) for arg in args)})"
        case ir.Operation(op=op, operands=(only,)):
            return f"{op}{' ' if op == 'not' else ''}{_text(only, inner)}"
        case ir.Operation(op=op, operands=operands):
            return f" {op} ".join(_grouped(operand, inner) for operand in operands)
        case ir.Display(kind=kind, items=items) if kind != "dict":
            listed = ", ".join(_text(item, inner) for item in items)
            tail = "," if kind == "tuple" and len(items) == 1 else ""
            brackets = {"tuple": "()", "list": "[]", "set": "{}"}[kind]
            return f"{brackets[0]}{listed}{tail}{brackets[1]}"
        case ir.Starred(value=value):
            return f"*{_text(value, inner)}"
        case ir.Await(value=value):
            return f"await {_text(value, inner)}"
        case ir.Walrus(target=target, value=value):
            return f"({_text(target, inner)} := {_text(value, inner)})"
        case _:
            return "..."


def _index(index: ir.Expr, depth: int) -> str:
    if isinstance(index, ir.Display) and index.kind == "tuple" and index.items:
        return ", ".join(_text(item, depth) for item in index.items)
    return _text(index, depth)


def _grouped(node: ir.Expr, depth: int) -> str:
    text = _text(node, depth)
    return f"({text})" if isinstance(node, ir.Operation) and len(node.operands) > 1 else text


def _arg(arg: ir.Arg, depth: int) -> str:
    name = f"{arg.name}=" if arg.name is not None else ""
    return f"{name}{arg.star}{_text(arg.value, depth)}"
