"""What is known of a value before any path is run: its kind, its numbers, its signature.

Lowering carries these along the source, one per variable, and forgets what differs where paths meet. `Nothing` means
that nothing is known, and then nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

from tilecheck.borrow.contracts import KernelFacts
from tilecheck.ir.host import Contract, Expr, Function, Lambda
from tilecheck.ir.kernel import Access, Param, TensorParam

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """Unknown; `expr` is what computed it, if that can still be read (`(n + 127) // 128`)."""

    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor or array. `library` says whose: ours, numba's (on the device), NumPy's (on the host), a foreign one.

    `access` is ours only; a `pinned` array of the host is seen by the device, others are copied for a launch. `made` is
    what computed it, of a plain library's, if that can still be read. With `or_none` it may be None as well.
    """

    library: Literal["tilecheck", "numba", "numpy", "foreign"]
    dtype: str | None = None
    shape: Shape | None = None
    access: Access | None = None
    pinned: bool = False
    made: Expr | None = None
    or_none: bool = False


@dataclass(frozen=True, slots=True)
class Pieces:
    """A partition: `tile` by axis; `exact` when it alone fixes the grid, `mapped` when blocks walk over it, None if that is
    not known, `owned` when it took its tensor over.
    """

    array: Array
    tile: Shape | None = None
    exact: bool = True
    mapped: bool | None = False
    owned: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """What stands in the brackets of a plain kernel: `kernel[grid, block, stream, shared]`."""

    grid: Expr | None = None
    block: Expr | None = None
    stream: Expr | None = None
    shared: Expr | None = None


@dataclass(frozen=True, slots=True)
class KernelValue:
    """A kernel, with the Dims that `where` bound (None for a value that cannot be read) and its launch configuration."""

    facts: KernelFacts
    bound: Mapping[str, int | None] = field(default_factory=dict)
    config: Config | None = None


@dataclass(frozen=True, slots=True)
class Launcher:
    """`kernel.on(stream)`: a call of it is a launch that runs at once."""

    kernel: KernelValue


@dataclass(frozen=True, slots=True)
class Callee:
    """A host function with a signature; `body` is the function if its signature does not say what it returns."""

    contract: Contract
    body: Function | None = None


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda, or a function that is read where it is called. `renamed` are the variables around a lambda."""

    node: Lambda | Function
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Op:
    """A lazy op. Of a launch, `grid` is the grid that its outputs fix, as far as it is known, and `needs_grid` says that
    nothing fixes one; `makes` says that it makes memory, `to_host` that it copies to the host. `calls` are the functions
    that run with it. `meta` is an argument that has no data.
    """

    kernel: str | None = None
    grid: tuple[int, ...] | None = None
    needs_grid: bool = False
    makes: bool = False
    to_host: bool = False
    calls: tuple[Closure, ...] = ()
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class Handle:
    """A running op, a graph, a graph scope, a prepared launch, a stream, an event: told apart by what they can do. A running
    op that was started where none may run is `refused`: that was told there.
    """

    kind: Literal[
        "running",
        "graph",
        "scope",
        "prepared",
        "stream",
        "event",
        "synced stream",
        "current stream",
        "default stream",
    ]
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the class `cls` of the checked files, or, unless `exact`, of one that is derived from it. `fields` is what
    is known of what it was made with.
    """

    cls: str
    exact: bool = False
    fields: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or list of known values; a list is `loose`: it may be changed under another name."""

    values: tuple[Value, ...]
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A dict of known keys."""

    keys: tuple[object, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A container of arrays of the host, or of tuples with such, nobody knows how many: all that is known of each is `of`. It
    is a dict if `keyed`.
    """

    of: Array | Items
    keyed: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """An argument that a `functools.partial` holds: its name, if any, the expression and what that was."""

    name: str | None
    expr: Expr
    var: str | None
    value: Value


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial(callee, ...)`."""

    callee: Value
    given: tuple[Given, ...]


Value = (
    Nothing
    | Number
    | Array
    | Pieces
    | KernelValue
    | Launcher
    | Callee
    | Closure
    | Op
    | Handle
    | Items
    | Table
    | Many
    | Thing
    | Partial
)

NOTHING = Nothing()


def join(a: Value, b: Value) -> Value:
    """What is known where two paths meet."""
    if a == b:
        return a
    if Number(None) in (a, b):
        one = b if a == Number(None) else a
        # What an array does, None does not: where it is used it is the array.
        return replace(one, or_none=True) if isinstance(one, Array) and one.library == "numpy" else NOTHING
    if isinstance(a, Many | Items | Table) and isinstance(b, Many | Items | Table) and Many in (type(a), type(b)):
        keyed = isinstance(a, Table) or (isinstance(a, Many) and a.keyed)
        return grown(a, b.of if isinstance(b, Many) else b.values, keyed)
    if isinstance(a, Array) and isinstance(b, Array) and a.library == b.library:
        dtype = a.dtype if a.dtype == b.dtype else None
        access = a.access if a.access == b.access else None
        made = a.made if a.made is b.made else None
        shape, or_none = a.shape if a.shape == b.shape else None, a.or_none or b.or_none
        return Array(a.library, dtype, shape, access, made=made, or_none=or_none)
    if isinstance(a, Items) and isinstance(b, Items) and len(a.values) == len(b.values):
        return Items(tuple(join(x, y) for x, y in zip(a.values, b.values, strict=True)), a.loose or b.loose)
    if isinstance(a, Thing) and isinstance(b, Thing) and a.cls == b.cls:
        return Thing(a.cls, a.exact and b.exact, a.fields if a.fields == b.fields else ())
    if isinstance(a, KernelValue) and isinstance(b, KernelValue):
        return _either(a, b)
    if isinstance(a, Op) and isinstance(b, Op):
        return Op()
    return NOTHING


def _either(a: KernelValue, b: KernelValue) -> Value:
    """One of two kernels: what both ask of their arguments, if they ask the same. It is called what the source calls it."""
    x, y = a.facts.contract, b.facts.contract
    alike = x.track == y.track and x.track in ("tile", "simt") and len(x.params) == len(y.params)
    if not alike or not all(map(_ask_alike, x.params, y.params)):
        return NOTHING
    params = tuple(
        replace(one, dtype=one.dtype if one.dtype == other.dtype else None, extents=None)
        if isinstance(one, TensorParam) and isinstance(other, TensorParam)
        else one
        for one, other in zip(x.params, y.params, strict=True)
    )
    return KernelValue(KernelFacts(replace(x, name="", params=params, span=None, dims={}), {}))


def _ask_alike(one: Param, other: Param) -> bool:
    if isinstance(one, TensorParam) and isinstance(other, TensorParam):
        return one.name == other.name and one.access == other.access
    return type(one) is type(other) and one.name == other.name


def grown(value: Value, item: Value | tuple[Value, ...], keyed: bool) -> Value:
    """The container `value` with `item`, or all of them, put into it: known if all that is in it are arrays of the host."""
    held = value.values if isinstance(value, Items | Table) else (value.of,) if isinstance(value, Many) else (NOTHING,)
    parts = [part for part in (*held, *(item if isinstance(item, tuple) else (item,))) if part != Number(None)]
    every = reduce(join, parts) if parts else NOTHING
    inner = every.values if isinstance(every, Items) else (every,)
    arrays = any(isinstance(part, Array) and part.library == "numpy" for part in inner)
    return Many(every, keyed) if arrays and isinstance(every, Array | Items) else NOTHING


def item_of(value: Value, index: object) -> Value:
    """What is known of `value[index]`; of an `index` that is not known, None, what all items have in common."""
    if isinstance(value, Many):
        return value.of
    if isinstance(value, Items) and isinstance(index, int) and -len(value.values) <= index < len(value.values):
        return value.values[index]
    if isinstance(value, Table) and index in value.keys:
        return value.values[value.keys.index(index)]
    # Any of them, if there is one thing to say of all.
    return (
        reduce(join, value.values) if isinstance(value, Items | Table) and index is None and value.values else NOTHING
    )
