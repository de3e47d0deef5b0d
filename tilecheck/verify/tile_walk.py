"""Symbolic execution of a tile kernel for the bounds ladder: statements and expressions, once each, in order.

Ints become polynomials where they provably stay within 64 bits, comparisons become facts of the branches they decide.
Loops are walked once: what their bodies assign is new at the head and new after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    DimRef,
    Do,
    Expr,
    Extent,
    For,
    ForIndices,
    Function,
    If,
    Inline,
    Item,
    Logic,
    Name,
    Node,
    OpCall,
    Return,
    ScalarParam,
    Select,
    Stmt,
    TupleExpr,
    Unary,
    While,
    assigned,
    children,
    walk,
)
from tilecheck.ir.types import Extent as TileExtent
from tilecheck.ir.types import IndexType, ScalarType, SubTilesType, TensorType, TileType, TupleType, Type, ViewType
from tilecheck.symbolic.linear import ZERO, Fresh, LaunchAxis, Poly, Scalar, ceil_div, divide, fits_int64
from tilecheck.symbolic.requires import Relation
from tilecheck.verify.tile_goals import Goal
from tilecheck.verify.tile_ladder import Ledger
from tilecheck.verify.tile_path import LoopFrame, Minted, Range, Truth, Value, Values, compare, join_values, negated
from tilecheck.verify.tile_report import ArrayAccess
from tilecheck.verify.tile_stores import Lanes, note, spread


@dataclass(slots=True)
class Walk:
    """One walk: the ledger that is filled, and the types it relies on."""

    ledger: Ledger
    types: Mapping[Node, Type]
    lanes: Lanes = field(default_factory=Lanes)
    # Values that leave an inlined function by `return`, per function that is open.
    returns: list[list[tuple[Values, Value]]] = field(default_factory=list)
    foreign: list[Span] = field(default_factory=list)

    def run(self) -> None:
        """Walk the whole kernel."""
        path, kernel = self.ledger.path, self.ledger.kernel
        path.values = {}
        for param in kernel.params:
            is_int = isinstance(param, ScalarParam) and param.kind in ("int", None)
            path.values[param.name] = Poly.of(Scalar(param.name)) if is_int else None
        self.block(kernel.body)

    def span(self, node: Node) -> Span:
        """Where a finding about `node` stands."""
        return self.foreign[0] if self.foreign else node.span

    # ---- statements

    def block(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            if self.ledger.path.values is None:
                return
            self.statement(statement)

    def statement(self, node: Stmt) -> None:
        path = self.ledger.path
        assert path.values is not None
        match node:
            case Assign(target=target, value=value):
                path.values[target] = self.value(value, target)
            case Do(value=value):
                self.value(value)
            case Assert(cond=cond):
                self.value(cond)
            case If():
                self.branch(node)
            case For():
                self.count(node)
            case ForIndices():
                self.mint(node)
            case While(cond=cond, body=body):
                self.repeat(node, cond, body)
            case Break() | Continue():
                path.values = None
            case Return(value=value):
                given = None if value is None else self.value(value)
                if self.returns:
                    self.returns[-1].append((path.values, given))
                path.values = None
            case Inline():
                self.inline(node)
            case _:
                raise TypeError(f"a tile kernel has no statement {type(node).__name__}")

    def branch(self, node: If) -> None:
        path = self.ledger.path
        found = self.value(node.cond)
        truth = found if isinstance(found, Truth) else Truth()
        before, mark, unreadable = path.values, path.mark(), path.unreadable
        assert before is not None
        ends: list[Values | None] = []
        path.depth += 1
        for holding, block in ((truth.true, node.then), (truth.false, node.other)):
            path.values = dict(before)
            path.unreadable = unreadable + (not holding)
            path.assume(holding)
            self.block(block)
            ends.append(path.values)
            path.forget(mark)
        path.depth -= 1
        path.unreadable = unreadable
        if None in ends:
            # Who comes out came through the other branch; what decided it stays true.
            path.assume(truth.false if ends[0] is None else truth.true)
            path.unreadable += not (truth.false if ends[0] is None else truth.true)
        path.values = join_values(path, ends[0], ends[1])

    @contextmanager
    def around(self, node: Stmt, body: Sequence[Stmt], counted: Range | None) -> Iterator[None]:
        """A loop: what its body assigns is new inside and after."""
        path = self.ledger.path
        assert path.values is not None
        before, mark = dict(path.values), path.mark()
        self.forget(path.values, body)
        path.loops.append(LoopFrame(node, before, path.depth, _whole(body), counted))
        yield
        path.loops.pop()
        path.forget(mark)
        path.values = dict(before)
        self.forget(path.values, body)

    def forget(self, values: Values, body: Sequence[Stmt]) -> None:
        for name in assigned(tuple(body)):
            values[name] = Poly.of(self.ledger.path.fresh(name))

    def count(self, node: For) -> None:
        path = self.ledger.path
        ends = [self.value(bound) for bound in (node.start, node.stop, node.step)]
        start, stop, step = (e if isinstance(e, Poly) else Poly.of(path.fresh(node.target)) for e in ends)
        stride = step.constant
        (low, _), (_, high) = path.bounds(start), path.bounds(stop)
        if stride is None or stride < 0:
            (_, high), (low, _) = path.bounds(start), path.bounds(stop)
            low = None if low is None else low + 1
        else:
            high = None if high is None else high - 1
        if stride is None:
            low = high = None
        atom = path.fresh(node.target, low, high)
        counted = Range(atom, start, stop, stride, node) if stride is not None else None
        with self.around(node, node.body, counted):
            assert path.values is not None
            variable = Poly.of(atom)
            path.values[node.target] = variable
            if counted is not None:
                path.ranges[atom] = counted
                first, last = (">=", "<") if counted.step > 0 else ("<=", ">")
                path.assume([compare(first, variable, start), compare(last, variable, stop)])  # type: ignore[arg-type]
            self.block(node.body)

    def mint(self, node: ForIndices) -> None:
        path = self.ledger.path
        minted = self.types.get(node.source)
        self.value(node.source)
        with self.around(node, node.body, None):
            path.unreadable += 1
            assert path.values is not None
            if isinstance(minted, IndexType):
                path.values[node.target] = self.indices(node.source, minted)
            self.block(node.body)
            path.unreadable -= 1

    def indices(self, source: OpCall, minted: IndexType) -> Minted:
        """The items of a minted index, each below the tile count of its axis, and inside `within`."""
        path, ledger = self.ledger.path, self.ledger
        tiles = {name: self.tile_of(name) for name in minted.arrays}
        if len(minted.arrays) == 2:
            ledger.same_tiles(self.span(source), minted.arrays[0], minted.arrays[1], tiles)
        array = minted.arrays[0]
        pairs = self.within(source, minted.rank)
        items: list[Poly] = []
        for axis, tile in enumerate(tiles[array]):
            count = ceil_div(ledger.extent(array, axis), ledger.of(tile))
            _, high = path.bounds(count)
            atom = path.fresh(f"index[{axis}]", 0, None if high is None else high - 1)
            item = Poly.of(atom)
            start, stop = ZERO, count
            if pairs is not None and pairs[axis] is not None:
                start, length = pairs[axis]  # type: ignore[misc]
                path.assume([compare(">=", item, start)])
                if length is not None and fits_int64(start + length, path.known):
                    stop = start + length
            path.ranges[atom] = Range(atom, start, stop, 1, None)
            path.assume([compare("<", item, count), compare("<", item, stop), compare("<", start, stop)])
            items.append(item)
        return Minted(tuple(items))

    def within(self, source: OpCall, rank: int) -> list[tuple[Poly, Poly | None] | None] | None:
        """The sub-range of each axis, checked: `0 <= start` and `start + count <= tiles`. A count of -1 has no end."""
        node = dict(source.kwargs).get("within")
        if not isinstance(node, TupleExpr):
            return None
        pairs = node.items
        if rank == 1 and len(pairs) == 2 and not isinstance(self.types.get(pairs[0]), TupleType):
            pairs = (node,)
        found: list[tuple[Poly, Poly | None] | None] = []
        array = source.args[0]
        name = array.id if isinstance(array, Name) else ""
        for axis, pair in enumerate(pairs[:rank]):
            if not isinstance(pair, TupleExpr) or len(pair.items) != 2:
                found.append(None)
                continue
            start, length = (self.quiet(item) for item in pair.items)
            found.append(self.ledger_range(source, name, axis, start, length))
        return found

    def ledger_range(
        self, source: OpCall, name: str, axis: int, start: Value, length: Value
    ) -> tuple[Poly, Poly | None] | None:
        """Note the check of one sub-range; what it ensures holds inside the loop."""
        ledger, path = self.ledger, self.ledger.path
        span = self.span(source)
        if not isinstance(start, Poly) or not isinstance(length, Poly):
            ledger.accesses.append(ArrayAccess(source, span.line, name, axis, "in-place", "the sub-range is computed"))
            return None
        rest = length.constant == -1
        tile = self.tile_of(name)[axis]
        extent, tiles = ledger.extent(name, axis), ledger.of(tile)
        last = start if rest else start + length - Poly.of(1)
        shown = "the sub-range of `within`"
        empty = not rest and length.constant == 0
        if not empty:
            goal = Goal(source, name, axis, axis, last, shown, extent, tiles, tile)
            if last.constant is None or start.constant is None:
                ledger.accesses.append(
                    ArrayAccess(source, span.line, name, axis, "in-place", "the sub-range is known at the launch alone")
                )
            else:
                ledger.goal(goal, span)
        path.assume([compare(">=", start, ZERO)])
        return start, None if rest else length

    def repeat(self, node: While, cond: Expr, body: Sequence[Stmt]) -> None:
        path = self.ledger.path
        with self.around(node, body, None):
            found = self.value(cond)
            if isinstance(found, Truth):
                path.assume(found.true)
            path.unreadable += 1
            self.block(body)
            path.unreadable -= 1

    def inline(self, node: Inline) -> None:
        path = self.ledger.path
        self.returns.append([])
        if node.foreign or self.foreign:
            self.foreign.append(node.span)
        mark = path.mark()
        self.block(node.body)
        if node.foreign or self.foreign:
            self.foreign.pop()
        left = self.returns.pop()
        if path.values is not None:
            left.append((path.values, None))
        if len(left) > 1:
            path.forget(mark)
        joined: Values | None = None
        for values, given in left:
            if node.result is not None:
                values = {**values, node.result: given}
            joined = join_values(path, joined, values)
        path.values = joined

    # ---- expressions

    def quiet(self, node: Expr) -> Value:
        """The value of an expression that was walked already: its accesses are not noted again."""
        before = len(self.ledger.accesses)
        value = self.value(node)
        del self.ledger.accesses[before:]
        return value

    def value(self, node: Expr, name: str = "") -> Value:
        """What an expression gives; ints that may leave 64 bits, or are not known, are new atoms."""
        found = self._value(node)
        held = self.types.get(node)
        if isinstance(found, Poly):
            if fits_int64(found, self.ledger.path.known):
                return found
            found = None
        if found is None and isinstance(held, ScalarType) and held.kind == "int":
            if isinstance(held.value, int):
                return Poly.of(int(held.value))
            return Poly.of(self.ledger.path.fresh(name or "the index"))
        return found

    def _value(self, node: Expr) -> Value:
        match node:
            case Const(value=bool()):
                return None
            case Const(value=int(number)):
                return Poly.of(number)
            case Name(id=name):
                return (self.ledger.path.values or {}).get(name)
            case DimRef(key=key):
                return self.ledger.dim(key)
            case Unary(op=op, operand=operand):
                inner = self.value(operand)
                if op == "not" and isinstance(inner, Truth):
                    return Truth(inner.false, inner.true)
                return -inner if op == "-" and isinstance(inner, Poly) else inner if op == "+" else None
            case Binary(op=op, left=left, right=right):
                return _arithmetic(op, self.value(left), self.value(right), self.ledger)
            case Compare(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                if isinstance(a, Poly) and isinstance(b, Poly):
                    fact = compare(op, a, b)
                    return Truth((fact,), (negated(fact),))
                return None
            case Logic(op=op, operands=operands):
                parts = [self.value(o) for o in operands]
                truths = [p for p in parts if isinstance(p, Truth)]
                if len(truths) < len(parts):
                    return Truth(tuple(c for t in truths for c in t.true), ()) if op == "and" else None
                if op == "and":
                    return Truth(tuple(c for t in truths for c in t.true), ())
                return Truth((), tuple(c for t in truths for c in t.false))
            case TupleExpr(items=items):
                return tuple(self.value(i) for i in items)
            case Item(base=base, index=index):
                return self.item(base, index)
            case Extent():
                return self.extent(node)
            case OpCall():
                return self.call(node)
            case Function():
                return None
            case Select():
                for part in children(node):
                    self.value(part)  # type: ignore[arg-type]
                return None
            case _:
                return None

    def item(self, base: Expr, index: Expr) -> Value:
        held, at = self.value(base), self.value(index)
        position = at.constant if isinstance(at, Poly) else None
        items = held.items if isinstance(held, Minted) else held if isinstance(held, tuple) else ()
        if position is not None and -len(items) <= position < len(items):
            return items[position]
        return None

    def extent(self, node: Extent) -> Value:
        held = self.types.get(node.array)
        self.value(node.array)
        if isinstance(held, TensorType):
            if node.axis is None:
                return self.ledger.size(held.name)
            rank = len(held.shape) if held.shape is not None else None
            return self.ledger.extent(held.name, node.axis % rank if rank else node.axis)
        if isinstance(held, TileType | ViewType | SubTilesType) and node.axis is not None:
            return self.ledger.of(held.shape[node.axis])
        return None

    def tile_of(self, array: str) -> tuple[int, ...]:
        """The tile of a `Mut` or `Mapped` parameter, by axis."""
        from tilecheck.verify.tile_specialise import parameter_types

        held = parameter_types(self.ledger.kernel)[array]
        return held.shape if isinstance(held, TensorType) and held.shape is not None else ()  # type: ignore[return-value]

    # ---- calls

    def call(self, node: OpCall) -> Value:
        """An op: what it touches is noted; grid and tile counts have values."""
        args = [self.value(a) for a in node.args if not isinstance(a, Function)]
        for _, value in node.kwargs:
            self.value(value)
        first = self.types.get(node.args[0]) if node.args else None
        note(self.lanes, node, args, self.types, self.span(node), [frame.node for frame in self.ledger.path.loops])
        match node.op:
            case "block_id" | "num_blocks":
                axis = args[0].constant if isinstance(args[0], Poly) else None
                if axis is not None and 0 <= axis < 3:
                    return Poly.of(LaunchAxis("blockId" if node.op == "block_id" else "gridDim", axis))
            case "num_tiles":
                return self.num_tiles(first, args[1] if len(args) > 1 else None)
            case "load_tile" | "load" if isinstance(first, ViewType):
                self.tiles(node, args[1:], first)
            case "load_tile" | "load" | "store" if isinstance(first, SubTilesType):
                self.subtiles(node, args[2:] if node.op == "store" else args[1:], first)
            case "load" | "store" if isinstance(first, TensorType):
                self.own(node, first)
            case "load_like":
                self.like(node)
            case "gather":
                self.elements(node, first)
            case "at" if isinstance(first, TensorType):
                return self.owned(node, first, args)
            case "minimum" | "maximum" if all(isinstance(a, Poly) for a in args):
                return self.extreme(node.op, args)
            case _ if node.op.startswith("atomic_"):
                self.elements(node, first)
        return None

    def extreme(self, op: str, args: Sequence[Value]) -> Value:
        """`min` and `max` of ints: a new atom, on the right side of both."""
        path = self.ledger.path
        polys = [a for a in args if isinstance(a, Poly)]
        ends = [path.bounds(p) for p in polys]
        pick = min if op == "minimum" else max
        lows, highs = [e[0] for e in ends if e[0] is not None], [e[1] for e in ends if e[1] is not None]
        whole = len(lows) == len(ends) and len(highs) == len(ends)
        atom = path.fresh(op, pick(lows) if whole else None, pick(highs) if whole else None)
        relation: Relation = "<=" if op == "minimum" else ">="
        path.choices[atom] = (relation, tuple(polys))
        path.assume([compare(relation, Poly.of(atom), p) for p in polys])
        return Poly.of(atom)

    def num_tiles(self, of: Type | None, axis: Value) -> Value:
        at = axis.constant if isinstance(axis, Poly) else None
        if at is None:
            return None
        match of:
            case ViewType() if -len(of.shape) <= at < len(of.shape):
                at %= len(of.shape)
                return ceil_div(self.ledger.extent(of.array, of.permute[at]), self.ledger.of(of.shape[at]))
            case SubTilesType() if -len(of.shape) <= at < len(of.shape):
                return ceil_div(self.ledger.of(of.whole[at]), self.ledger.of(of.shape[at]))
            case TensorType(shape=shape) if shape is not None and -len(shape) <= at < len(shape):
                at %= len(shape)
                return ceil_div(self.ledger.extent(of.name, at), self.ledger.of(shape[at]))
        return None

    def tiles(self, node: OpCall, index: Sequence[Value], view: ViewType) -> None:
        """A load through a view: a goal per axis."""
        parts = spread(index)
        for axis, tile in enumerate(view.shape):
            item = parts[axis] if axis < len(parts) else None
            along = view.permute[axis]
            self.goal(
                node, view.array, axis, along, item, self.shown(node, axis), self.ledger.extent(view.array, along), tile
            )

    def subtiles(self, node: OpCall, index: Sequence[Value], part: SubTilesType) -> None:
        """A load or store of sub-tiles: local indices below the local tile count."""
        parts = spread(index)
        for axis, tile in enumerate(part.shape):
            item = parts[axis] if axis < len(parts) else None
            self.goal(
                node, part.array, axis, axis, item, self.shown(node, axis), self.ledger.of(part.whole[axis]), tile, True
            )

    def goal(
        self,
        node: OpCall,
        array: str,
        axis: int,
        along: int,
        index: Value,
        shown: str,
        extent: Poly,
        tile: TileExtent,
        local: bool = False,
    ) -> None:
        if not isinstance(index, Poly):
            index = Poly.of(self.ledger.path.fresh("the index"))
        self.ledger.goal(
            Goal(node, array, axis, along, index, shown, extent, self.ledger.of(tile), tile, local),
            self.span(node),
        )

    def shown(self, node: OpCall, axis: int) -> str:
        """The index as the user wrote it, where it is short."""
        from tilecheck.ir.printer import show

        given = node.args[2:] if node.op == "store" else node.args[1:]
        if axis < len(given):
            text = show(given[axis])
            if len(text) <= 40:
                return f"`{text}`"
        return "the index"

    def own(self, node: OpCall, tensor: TensorType) -> None:
        """The block's own tile, or a minted index: in bounds by construction. A whole `Shared` tensor too."""
        for axis in range(len(tensor.shape or ())):
            self.ledger.accesses.append(ArrayAccess(node, self.span(node).line, tensor.name, axis, "provenance"))

    def like(self, node: OpCall) -> None:
        source, model = (self.types.get(a) for a in node.args[:2])
        if isinstance(source, TensorType) and isinstance(model, TensorType) and model.shape is not None:
            for axis, tile in enumerate(model.shape):
                mapped = model.access == "Mapped"
                self.ledger.as_long_as(node, self.span(node), source.name, model.name, axis, tile, mapped)

    def elements(self, node: OpCall, of: Type | None) -> None:
        """Element indices in tiles: checked lane by lane."""
        if isinstance(of, TensorType):
            for axis in range(len(of.shape or (0,))):
                reason = "element indices are computed in the kernel"
                self.ledger.accesses.append(ArrayAccess(node, self.span(node).line, of.name, axis, "in-place", reason))

    def owned(self, node: OpCall, tensor: TensorType, args: Sequence[Value]) -> Value:
        """`z.at(index, j)`: the owned ints count through the last axes of `z`, or through the axis they were taken from."""
        rank = len(tensor.shape or ())
        minted = args[1] if len(args) > 1 else None
        items = list(minted.items) if isinstance(minted, Minted) else []
        given = list(args[2:])
        for position, index in enumerate(given):
            axis = rank - len(given) + position
            atom = index.atom if isinstance(index, Poly) else None
            counted = self.ledger.path.ranges.get(atom) if isinstance(atom, Fresh) else None
            if counted is not None:
                counts = [self.num_tiles(tensor, Poly.of(a)) for a in range(rank)]
                axis = (
                    counts.index(counted.stop)
                    if counted.stop in counts[:axis] and counts[axis] != counted.stop
                    else axis
                )
            tile = (tensor.shape or ())[axis]
            self.goal(
                node, tensor.name, axis, axis, index, "the owned index", self.ledger.extent(tensor.name, axis), tile
            )
            if isinstance(index, Poly) and axis < len(items):
                items[axis] = index
        return Minted(tuple(items)) if items else None


def _arithmetic(op: str, a: Value, b: Value, ledger: Ledger) -> Value:
    if not isinstance(a, Poly) or not isinstance(b, Poly):
        return None
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%":
            low, high = ledger.path.bounds(b)
            if (low is not None and low >= 1) or (high is not None and high < 0):
                return divide(op, a, b)
    return None


def _whole(body: Sequence[Stmt]) -> bool:
    """Whether every round of a loop runs to its end: no way out but the last `return` of an inlined function."""
    last = {n.body[-1] for n in walk(*body) if isinstance(n, Inline) and n.body}
    inner = {m for n in walk(*body) if isinstance(n, For | ForIndices | While) for m in walk(*n.body)}
    for node in walk(*body):
        if isinstance(node, Return) and node not in last:
            return False
        if isinstance(node, Break | Continue) and node not in inner:
            return False
    return True
