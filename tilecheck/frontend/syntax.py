"""The syntactic parts of a libcst node, without its white space and punctuation, quickly.

`CSTNode.children` builds its answer with a visitor over everything, commas included; walking whole files that way
takes longer than parsing them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import libcst as cst

_SKIPPED = (
    "whitespace", "leading_lines", "lines_after", "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma",
    "semicolon", "equal", "header", "footer", "colon", "dot", "trailing", "indent", "asynchronous",
)  # fmt: skip
_parts: dict[type[cst.CSTNode], tuple[str, ...]] = {}


def parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes directly below `node` that carry meaning, in source order."""
    kind = type(node)
    names = _parts.get(kind)
    if names is None:
        names = _parts[kind] = tuple(f.name for f in fields(kind) if not f.name.startswith(_SKIPPED))
    for name in names:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, cst.CSTNode):
                    yield item
