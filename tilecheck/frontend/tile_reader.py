"""The state of reading one tile kernel: what is being written, which function is open, what was refused.

A `Frame` is one function being read: the kernel itself, or a helper inlined at a call. Names that the function assigns
anywhere are its locals, as in Python; they become cells called `prefix + name` (`scale.x` for the `x` of the helper
`scale`). All other names are asked of `Frame.names`.

Invariant: a refused statement leaves a fault and, in the listing, `Opaque` in place of what it would have assigned, so
that one mistake is reported once and the rest of the kernel is still checked.

Where faults stand: in a helper of the same file at the line inside the helper; in a helper of another file at the call,
with the helper's own line as a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.frontend.bindings import bound_names
from tilecheck.frontend.names import Function, Names
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import (
    Assign,
    Const,
    DimDecl,
    DimRef,
    Do,
    DTypeRef,
    Expr,
    Name,
    Opaque,
    OpCall,
    Param,
    Return,
    Stmt,
    TensorParam,
    TupleExpr,
    Unsupported,
)
from tilecheck.ir.kernel import Function as FunctionNode

# What a value is, as far as the syntax around it depends on it: `xs[i, k]` of a view loads, `at[0]` of an index does not.
Kind = Literal["tensor", "view", "index", "tuple", "function", "value", "unknown"]

# A kernel with all helpers inlined has at most this many statements.
_LIMIT = 20_000


@dataclass(slots=True)
class Frame:
    """One function being read."""

    source: Source
    names: Names
    locals: frozenset[str]
    prefix: str = ""
    # Parameters bound to compile-time values (dims, dtypes, constants, functions), by the function's own name.
    bound: dict[str, Expr | Function] = field(default_factory=dict)
    # The call that faults are reported at, inside a helper of another file.
    call: Span | None = None
    function: str = ""
    # Locals of the function around a lambda: visible to Python, not to a device function.
    captured: frozenset[str] = frozenset()


class TooLarge(Unsupported):
    """The kernel has too many statements: reading it ends here."""


class Reader:
    """Reads one kernel. `inline` reads a call of a device function, `lift` a device function passed as a value."""

    def __init__(
        self,
        kernel: str,
        frame: Frame,
        inline: Callable[[Reader, Function, cst.Call], Expr],
        lift: Callable[[Reader, Function | cst.Lambda, cst.CSTNode], FunctionNode],
    ) -> None:
        self.kernel = kernel
        self.frame = frame
        self.inline = inline
        self.lift = lift
        self.params: dict[str, Param] = {}
        self.dims: dict[str, DimDecl] = {}
        self.constants: dict[str, object] = {}
        self.faults: list[Fault] = []
        self.kinds: dict[str, Kind] = {}
        self.out: list[Stmt] = []
        self.stack: list[cst.FunctionDef] = []
        self.prefixes: set[str] = set()
        self.loops = 0
        self._cells = 0
        self._written = 0

    # ---- places and refusals

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands in the file of the open function."""
        return self.frame.source.span(node)

    def refuse(
        self, message: str, node: cst.CSTNode, help: str | None = None, rule: str = "unsupported"
    ) -> Unsupported:
        """The refusal of `node`, to be raised."""
        return Unsupported(message, self.span(node), help, rule)

    def record(self, error: Unsupported) -> None:
        """Keep a refusal as a fault, at the place where the user can act on it."""
        at, labels = error.span, ()
        if self.frame.call is not None:
            at, labels = self.frame.call, (Label(error.span, f"in `{self.frame.function}`"),)  # type: ignore[assignment]
        self.faults.append(Fault(error.rule, error.message, at, self.kernel, labels, error.help))

    @contextmanager
    def recovering(self, node: cst.CSTNode) -> Iterator[None]:
        """Record what is refused inside; the names that `node` assigns become `Opaque`, and a line in the listing too."""
        try:
            yield
        except TooLarge:
            raise
        except Unsupported as error:
            self.record(error)
            span = self.span(node)
            unread = Opaque(error.message, span=span)
            gives = isinstance(node, cst.Return) and self.frame.prefix
            self.emit(Return(unread, span=span) if gives else Do(unread, span=span))
            for name in sorted(bound_names(node) & self.frame.locals):
                self.assign(name, Opaque(error.message, span=span), span)

    # ---- writing

    def emit(self, statement: Stmt) -> None:
        """Append to the block being written. Raises `TooLarge` when inlining has made the kernel too large."""
        self._written += 1
        if self._written > _LIMIT:
            raise TooLarge(
                f"`{self.kernel}` grows beyond {_LIMIT:,} statements with its helpers inlined",
                statement.span,
                "call fewer helpers from helpers, or make a loop of repeated calls",
            )
        self.out.append(statement)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """A nested block: what is emitted inside goes to the list that it gives."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def cell(self, name: str) -> str:
        """The cell of a local name."""
        return self.frame.prefix + name

    def fresh(self, stem: str) -> str:
        """A cell that no source name can mean."""
        self._cells += 1
        return f"{self.frame.prefix}{stem}${self._cells}"

    def assign(self, name: str, value: Expr, span: Span) -> None:
        """Assign to a local name of the open function."""
        self.put(self.cell(name), value, span)

    def put(self, cell: str, value: Expr, span: Span) -> None:
        """Assign to a cell."""
        self.kinds[cell] = self.kind(value)
        self.emit(Assign(cell, value, span=span))

    def spill(self, value: Expr) -> Expr:
        """`value` as something that may be read twice: itself if it is a name or constant, else a fresh cell."""
        if isinstance(value, Name | Const | DimRef | DTypeRef | FunctionNode):
            return value
        cell = self.fresh("t")
        self.put(cell, value, value.span)
        return Name(cell, span=value.span)

    def kind(self, value: Expr) -> Kind:
        """What `value` is, for the syntax around it."""
        match value:
            case Name(id=id):
                return self.kinds.get(id, "value")
            case OpCall(op="partition" | "tiles"):
                return "view"
            case OpCall(op="at"):
                return "index"
            case TupleExpr():
                return "tuple"
            case FunctionNode():
                return "function"
            case Opaque():
                return "unknown"
            case _:
                return "value"

    def tensor(self, value: Expr) -> TensorParam | None:
        """The tensor parameter that `value` is; None for anything else, also for a name that was assigned since."""
        param = self.params.get(value.id) if isinstance(value, Name) and self.kind(value) == "tensor" else None
        return param if isinstance(param, TensorParam) else None

    def prefix_for(self, function: str) -> str:
        """A prefix that no other inlining has: `scale.`, then `scale_2.`."""
        count, name = 1, f"{self.frame.prefix}{function}."
        while name in self.prefixes:
            count += 1
            name = f"{self.frame.prefix}{function}_{count}."
        self.prefixes.add(name)
        return name
