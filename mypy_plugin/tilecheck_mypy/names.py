"""What mypy's types and symbols are called on our side.

`host_type` says what a value is, `contract` what a callable borrows, `full_name` what a name stands for. All read only
what mypy has already decided; a type that is none of ours gets its class's name and nothing else.

    Tensor[Mut, f32, Any]                 HostType("tilecheck.Tensor", MUT, "f32", (None,))
    Kernel[[z: Tensor[Mut, f32, BM]]]     HostType("tilecheck.Kernel", contract=Contract("", "tile", ...))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from mypy.maptype import map_instance_to_supertype
from mypy.nodes import Decorator, FuncDef, MypyFile, NameExpr, OverloadedFuncDef, RefExpr, SymbolNode, TypeInfo, Var
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Parameters,
    ProperType,
    TupleType,
    Type,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from tilecheck.diagnostic import Span
from tilecheck.ir.host import Contract, HostType
from tilecheck.ir.kernel import Access, DimDecl, Param, ScalarParam, TensorParam
from tilecheck_mypy.dims import size_of

TENSOR = "tilecheck.Tensor"
KERNEL = "tilecheck.Kernel"
SIMT_KERNEL = "tilecheck._SimtKernel"
LAUNCHER = "tilecheck._Launcher"
OP = "tilecheck.DeviceOp"
RUNNING = "tilecheck.Running"
COROUTINE = "typing.Coroutine"
DIM = "tilecheck.surface.dims.Dim"
NOWHERE = Span("", 0, 0, 0, 0)
# Libraries whose names are matched as written: mypy would name the module that a re-export comes from.
LEXICAL = frozenset({"numba", "numba_cuda", "cuda", "cupy", "torch", "numpy", "cuda_tile"})

_ACCESSES = frozenset(Access)

Track = Literal["host", "tile", "simt", "numba", "cutile"]


# ---- types


def host_type(type_: Type | None, name: str = "", full: str | None = None) -> HostType | None:
    """What is known of a value of `type_`, None if nothing is. `name` is what a kernel is called in the source, `full` the
    dotted name of its definition.
    """
    proper = get_proper_type(type_) if type_ is not None else None
    match proper:
        case Instance():
            return _instance(proper, name, full)
        case UnionType(items=items):
            rest = [item for item in map(get_proper_type, items) if not isinstance(item, NoneType)]
            return host_type(rest[0]) if len(rest) == 1 else None
        case TypeVarType(upper_bound=bound):
            return host_type(bound)
        case LiteralType(fallback=fallback):
            return HostType(fallback.type.fullname)
        case TupleType():
            return HostType("builtins.tuple")
        case NoneType():
            return HostType("builtins.None")
        case CallableType():
            kind = "builtins.type" if proper.is_type_obj() else "builtins.function"
            return HostType(kind, contract=contract(proper, name))
        case _:
            return None


def _instance(type_: Instance, name: str, defined: str | None) -> HostType:
    full = type_.type.fullname
    if type_.type.has_base(TENSOR):
        access, dtype, extents = _tensor_arguments(type_)
        sizes = None if extents is None else tuple(None for _ in extents)
        return HostType(full, access, dtype, sizes)
    if type_.type.has_base(KERNEL):
        return HostType(KERNEL, contract=contract(type_, name, defined))
    if full == LAUNCHER:
        return HostType(full, contract=contract(type_, name))
    return HostType(full)


def _tensor_arguments(type_: Instance) -> tuple[Access | None, str | None, tuple[ProperType, ...] | None]:
    """Access, dtype and extents of a tensor type, each None where the type leaves it open."""
    base = next(b for b in type_.type.mro if b.fullname == TENSOR)
    args = [get_proper_type(a) for a in map_instance_to_supertype(type_, base).args]
    access: Access | None = None
    dtype: str | None = None
    if args and isinstance(args[0], Instance) and args[0].type.name in _ACCESSES:
        access = Access(args[0].type.name)
    if len(args) > 1 and isinstance(args[1], Instance):
        dtype = args[1].type.name
    extents = tuple(args[2:])
    open_rank = any(not isinstance(e, Instance | AnyType) for e in extents)
    return access, dtype, None if open_rank or len(args) < 2 else extents


def contract(type_: ProperType | None, name: str = "", full: str | None = None) -> Contract | None:
    """What calling a value of `type_` borrows; None for a callable that takes no tensor, or for no callable. `name` is
    what the source calls it, `full` the dotted name of the definition of a kernel.
    """
    if isinstance(type_, Instance) and (type_.type.has_base(KERNEL) or type_.type.fullname == LAUNCHER):
        inner = get_proper_type(type_.args[0]) if type_.args else None
        if not isinstance(inner, Parameters):
            return None
        track: Track = "simt" if type_.type.fullname == SIMT_KERNEL else "tile"
        found = _contract(name, track, inner.arg_names, inner.arg_types, None)
        return replace(found, full=full) if found is not None and track == "tile" else found
    if isinstance(type_, Instance):
        call = type_.type.get("__call__")
        return _bound(get_proper_type(call.type), name) if call is not None and call.type is not None else None
    if isinstance(type_, CallableType) and not type_.is_type_obj():
        return _contract(name or type_.name or "", "host", type_.arg_names, _asked(type_), type_.ret_type)
    return None


def _asked(type_: CallableType) -> list[Type]:
    """The parameter types of a call, those whose access a type variable leaves open as they are declared: that a call fills
    one in with `Owned` takes nothing over.
    """
    definition = type_.definition
    declared = get_proper_type(definition.type) if isinstance(definition, FuncDef) and definition.type else None
    count = len(type_.arg_names)
    if not isinstance(declared, CallableType) or not count or declared.arg_names[-count:] != type_.arg_names:
        return type_.arg_types
    pairs = zip(type_.arg_types, declared.arg_types[-count:], strict=True)
    return [written if _is_open(written) else given for given, written in pairs]


def _is_open(written: Type) -> bool:
    proper = get_proper_type(written)
    if isinstance(proper, Instance) and proper.type.has_base(TENSOR) and proper.args:
        return isinstance(get_proper_type(proper.args[0]), TypeVarType)
    return isinstance(proper, TypeVarType)


def _bound(method: ProperType, name: str) -> Contract | None:
    if not isinstance(method, CallableType) or not method.arg_types:
        return None
    return _contract(name, "host", method.arg_names[1:], _asked(method)[1:], method.ret_type)


def _contract(
    name: str, track: Track, names: Sequence[str | None], types: Sequence[Type], returned: Type | None
) -> Contract | None:
    dims: dict[str, DimDecl] = {}
    params = tuple(_param(label or "", type_, dims) for label, type_ in zip(names, types, strict=True))
    ops, runnings = (_params_of(each, names, types) for each in (OP, RUNNING))
    if track == "host" and not ops and not runnings and not any(isinstance(param, TensorParam) for param in params):
        return None
    proper = get_proper_type(returned) if returned is not None else None
    coroutine = proper.args[-1] if isinstance(proper, Instance) and proper.type.fullname == COROUTINE else None
    back = host_type(coroutine or returned)
    access, result = (back.access, back.name) if back is not None else (None, None)
    return Contract(name, track, params, None, dims, None, access, result, ops, runnings, coroutine is not None)


def _params_of(name: str, names: Iterable[str | None], types: Sequence[Type]) -> frozenset[str]:
    """The parameters of the class called `name`."""
    proper = zip(names, map(get_proper_type, types), strict=True)
    return frozenset(
        label for label, type_ in proper if label and isinstance(type_, Instance) and type_.type.fullname == name
    )


def _param(name: str, type_: Type, dims: dict[str, DimDecl]) -> Param:
    proper = get_proper_type(type_)
    if isinstance(proper, TypeVarType):
        proper = get_proper_type(proper.upper_bound)
    if not isinstance(proper, Instance):
        return ScalarParam(name, NOWHERE)
    if proper.type.has_base(TENSOR):
        access, dtype, extents = _tensor_arguments(proper)
        return TensorParam(name, NOWHERE, access, dtype, _dims(extents, dims))
    kinds: dict[str, Literal["int", "float", "bool"]] = {
        "builtins.int": "int",
        "builtins.float": "float",
        "builtins.bool": "bool",
    }
    return ScalarParam(name, NOWHERE, kinds.get(proper.type.fullname))


def _dims(extents: Sequence[ProperType] | None, dims: dict[str, DimDecl]) -> tuple[str | None, ...] | None:
    if extents is None:
        return None
    keys: list[str | None] = []
    for extent in extents:
        if isinstance(extent, Instance) and extent.type.has_base(DIM):
            key = extent.type.fullname
            dims[key] = DimDecl(key, extent.type.name, size_of(extent.type))
            keys.append(key)
        else:
            keys.append(None)
    return tuple(keys)


# ---- names


def full_name(node: SymbolNode | None, expression: RefExpr, imported: str | None) -> str | None:
    """The dotted name that a reference stands for if that is a definition or an import, None for a variable.

    `imported` is what the file's own import of the name says, which wins for libraries that re-export.
    """
    if imported is not None and imported.partition(".")[0] in LEXICAL:
        return imported if _is_import(node) else None
    if isinstance(node, MypyFile):
        return node.fullname
    if isinstance(node, TypeInfo | FuncDef | Decorator | OverloadedFuncDef):
        return public(node.fullname) if "." in node.fullname else None
    if isinstance(node, Var) and node.is_suppressed_import:
        return node.fullname or imported
    if isinstance(expression, NameExpr) and imported is not None and isinstance(node, Var):
        return public(node.fullname) if node.fullname.startswith("tilecheck.") else None
    return None


def _is_import(node: SymbolNode | None) -> bool:
    return node is None or not isinstance(node, Var) or node.is_suppressed_import or "." in node.fullname


def public(name: str) -> str:
    """The public spelling of a name of ours: `tilecheck.surface.access.Mut` is `tilecheck.Mut`."""
    return f"tilecheck.{name.rpartition('.')[2]}" if name.startswith("tilecheck.surface.") else name


def declared(node: SymbolNode | None) -> ProperType | None:
    """The declared type of a definition, for code that mypy does not check."""
    if isinstance(node, Decorator):
        return get_proper_type(node.var.type) if node.var.type is not None else None
    if isinstance(node, FuncDef | Var) and node.type is not None:
        return get_proper_type(node.type)
    return None
