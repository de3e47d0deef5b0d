"""The block that `@tc.simt(block=...)` and `tc.adopt(kernel, block=...)` state, as far as the file shows it.

The same is refused when the decorator runs; here it is said without importing the file. One to three positive ints, at
most 1024 threads, at most 64 of them along z.

Worked example: `block=(64, 32)` is 2048 threads; `@tc.simt` alone states none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilecheck.borrow.plain_brackets import MOST_ALONG_Z, MOST_THREADS
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Number
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_RULE = "launch-contract"


def check_decorator(low: Expressions, node: ir.Expr) -> None:
    """`@tc.simt` without a call."""
    if canonical(node) == "tilecheck.simt":
        low.fault(
            _RULE, "`@tc.simt` states no block", node.span, "say how many threads a block has: `@tc.simt(block=256)`"
        )


def check_block(low: Expressions, node: ir.Call) -> None:
    """`tc.simt(...)` or `tc.adopt(...)`."""
    name = spell(node.func)
    block = next((arg.value for arg in node.args if arg.name == "block"), None)
    if block is None:
        if not any(arg.star for arg in node.args):
            low.fault(
                _RULE, f"`{name}` states no block", node.span, f"say how many threads a block has: `{name}(block=256)`"
            )
        return
    parts = block.items if isinstance(block, ir.Display) and block.kind == "tuple" else (block,)
    found = [low.known(part) for part in parts]
    values = [
        value.value if isinstance(value, Number) else low.whole(part) for value, part in zip(found, parts, strict=True)
    ]
    known = [value for value in values if value is not None]
    wrong = any(not isinstance(value, int) or isinstance(value, bool) or value < 1 for value in known)
    if wrong or not 1 <= len(parts) <= 3:
        low.fault(_RULE, f"`block={spell(block)}` is no block", block.span, "one to three positive ints")
        return
    sizes = [value for value in known if isinstance(value, int)]
    threads = math.prod(sizes)
    if threads > MOST_THREADS:
        counts = " x ".join(str(value) for value in values) + f" = {threads}" if len(values) > 1 else str(threads)
        low.fault(_RULE, f"`block={spell(block)}` is {counts} threads, the limit is {MOST_THREADS}", block.span)
    elif len(values) == 3 and isinstance(values[2], int) and values[2] > MOST_ALONG_Z:
        message = f"`block={spell(block)}` has {values[2]} threads along z, the limit is {MOST_ALONG_Z}"
        low.fault(_RULE, message, block.span)
