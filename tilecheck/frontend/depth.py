"""How deep the source of a file nests, found out without recursion, before anything recursive reads it.

libcst's parser is native code: a sum of ten thousand terms exhausts its stack and ends the process, and one of a few
thousand takes minutes. CPython's own parser refuses what is too deep for it by an exception, so its tree is at hand first,
and it is measured level by level.

Worked example: `x = a + b + c` nests `Assign`, two `BinOp` in one another, and a `Name`: with the module 5 levels.
"""

from __future__ import annotations

import ast
import io
import tokenize

# A link of a chain of methods is two levels, a term of a sum is one. Reading time grows with the square of the depth.
MOST_LEVELS = 2_000


def too_deep(tree: ast.AST, text: str) -> int | None:
    """The line of the first statement that reaches deeper than `MOST_LEVELS`; None if there is none."""
    if len(text) <= MOST_LEVELS:
        return None
    # Each node with the line of the innermost statement around it.
    level: list[tuple[ast.AST, int]] = [(tree, 1)]
    for _ in range(MOST_LEVELS):
        below: list[tuple[ast.AST, int]] = []
        for node, line in level:
            for value in vars(node).values():
                if isinstance(value, ast.AST):
                    below.append((value, line))
                elif isinstance(value, list):
                    below += [(each, _line(each, line)) for each in value if isinstance(each, ast.AST)]
        if not below:
            return None
        level = below
    return min(line for _, line in level)


def _line(node: ast.AST, around: int) -> int:
    return node.lineno if isinstance(node, ast.stmt) else around


def longest_statement(text: str) -> int:
    """The line on which the statement with the most tokens starts: the one that a parser ran out of stack in."""
    first = last = 1
    most = count = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if count == 0:
                last = token.start[0]
            if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
                count += 1
            if token.type == tokenize.NEWLINE:
                if count > most:
                    first, most = last, count
                count = 0
    except (tokenize.TokenError, SyntaxError):
        return first
    return first
