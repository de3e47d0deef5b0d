"""What a callable asks of its arguments, read from its signature; for plain kernels, whose signatures say nothing, from
the body.

`contract_of` reads kernels (`@tc.kernel`, `@tc.simt`, `@cuda.jit`, `@ct.kernel`) and host functions whose tensor
parameters are annotated. Of a plain kernel the parameters that it writes are exclusive (`bodies.py`).

Worked example: `def saxpy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], a: float)` has the parameters
`z` (Mut, f32, one axis called BM), `x` (Shared, f32, one open axis) and the float scalar `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tilecheck.borrow.bodies import Body, read_body
from tilecheck.borrow.signatures import Signature, signature_of
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir.host import Contract
from tilecheck.ir.kernel import Access, DimDecl, Param, ScalarParam, TensorParam
from tilecheck.surface.dtypes import DTYPES

Definition = ir.Function | ir.Class | ir.Expr
Find = Callable[[str], Definition | None]
"""The definition behind a dotted name: a function, a class, or the value of a constant assigned once."""

_ACCESS = {f"tilecheck.{access.value}": access for access in Access}
_SCALARS: dict[str, Literal["int", "float", "bool"]] = {
    "builtins.int": "int",
    "builtins.float": "float",
    "builtins.bool": "bool",
}


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A kernel's contract and what else a launch depends on.

    `dims` are the Dims that signature and body use, by key; `body` is what a plain kernel's body does, None for a tile
    kernel; `block` the block that `@tc.simt` fixes, `signature` the types that a plain kernel was compiled for, `least`
    the arguments that a kernel needs, None if that is not known.
    """

    contract: Contract
    dims: Mapping[str, DimDecl] = field(default_factory=dict)
    body: Body | None = None
    block: tuple[int, ...] | None = None
    signature: Signature | None = None
    least: int | None = None


def kernel_of(function: ir.Function, local: Callable[[], set[str]], find: Find) -> KernelFacts | None:
    """The kernel that `function` defines, None if it is not one; `local` are the names that it binds."""
    track = _track(function)
    if track is None:
        return None
    dims: dict[str, DimDecl] = {}
    params = tuple(_params(function, find, dims))
    body: Body | None = None
    writes: frozenset[str] | None = None
    if track in ("numba", "cutile", "simt"):
        body = read_body(function, local(), find)
        writes = body.writes
    if track == "tile":
        for node in ir.walk(*function.body):
            if isinstance(node, ir.Name | ir.Attr):
                _dim(node, find, dims)
    contract = Contract(function.name, track, params, function.span, dims, writes)
    signature = signature_of(function.decorators) if track == "numba" else None
    block = _block(function) if track == "simt" else None
    # What stands above the one decorator of a kernel may change what it takes.
    counted = track == "cutile" or len(function.decorators) == 1
    plain = counted and all(param.kind == "plain" for param in function.params)
    least = sum(param.default is None for param in function.params) if plain else None
    return KernelFacts(contract, dims, body, block, signature, least)


def adopted(facts: KernelFacts) -> KernelFacts:
    """A plain kernel under our launch (`tc.adopt`): its parameters are exclusive iff its body writes them."""
    writes = facts.contract.writes
    if writes is None:
        return replace(facts, contract=replace(facts.contract, track="simt"), signature=None)
    params = tuple(
        replace(param, access=Access.MUT if param.name in writes else Access.SHARED)
        if isinstance(param, TensorParam)
        else param
        for param in facts.contract.params
    )
    return replace(facts, contract=replace(facts.contract, track="simt", params=params), signature=None)


def function_of(function: ir.Function, find: Find) -> Contract | None:
    """The contract of a host function, None if none of its parameters is an annotated tensor or op."""
    params = tuple(_params(function, find, {}))
    ops, runnings = (_params_of(function, name) for name in ("tilecheck.DeviceOp", "tilecheck.Running"))
    tensors = any(isinstance(param, TensorParam) and param.access is not None for param in params)
    if not tensors and not ops and not runnings:
        return None
    returns = _access_of(function.returns)
    result = _class_of(function.returns)
    rest = next((param.name for param in function.params if param.kind == "*"), None)
    return Contract(
        function.name, "host", params, function.span, {}, None, returns, result, ops, runnings, function.is_async, rest
    )


def _params_of(function: ir.Function, name: str) -> frozenset[str]:
    return frozenset(
        p.name for p in function.params if p.kind in ("plain", "keyword") and _class_of(p.annotation) == name
    )


def _class_of(note: ir.Expr | None) -> str | None:
    """The class that an annotation names, without its arguments."""
    return canonical(note.base if isinstance(note, ir.Sub) else note)


def _track(function: ir.Function) -> Literal["tile", "simt", "numba", "cutile"] | None:
    for decorator in function.decorators:
        called = isinstance(decorator, ir.Call)
        target = decorator.func if isinstance(decorator, ir.Call) else decorator
        full = canonical(target)
        if full == "tilecheck.kernel":
            return "tile"
        if full == "tilecheck.simt" and called:
            return "simt"
        if full == "cuda.tile.kernel":
            return "cutile"
        if full == "numba.cuda.jit":
            return None if _device(decorator) is not False else "numba"
    return None


def _device(decorator: ir.Expr) -> bool | None:
    """What `cuda.jit(device=...)` says, None if that is not a constant."""
    given = [arg.value for arg in decorator.args if arg.name == "device"] if isinstance(decorator, ir.Call) else []
    if not given:
        return False
    value = given[0].value if isinstance(given[0], ir.Const) else None
    return value if isinstance(value, bool) else None


def is_device_function(function: ir.Function) -> bool:
    """Whether the one decorator of `function` makes it a function that kernels call."""
    if len(function.decorators) != 1:
        return False
    decorator = function.decorators[0]
    target = decorator.func if isinstance(decorator, ir.Call) else decorator
    return canonical(target) == "numba.cuda.jit" and _device(decorator) is True


_OF_KERNELS = frozenset(f"tilecheck.{name}" for name in ("Tile", "View", "SubTiles"))


def takes_tiles(function: ir.Function) -> bool:
    """Whether the signature of `function` has types that only kernels have values of: it is a helper of tile kernels."""
    annotations = (function.returns, *(param.annotation for param in function.params))
    return any(canonical(a.base if isinstance(a, ir.Sub) else a) in _OF_KERNELS for a in annotations if a)


def _block(function: ir.Function) -> tuple[int, ...] | None:
    for decorator in function.decorators:
        if isinstance(decorator, ir.Call) and canonical(decorator.func) == "tilecheck.simt":
            for arg in decorator.args:
                if arg.name != "block":
                    continue
                parts = arg.value.items if isinstance(arg.value, ir.Display) else (arg.value,)
                known = [part.value for part in parts if isinstance(part, ir.Const) and isinstance(part.value, int)]
                return tuple(known) if len(known) == len(parts) else None
    return None


def _params(function: ir.Function, find: Find, dims: dict[str, DimDecl]) -> Iterator[Param]:
    for param in function.params:
        note = param.annotation
        if note is not None and (tensor := tensor_or_none(param.name, note, find, dims)) is not None:
            yield tensor
            continue
        kind = _SCALARS.get(canonical(note) or "") if note is not None else None
        unannotated = note is None and param.kind == "plain" and param.default is None
        if kind is None and unannotated:
            yield TensorParam(param.name, param.span)
        else:
            yield ScalarParam(param.name, param.span, kind)


def tensor_or_none(name: str, note: ir.Expr, find: Find, dims: dict[str, DimDecl] | None = None) -> TensorParam | None:
    """As `tensor_annotation`; also `Tensor[Owned, ...] | None`, in any spelling: a tensor that is given is moved."""
    known = {} if dims is None else dims
    found = tensor_annotation(name, note, find, known)
    if found is not None:
        return found
    parts: tuple[ir.Expr, ...] = ()
    match note:
        case ir.Operation(op="|", operands=operands):
            parts = operands
        case ir.Sub(base=base, index=index) if canonical(base) in ("typing.Optional", "typing.Union"):
            parts = index.items if isinstance(index, ir.Display) else (index,)
    for part in parts:
        found = tensor_or_none(name, part, find, known)
        if found is not None and found.access is Access.OWNED:
            return found
    return None


def tensor_annotation(name: str, note: ir.Expr, find: Find, dims: dict[str, DimDecl]) -> TensorParam | None:
    """The parameter `name: note` if `note` is `Tensor[...]`; the Dims that it names are added to `dims`."""
    if not isinstance(note, ir.Sub) or canonical(note.base) not in ("tilecheck.Tensor", "tilecheck.Partition"):
        return None
    parts = note.index.items if isinstance(note.index, ir.Display) else (note.index,)
    access = _ACCESS.get(canonical(parts[0]) or "") if parts else None
    dtype: str | None = None
    if len(parts) > 1:
        short = (canonical(parts[1]) or "").removeprefix("tilecheck.")
        dtype = short if short in DTYPES else None
    extents: tuple[str | None, ...] | None = None
    if len(parts) > 2 and not any(isinstance(part, ir.Starred) for part in parts):
        extents = tuple(_dim(part, find, dims) for part in parts[2:])
    return TensorParam(name, note.span, access, dtype, extents)


def _access_of(note: ir.Expr | None) -> Access | None:
    if note is None:
        return None
    tensor = tensor_annotation("", note, lambda _: None, {})
    return tensor.access if tensor is not None else None


def _dim(node: ir.Expr, find: Find, dims: dict[str, DimDecl]) -> str | None:
    """The key of the Dim class that `node` names, None for anything else."""
    full = node.full if isinstance(node, ir.Name | ir.Attr) else None
    if full is None:
        return None
    if full in dims:
        return full
    found = find(full)
    if not isinstance(found, ir.Class):
        return None
    if not any(canonical(base.value) == "tilecheck.Dim" for base in found.bases if base.name is None):
        return None
    size = next((base.value for base in found.bases if base.name == "size"), None)
    value = size.value if isinstance(size, ir.Const) and isinstance(size.value, int) else None
    dims[full] = DimDecl(full, found.name, value)
    return full
