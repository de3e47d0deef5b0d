"""Parameters of SIMT kernels: from our annotations, from numba signatures, from how the body uses them.

An annotation `Tensor[Mut, f32, BM, Dyn]` says everything; a signature `void(float32[:, :], int64)` says dtype and rank;
otherwise a parameter that the body subscripts, measures or hands to an atomic is an array, and any other a scalar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.dim_classes import dim_of
from tilecheck.frontend.fold import Lookup, fold
from tilecheck.frontend.host_dtypes import dtype_name
from tilecheck.frontend.scopes import UNKNOWN, Ref
from tilecheck.ir.kernel import (
    Access,
    Assign,
    DimDecl,
    Extent,
    Item,
    Name,
    Node,
    Opaque,
    OpCall,
    Param,
    ScalarParam,
    Select,
    Stmt,
    TensorParam,
    walk,
)
from tilecheck.ir.simt import AllocArray, Atomic, FillSlice, Load, Store, SubArray

_DTYPE_SHORT = {"float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "bool": "bool"}
_VIEW_CALLS = frozenset({"shape", "T", "flat", "ndim", "reshape", "ravel", "view", "transpose", "flatten", "nbytes"})


def short_dtype(name: str | None) -> str | None:
    """`f32` of `float32`; names without a short form stay as they are."""
    if name is None:
        return None
    if name in _DTYPE_SHORT:
        return _DTYPE_SHORT[name]
    match = re.fullmatch(r"(u?)int(\d+)", name)
    return f"{'u' if match[1] else 'i'}{match[2]}" if match else name


@dataclass(frozen=True, slots=True)
class ArgType:
    """One argument of a signature: `rank` is None for a scalar."""

    dtype: str | None
    rank: int | None


def signature_types(text: str) -> tuple[ArgType, ...] | None:
    """The argument types of a signature written as text, `void(float32[:, ::1], int64)`; None if it is no signature."""
    inner = text.strip()
    match = re.fullmatch(r"(?:[\w.]+)?\s*\((.*)\)", inner, re.DOTALL)
    if match is None:
        return None
    found: list[ArgType] = []
    for part in _split(match[1]):
        array = re.fullmatch(r"([\w.]+)\s*\[(.*)\]", part, re.DOTALL)
        name = (array[1] if array else part).rpartition(".")[2]
        dtype = dtype_name(name)
        if array is None:
            found.append(ArgType(dtype, None) if dtype is not None else ArgType(None, -1))
        else:
            found.append(ArgType(dtype, len(_split(array[2]))))
    return tuple(found)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    current = ""
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip():
        parts.append(current.strip())
    return parts


def annotated(
    param: cst.Param, lookup: Lookup, span: Span, dims: dict[str, DimDecl]
) -> TensorParam | ScalarParam | None:
    """The parameter as our annotation states it, None if it is not annotated by us."""
    if param.annotation is None:
        return None
    node = param.annotation.annotation
    name = param.name.value
    if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
        try:
            node = cst.parse_expression(node.evaluated_value)
        except cst.ParserSyntaxError:
            return None
    if isinstance(node, cst.Name) and node.value in ("int", "float", "bool"):
        kind: Literal["int", "float", "bool"] = node.value  # type: ignore[assignment]
        return ScalarParam(name, span, kind)
    bare = fold(node, lookup)
    if isinstance(bare, Ref) and bare.path.endswith("tilecheck.Tensor"):
        return TensorParam(name, span)
    if not isinstance(node, cst.Subscript):
        return None
    base = fold(node.value, lookup)
    if not isinstance(base, Ref) or base.path != "tilecheck.Tensor":
        return None
    access: Access | None = None
    dtype: str | None = None
    extents: list[str | None] = []
    for place, element in enumerate(node.slice):
        if not isinstance(element.slice, cst.Index):
            continue
        value = fold(element.slice.value, lookup)
        last = value.path.rpartition(".")[2] if isinstance(value, Ref) else ""
        if place == 0 and last in Access.__members__.values():
            access = Access(last)
        elif place == 1 and isinstance(value, Ref):
            dtype = short_dtype(dtype_name(value))
        elif place > 1:
            extents.append(_extent(value, dims))
    return TensorParam(name, span, access, dtype, tuple(extents) if len(node.slice) > 2 else None)


def _extent(value: object, dims: dict[str, DimDecl]) -> str | None:
    """The Dim key of an extent: a class derived from `Dim`, or a number, which stands for a fixed one."""
    decl: DimDecl | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        decl = DimDecl(str(value), str(value), value)
    else:
        decl = dim_of(value)
    if decl is None:
        return None
    dims[decl.key] = decl
    return decl.key


def inferred(
    names: list[tuple[str, Span]], body: tuple[Stmt, ...], types: tuple[ArgType, ...] | None
) -> dict[str, Param]:
    """Parameters of a plain numba kernel, from its signature if there is one, else from `body`."""
    arrays = array_names(body)
    result: dict[str, Param] = {}
    for place, (name, span) in enumerate(names):
        stated = types[place] if types is not None and len(types) == len(names) else None
        if stated is not None and stated.rank is None:
            result[name] = ScalarParam(name, span, scalar_kind(stated.dtype), stated.dtype)
        elif stated is not None and stated.rank is not None and stated.rank > 0:
            result[name] = TensorParam(name, span, None, short_dtype(stated.dtype), (None,) * stated.rank)
        elif name in arrays:
            result[name] = TensorParam(name, span)
        else:
            result[name] = ScalarParam(name, span)
    return result


def scalar_kind(dtype: str | None) -> Literal["int", "float", "bool"] | None:
    """The kind of a scalar of NumPy dtype `dtype`."""
    if dtype is None:
        return None
    if dtype == "bool":
        return "bool"
    if "int" in dtype:
        return "int"
    return "float" if "float" in dtype else None


def array_names(body: tuple[Stmt, ...]) -> set[str]:
    """The variables that `body` uses as arrays, aliases followed both ways."""
    used: set[str] = set()
    same: list[tuple[str, str]] = []
    for node in walk(*body):
        base: Node | None = None
        match node:
            case (
                Load(array=base) | Store(array=base) | Atomic(array=base) | FillSlice(array=base) | SubArray(array=base)
            ):
                pass
            case Extent(array=base):
                pass
            case OpCall(op=op, args=(first, *_)) if op in _VIEW_CALLS:
                base = first
            case AllocArray(name=name):
                used.add(name)
            case Assign(target=target, value=value):
                same.extend((target, source) for source in _sources(value))
        if base is not None:
            used.update(_sources(base))
    changed = True
    while changed:
        before = len(used)
        for a, b in same:
            if a in used or b in used:
                used.update((a, b))
        changed = len(used) != before
    return used


def _sources(value: Node) -> list[str]:
    """The variables whose arrays an array expression may be."""
    match value:
        case Name(id=name):
            return [name]
        case SubArray(array=array):
            return _sources(array)
        case Select(then=then, other=other):
            return [*_sources(then), *_sources(other)]
        case OpCall(op=op, args=(first, *_)) if op in _VIEW_CALLS or op in ("real", "imag"):
            return _sources(first)
        case Item(base=base):
            return _sources(base)
        case Opaque():
            return []
    return []


def options_of(node: cst.Call, lookup: Lookup) -> tuple[dict[str, object], tuple[ArgType, ...] | None]:
    """Options and signature of a `cuda.jit(...)` or `tc.simt(...)` call."""
    options: dict[str, object] = {}
    types: tuple[ArgType, ...] | None = None
    for argument in node.args:
        if argument.keyword is not None:
            value = fold(argument.value, lookup)
            options[argument.keyword.value] = None if value is UNKNOWN else value
            if argument.keyword.value != "argtypes":
                continue
        given = signature_node(argument.value, lookup)
        if given is not None:
            types = given
    return options, types


def signature_node(node: cst.BaseExpression, lookup: Lookup) -> tuple[ArgType, ...] | None:
    """The argument types that a decorator argument states: text, `void(...)`, or a tuple of types."""
    if isinstance(node, cst.List) and node.elements:
        return signature_node(node.elements[0].value, lookup)
    value = fold(node, lookup)
    if isinstance(value, str):
        return signature_types(value)
    if isinstance(node, cst.Call):
        return signature_types(cst.Module([]).code_for_node(node))
    if isinstance(node, cst.Tuple):
        return signature_types(f"({cst.Module([]).code_for_node(node).strip('() ')})")
    return None


def plain_options(options: Mapping[str, object]) -> dict[str, object]:
    """The options whose values are plain data."""
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in options.items()
        if value is None or isinstance(value, int | float | str | bool | tuple | list)
    }
