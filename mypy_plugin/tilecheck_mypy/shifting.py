"""What the functions of a file may set: variables of outer scopes, and fields. It is asked only where a test of such a
variable or field would be taken for the same as an earlier one, so that most files are not walked for it.

Worked example: of `class A: def close(self): self.open = False` the field `.open` is set outside of a constructor.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy import nodes
from mypy.nodes import Block, MypyFile, Statement

from tilecheck.borrow.survey import CONSTRUCTORS


def shifting(file: MypyFile) -> frozenset[str]:
    """What the functions of a file may set, as `HostModule.shifting` says."""
    found: set[str] = set()
    stack: list[tuple[Statement, bool]] = [(statement, False) for statement in file.defs]
    while stack:
        statement, builds = stack.pop()
        match statement:
            case nodes.GlobalDecl(names=declared) | nodes.NonlocalDecl(names=declared):
                found.update(declared)
            case nodes.AssignmentStmt(lvalues=targets) if not builds:
                found.update(f".{target.name}" for target in targets if isinstance(target, nodes.MemberExpr))
            case nodes.OperatorAssignmentStmt(lvalue=nodes.MemberExpr(name=name)) if not builds:
                found.add(f".{name}")
            case nodes.FuncDef(name=name, body=body):
                stack += [(inner, name in CONSTRUCTORS) for inner in body.body]
            case nodes.Decorator(func=function):
                stack.append((function, False))
            case nodes.OverloadedFuncDef(items=items, impl=impl):
                stack += [(part, False) for part in (*items, impl) if part is not None]
            case nodes.ClassDef(defs=block):
                stack += [(inner, False) for inner in block.body]
            case _:
                for block in blocks_of(statement):
                    stack += [(inner, builds) for inner in block.body]
    return frozenset(found)


def blocks_of(statement: Statement) -> Iterator[Block]:
    """The blocks of an `if`, a loop, a `with`, a `try` or a `match`."""
    for name in ("body", "handlers", "bodies", "else_body", "finally_body"):
        part = getattr(statement, name, None)
        yield from (block for block in (part if isinstance(part, list) else [part]) if isinstance(block, Block))
