"""Arguments that a launch takes, and the annotation of the parameter does not say to mypy.

Scalars of other libraries are taken: `np.float32(2.0)` for a `float`, whatever has `__index__` for an `int`. Who may write
a tensor alone (`Mut`) may let many change it, so a launch takes it for an `Atomic` parameter; as a type `Mut` is no
`Atomic`, for within a kernel it has no atomics. Only for an argument of such a type is the parameter widened, so that
messages about all others name what is written.

Worked example: for `a: float` an `np.int32` makes the parameter one of `np.int32`; a `str` leaves it a `float`.
"""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, IndexExpr, MemberExpr, NameExpr, OpExpr, UnaryExpr
from mypy.plugin import MethodSigContext
from mypy.types import CallableType, FunctionLike, Instance, Type, get_proper_type

# What may have the type of a scalar of another library.
_COMPUTED = (CallExpr, IndexExpr, MemberExpr, NameExpr, OpExpr, UnaryExpr)
_SCALARS = frozenset({"builtins.int", "builtins.float", "builtins.bool"})
_TENSOR = "tilecheck.Tensor"
_MUT, _ATOMIC = "tilecheck.surface.access.Mut", "tilecheck.surface.access.Atomic"
_BOOLS = frozenset({"numpy.bool", "numpy.bool_"})


def widened(ctx: MethodSigContext) -> FunctionLike:
    """The signature of a launch, with the scalar parameters of the types that they are given if the run time takes those."""
    signature = ctx.default_signature
    if not isinstance(signature, CallableType):
        return signature
    types = list(signature.arg_types)
    for at, (type_, given) in enumerate(zip(types, ctx.args, strict=False)):
        wanted = get_proper_type(type_)
        if not isinstance(wanted, Instance) or len(given) != 1:
            continue
        access = _access(wanted)
        if access is not None and access.type.fullname == _ATOMIC:
            passed = get_proper_type(ctx.api.get_expression_type(given[0]))
            holds = _access(passed) if isinstance(passed, Instance) else None
            if holds is not None and holds.type.fullname == _MUT:
                types[at] = wanted.copy_modified(args=[holds, *wanted.args[1:]])
        if wanted.type.fullname not in _SCALARS:
            continue
        found = _type_of(ctx, given[0])
        if found is not None and _is_taken(wanted.type.fullname, found):
            types[at] = found
    return signature.copy_modified(arg_types=types)


def _access(type_: Instance) -> Instance | None:
    """The access of a tensor type, None for any other."""
    if type_.type.fullname != _TENSOR or not type_.args:
        return None
    access = get_proper_type(type_.args[0])
    return access if isinstance(access, Instance) else None


def _type_of(ctx: MethodSigContext, given: Expression) -> Instance | None:
    if not isinstance(given, _COMPUTED):
        return None
    found: Type = get_proper_type(ctx.api.get_expression_type(given))
    return found if isinstance(found, Instance) else None


def _is_taken(wanted: str, found: Instance) -> bool:
    """Whether the run time takes a value of type `found` for a scalar of type `wanted`."""
    names = {base.fullname for base in found.type.mro}
    if wanted == "builtins.bool":
        return bool(names & _BOOLS)
    if wanted == "builtins.float":
        return bool(names & {"numpy.floating", "numpy.integer"})
    return found.type.get("__index__") is not None and not names & _BOOLS
