"""What the text of a kernel says before any proof: which arrays it writes, their rank, what must be an integer.

All answers are flow-insensitive and lean to the safe side: an array counts as written if a store may reach it through
any name, a load counts as an integer only if its value is used where numba accepts nothing else.

Worked example: in `k = where[i]; out[k] = 1` the arrays `where` and `out` have rank 1, `out` is written, and elements
of `where` are integers, because `k` is an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Extent,
    For,
    Inline,
    Item,
    Kernel,
    Name,
    Node,
    OpCall,
    Return,
    ScalarParam,
    Select,
    TensorParam,
    TupleExpr,
    Unary,
    While,
    children,
    walk,
)
from tilecheck.ir.simt import (
    AllocArray,
    Atomic,
    Barrier,
    BarrierValue,
    FillSlice,
    Load,
    SliceExpr,
    Store,
    SubArray,
    ThreadVar,
    Unread,
    Warp,
)
from tilecheck.symbolic.smt_nodes import Level
from tilecheck.verify.verdict import Property

_SCOPES = {"grid": Level.GRID, "block": Level.BLOCK, "warp": Level.WARP}
_WHOLE = frozenset({"&", "|", "^", "<<", ">>"})
_KEEPS_WHOLE = frozenset(
    {"min", "max", "abs", "selp", "int32", "int64", "uint32", "uint64", "int8", "uint8", "int16", "uint16"}
)


class Usage:
    """The textual facts of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._barriers: dict[Node, Level | None] = {}
        self._assigned: dict[str, list[Node]] = {}
        self.nodes = tuple(walk(*kernel.body))
        self.allocated = {n.name for n in self.nodes if isinstance(n, AllocArray)}
        for node in self.nodes:
            if isinstance(node, Assign):
                self._assigned.setdefault(node.target, []).append(node.value)
            elif isinstance(node, Inline) and node.result is not None:
                values = [n.value for n in walk(*node.body) if isinstance(n, Return) and n.value is not None]
                self._assigned.setdefault(node.result, []).extend(values)
        self._counters = {n.target for n in self.nodes if isinstance(n, For)}
        self.parameters = {p.name for p in kernel.params if isinstance(p, TensorParam)}
        # Parameters of unknown kind that only calls which could not be read take: they may be arrays.
        mentioned = {n.id for n in self.nodes if isinstance(n, Name)}
        open_ones = {p.name for p in kernel.params if isinstance(p, ScalarParam) and p.kind is None}
        self.unseen = frozenset(open_ones - mentioned)
        # Arrays of the enclosing Python scope, which a kernel may capture.
        self.captured = frozenset(self._find_captured())
        self._roots: dict[str, frozenset[str]] = {}
        self.axes = frozenset(self._used_axes())
        # The properties that an access somewhere in memory may break.
        self.at_stake = tuple(self._at_stake())
        self.unsafe = any(isinstance(n, OpCall) and n.op == "unsafe" for n in self.nodes)
        self.written = frozenset(self.writes(kernel.body))
        self.ranks = self._find_ranks()
        self.whole_numbers = frozenset(self._find_whole_numbers())

    def binds(self, name: str) -> bool:
        """Whether the kernel assigns `name` somewhere."""
        return name in self._assigned or name in self.allocated or name in self._counters

    # ---- arrays

    def roots(self, target: Node) -> frozenset[str]:
        """The parameters and allocations that an array expression may stand for."""
        if isinstance(target, SubArray | Load):
            return self.roots(target.array)
        if isinstance(target, Name):
            return self._roots_of(target.id, ())
        if isinstance(target, Select):
            return self.roots(target.then) | self.roots(target.other)
        if isinstance(target, Item):
            return self.roots(target.base)
        if isinstance(target, TupleExpr):
            return frozenset().union(*(self.roots(item) for item in target.items))
        if isinstance(target, OpCall):
            return frozenset().union(*(self.roots(arg) for arg in target.args))
        return frozenset()

    def _roots_of(self, name: str, seen: tuple[str, ...]) -> frozenset[str]:
        if name in self._roots:
            return self._roots[name]
        known = name in self.parameters or name in self.allocated or name in self.captured
        own = frozenset({name}) if known else frozenset()
        if name in seen:
            return own
        result = own
        for value in self._assigned.get(name, ()):
            for node in walk(value):
                if isinstance(node, Name) and node.id != name:
                    result |= self._roots_of(node.id, (*seen, name))
        if not seen:
            self._roots[name] = result
        return result

    def writes(self, body: Iterable[Node]) -> set[str]:
        """The arrays that statements may write."""
        found: set[str] = set()
        for node in walk(*body):
            if isinstance(node, Store | Atomic | FillSlice):
                found |= self.roots(node.array)
            elif isinstance(node, Unread):
                everything = self.parameters | self.allocated | self.captured
                found |= everything if node.touches is None else set(node.touches)
                for name in node.touches or ():
                    found |= self._roots_of(name, ())
        return found

    def barrier(self, body: Iterable[Node]) -> Level | None:
        """The widest barrier in statements, None if there is none."""
        levels = [level for node in body if (level := self._barrier(node)) is not None]
        return min(levels, default=None)

    def assigned(self, loop: For | While) -> tuple[str, ...]:
        """The variables that a loop's body assigns, in order of appearance."""
        names: dict[str, None] = {}
        for node in walk(*loop.body):
            if isinstance(node, Assign | For):
                names[node.target] = None
            elif isinstance(node, Inline) and node.result is not None:
                names[node.result] = None
        return tuple(names)

    def meets_in_warps(self, loop: For | While) -> bool:
        """Whether the lanes of a warp exchange values inside a loop."""
        return any(isinstance(node, Warp) for node in walk(*loop.body))

    def leaves(self, loop: For | While, jump: type[Break] | type[Return]) -> bool:
        """Whether a `break` of this loop, or a `return` (or an assert that may end the thread), stands in its body."""
        return any(self._jumps(node, jump, 0) for node in loop.body)

    def _jumps(self, node: Node, jump: type[Break] | type[Return], calls: int) -> bool:
        if isinstance(node, Assert):
            return jump is Return
        if isinstance(node, jump):
            return calls == 0
        if jump is Break and isinstance(node, For | While):
            return False
        inside = calls + isinstance(node, Inline) if jump is Return else calls
        return any(self._jumps(child, jump, inside) for child in children(node))

    def _barrier(self, root: Node) -> Level | None:
        if root not in self._barriers:
            levels: list[Level] = []
            for node in walk(root):
                if isinstance(node, Barrier):
                    levels.append(_SCOPES[node.scope])
                elif isinstance(node, BarrierValue) or (isinstance(node, Unread) and node.barrier):
                    levels.append(Level.BLOCK)
            self._barriers[root] = min(levels, default=None)
        return self._barriers[root]

    def _at_stake(self) -> Iterator[Property]:
        yield from (Property.RACE_FREE, Property.IN_BOUNDS)
        if any(isinstance(node, Barrier | BarrierValue | Warp) for node in self.nodes):
            yield Property.BARRIERS_UNIFORM
        if any(isinstance(node, AllocArray) and node.space == "shared" for node in self.nodes):
            yield Property.SHARED_INITIALISED

    def _used_axes(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ThreadVar):
                yield node.kind, node.axis or ""

    def _find_captured(self) -> Iterator[str]:
        known = {p.name for p in self.kernel.params}
        for node in self.nodes:
            if isinstance(node, Load | Store | Atomic | FillSlice | SubArray | Extent) and isinstance(node.array, Name):
                name = node.array.id
                if name not in known and not self.binds(name):
                    yield name

    def local_rank(self, name: str) -> int:
        """The rank that the use of an allocation shows, at least 1."""
        return self.ranks.get(name, 1)

    def _find_ranks(self) -> dict[str, int]:
        """The rank of every array, as far as its use shows it; at least 1."""
        ranks: dict[str, int] = dict.fromkeys(self.parameters | self.allocated | self.captured, 1)

        def see(target: Node, rank: int) -> None:
            while True:
                if isinstance(target, SubArray):
                    rank += sum(1 for part in target.index if not _is_slice(part))
                    target = target.array
                    continue
                values = self._assigned.get(target.id, []) if isinstance(target, Name) else []
                if len(values) != 1 or not isinstance(values[0], SubArray):
                    break
                target = values[0]
            if isinstance(target, Name):
                for root in self._roots_of(target.id, ()):
                    if root in ranks and self._direct(target.id, root):
                        ranks[root] = max(ranks[root], rank)

        for node in self.nodes:
            if isinstance(node, Load | Store | Atomic | FillSlice | SubArray):
                see(node.array, len(node.index))
            elif isinstance(node, Extent) and node.axis is not None and node.axis >= 0:
                see(node.array, node.axis + 1)
        for param in self.kernel.params:
            if isinstance(param, TensorParam) and param.extents is not None:
                ranks[param.name] = max(1, len(param.extents))
        return ranks

    def _direct(self, name: str, root: str) -> bool:
        """Whether `name` is `root` itself, passed on without slicing."""
        while name != root:
            values = self._assigned.get(name, [])
            if len(values) != 1 or not isinstance(values[0], Name):
                return False
            name = values[0].id
        return True

    # ---- integers

    def _find_whole_numbers(self) -> set[str]:
        """The arrays and scalar names whose values are integers, because they are used as one."""
        found: set[str] = set()
        work: list[Node] = []
        for node in self.nodes:
            if isinstance(node, Load | Store | SubArray | FillSlice | Atomic):
                work.extend(node.index)
            elif isinstance(node, For):
                work.extend((node.start, node.stop, node.step))
            elif isinstance(node, Binary) and node.op in _WHOLE:
                work.extend((node.left, node.right))
            elif isinstance(node, AllocArray):
                work.extend(node.shape)
        done: set[Node] = set()
        compared = [n for n in self.nodes if isinstance(n, Compare)]
        while True:
            while work:
                node = work.pop()
                if node in done:
                    continue
                done.add(node)
                work.extend(self._whole_below(node, found))
            before = len(done)
            work += [n.value for n in self.nodes if isinstance(n, Store) and self.roots(n.array) & found]
            for comparison in compared:
                sides = (comparison.left, comparison.right)
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, Name) and side.id not in found and self._is_position(other, found):
                        work.append(side)
            if not work or (len(done) == before and all(node in done for node in work)):
                return found

    def _whole_below(self, node: Node, found: set[str]) -> Iterator[Node]:
        match node:
            case Name(id=name):
                if name not in found:
                    found.add(name)
                    yield from self._assigned.get(name, ())
            case Load(array=array):
                found |= self.roots(array)
            case Binary(op=op, left=left, right=right) if op in ["+", "-", "*", "//", "%", "**"] or op in _WHOLE:
                yield left
                yield right
            case Unary(operand=operand):
                yield operand
            case Select(then=then, other=other):
                yield then
                yield other
            case OpCall(op=op, args=args) if op.rpartition(".")[2] in _KEEPS_WHOLE:
                yield from args
            case TupleExpr(items=items):
                yield from items
            case Item(base=base):
                yield base
            case _:
                pass

    def _is_position(self, node: Node, found: set[str]) -> bool:
        """Whether an expression is made of thread ids, extents and known integers."""
        inner = [n for n in walk(node) if isinstance(n, Name | Load | ThreadVar | Extent)]
        return bool(inner) and all(
            isinstance(n, ThreadVar | Extent) or (isinstance(n, Name) and (n.id in found or n.id in self.parameters))
            for n in inner
        )


def _is_slice(node: Node) -> bool:
    return isinstance(node, SliceExpr)
