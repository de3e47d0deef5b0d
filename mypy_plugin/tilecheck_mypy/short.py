"""Short annotations: `Tensor[Mut]` and `Tensor[Mut, f32]` mean any dtype and any rank.

Type checkers other than mypy fill the missing arguments in from the defaults of the type parameters. mypy gives a type
variable tuple that is left out the empty tuple, a tensor of rank 0, so the arguments are completed here.

    Tensor[Mut]       is read as  Tensor[Mut, Any, *tuple[Any, ...]]
    Tensor[Mut, f32]  is read as  Tensor[Mut, f32, *tuple[Any, ...]]
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import TypeInfo
from mypy.plugin import AnalyzeTypeContext
from mypy.typeanal import TypeAnalyser
from mypy.types import AnyType, Type, TypeOfAny, UnpackType

# Classes whose parameters are an access, a dtype and extents.
SHORT = ("tilecheck.Tensor", "tilecheck.Partition")


def hook(fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
    """The callback for an annotation that names `fullname`."""
    return completed if fullname in SHORT else None


def completed(ctx: AnalyzeTypeContext) -> Type:
    """The annotation with what was left out filled in."""
    analyser = ctx.api
    assert isinstance(analyser, TypeAnalyser)
    symbol = analyser.lookup_qualified(ctx.type.name, ctx.context)
    info = symbol.node if symbol is not None else None
    if not isinstance(info, TypeInfo):
        return AnyType(TypeOfAny.from_error)
    args = list(ctx.type.args)
    if len(args) in (1, 2):
        anything = AnyType(TypeOfAny.special_form)
        args += [anything] * (2 - len(args))
        args.append(UnpackType(analyser.named_type("builtins.tuple", [anything])))
    return analyser.analyze_type_with_type_info(info, args, ctx.type, ctx.type.empty_tuple_index)
