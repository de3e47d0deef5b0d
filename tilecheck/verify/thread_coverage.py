"""Whether a launch has a thread for each element that a SIMT kernel writes: `partial-coverage` of partitions.

A kernel that writes `z[i]`, with `i` the position of the thread along an axis of the grid, gives each thread one element.
The grid comes from the partition, the block from the kernel: with tiles larger than the block there are fewer threads than
elements, and the others are never computed. The kernel is meant for as many as the extent of the axis, or as a guard
`i < bound` lets through, if those are fewer.

Invariant: only what every write of the array says counts. An array that is also written at another index along that axis,
under a condition on the position that is no guard, or that goes by a name that may be something else, has no such need. A
launch whose output is a prefix may cover a part, and is not asked.

Worked example: of `if i < z.size: z[i] = v` under `@tc.simt(block=64)` a launch with `z.partition(128)` of 1024 elements
has 8 x 64 threads, and needs `gridDim.x * blockDim.x >= z.size`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import (
    Access,
    Assign,
    Binary,
    Compare,
    Const,
    Expr,
    Extent,
    For,
    If,
    Inline,
    Kernel,
    Logic,
    Name,
    Node,
    Return,
    ScalarParam,
    Stmt,
    TensorParam,
    While,
    children,
    walk,
)
from tilecheck.ir.simt import Atomic, FillSlice, Load, Store, ThreadVar
from tilecheck.symbolic.linear import Atom, LaunchAxis, Unresolved
from tilecheck.symbolic.requires import Comparison, RequiresError, Vocabulary, parse, vocabulary

Value = Callable[[Atom], int]
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, slots=True)
class Need:
    """The threads along `axis` of the grid must be as many as the elements of `array` that the kernel is meant for: one of
    `goals` must hold, a bound each.
    """

    kernel: str
    array: str
    axis: int
    goals: tuple[Comparison, ...]

    def missing(self, value: Value) -> tuple[str, str] | None:
        """What is wrong with a launch, and the way out; None if nothing is, or its numbers are not known."""
        try:
            if any(goal.holds(value) for goal in self.goals):
                return None
            threads = self.goals[0].left.evaluate(value)
            elements = min(goal.right.evaluate(value) for goal in self.goals)
            block = value(LaunchAxis("blockDim", self.axis))
        except Unresolved:
            return None
        letter = "xyz"[self.axis]
        message = (
            f"`{self.kernel}` gives each thread one element of `{self.array}` along {letter}, this launch has "
            f"{threads} threads for {elements}"
        )
        return message, (
            f"make the tiles of `{self.array}` as large as the block, {block} along {letter}, or cover a part with `.prefix()`"
        )


def faults(kernel: Kernel, launches: Sequence[Launch], value: Callable[[Launch, Atom], int]) -> Iterator[Fault]:
    """A fault for each of `launches`, those of `kernel`, that has too few threads for a partition it passes."""
    asked = [launch for launch in launches if launch.exact]
    needs = needs_of(kernel) if asked else ()
    for launch in asked:
        missing = (need.missing(partial(value, launch)) for need in needs if need.array in launch.exact)
        found = next((each for each in missing if each is not None), None)
        if found is not None:
            label = Label(kernel.span, f"`{kernel.name}` is declared here")
            yield Fault("partial-coverage", found[0], launch.span, kernel.name, (label,), found[1])


def needs_of(kernel: Kernel) -> tuple[Need, ...]:
    """What launches must have so that each element an output is meant for has a thread."""
    outputs = {p.name for p in kernel.params if isinstance(p, TensorParam) and p.access in (Access.MUT, None)}
    scan = _Scan(kernel)
    scan.run(kernel.body, {})
    words = vocabulary(kernel)
    found: dict[tuple[object, ...], Need] = {}
    for (array, at), bounds in scan.bounds.items():
        if array not in outputs or array in scan.loose:
            continue
        if len({position for position, _ in bounds}) > 1 or any(texts is None for _, texts in bounds):
            continue
        extent = f"{array}.size" if scan.ranks[array] == {1} else f"{array}.shape[{at}]"
        for position, texts in bounds:
            if position is None or texts is None:
                break
            goals = _goals("xyz"[position], dict.fromkeys((*texts, extent)), words)
            if goals:
                found.setdefault((array, goals), Need(kernel.name, array, position, goals))
    return tuple(found.values())


def _goals(letter: str, bounds: Iterable[str], words: Vocabulary) -> tuple[Comparison, ...]:
    """That there are as many threads as each of `bounds`; () if one is not in the grammar."""
    goals: list[Comparison] = []
    for bound in bounds:
        try:
            parts = parse(f"gridDim.{letter} * blockDim.{letter} >= {bound}", words)
        except RequiresError:
            return ()
        goals += [part for part in parts if isinstance(part, Comparison)]
    return tuple(goals)


# What is known of a position where a statement runs: the texts of its bounds, None if conditions on it are no guards.
Texts = tuple[str, ...] | None
Bounds = Mapping[int, Texts]


class _Scan:
    """The writes of a kernel: by array and axis the positions that index it, each with its bound there."""

    def __init__(self, kernel: Kernel) -> None:
        self._assigned: dict[str, list[Expr]] = defaultdict(list)
        self._params = {p.name for p in kernel.params}
        self._scalars = {p.name for p in kernel.params if isinstance(p, ScalarParam)}
        self._looped: set[str] = set()
        nodes = list(walk(*kernel.body))
        for node in nodes:
            if isinstance(node, Assign):
                self._assigned[node.target].append(node.value)
            elif isinstance(node, For):
                self._looped.add(node.target)
        self.bounds: dict[tuple[str, int], list[tuple[int | None, Texts]]] = defaultdict(list)
        self.ranks: dict[str, set[int]] = defaultdict(set)
        self.loose = self._loose(nodes)

    def _loose(self, nodes: Collection[Node]) -> set[str]:
        """The arrays that are used otherwise than by element, extent or a name of their own."""
        known = {id(n.array) for n in nodes if isinstance(n, Store | Load | Atomic | Extent)}
        known |= {id(n.value) for n in nodes if isinstance(n, Assign) and self._root(n.target) in self._params}
        return {self._root(n.id) for n in nodes if isinstance(n, Name) and id(n) not in known}

    def _root(self, name: str) -> str:
        """The name that `name` is another one of, itself if there is none."""
        seen = {name}
        while name not in self._params and name not in self._looped:
            values = self._assigned.get(name, [])
            others = {value.id for value in values if isinstance(value, Name)}
            if len(others) != 1 or not all(isinstance(value, Name) for value in values) or others <= seen:
                break
            (name,) = others
            seen.add(name)
        return name

    def _position(self, expr: Expr) -> int | None:
        """The axis of the grid along which `expr` is the position of the thread."""
        if isinstance(expr, Name):
            root = self._root(expr.id)
            values = self._assigned.get(root, [])
            if root in self._params or root in self._looped or len(values) != 1:
                return None
            return self._position(values[0]) if not isinstance(values[0], Name) else None
        if not isinstance(expr, Binary) or expr.op != "+":
            return None
        for first, thread in ((expr.left, expr.right), (expr.right, expr.left)):
            if isinstance(thread, ThreadVar) and thread.kind == "threadIdx" and thread.axis is not None:
                match first:
                    case Binary(op="*", left=ThreadVar() as one, right=ThreadVar() as two):
                        if {one.kind, two.kind} == {"blockIdx", "blockDim"} and one.axis == two.axis == thread.axis:
                            return "xyz".index(thread.axis)
        return None

    def _text(self, expr: Expr) -> str | None:
        """`expr` in the grammar of conditions, None if it is not made of arguments."""
        match expr:
            case Const(value=int() as number) if not isinstance(number, bool):
                return str(number)
            case Name(id=name):
                root = self._root(name)
                return root if root in self._scalars and root not in self._assigned else None
            case Extent(array=Name(id=name), axis=axis):
                root = self._root(name)
                return None if root not in self._params else f"{root}.size" if axis is None else f"{root}.shape[{axis}]"
            case Binary(op=("+" | "-" | "*" | "//" | "%") as op, left=left, right=right):
                one, two = self._text(left), self._text(right)
                return f"({one} {op} {two})" if one is not None and two is not None else None
        return None

    def run(self, body: Sequence[Stmt], bounds: Bounds) -> None:
        """Note the writes of `body`, which runs where `bounds` hold."""
        for statement in body:
            match statement:
                case If(cond=cond, then=then, other=other):
                    self._atomics((cond,), bounds)
                    inside, outside = self._narrowed(cond, bounds, True), self._narrowed(cond, bounds, False)
                    self.run(then, inside)
                    self.run(other, outside)
                    if any(isinstance(n, Return) for n in walk(*then)):
                        bounds = outside if isinstance(then[-1], Return) and len(then) == 1 else _NO_GUARD
                    if any(isinstance(n, Return) for n in walk(*other)):
                        bounds = _NO_GUARD
                case For(body=inner) | Inline(body=inner):
                    self.run(inner, bounds)
                case While(body=inner):
                    self.run(inner, self._narrowed(statement.cond, bounds, True))
                case Store(array=array, index=index):
                    self._atomics((*index, statement.value), bounds)
                    self._write(array, index, bounds)
                case FillSlice(array=Name(id=name)):
                    self.loose.add(self._root(name))
                case _:
                    self._atomics((statement,), bounds)

    def _atomics(self, nodes: Sequence[Node], bounds: Bounds) -> None:
        for node in walk(*nodes):
            if isinstance(node, Atomic):
                self._write(node.array, node.index, bounds)

    def _write(self, array: Expr, index: Sequence[Expr], bounds: Bounds) -> None:
        if not isinstance(array, Name):
            return
        root = self._root(array.id)
        self.ranks[root].add(len(index))
        for at, part in enumerate(index):
            position = self._position(part)
            bound = None if position is None else bounds.get(position, bounds.get(_ANY, ()))
            self.bounds[root, at].append((position, bound))

    def _narrowed(self, cond: Expr, bounds: Bounds, holds: bool) -> Bounds:
        """`bounds` where `cond` is true, or false."""
        if isinstance(cond, Logic):
            if (cond.op == "and") is holds:
                for operand in cond.operands:
                    bounds = self._narrowed(operand, bounds, holds)
                return bounds
            return bounds if not self._speaks_of_threads(cond) else _NO_GUARD
        if isinstance(cond, Compare):
            op = cond.op if holds else _NEGATED[cond.op]
            for side, other, relation in ((cond.left, cond.right, op), (cond.right, cond.left, _FLIPPED.get(op, op))):
                position, bound = self._position(side), self._text(other)
                before = None if position is None else bounds.get(position, bounds.get(_ANY, ()))
                if position is None or bound is None or before is None:
                    continue
                if relation in (">", ">="):
                    return bounds
                if relation in ("<", "<="):
                    return {**bounds, position: (*before, bound if relation == "<" else f"{bound} + 1")}
        return bounds if not self._speaks_of_threads(cond) else _NO_GUARD

    def _speaks_of_threads(self, cond: Expr) -> bool:
        """Whether `cond` may depend on which thread asks, other than through an element."""
        pending: list[Node] = [cond]
        while pending:
            node = pending.pop()
            if isinstance(node, ThreadVar):
                return True
            if isinstance(node, Name) and self._root(node.id) not in self._params:
                return True
            if not isinstance(node, Load):
                pending.extend(children(node))
        return False


_ANY = -1
_NO_GUARD: Bounds = {_ANY: None}
