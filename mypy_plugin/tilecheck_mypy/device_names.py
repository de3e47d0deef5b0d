"""Names of `numba.cuda` that only kernels use, where mypy can find them: each is `Any` in every use.

numba ships types, and with them an old `numba.cuda` of its own without any, which mypy reads although numba-cuda takes its
place at run time. Names of kernels are stand-ins there: `cuda.grid` is called with the compiler's context first and never
returns, so that mypy would hold the rest of a kernel for unreachable; `cuda.atomic.add` is a class without arguments,
`cuda.blockDim.x` a function.

Invariant: what host code uses of numba is left to mypy. What no hook reaches is in `missed_names.py`.

Worked example: `i = cuda.grid(1)` gives `Any`, where mypy says that `ndim` is missing and checks nothing after it.
"""

from __future__ import annotations

from mypy.nodes import ARG_STAR, ARG_STAR2, CallExpr, RefExpr
from mypy.plugin import AttributeContext, FunctionSigContext, MethodSigContext
from mypy.types import AnyType, CallableType, FunctionLike, Type, TypeOfAny, get_proper_type

DEVICE_ONLY = ("numba.cuda.stubs.", "numba.cuda.cg.")
INTRINSIC = "numba.core.extending._Intrinsic.__call__"


def call(ctx: FunctionSigContext | MethodSigContext) -> FunctionLike:
    """The signature of a stand-in, or of an intrinsic if that is one of `numba.cuda`: anything for anything."""
    node, signature = ctx.context, ctx.default_signature
    other = isinstance(ctx, MethodSigContext) and not (
        isinstance(node, CallExpr)
        and isinstance(node.callee, RefExpr)
        and node.callee.fullname.startswith("numba.cuda.")
    )
    if other or not isinstance(signature, CallableType):
        return signature
    unknown = AnyType(TypeOfAny.special_form)
    return signature.copy_modified(
        arg_types=[unknown, unknown],
        arg_kinds=[ARG_STAR, ARG_STAR2],
        arg_names=[None, None],
        ret_type=unknown,
        variables=(),
    )


def attribute(ctx: AttributeContext) -> Type:
    """The type of `cuda.blockDim.x` and the like."""
    known = get_proper_type(ctx.default_attr_type)
    return AnyType(TypeOfAny.special_form) if isinstance(known, CallableType) and not known.is_type_obj() else known
