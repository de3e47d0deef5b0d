"""The host IR: what a file's host code says, in one form for both front ends.

Two front ends write it: `frontend/host.py` from libcst (the linter) and the mypy adapter from mypy's own tree. They
translate syntax and say what names mean; they decide nothing. What a call does to a tensor is read from here by
`borrow/meaning.py`, once, so that linter and plugin cannot disagree except where only types can tell.

The form is Python with the sugar kept that matters to flow (branches, loops, `try`, `with`, `match`, comprehensions,
lambdas, `await`, `yield`) and everything else folded into `Opaque`, which means "evaluates its children, left to
right". A module's body, its functions and its classes nest as they do in the source; kernels are functions like any
other, decorators included.

Three facts are added to the syntax, each None when the front end does not know:

- `full`, on `Name` and `Attr`: the dotted name that the expression stands for if that is a definition or an import
  and not a variable: `tc.zeros` is `tilecheck.zeros`, `cuda.to_device` is `numba.cuda.to_device`, a function of this
  file `m.scale` when `HostModule.name` is `m`. A builtin is
  `builtins.print`. `Attr` appends to the name of its base, so `kernel.where` may be `m.kernel.where`; readers look the
  whole up first and then the method. Re-exports are followed when the front end can. A variable or parameter has None.
- `type`, on every expression: what a type checker knows. The linter leaves it None.
- `contract`, on `Call`: the signature of the callee when it is defined outside this file and the front end found it.
  For callees inside the file the contract is read from their `Function`.

Invariants: evaluation order is the order of fields; code that a type checker proved unreachable is left out; a node that
cannot be read becomes an `Opaque` over the children that can, never nothing.

Worked example. The body of

    def main():
        z, x = tc.zeros(1024), tc.ones(1024)
        op = copy(z.partition(128), x)
        op.sync()

is (spans left out)

    Assign((Display("tuple", (Name("z"), Name("x"))),),
           Display("tuple", (Call(Attr(Name("tc", full="tilecheck"), "zeros", full="tilecheck.zeros"), (Arg(Const(1024)),)),
                             Call(Attr(Name("tc", full="tilecheck"), "ones", full="tilecheck.ones"), (Arg(Const(1024)),)))))
    Assign((Name("op"),), Call(Name("copy", full="m.copy"),
                               (Arg(Call(Attr(Name("z"), "partition"), (Arg(Const(128)),))), Arg(Name("x")))))
    Do(Call(Attr(Name("op"), "sync"), ()))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Access, DimDecl, Param

# ---- what types and signatures say


@dataclass(frozen=True, slots=True)
class Contract:
    """The signature of a callable: what it borrows, by parameter.

    `track` is `host` for an ordinary function. A tensor parameter whose `access` is None is unannotated: for a plain
    `@cuda.jit` kernel the body decides, see `writes`. `writes` is the set of parameters that such a body writes, None
    when it could not be read. `dims` are the Dim classes that the extents name.
    `result` is the public name of the class that a host function returns (`tilecheck.Tensor`, `tilecheck.Partition`,
    `tilecheck.DeviceOp`, `tilecheck.Running`; None for anything else), `returns` the access of a returned tensor. What
    is returned borrows from the tensor arguments, unless it is an `Owned` tensor, and holds what the arguments in `ops`
    held: those are the parameters that take an op, by name, and those in `runnings` take a running one. `rest` is the
    parameter that takes all further positional arguments (`*tensors`). `full` is the dotted name of the definition where
    that is all that is known of it, and not where it stands.
    """

    name: str
    track: Literal["host", "tile", "simt", "numba", "cutile"]
    params: tuple[Param, ...]
    span: Span | None = None
    dims: Mapping[str, DimDecl] = field(default_factory=dict)
    writes: frozenset[str] | None = None
    returns: Access | None = None
    result: str | None = None
    ops: frozenset[str] = frozenset()
    runnings: frozenset[str] = frozenset()
    is_async: bool = False
    rest: str | None = None
    full: str | None = None


@dataclass(frozen=True, slots=True)
class HostType:
    """What a type checker knows of a value: the full name of its class, and more for tensors and callables.

    Names are those of the public surface where there is one: `tilecheck.Tensor`, `tilecheck.Partition`,
    `tilecheck.DeviceOp`, `tilecheck.Running`, `tilecheck.Stream`, `numpy.ndarray`. `extents` has None for an open axis.
    """

    name: str
    access: Access | None = None
    dtype: str | None = None
    extents: tuple[int | None, ...] | None = None
    contract: Contract | None = None


# ---- expressions


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HostNode:
    span: Span


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Expr(HostNode):
    type: HostType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A literal. Bytes, complex numbers and `...` have the value None and `known=False`."""

    value: int | float | bool | str | None
    known: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expr):
    id: str
    full: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Attr(Expr):
    base: Expr
    name: str
    full: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expr):
    """`start:stop:step` inside a subscript."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Sub(Expr):
    """`base[index]`; several indices are one `Display("tuple", ...)`."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Arg(HostNode):
    """An argument: `name` for a keyword one, `star` is `*` or `**` for an unpacked one."""

    value: Expr
    name: str | None = None
    star: Literal["", "*", "**"] = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    func: Expr
    args: tuple[Arg, ...]
    contract: Contract | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Expr):
    """A unary or binary operator, or a comparison (chained: all operands in order, `op` the first operator)."""

    op: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Expr):
    """Short-circuit `and` / `or`."""

    op: Literal["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Expr):
    """`then if test else other`."""

    test: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Display(Expr):
    """A tuple, list, set or dict display; also the target of an unpacking. `keys` runs parallel to `items` for a dict,
    with None for `**` entries."""

    kind: Literal["tuple", "list", "set", "dict"]
    items: tuple[Expr, ...]
    keys: tuple[Expr | None, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Starred(Expr):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expr):
    params: tuple[HostParam, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Clause(HostNode):
    """`for target in source if conditions` of a comprehension."""

    target: Expr
    source: Expr
    conditions: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Expr):
    """`elements` has two entries for a dict. A `generator` runs its elements only when it is consumed."""

    kind: Literal["list", "set", "dict", "generator"]
    clauses: tuple[Clause, ...]
    elements: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Await(Expr):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Yield(Expr):
    value: Expr | None
    from_: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Walrus(Expr):
    """`(target := value)`."""

    target: Name
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Expr):
    """Anything else: its children are evaluated left to right, its value is unknown. A formatted string is `printed`: what
    it does with their values is what `print` does.
    """

    children: tuple[Expr, ...] = ()
    printed: bool = False


# ---- statements


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stmt(HostNode):
    """`pass`, docstrings and imports have no statement; the front end turns imports into `full` names."""


@dataclass(frozen=True, slots=True, eq=False)
class Do(Stmt):
    """An expression statement."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Stmt):
    """`targets[0] = targets[1] = value`; `annotation` is set for `target: annotation = value`. A bare declaration has no value."""

    targets: tuple[Expr, ...]
    value: Expr | None
    annotation: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Augment(Stmt):
    """`target op= value`; `op` without the equals sign."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Delete(Stmt):
    targets: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Return(Stmt):
    value: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Raise(Stmt):
    value: Expr | None = None
    cause: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Stmt):
    test: Expr
    message: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Break(Stmt):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Stmt):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Global(Stmt):
    """`global` or `nonlocal` names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Stmt):
    test: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class While(Stmt):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class For(Stmt):
    target: Expr
    source: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Handler(HostNode):
    """`except types as name`."""

    types: Expr | None
    name: Name | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Try(Stmt):
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...] = ()
    orelse: tuple[Stmt, ...] = ()
    final: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WithItem(HostNode):
    context: Expr
    target: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class With(Stmt):
    """`with` and `async with`."""

    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Case(HostNode):
    """One `case`: the names its pattern binds. `always` marks an irrefutable pattern without a guard, `none` `case None`;
    `values` are the constants (None included) and dotted names, one of which the subject must be, empty for any other
    pattern.
    """

    names: tuple[Name, ...]
    guard: Expr | None
    body: tuple[Stmt, ...]
    always: bool = False
    none: bool = False
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Match(Stmt):
    subject: Expr
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HostParam(HostNode):
    name: str
    annotation: Expr | None = None
    default: Expr | None = None
    kind: Literal["plain", "keyword", "*", "**"] = "plain"
    type: HostType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Function(Stmt):
    """A function, method or kernel. `full` is its dotted name, as used in `Name.full`; None inside functions."""

    name: str
    params: tuple[HostParam, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    returns: Expr | None = None
    full: str | None = None
    is_async: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Class(Stmt):
    name: str
    bases: tuple[Arg, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    full: str | None = None


@dataclass(frozen=True, slots=True)
class HostModule:
    """One file. `name` is its dotted name, `__main__` when it has none. A front end that leaves out the bodies of functions
    says what they may set: `shifting` gives the variables that are declared `global` or `nonlocal`, and with a dot
    before them the fields that are set by no constructor.
    """

    name: str
    path: str
    body: tuple[Stmt, ...]
    shifting: Callable[[], frozenset[str]] | None = None


# The fields that may hold nodes, by class of node: looked up once. Types of fields are strings here.
_NO_NODES = frozenset(
    {"Span", "HostType | None", "Contract | None", "str", "str | None", "bool", "int | float | bool | str | None"}
)
_PARTS: dict[type, tuple[str, ...]] = {}


def _parts(kind: type[HostNode]) -> tuple[str, ...]:
    if kind not in _PARTS:
        _PARTS[kind] = tuple(
            f.name for f in fields(kind) if f.type not in _NO_NODES and not str(f.type).startswith("Literal[")
        )
    return _PARTS[kind]


def children(node: HostNode) -> list[HostNode]:
    """The nodes directly below `node`, in evaluation order."""
    found: list[HostNode] = []
    for name in _PARTS.get(type(node)) or _parts(type(node)):
        value = getattr(node, name)
        if value is None or value == ():
            continue
        if isinstance(value, HostNode):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, HostNode)]
    return found


def walk(*roots: HostNode) -> Iterator[HostNode]:
    """Every node at or below `roots`, parents first, nested functions and classes included."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(children(node))
