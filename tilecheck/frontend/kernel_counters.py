"""What a kernel leaves in the arrays that it counts in: more than there was, less, or what cannot be told.

Only adds and subtractions leave a counter that is known to be another afterwards. A kernel that also stores, exchanges or
wraps what it counts in may have set it back, as the last block does with the counter that made it the last; a store at
another constant place sets nothing back.

Invariant: an array that is missing here holds after a launch what it held before; one that is `OPEN` may hold anything.

Worked example: `turn = cuda.atomic.add(count, 0, 1)` leaves `count` `RAISED`; with `count[0] = 0` in some branch it is
`OPEN`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from tilecheck.ir.kernel import Assign, Const, Inline, Kernel, Name, Node, Return, TensorParam, Unary, walk
from tilecheck.ir.simt import Atomic, FillSlice, Store, Unread


class Left(Enum):
    """What a launch leaves in an array."""

    RAISED = "raised"
    LOWERED = "lowered"
    OPEN = "open"


def left_by(kernel: Kernel) -> Mapping[str, Left]:
    """What a launch of `kernel` leaves in the array parameters that it may write."""
    nodes = tuple(walk(*kernel.body))
    given: dict[str, list[Node]] = {}
    for node in nodes:
        if isinstance(node, Assign):
            given.setdefault(node.target, []).append(node.value)
        elif isinstance(node, Inline) and node.result is not None:
            values = [at.value for at in walk(*node.body) if isinstance(at, Return) and at.value is not None]
            given.setdefault(node.result, []).extend(values)
    parameters = {param.name for param in kernel.params if isinstance(param, TensorParam)}
    writes: dict[str, list[Node]] = {}
    for node in nodes:
        touched: set[str] = set()
        if isinstance(node, Store | Atomic | FillSlice):
            touched = parameters & _names(node.array, given)
        elif isinstance(node, Unread):
            touched = parameters if node.touches is None else parameters & set(node.touches)
        for name in touched:
            writes.setdefault(name, []).append(node)
    left = {name: _left(found) for name, found in writes.items()}
    return {name: how for name, how in left.items() if how is not None}


def _names(array: Node, given: Mapping[str, Sequence[Node]]) -> set[str]:
    """The names that an array expression may stand for."""
    todo, found = [array], set[str]()
    while todo:
        for node in walk(todo.pop()):
            if isinstance(node, Name) and node.id not in found:
                found.add(node.id)
                todo += given.get(node.id, ())
    return found


def _left(writes: Sequence[Node]) -> Left | None:
    """What the writes of one array leave in it, None if that is what it held."""
    counted = [node for node in writes if isinstance(node, Atomic)]
    signs = {_sign(node) for node in counted} - {0}
    others = [node for node in writes if not isinstance(node, Atomic) and not _elsewhere(node, counted)]
    if others or None in signs or len(signs) > 1:
        return Left.OPEN
    if not signs:
        return None
    return Left.LOWERED if -1 in signs else Left.RAISED


def _sign(atomic: Atomic) -> int | None:
    """1 for an add, -1 for a subtraction, 0 for what only reads, None for anything else."""
    if atomic.op not in ("add", "sub") or not atomic.operands:
        return None
    step = atomic.operands[0]
    negative = isinstance(step, Unary) and step.op == "-"
    value = step.operand if isinstance(step, Unary) else step
    number = value.value if isinstance(value, Const) and isinstance(value.value, int | float) else 1
    below = (number < 0) != negative
    return 0 if number == 0 else -1 if below != (atomic.op == "sub") else 1


def _elsewhere(node: Node, counted: Sequence[Atomic]) -> bool:
    """Whether a store is at another constant place than each count."""
    if not isinstance(node, Store) or not counted:
        return False
    return all(_apart(node, atomic) for atomic in counted)


def _apart(store: Store, atomic: Atomic) -> bool:
    if not isinstance(store.array, Name) or not isinstance(atomic.array, Name) or len(store.index) != len(atomic.index):
        return False
    pairs = zip(store.index, atomic.index, strict=True)
    return any(isinstance(a, Const) and isinstance(b, Const) and a.value != b.value for a, b in pairs)
