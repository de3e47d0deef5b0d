"""What the access in a signature permits: `Shared` is read, `Mut` is written and not given away.

Only a declared access refuses anything; a tensor that the function made itself is its own. A type checker says the same in
words about types, which the plugin takes back.

Worked example: in `def f(x: Tensor[Shared, f32, Dyn])` neither `x[0] = 1.0` nor `g(x)` with `g(z: Tensor[Mut, f32, Dyn])` can
be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Value
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck.ir.kernel import Access, TensorParam

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def refuse_write(low: Expressions, node: ir.Expr, value: Value, verb: str, span: Span) -> None:
    """`node` is written, cut or borrowed exclusively; `verb` says how."""
    if isinstance(value, Array) and value.library == "tilecheck" and value.access is Access.SHARED:
        message = f"cannot {verb} `{spell(node)}`: it is `Shared`"
        low.fault("write-to-shared", message, span, "declare the parameter `Tensor[Mut]`")


def refuse_given(low: Expressions, callee: str, param: TensorParam, node: ir.Expr, value: Value) -> None:
    """`node` is the argument of `param` of the function `callee`."""
    if not isinstance(value, Array) or value.library != "tilecheck" or param.access is None:
        return
    wanted, text = param.access.value, spell(node)
    if param.access is Access.OWNED and value.access in (Access.SHARED, Access.MUT):
        message = f"cannot give `{text}` away: it is `{value.access.value}`, `{param.name}` of `{callee}` is `Owned`"
        low.fault("write-to-shared", message, node.span, "pass a copy, or declare the parameter `Tensor[Owned]`")
    elif param.access in (Access.MUT, Access.MAPPED) and value.access is Access.SHARED:
        message = f"cannot write `{text}`: it is `Shared`, `{param.name}` of `{callee}` is `{wanted}`"
        low.fault("write-to-shared", message, node.span, "declare the parameter `Tensor[Mut]`")
