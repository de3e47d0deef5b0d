"""Which remainders a function asks for where, and what sets its variables: what is asked before a grid is called too small.

A function that asks for `n % tpb` looks after the tail in some way, so its launches of `n // tpb` blocks are let alone.
There is one exception: an `if` that tests the remainder for zero and only launches, `if n % tpb == 0: k[n // tpb, tpb](d)`,
says something of that launch, and nothing of the launches around it.

Invariant: only such an `if` narrows; any other place of a remainder counts for the whole function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilecheck.borrow.spell import spell
from tilecheck.borrow.survey import Survey, target_names
from tilecheck.ir import host as ir


def tested_in(part: Survey) -> frozenset[str]:
    """The remainders that count in all of a function, as written."""
    return frozenset(_remainders(_body(part))) if part.remainders else frozenset()


def _body(part: Survey) -> tuple[ir.HostNode, ...]:
    return (part.unit.body,) if isinstance(part.unit, ir.Lambda) else part.unit.body


def zero_tests(node: ir.Stmt) -> frozenset[str]:
    """The remainders that the `if` tests for zero, if it only launches then; they count inside of it."""
    if not isinstance(node, ir.If) or not all(isinstance(each, ir.Do) for each in (*node.then, *node.other)):
        return frozenset()
    launches = any(isinstance(n, ir.Call) and isinstance(n.func, ir.Sub) for n in ir.walk(*node.then))
    found = {_zero(part) for part in _conjuncts(node.test)} if launches else set()
    return frozenset(text for text in found if text is not None)


def _remainders(roots: Iterable[ir.HostNode]) -> Iterator[str]:
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, ir.Operation) and node.op == "%":
            yield spell(node)
        if isinstance(node, ir.If) and zero_tests(node):
            stack += [part for part in _conjuncts(node.test) if _zero(part) is None]
            stack += (*node.then, *node.other)
        else:
            stack += ir.children(node)


def _conjuncts(test: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(test, ir.Logic) and test.op == "and":
        for operand in test.operands:
            yield from _conjuncts(operand)
    else:
        yield test


def _zero(test: ir.Expr) -> str | None:
    """The remainder that `test` compares with zero."""
    match test:
        case ir.Operation(op="==", operands=(ir.Operation(op="%") as asked, ir.Const(value=0))):
            return spell(asked)
        case ir.Operation(op="==", operands=(ir.Const(value=0), ir.Operation(op="%") as asked)):
            return spell(asked)
        case ir.Operation(op="not", operands=(ir.Operation(op="%") as asked,)):
            return spell(asked)
        case _:
            return None


def bindings_of(part: Survey, name: str) -> tuple[ir.Expr | None, ...]:
    """What the statements of a function set the variable `name` to, None for what is no expression of its own."""
    found: list[ir.Expr | None] = [None for param in part.params if param.name == name]
    for node in ir.walk(*_body(part)):
        match node:
            case ir.Assign(targets=targets, value=ir.Expr() as value):
                for target in targets:
                    if isinstance(target, ir.Name) and target.id == name:
                        found.append(value)
                    elif name in target_names(target):
                        found.append(None)
            case ir.Augment(target=ir.Name(id=set_) as target, op=op, value=value) if set_ == name:
                found.append(ir.Operation(op, (target, value), span=node.span))
            case ir.Walrus(target=target, value=value) if target.id == name:
                found.append(value)
            case ir.For(target=target) | ir.Clause(target=target) | ir.WithItem(target=ir.Expr() as target):
                found += [None for each in target_names(target) if each == name]
            case ir.Global(names=names) if name in names:
                found.append(None)
            case _:
                pass
    return tuple(found)
