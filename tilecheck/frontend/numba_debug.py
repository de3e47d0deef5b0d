"""What `debug=True` adds to a kernel: a division by zero ends the thread.

Without debug numba divides by zero in silence. With it the division raises, which the rest of the kernel sees as a
thread that has left: a barrier further down is then missed. So an assert of the divisor is put before every statement
that divides, under the conditions under which Python evaluates the division.

Worked example: `out[t] = a[t] // b[t]` becomes `assert b[t] != 0`, then the store.
"""

from __future__ import annotations

from dataclasses import replace

from tilecheck.ir.kernel import (
    Assert,
    Binary,
    Compare,
    Const,
    For,
    If,
    Inline,
    Logic,
    Node,
    Select,
    Stmt,
    Unary,
    While,
    children,
)

_DIVIDES = ("/", "//", "%")


def with_checked_divisions(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`body` with an assert before every division."""
    made: list[Stmt] = []
    for node in body:
        match node:
            case If(cond=cond, then=then, other=other):
                made += _asserts(cond)
                made.append(replace(node, then=with_checked_divisions(then), other=with_checked_divisions(other)))
            case While(cond=cond, body=inner):
                checks = _asserts(cond)
                made += checks
                made.append(replace(node, body=(*with_checked_divisions(inner), *checks)))
            case For(start=start, stop=stop, step=step, body=inner):
                made += [check for bound in (start, stop, step) for check in _asserts(bound)]
                made.append(replace(node, body=with_checked_divisions(inner)))
            case Inline(body=inner):
                made.append(replace(node, body=with_checked_divisions(inner)))
            case _:
                made += _asserts(node)
                made.append(node)
    return tuple(made)


def _asserts(node: Node) -> list[Stmt]:
    """The checks of the divisions in an expression, or directly in a statement, in the order of evaluation."""
    match node:
        case Select(cond=cond, then=then, other=other):
            checks = _asserts(cond)
            first, second = _asserts(then), _asserts(other)
            return [*checks, If(cond, tuple(first), tuple(second), span=node.span)] if first or second else checks
        case Logic(op=op, operands=(operand, *rest)):
            checks = _asserts(operand)
            later = _asserts(Logic(op, tuple(rest), span=node.span)) if len(rest) > 1 else _asserts(rest[0])
            if not later:
                return checks
            goes_on = operand if op == "and" else Unary("not", operand, span=operand.span)
            return [*checks, If(goes_on, tuple(later), span=node.span)]
    checks = [check for child in children(node) for check in _asserts(child)]
    if isinstance(node, Binary) and node.op in _DIVIDES and not (isinstance(node.right, Const) and node.right.value):
        nonzero = Compare("!=", node.right, Const(0, span=node.right.span), span=node.right.span)
        checks.append(Assert(nonzero, "division by zero", span=node.span))
    return checks
