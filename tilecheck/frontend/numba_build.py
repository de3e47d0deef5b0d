"""The state of lowering one numba kernel: where statements go, what names mean, which values must be named first.

Lowering an expression may emit statements before the one it stands in: an inlined helper, an atomic, a vote. Python's
evaluation order is kept by naming every earlier operand that such a statement could change. In a place that is not
always evaluated (the right side of `and`, an arm of a ternary) the emitted statements go into an `If`.

Normal form that readers may rely on: an `Atomic`, `Warp` or `BarrierValue` is always the whole value of an `Assign` or
`Do`; expression trees hold no other effect than `Load`s. A `Name` that is neither a parameter nor assigned anywhere
is a constant of the enclosing Python scope that could not be read: one value for the whole launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.dim_classes import dim_of
from tilecheck.frontend.fold import binary, fold
from tilecheck.frontend.scopes import UNKNOWN, ClassValue, FunctionValue, ModuleValue, Ref, Scope, parameters
from tilecheck.frontend.syntax import parts
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import (
    Assign,
    Const,
    DimDecl,
    DimRef,
    Expr,
    Extent,
    Name,
    Node,
    Opaque,
    OpCall,
    Param,
    Stmt,
    TupleExpr,
    children,
    walk,
)
from tilecheck.ir.simt import AllocArray, Atomic, BarrierValue, Load, SliceExpr, SubArray, ThreadVar, Unread, Warp

MAX_DEPTH = 16
MAX_INLINES = 400


@dataclass
class LoopFrame:
    """`completed` is the flag of a loop's `else` clause, cleared before each `break`."""

    completed: str | None


@dataclass
class Frame:
    """One function being lowered: the kernel, or a helper inlined into it."""

    function: FunctionValue
    prefix: str
    usage: Usage
    outer: Frame | None = None
    statics: dict[str, object] = field(default_factory=dict)
    loops: list[LoopFrame] = field(default_factory=list)
    result: str | None = None

    @property
    def scope(self) -> Scope:
        return self.function.scope


@dataclass
class Usage:
    """How a function's body uses its local names."""

    assigned: dict[str, int] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    functions: dict[str, cst.FunctionDef] = field(default_factory=dict)


_ARRAY_ATTRIBUTES = frozenset({"shape", "size", "ndim", "strides", "T", "flat", "dtype"})
_COMPLEX_ATTRIBUTES = frozenset({"real", "imag", "conjugate"})


def usage_of(node: cst.FunctionDef) -> Usage:
    """Collect `Usage` over the body of `node`, nested functions left out."""
    usage = Usage()
    for param in parameters(node):
        usage.assigned[param.name.value] = 1

    def bind(target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            usage.assigned[target.value] = usage.assigned.get(target.value, 0) + 1
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                bind(element.value)

    def visit(at: cst.CSTNode) -> None:
        match at:
            case cst.FunctionDef(name=name):
                usage.functions[name.value] = at
                usage.assigned.setdefault(name.value, 1)
                return
            case cst.Lambda():
                return
            case cst.Assign(targets=targets):
                for target in targets:
                    bind(target.target)
            case cst.AnnAssign(target=target) | cst.For(target=target) | cst.NamedExpr(target=target):
                bind(target)
            case cst.AugAssign(target=target):
                bind(target)
                bind(target)  # an augmented assignment is a second binding
            case cst.Subscript(value=cst.Name(value=name)):
                usage.arrays.add(name)
                if any(
                    isinstance(e.slice, cst.Index) and isinstance(e.slice.value, cst.SimpleString) for e in at.slice
                ):
                    usage.records.add(name)
            case cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value=attribute)):
                if attribute in _ARRAY_ATTRIBUTES:
                    usage.arrays.add(name)
                elif attribute not in _COMPLEX_ATTRIBUTES:
                    usage.records.add(name)
            case _:
                pass
        for child in parts(at):
            visit(child)

    visit(node.body)
    return usage


class Builder:
    """Statements emitted so far, fresh names, and the meaning of names."""

    def __init__(self, kernel: FunctionValue, live: Scope | None = None) -> None:
        self.source = kernel.scope.source
        self.frames = [Frame(kernel, "", usage_of(kernel.node))]
        self.live = live
        self.out: list[Stmt] = []
        self.constants: dict[str, object] = {}
        self.dims: dict[str, DimDecl] = {}
        self.known: dict[str, Expr] = {}
        # What the operations of the statement at hand are worth, by call and node: long sums are folded once.
        self.folded: dict[tuple[str, cst.BaseExpression], object] = {}
        self.array_names: set[str] = set()
        self.params: dict[str, Param] = {}
        self._prelude: list[Stmt] = []
        self._fresh = 0
        self._calls: dict[str, int] = {}
        self.inlined: list[cst.FunctionDef] = []

    # ---- places and names

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands in the file of the function being lowered."""
        return self.frame.scope.source.span(node)

    def fresh(self) -> str:
        """A name that no source has."""
        self._fresh += 1
        return f"%{self._fresh}"

    def call_prefix(self, callee: str) -> str:
        """The prefix of the locals of the next inlined call of `callee`."""
        count = self._calls.get(callee, 0) + 1
        self._calls[callee] = count
        outer = self.frame.prefix
        return f"{outer}{callee}." if count == 1 else f"{outer}{callee}#{count}."

    def local(self, name: str) -> str | None:
        """The IR name of `name` if it is a variable of this function or, for a nested one, of those around it."""
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.usage.assigned:
                return frame.prefix + name
            frame = frame.outer
        return None

    def static(self, node: cst.BaseExpression) -> object:
        """The constant that `node` is worth; variables are unknown unless they only name a static thing."""
        if not isinstance(node, cst.BinaryOperation | cst.Attribute | cst.Call):
            return fold(node, self._static_name)
        key = (self.frame.prefix, node)
        if key not in self.folded:
            self.folded[key] = self._folded(node)
        return self.folded[key]

    def _folded(self, node: cst.BinaryOperation | cst.Attribute | cst.Call) -> object:
        """A chain of operators or methods is worth what its parts are, which are asked for too."""
        match node:
            case cst.BinaryOperation(left=left, operator=op, right=right):
                return binary(type(op), self.static(left), self.static(right))
            case cst.Attribute(value=base) | cst.Call(func=base) if self.static(base) is UNKNOWN:
                return UNKNOWN
        return fold(node, self._static_name)

    def _static_name(self, name: str) -> object:
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.statics:
                return frame.statics[name]
            if name in frame.usage.functions:
                return FunctionValue(frame.usage.functions[name], frame.scope.child(frame.function.node))
            if name in frame.usage.assigned:
                return UNKNOWN
            frame = frame.outer
        scope = self.live if self.live is not None and self.frame is self.frames[0] else self.frame.scope
        value = scope.lookup(name)
        if isinstance(value, int | float | str | tuple | HostArray):
            self.constants[name] = value
        return value

    def free_is_unknown(self, name: str) -> bool:
        """Whether `name` is bound in an enclosing Python scope to a value that could not be read."""
        scope: Scope | None = self.frame.scope
        while scope is not None:
            if name in scope.bindings:
                return True
            scope = scope.parent
        return False

    # ---- emission

    def emit(self, statement: Stmt) -> None:
        self.out.append(statement)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collect the statements emitted inside."""
        saved, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = saved

    def assign(self, name: str, value: Expr, span: Span) -> None:
        """`name = value`; remembers what a name that is bound once stands for."""
        if isinstance(value, TupleExpr) and not all(stable(item) for item in value.items):
            parts: list[Expr] = []
            for index, item in enumerate(value.items):
                part = f"{name}.{index}"
                self.assign(part, item, span)
                parts.append(Name(part, span=span))
            value = TupleExpr(tuple(parts), span=span)
        self.emit(Assign(name, value, span=span))
        if isinstance(value, TupleExpr | SubArray) or (isinstance(value, OpCall) and value.op == "shape"):
            self.known[name] = value
        elif isinstance(value, Name) and value.id in self.known:
            self.known[name] = self.known[value.id]
        else:
            self.known.pop(name, None)

    def named(self, value: Expr) -> Expr:
        """`value`, evaluated here and now: under a fresh name unless it cannot change."""
        if stable(value) or (settled(value) and isinstance(value, Name)):
            return value
        name = self.fresh()
        self.assign(name, value, value.span)
        return Name(name, span=value.span)

    def in_order(self, thunks: list[Callable[[], Expr]]) -> list[Expr]:
        """Evaluate left to right; what a later operand's statements could change is named before them."""
        values: list[Expr] = []
        for thunk in thunks:
            before = len(self.out)
            value = thunk()
            added = self.out[before:]
            if added and not all(settled(earlier) for earlier in values):
                del self.out[before:]
                values = [self.named(earlier) for earlier in values]
                self.out.extend(added)
            values.append(value)
        return values

    def unread(
        self,
        reason: str,
        span: Span,
        touches: tuple[str, ...] | None,
        *,
        barrier: bool,
        elements: tuple[Expr, ...] = (),
    ) -> None:
        """Say that something here could not be read."""
        self.emit(Unread(reason, touches, barrier, elements, span=span))

    # ---- constants as expressions

    def constant(self, value: object, span: Span, name: str) -> Expr:
        """A folded value as an expression; what has no place in kernels is `Opaque`."""
        if value is None or isinstance(value, int | float | str):
            return Const(value, span=span)
        if isinstance(value, tuple | list):
            return TupleExpr(tuple(self.constant(item, span, name) for item in value), span=span)
        if isinstance(value, HostArray):
            return self.global_array(value, span, name)
        if isinstance(value, Ref):
            return self.reference(value, span)
        decl = dim_of(value)
        if decl is not None:
            self.dims[decl.key] = decl
            return DimRef(decl.key, span=span) if decl.size is None else Const(decl.size, span=span)
        if isinstance(value, FunctionValue | ClassValue | ModuleValue):
            return Opaque(f"`{name}` is no value inside a kernel", span=span)
        return Opaque(f"the value of `{name}` could not be read", span=span)

    def global_array(self, value: HostArray, span: Span, name: str) -> Expr:
        """A global array: numba freezes it into constant memory at compile time."""
        target = f"::{name}"
        if target not in self.array_names:
            self.array_names.add(target)
            self.constants[name] = value
            self._prelude.append(const_array(target, value, span, name))
        return Name(target, span=span)

    def reference(self, value: Ref, span: Span) -> Expr:
        """A library name used as a value."""
        head, _, last = value.path.rpartition(".")
        kind = head.rpartition(".")[2]
        if last in ("x", "y", "z") and kind in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            return ThreadVar(kind, last, span=span)  # type: ignore[arg-type]
        if value.path in ("numba.cuda.laneid", "numba.cuda.warpsize"):
            return ThreadVar(last, span=span)  # type: ignore[arg-type]
        return Opaque(f"`{value.path}` is no value that can be read", span=span)

    def body(self) -> tuple[Stmt, ...]:
        """All statements, the constant arrays first."""
        return (*self._prelude, *self.out)


def const_array(target: str, value: HostArray, span: Span, name: str) -> AllocArray:
    """The allocation of constant array `target` from the kernel constant `name`."""
    extents = value.shape if value.shape is not None else ()
    shape = tuple(
        Opaque(f"the shape of `{name}` could not be read", span=span) if extent is None else Const(extent, span=span)
        for extent in extents
    )
    return AllocArray(target, "const", shape, value.dtype, span=span, source=name)


_EFFECTS = (Load, Atomic, Warp, BarrierValue)


def settled(value: Expr) -> bool:
    """Whether later statements of the same source statement leave `value` as it is: it reads no memory."""
    return not any(isinstance(node, _EFFECTS) for node in walk(value))


def stable(value: Expr) -> bool:
    """Whether `value` means the same for the rest of the kernel: no memory, no variables."""
    return not any(
        isinstance(node, _EFFECTS) or (isinstance(node, Name) and not node.id.startswith(("%", "::")))
        for node in walk(value)
    )


def names_in(*values: Node) -> tuple[str, ...]:
    """The variables that occur in `values`, sorted."""
    return tuple(sorted({node.id for value in values for node in walk(value) if isinstance(node, Name)}))


def handed(*values: Expr) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """What a call gets with the arguments `values`: the variables that it gets as they are, and the elements of arrays
    that it gets the values of. `f(a, b[i] + 1)` gets `a` and the value of `b[i]`, and cannot touch `b`.
    """
    names: set[str] = set()
    elements: list[Expr] = []
    work: list[Node] = list(reversed(values))
    while work:
        value = work.pop()
        if isinstance(value, Name):
            names.add(value.id)
        elif isinstance(value, Load):
            elements.append(value)
        elif isinstance(value, SubArray) and not any(_cuts(part) for part in value.index):
            elements.append(Load(value.array, value.index, span=value.span))
        elif not isinstance(value, Extent):
            work.extend(reversed(list(children(value))))
    return tuple(sorted(names)), tuple(elements)


def _cuts(part: Node) -> bool:
    """Whether a part of an index leaves an axis: a slice or an ellipsis."""
    return isinstance(part, SliceExpr) or (isinstance(part, Const) and part.value == "...")
