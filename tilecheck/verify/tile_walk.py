"""Symbolic execution of a tile kernel for the bounds ladder: statements and expressions, once each, in order.

Ints become polynomials where they provably stay within 64 bits, comparisons become facts of the branches they decide.
Loops are walked once: what their bodies assign is new at the head and new after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

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
    walk,
)
from tilecheck.ir.types import IndexType, ScalarType, SubTilesType, TensorType, TileType, Type, ViewType
from tilecheck.symbolic.linear import INT64, Poly, Scalar, divide, fits_int64
from tilecheck.verify.tile_accesses import Accesses
from tilecheck.verify.tile_ladder import Ledger
from tilecheck.verify.tile_path import LoopFrame, Minted, Range, Truth, Value, Values, compare, join_values, negated


@dataclass(slots=True)
class Walk:
    """One walk over the kernel of a ledger."""

    accesses: Accesses
    # Values that leave an inlined function by `return`, per function that is open.
    returns: list[list[tuple[Values, Value]]] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return self.accesses.ledger

    @property
    def types(self) -> Mapping[Node, Type]:
        return self.accesses.types

    def run(self) -> None:
        """Walk the whole kernel."""
        path, kernel = self.ledger.path, self.ledger.kernel
        path.values = {}
        for param in kernel.params:
            is_int = isinstance(param, ScalarParam) and param.kind in ("int", None)
            path.values[param.name] = Poly.of(Scalar(param.name)) if is_int else None
        self.block(kernel.body)

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
            path.unreadable = unreadable + (not holding or not truth.whole)
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
        """A loop: what it assigns, its target included, is new inside and after."""
        path = self.ledger.path
        assert path.values is not None
        before, mark = dict(path.values), path.mark()
        self.forget(path.values, (node,))
        path.loops.append(LoopFrame(node, before, path.depth, _whole(body), counted))
        yield
        path.loops.pop()
        path.forget(mark)
        path.values = dict(before)
        self.forget(path.values, (node,))

    def forget(self, values: Values, body: Sequence[Stmt]) -> None:
        for name in assigned(tuple(body)):
            values[name] = Poly.of(self.ledger.path.fresh(name))

    def count(self, node: For) -> None:
        path = self.ledger.path
        ends = [self.value(bound) for bound in (node.start, node.stop, node.step)]
        start, stop, step = (e if isinstance(e, Poly) else Poly.of(path.fresh(node.target)) for e in ends)
        least, most = path.bounds(step)
        up = least is not None and least >= 1
        known = up or (most is not None and most <= -1)
        (low, _), (_, high) = path.bounds(start if up else stop), path.bounds(stop if up else start)
        if up:
            high = None if high is None else high - 1
        else:
            low = None if low is None else low + 1
        atom = path.fresh(node.target, low, high) if known else path.fresh(node.target)
        counted = Range(atom, start, stop, step, up, node) if known else None
        with self.around(node, node.body, counted):
            assert path.values is not None
            variable = Poly.of(atom)
            path.values[node.target] = variable
            if counted is not None:
                path.ranges[atom] = counted
                first, second = (start, variable) if up else (variable, start)
                lower, upper = (variable, stop) if up else (stop, variable)
                path.assume([compare("<=", first, second), compare("<", lower, upper)])
            self.block(node.body)

    def mint(self, node: ForIndices) -> None:
        path = self.ledger.path
        minted = self.types.get(node.source)
        self.value(node.source)
        within = self.value(dict(node.source.kwargs)["within"]) if "within" in dict(node.source.kwargs) else None
        with self.around(node, node.body, None):
            path.unreadable += 1
            assert path.values is not None
            if isinstance(minted, IndexType):
                path.values[node.target] = self.accesses.minted(node.source, minted, within)
            self.block(node.body)
            path.unreadable -= 1

    def repeat(self, node: While, cond: Expr, body: Sequence[Stmt]) -> None:
        """`while`: its condition holds in a round; a counter that it bounds is never below where it started."""
        path = self.ledger.path
        assert path.values is not None
        counters = {name: (path.values.get(name), most) for name, most in _counters(body).items()}
        with self.around(node, body, None):
            found = self.value(cond)
            if isinstance(found, Truth):
                path.assume(found.true)
            for name, (start, most) in counters.items():
                now = (path.values or {}).get(name)
                if isinstance(now, Poly) and isinstance(start, Poly):
                    _, high = path.bounds(now)
                    if high is not None and high + most < INT64[1]:
                        path.assume([compare(">=", now, start)])
            path.unreadable += 1
            self.block(body)
            path.unreadable -= 1

    def inline(self, node: Inline) -> None:
        path = self.ledger.path
        self.returns.append([])
        if node.foreign or self.accesses.foreign:
            self.accesses.foreign.append(node.span)
        mark = path.mark()
        self.block(node.body)
        if node.foreign or self.accesses.foreign:
            self.accesses.foreign.pop()
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
                    return Truth(inner.false, inner.true, inner.whole)
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
                    return Truth(tuple(c for t in truths for c in t.true), (), False) if op == "and" else None
                whole = all(t.whole for t in truths)
                if op == "and":
                    return Truth(tuple(c for t in truths for c in t.true), (), whole)
                return Truth((), tuple(c for t in truths for c in t.false), whole)
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
                for part in (node.cond, node.then, node.other):
                    self.value(part)
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

    def call(self, node: OpCall) -> Value:
        """An op: its arguments, then what it touches."""
        args = [self.value(a) for a in node.args if not isinstance(a, Function)]
        for _, value in node.kwargs:
            self.value(value)
        return self.accesses.call(node, args)


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


def _counters(body: Sequence[Stmt]) -> dict[str, int]:
    """The variables that a round only ever adds positive constants to, and the most that one round adds."""
    loops = [n for n in walk(*body) if isinstance(n, For | ForIndices | While)]
    other = {name for loop in loops for name in assigned((loop,))}
    found: dict[str, int] = {}
    for node in walk(*body):
        if isinstance(node, Inline) and node.result is not None:
            other.add(node.result)
        if not isinstance(node, Assign):
            continue
        match node.value:
            case Binary(op="+", left=Name(id=id), right=Const(value=int(step))) if id == node.target and step >= 0:
                found[id] = found.get(id, 0) + step
            case _:
                other.add(node.target)
    return {name: most for name, most in found.items() if name not in other}


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
