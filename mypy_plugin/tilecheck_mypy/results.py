"""Precise result types of launches, which need the types of the arguments as given.

The value of a launch is the tuple of its tensor arguments. Standard typing cannot compute that from a parameter
specification, so the stub says `DeviceOp[Any]`; here it becomes exact, and `first`, `unpartition` and friends with it.

    copy(z.partition(8), x)      DeviceOp[tuple[Partition[Mut, f32, Any], Tensor[Owned, f32, Any]]]
"""

from __future__ import annotations

from mypy.checker import TypeChecker
from mypy.plugin import MethodContext
from mypy.types import Instance, TupleType, Type, get_proper_type

from tilecheck_mypy.names import TENSOR


def launch(ctx: MethodContext, checker: TypeChecker) -> Type:
    """The type of the op that a kernel call builds."""
    returned = get_proper_type(ctx.default_return_type)
    if not isinstance(returned, Instance) or not returned.args:
        return ctx.default_return_type
    given = [get_proper_type(types[0]) for types in ctx.arg_types if len(types) == 1]
    tensors: list[Type] = [type_ for type_ in given if isinstance(type_, Instance) and type_.type.has_base(TENSOR)]
    if len(given) != len(ctx.arg_types) or not tensors:
        return ctx.default_return_type
    fallback = checker.named_generic_type("builtins.tuple", [checker.named_type("builtins.object")])
    return returned.copy_modified(args=[TupleType(tensors, fallback)])
