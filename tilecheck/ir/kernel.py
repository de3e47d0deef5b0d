"""The kernel IR: the one small form that checks, prover, interpreter and code generators read.

A kernel is a list of parameters and a tree of structured statements over expression trees; there is no control flow
graph, because structure is what makes phases, loop facts and readable listings simple. Variables are named cells that
may be assigned again; inlined helpers get fresh names (`scale.x`), so a name means one thing in the whole kernel.

Nodes compare by identity, so that side tables (types, rungs, facts) are plain dicts keyed by node, and every node
carries the span of the user's source. Both tracks share this file; `ir/simt.py` adds what only a thread of a block has.

Invariant: a frontend never drops what it cannot read. It raises `Unsupported` (tile track) or emits `Opaque`
(SIMT track, where the property becomes unknown at that line).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Literal

from tilecheck.diagnostic import Span


class Access(StrEnum):
    """What a kernel may do with a tensor parameter."""

    SHARED = "Shared"
    MUT = "Mut"
    MAPPED = "Mapped"
    ATOMIC = "Atomic"
    OWNED = "Owned"


# ---- expressions


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Const(Node):
    """A Python value known at check time: int, float, bool, str or None."""

    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable or a parameter."""

    id: str


@dataclass(frozen=True, slots=True, eq=False)
class DimRef(Node):
    """A `Dim` class used as a value or as an extent; `key` is its identity (module-qualified), see `Kernel.dims`."""

    key: str


@dataclass(frozen=True, slots=True, eq=False)
class DTypeRef(Node):
    """A dtype used as a value, by its short name (`f32`)."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    op: Literal["-", "+", "~", "not"]
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """`left op right`; a chained comparison is a `Logic` of `Compare`s over a let-bound middle."""

    op: Literal["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Node):
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Node):
    """Short-circuit `and` / `or`."""

    op: Literal["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`then if cond else other` on scalars."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True, eq=False)
class TupleExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Item(Node):
    """`base[index]` where `base` is a tuple or a minted index; element access of arrays is an op or a `simt.Load`."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Extent(Node):
    """`array.shape[axis]`, or `array.size` when `axis` is None."""

    array: Expr
    axis: int | None


@dataclass(frozen=True, slots=True, eq=False)
class OpCall(Node):
    """A call of a row of the op table, by its name; methods put their receiver first.

    `xs[i, k]` on a partition view is `load_tile(xs, i, k)`. In the SIMT track `op` names a scalar function
    (`math.sqrt`, `min`, `popc`, ...) without effect on memory.
    """

    op: str
    args: tuple[Expr, ...]
    kwargs: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Function(Node):
    """A device function or lambda passed to a generic `reduce` or `scan`. `params` are fresh names, rank-0 tiles of the
    first argument's dtype; `body` assigns `result` and a `Return` inside leaves it, as in `Inline`.
    """

    callee: str
    params: tuple[str, ...]
    body: tuple[Stmt, ...]
    result: str


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Node):
    """A value nothing is known of, and why. In the tile track it stands where a fault was reported, and for a name of
    an enclosing function whose value only the run knows.
    """

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class ThreadExpr(Node):
    """Base of the expressions that only a thread of a block has, see `ir/simt.py`; none occurs in a tile kernel."""


# ---- statements


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    """`target = value`. Tuple unpacking is one `Assign` of the tuple and one `Item` per name."""

    target: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Do(Node):
    """An expression evaluated for its effect: a store, a device assert, a print."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    cond: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    """`for target in range(start, stop, step)`; the bounds are evaluated once, before the first round."""

    target: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ForIndices(Node):
    """`for target in z.indices(...)`: `source` is the `indices` / `indices_with` op call that mints the index."""

    target: str
    source: OpCall
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While(Node):
    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    """Leaves the innermost `Inline`, or the kernel."""

    value: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Inline(Node):
    """A device function inlined at `span` (the call). `body` starts by assigning the parameters' fresh names;
    a `Return` inside assigns `result` and leaves the body. `foreign` is set when the helper lives in another module,
    where errors are reported at the call and not inside the helper.
    """

    callee: str
    body: tuple[Stmt, ...]
    result: str | None
    foreign: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Node):
    """The user's own assertion."""

    cond: Expr
    message: str | None = None


Expr = (
    Const
    | Name
    | DimRef
    | DTypeRef
    | Unary
    | Binary
    | Compare
    | Logic
    | Select
    | TupleExpr
    | Item
    | Extent
    | OpCall
    | Function
    | Opaque
    | ThreadExpr
)
# `ir/simt.py` adds further statement classes; all of them derive from `Node`.
Stmt = Node


# ---- kernels


@dataclass(frozen=True, slots=True)
class DimDecl:
    """A `Dim` class: `name` is what the user sees, `size` is set for a fixed one."""

    key: str
    name: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """An open dtype with a name: all parameters of a kernel that share it have one dtype, one of `among` (short names;
    empty for any).
    """

    name: str
    among: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorParam:
    """`name: Tensor[access, dtype, *extents]`.

     `dtype` is a short name, None when the annotation leaves it open; `variable` is then its type variable, if it has one.
    `extents` is None when the rank is open; an entry
     is a Dim key, or None for `Dyn`. For an unannotated numba-cuda array parameter `access` is None: the kernel's body
     decides (exclusive iff it writes).
    """

    name: str
    span: Span
    access: Access | None = None
    dtype: str | None = None
    extents: tuple[str | None, ...] | None = None
    variable: TypeVariable | None = None


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar of the launch; `kind` is None when the source does not say, `dtype` is NumPy's name if a signature says it."""

    name: str
    span: Span
    kind: Literal["int", "float", "bool"] | None = None
    dtype: str | None = None


Param = TensorParam | ScalarParam


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel as written: what is verified is what gets compiled.

    `options` are the decorator's (`checks`, `requires`, `block`, ...) as plain values; `requires` stays text and is
    parsed by `symbolic/requires.py`. `constants` are the module and closure constants that were folded in, by name: they belong to
    the specialisation key. `lines` is the line range of the source, decorators included.
    """

    name: str
    path: str
    track: Literal["tile", "simt", "numba", "cutile"]
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    span: Span
    dims: Mapping[str, DimDecl] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[int, int] = (0, 0)

    def param(self, name: str) -> Param:
        """The parameter called `name`; KeyError if there is none."""
        for param in self.params:
            if param.name == name:
                return param
        raise KeyError(name)


class Unsupported(Exception):
    """The source says something the kernel language has not: `message` names it, `help` says what to write."""

    def __init__(self, message: str, span: Span, help: str | None = None, rule: str = "unsupported") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.help = help
        self.rule = rule


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in source order."""
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Node):
                    yield item
                elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Node):
                    yield item[1]


def walk(*roots: Node) -> Iterator[Node]:
    """Every node at or below `roots`, parents first."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(children(node))))


def assigned(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The variables that the statements assign, nested ones included."""
    found: set[str] = set()
    for node in walk(*body):
        if isinstance(node, Assign | For | ForIndices):
            found.add(node.target)
        elif isinstance(node, Inline) and node.result is not None:
            found.add(node.result)
    return frozenset(found)
