"""Ops and methods of the kernel language that host code calls: they mean nothing there.

Undecorated functions may be helpers of kernels, so only code that is sure to be the host's is told: a module's body, and
a function that launches, runs or makes what kernels cannot. An op of a tensor that was made with an int for an extent is
one of the host anywhere.

Worked example. `def main(): x = tc.ones(64); print(tc.exp(x)); copy(z.partition(8), x).sync()` is host code, for it runs
an op, and `tc.exp(x)` is refused; in `def soften(x): return tc.exp(x)` it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tilecheck.borrow.program import Program
from tilecheck.borrow.surface import Effect, having
from tilecheck.borrow.survey import Survey
from tilecheck.borrow.values import Array, KernelValue, Value
from tilecheck.borrow.vocabulary import HOST_ONLY, TENSOR_MAKERS
from tilecheck.ir import host as ir
from tilecheck.ir.kernel import Access
from tilecheck.surface.opnames import KERNEL_OPS

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions

_OPS: Final = frozenset(f"tilecheck.{name}" for name in KERNEL_OPS) - TENSOR_MAKERS
_METHODS: Final = having("Tensor", Effect.KERNEL)
# What only host code asks of a value of ours.
_OF_HOST: Final = having("DeviceOp", Effect.FINISH) | having("Tensor", Effect.MOVE) | {"numpy"}
_MAKERS: Final = frozenset(f"tilecheck.{name}" for name in ("asarray", "empty", "from_dlpack", "Stream", "CudaGraph"))


def is_of_host(program: Program, part: Survey) -> bool:
    """Whether a function can be nothing but host code."""
    if isinstance(part.unit, ir.HostModule) or part.attributes & _OF_HOST or part.full & (_MAKERS | HOST_ONLY):
        return True
    return any(isinstance(program.value(full), KernelValue) for full in part.full)


def refuse_op(low: Expressions, node: ir.Call, full: str | None) -> None:
    """`tc.exp(x)` in host code, or of a tensor that only host code can have made."""
    if full not in _OPS or low.inlined:
        return
    if low.is_of_host() or any(_has_numbers(low.known(arg.value)) for arg in node.args):
        name = full.rpartition(".")[2]
        message = f"`{name}` belongs to the kernel language and is called on the host"
        low.fault("usage", message, node.span, "call it inside a function decorated with `@tc.kernel`")


def _has_numbers(value: Value) -> bool:
    """Whether `value` is a tensor with an int for an extent, as in `tc.ones(64)`: in a kernel that is refused."""
    made = isinstance(value, Array) and value.library == "tilecheck" and value.access is Access.OWNED
    return made and isinstance(value, Array) and any(extent is not None for extent in value.shape or ())


def refuse_method(low: Expressions, node: ir.Call, method: str) -> None:
    """`z.store(tile)` for a tensor in host code."""
    if method in _METHODS and not low.inlined and low.is_of_host():
        message = f"`{method}` belongs to the kernel language and is called on a tensor of the host"
        way_out = "write it in host code: `z[...] = value`, or in a kernel that gets a partition of it"
        if method != "store":
            way_out = "call it inside a function decorated with `@tc.kernel`"
        low.fault("usage", message, node.span, way_out)
