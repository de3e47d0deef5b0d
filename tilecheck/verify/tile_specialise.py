"""A kernel for given extents: Dims get their values, and what the types decide is decided in the tree.

`specialise` fills in the values of Dims (and, for short annotations such as `Tensor[Mut]`, the dtype and extents of an
argument). After the type pass, `settle` rewrites what is known: a branch on a known condition becomes the branch that
runs, `x.dtype` a dtype, `x.ndim` a number, a cast to the dtype that a tile has already the tile itself. Nodes that do not
change keep their identity, so side tables stay valid; those that do inherit their type.

    if BM > 32: acc = wide(acc)     with BM = 16: nothing is left of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tilecheck.ir.kernel import (
    Access,
    Const,
    DimDecl,
    DTypeRef,
    If,
    Kernel,
    Node,
    OpCall,
    Select,
    Stmt,
    TensorParam,
    While,
)
from tilecheck.ir.types import ArrayExtent, DimExtent, DTypeType, Extent, ScalarType, TensorType, TileType, Type
from tilecheck.surface.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class Argument:
    """What a launch says of a tensor whose annotation leaves it open: `dtype` by short name, `rank`, the block's `tile`."""

    dtype: str
    rank: int
    tile: tuple[int, ...] | None = None


def specialise(kernel: Kernel, dims: Mapping[str, int], arguments: Mapping[str, Argument] | None = None) -> Kernel:
    """`kernel` with the values of `dims` by key, and with open annotations filled in from `arguments` by name."""
    sized = {key: replace(decl, size=dims.get(key, decl.size)) for key, decl in kernel.dims.items()}
    params = list(kernel.params)
    for at, param in enumerate(params):
        given = (arguments or {}).get(param.name)
        if not isinstance(param, TensorParam) or given is None:
            continue
        extents = param.extents
        if extents is None and param.access in (Access.MUT, Access.MAPPED) and given.tile is not None:
            keys = [f"{kernel.path}::{kernel.name}.{param.name}.{axis}" for axis in range(given.rank)]
            sized |= {k: DimDecl(k, str(n), n) for k, n in zip(keys, given.tile, strict=True)}
            extents = tuple(keys)
        elif extents is None:
            extents = (None,) * given.rank
        params[at] = replace(param, dtype=param.dtype or given.dtype, extents=extents)
    known = {p.variable: p.dtype for p in params if isinstance(p, TensorParam) and p.variable is not None and p.dtype}
    for at, param in enumerate(params):
        if isinstance(param, TensorParam) and param.variable in known:
            params[at] = replace(param, dtype=param.dtype or known[param.variable])
    return replace(kernel, dims=sized, params=tuple(params))


def parameter_types(kernel: Kernel) -> dict[str, TensorType | ScalarType]:
    """The types of the parameters. A scalar without a stated kind is an int, as for a subscript."""
    found: dict[str, TensorType | ScalarType] = {}
    for param in kernel.params:
        if isinstance(param, TensorParam):
            shape = (
                None if param.extents is None else tuple(_extent(kernel, param, a) for a in range(len(param.extents)))
            )
            access: Any = (param.access or Access.SHARED).value
            dtype = None if param.dtype is None else DTYPES[param.dtype]
            found[param.name] = TensorType(param.name, access, dtype, shape)
        else:
            found[param.name] = ScalarType(param.kind or "int")
    return found


def _extent(kernel: Kernel, param: TensorParam, axis: int) -> Extent:
    assert param.extents is not None
    key = param.extents[axis]
    if key is None:
        return ArrayExtent(param.name, axis)
    decl = kernel.dims[key]
    return decl.size if decl.size is not None else DimExtent(key, decl.name)


def settle(kernel: Kernel, types: dict[Node, Type]) -> Kernel:
    """`kernel` without the branches that cannot run and without questions that are answered; `types` gains the new nodes."""
    body = _body(kernel.body, types)
    return kernel if body == kernel.body else replace(kernel, body=body)


def _body(body: Sequence[Stmt], types: dict[Node, Type]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for statement in body:
        if isinstance(statement, If | While):
            known = _known(types, statement.cond)
            if isinstance(statement, If) and known is not None:
                kept.extend(_body(statement.then if known else statement.other, types))
                continue
            if isinstance(statement, While) and known is False:
                continue
        kept.append(_node(statement, types))
    return tuple(kept)


def _known(types: Mapping[Node, Type], node: Node) -> bool | None:
    found = types.get(node)
    return bool(found.value) if isinstance(found, ScalarType) and found.value is not None else None


def _node(node: Node, types: dict[Node, Type]) -> Node:
    found = types.get(node)
    if isinstance(node, OpCall) and node.op == "dtype" and isinstance(found, DTypeType):
        return _typed(DTypeRef(found.dtype.name, span=node.span), node, types)
    if isinstance(node, OpCall) and node.op == "rank" and isinstance(found, ScalarType):
        return _typed(Const(found.value, span=node.span), node, types)
    if isinstance(node, OpCall) and node.op == "astype" and node.args:
        before = types.get(node.args[0])
        if isinstance(found, TileType) and isinstance(before, TileType) and before.dtype is found.dtype:
            return _node(node.args[0], types)
    if isinstance(node, Select) and (known := _known(types, node.cond)) is not None:
        return _node(node.then if known else node.other, types)
    changes: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        new = _value(value, types)
        if new is not value:
            changes[f.name] = new
    return _typed(replace(node, **changes), node, types) if changes else node


def _typed(new: Node, old: Node, types: dict[Node, Type]) -> Node:
    if old in types:
        types[new] = types[old]
    return new


def _value(value: Any, types: dict[Node, Type]) -> Any:
    if isinstance(value, Node):
        return _node(value, types)
    if not isinstance(value, tuple):
        return value
    if any(isinstance(item, If | While) for item in value):
        new: tuple[Any, ...] = _body(value, types)
    else:
        new = tuple(_value(item, types) for item in value)
    same = len(new) == len(value) and all(a is b for a, b in zip(new, value, strict=True))
    return value if same else new
