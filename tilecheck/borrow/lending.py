"""Arrays of other libraries on our memory, and our tensors on theirs (DLPack).

`np.from_dlpack(x)` shares the memory of `x` without a copy. The array borrows it as long as it exists, whether it is used
again or not: nobody sees when the other library reads. Lending is a read of the host, what runs on `x` must be waited for.
Ours may still be read; writing, borrowing exclusively and moving have to wait until the array is gone. The other way
round, `tc.from_dlpack(a)` gives our own memory back as a view.

`tc.lend(x)` is what numba and other libraries make an array of.

Worked example: `a = np.from_dlpack(x); x[0] = 1.0` meets the loan of `a`; after `del a` it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand, is_ours
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Hold, Kind, Site, Touch, Use

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_LENDER = "tilecheck.lend"
_TAKERS = frozenset(
    {"numba.cuda.as_cuda_array", "numpy.asarray", "torch.as_tensor", "torch.asarray", "cupy.asarray", "cupy.array"}
)
BORROWERS = frozenset(
    {
        "numpy.from_dlpack",
        "torch.from_dlpack",
        "torch.utils.dlpack.from_dlpack",
        "cupy.from_dlpack",
        "jax.dlpack.from_dlpack",
        _LENDER,
    }
)
"""Functions that make an array, or what becomes one, on the memory of their argument."""


def lent_to(node: ir.Call) -> ir.Call:
    """The call of `tc.lend` inside of a call that makes an array of what it lends (`as_cuda_array(tc.lend(x))`); any other
    call as it is.
    """
    if canonical(node.func) in _TAKERS and len(node.args) == 1 and not node.args[0].star:
        inner = node.args[0].value
        if isinstance(inner, ir.Call) and canonical(inner.func) == _LENDER:
            return inner
    return node


def lend(low: Expressions, node: ir.Call, full: str) -> Operand | None:
    """A call of one of `BORROWERS`; None if what it borrows is not known to be ours."""
    given = [arg for arg in node.args if arg.name != "read_only"]
    if len(given) != 1 or given[0].star or not is_ours(low.known(given[0].value)):
        return None
    arg = given[0]
    source = low.expr(arg.value)
    if source.var is None or not isinstance(source.value, Array):
        return None
    low.look(source, arg.value, Touch.READ, spell(node))
    numpy = full.startswith("numpy.")
    into = low.temp()
    site = Site(Kind.HOST if numpy else Kind.FOREIGN, spell(node), node.span)
    use = Use(source.var, Hold.SHARED, arg.span, spell(arg.value), "")
    low.emit(instructions.Lend((use,), full, into, site, lent=True, span=node.span))
    return Operand(into, Array("numpy" if numpy else "foreign", source.value.dtype, source.value.shape, made=node))


def made_of_lent(low: Expressions, node: ir.Call) -> Operand | None:
    """`np.asarray(lent)` after `lent = tc.lend(x)`: another handle on what was lent; None for any other call."""
    if canonical(node.func) not in _TAKERS or len(node.args) != 1 or node.args[0].star:
        return None
    known = low.known(node.args[0].value)
    made = known.made if isinstance(known, Array) else None
    if not isinstance(made, ir.Call) or canonical(made.func) != _LENDER:
        return None
    return low.view(low.expr(node.args[0].value), node)


def borrowed_back(low: Expressions, node: ir.Call) -> Operand | None:
    """`tc.from_dlpack(x)` of a tensor of ours: a view; None for anything else."""
    if len(node.args) != 1 or node.args[0].star or not is_ours(low.known(node.args[0].value)):
        return None
    return low.view(low.expr(node.args[0].value), node)
