"""Whether a name is bound wherever a line is reached: what an edit must know before it writes a use of the name there.

A name is bound at a line if it is set once in the function around, by a statement of a block that the line stands in or
below, further up. Then each way to the line came past that statement, and nothing has set the name to something else
since; a handler or a `finally` of a `try` that sets it in its body does not stand below that. A parameter that is never
set is bound everywhere, and so is what a function finds in the module around it, set once at its top level.

Worked example: of `try: r = op.run()` / `except Refused: print(z)` the `r` is not bound at the `print`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# A block, and which of its statements the line is in.
_Step = tuple[Sequence[ast.stmt], int]


def bound_at(tree: ast.Module, name: str, line: int) -> bool:
    """Whether `name` (dotted for a field) is bound, and to one thing only, where the statement that begins at `line` does."""
    path = list(_path(tree.body, line))
    if not path or path[-1][0][path[-1][1]].lineno != line:
        return False
    inner = [at for at, (block, index) in enumerate(path) if isinstance(block[index], _Function)]
    scope = path[inner[-1]][0][path[inner[-1]][1]] if inner else tree
    body = path[inner[-1] + 1 :] if inner else path
    sets = _sets(scope, name)
    if not isinstance(scope, _Function) or sets:
        return len(sets) == 1 and _passed(body, sets[0])
    if name.partition(".")[0] in {arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)}:
        return True
    outer = _sets(tree, name)
    return len(outer) == 1 and outer[0] in tree.body


def _path(block: Sequence[ast.stmt], line: int) -> Iterator[_Step]:
    """The blocks around `line`, outermost first."""
    for index, statement in enumerate(block):
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            yield block, index
            for inner in _blocks(statement):
                yield from _path(inner, line)
            return


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for field in ("body", "orelse", "finalbody"):
            yield getattr(part, field, [])


def _sets(scope: ast.AST, name: str) -> list[ast.AST]:
    """The statements of `scope`, not of functions in it, that set or delete `name`."""
    found: list[ast.AST] = []
    stack: list[tuple[ast.AST, ast.AST]] = [(child, child) for child in ast.iter_child_nodes(scope)]
    while stack:
        node, statement = stack.pop()
        if _set_by(node) == name:
            found.append(statement)
        if not isinstance(node, _Function | ast.Lambda):
            stack += [
                (child, child if isinstance(child, ast.stmt) else statement) for child in ast.iter_child_nodes(node)
            ]
    return found


def _set_by(node: ast.AST) -> str | None:
    match node:
        case ast.Name() | ast.Attribute() if not isinstance(node.ctx, ast.Load):
            return ast.unparse(node)
        case ast.ExceptHandler(name=name):
            return name
        case ast.alias(name=name, asname=alias):
            return alias or name
        case _:
            return None


def _passed(path: Sequence[_Step], setter: ast.AST) -> bool:
    """Whether each way along `path` came past the statement `setter`."""
    simple = isinstance(setter, ast.Assign | ast.AnnAssign)
    return simple and any(setter in block[:index] for block, index in path)
