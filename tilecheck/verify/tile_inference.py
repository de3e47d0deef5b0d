"""The state of the type pass: types, faults and open ends, and the paths that are open while a kernel is walked.

Faults are reported once, inside a helper of another file at its call. A variable on which paths disagree becomes a fault
where it is read (`tile_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.ir.kernel import Kernel, Node, Stmt
from tilecheck.ir.types import ArrayExtent, Extent, ScalarType, TensorType, Type
from tilecheck.ops.row import Refused
from tilecheck.verify.tile_values import UNKNOWN, Conflict, Env, Held, Known, spoken


@dataclass(frozen=True, slots=True)
class Mixed:
    """An op at `node` mixes lanes beyond `edge` into valid ones, unless tiles of `tile` divide that extent."""

    node: Node
    op: str
    edge: ArrayExtent
    tile: Extent
    # Where a finding stands if not at the node: the call of a helper of another file.
    at: Span


@dataclass(slots=True)
class Loop:
    """The paths that leave a loop, and those that start its next round."""

    breaks: Env | None = None
    continues: Env | None = None


@dataclass(slots=True)
class Call:
    """The paths that leave an inlined function, and what they return."""

    result: str | None
    leaving: Env | None = None
    given: Held | None = None


@dataclass(slots=True)
class TypePass:
    """One kernel under inference. `types`, `faults` and `mixed` are those of the last pass; `block` walks statements."""

    kernel: Kernel
    params: Mapping[str, TensorType | ScalarType]
    block: Callable[[TypePass, Sequence[Stmt]], None]
    # The variables that some statement assigns.
    assigned: frozenset[str]
    types: dict[Node, Type] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    mixed: list[Mixed] = field(default_factory=list)
    # Expressions without a type: after a fault, or because only the launch decides.
    open: set[Node] = field(default_factory=set)
    env: Env | None = None
    heads: dict[Node, Env] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    foreign: list[tuple[Span, str]] = field(default_factory=list)
    said: set[tuple[str, str, Span]] = field(default_factory=set)
    changed: bool = False

    # ---- saying

    def fault(self, rule: str, message: str, span: Span, help: str | None = None) -> None:
        """Report once; inside a helper of another file at its call."""
        at, labels = span, ()
        if self.foreign:
            at, labels = self.foreign[0][0], (Label(span, f"in `{self.foreign[-1][1]}`"),)  # type: ignore[assignment]
        if (rule, message, at) not in self.said:
            self.said.add((rule, message, at))
            self.faults.append(Fault(rule, message, at, self.kernel.name, labels, help))

    def place(self, span: Span) -> Span:
        """Where a finding at `span` stands."""
        return self.foreign[0][0] if self.foreign else span

    def refused(self, error: Refused, node: Node, arguments: Sequence[Node] = ()) -> None:
        """Report what a type rule refused, at the argument it names."""
        at = node.span
        if error.argument is not None and error.argument < len(arguments):
            at = arguments[error.argument].span
        self.fault(error.rule, error.message, at, error.help)

    def read(self, name: str, node: Node) -> Known:
        """What a variable holds where it is read; a conflict becomes a fault here."""
        assert self.env is not None
        held = self.env.get(name)
        if held is None:
            # A name that nothing assigns is a parameter that was refused, which has its fault.
            if name in self.assigned:
                self.fault("usage", f"`{spoken(name)}` is read before it is assigned", node.span)
            self.env[name] = UNKNOWN
            return UNKNOWN
        if isinstance(held, Conflict):
            self.fault(held.rule, held.message, node.span, held.help)
            self.env[name] = UNKNOWN
            return UNKNOWN
        return held
