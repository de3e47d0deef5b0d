"""Which outputs a kernel may leave unwritten: `partial-coverage`.

An output is written on a path that stores to it. Loops that may have no round count for nothing, except those over tile
counts and minted indices: arrays have no empty axis. A kernel that reads its output first (`z.load()`) updates it in
place, and leaving a tile alone is then meaningful; so is storing to sub-tiles, of which this pass does not count each.

    if flag > 0:
        z.store(t)          # `z` keeps what it held where `flag` is 0 or less
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.ir.kernel import (
    Access,
    Break,
    Const,
    Continue,
    For,
    ForIndices,
    If,
    Inline,
    Kernel,
    Name,
    Node,
    Opaque,
    OpCall,
    Return,
    Stmt,
    TensorParam,
    While,
    walk,
)
from tilecheck.ir.types import ScalarType, SubTilesType, TensorType, Type


def coverage(kernel: Kernel, types: Mapping[Node, Type]) -> list[Fault]:
    """A fault per output that some path leaves unwritten; none for a kernel that was not read in full."""
    nodes = list(walk(*kernel.body))
    if any(isinstance(n, Opaque) for n in nodes):
        return []
    found: list[Fault] = []
    for param in kernel.params:
        if not isinstance(param, TensorParam) or param.access not in (Access.MUT, Access.MAPPED):
            continue
        calls = [n for n in nodes if isinstance(n, OpCall) and n.args and _of(types, n.args[0]) == param.name]
        stores = [n for n in calls if n.op == "store"]
        if any(n.op == "load" for n in calls) or any(n.op not in OWN and types.get(n) is None for n in calls):
            continue
        if not stores:
            message = f"the output `{param.name}` is never written"
            help = f"store its tile, `{param.name}.store(tile)`, or declare it `Tensor[Shared, ...]`"
            found.append(Fault("partial-coverage", message, param.span, kernel.name, (), help))
        elif _Paths(param.name, types, set(stores)).leaves(kernel.body) is False:
            message = f"the output `{param.name}` is not written on every path"
            labels = tuple(Label(n.span, "written here, on some paths") for n in stores[:2])
            help = f"store on every path, or read the old tile first with `{param.name}.load()`"
            found.append(Fault("partial-coverage", message, _place(param.span, stores), kernel.name, labels, help))
    return found


OWN = ("store", "load", "load_like", "num_tiles", "indices", "indices_with", "at", "tiles")


def _of(types: Mapping[Node, Type], node: Node) -> str | None:
    held = types.get(node)
    if isinstance(held, TensorType):
        return held.name
    return held.array if isinstance(held, SubTilesType) else None


def _place(span: Span, stores: Sequence[Node]) -> Span:
    return stores[0].span if stores else span


class _Paths:
    """Walks the paths of one kernel for one output."""

    def __init__(self, output: str, types: Mapping[Node, Type], stores: set[OpCall]) -> None:
        self.output = output
        self.types = types
        self.stores = stores
        # Whether some path left the kernel with the output unwritten.
        self.missed = False
        self.inlines: list[list[bool]] = []

    def leaves(self, body: Sequence[Stmt]) -> bool:
        """Whether the output is written when the kernel ends, on every path."""
        end = self.block(body, False)
        return not self.missed and end is not False

    def block(self, body: Sequence[Stmt], written: bool) -> bool | None:
        """Whether it is written after the statements; None if they do not end here."""
        state: bool | None = written
        for statement in body:
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: Stmt, written: bool) -> bool | None:
        match node:
            case If(cond=cond, then=then, other=other):
                held = self.types.get(cond)
                if isinstance(held, ScalarType) and held.value is not None:
                    return self.block(then if held.value else other, written)
                ends = (self.block(then, written), self.block(other, written))
                left = [e for e in ends if e is not None]
                return all(left) if left else None
            case For(body=body):
                return self.loop(body, written, self.runs(node))
            case ForIndices(body=body, source=source):
                self.indexed(source, body)
                return self.loop(body, written, True)
            case While(cond=cond, body=body):
                return self.loop(body, written, isinstance(cond, Const) and bool(cond.value))
            case Return():
                if self.inlines:
                    self.inlines[-1].append(written)
                elif not written:
                    self.missed = True
                return None
            case Inline(body=body):
                self.inlines.append([])
                end = self.block(body, written)
                left = self.inlines.pop() + ([] if end is None else [end])
                return all(left) if left else None
            case Break() | Continue():
                return None
            case _:
                return written or any(n in self.stores for n in walk(node) if isinstance(n, OpCall))

    def indexed(self, source: OpCall, body: Sequence[Stmt]) -> None:
        """A loop over the output's own indices that does not store on every path of a round."""
        first = source.args[0] if source.args else None
        owners = {a.id for a in source.args if isinstance(a, Name)}
        if first is not None and self.output in owners:
            inner = _Paths(self.output, self.types, self.stores)
            if any(n in self.stores for n in walk(*body) if isinstance(n, OpCall)) and inner.leaves(body) is False:
                self.missed = True

    def loop(self, body: Sequence[Stmt], written: bool, runs: bool) -> bool:
        end = self.block(body, written)
        return written or (runs and end is not False and _ends_whole(body))

    def runs(self, node: For) -> bool:
        """Whether the loop has a round: over a tile count, or between known ends."""
        if isinstance(node.stop, OpCall) and node.stop.op in ("num_tiles", "num_blocks"):
            held = self.types.get(node.start)
            return isinstance(held, ScalarType) and held.value == 0
        start, stop = (self.types.get(n) for n in (node.start, node.stop))
        if isinstance(start, ScalarType) and isinstance(stop, ScalarType):
            return isinstance(start.value, int) and isinstance(stop.value, int) and start.value < stop.value
        return False


def _ends_whole(body: Sequence[Stmt]) -> bool:
    return not any(isinstance(n, Break | Continue) for n in walk(*body))
