"""What an op is made of, and what running each kind of node does.

A node says what to do, `evaluate` does it within an execution: it queues the node's work and gives the value that stands
for its result. Inner ops come first, so the order of queueing is that of the tree from the inside out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Array, Copy, Download, Work
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import OpError
from tilecheck_runtime.execution import Execution, Recording
from tilecheck_runtime.grants import hold
from tilecheck_runtime.loans import Access
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.tensor import Tensor, make

if TYPE_CHECKING:
    from tilecheck_runtime.graph import CudaGraph
    from tilecheck_runtime.op import DeviceOp


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is there already."""

    value: Any


@dataclass(frozen=True, slots=True)
class Queued:
    """One piece of work and the value that stands for its result. `keep` lives until the work is over."""

    work: Work
    value: Any
    keep: object


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A new tensor with the elements of another; the memory is made when it runs."""

    source: Elements


@dataclass(frozen=True, slots=True)
class ToHost:
    """A NumPy array of the inner op's tensor."""

    inner: DeviceOp[Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """`function` of the inner op's value. It returns an op to run next if `chains`, else the new value."""

    inner: DeviceOp[Any]
    function: Callable[[Any], Any]
    name: str
    chains: bool


@dataclass(frozen=True, slots=True)
class Unpartition:
    """The tensor behind the inner op's partition."""

    inner: DeviceOp[Any]


@dataclass(frozen=True, slots=True)
class Zip:
    """All inner ops, in order, as one tuple."""

    inner: tuple[DeviceOp[Any], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The value of a shared run, or its item `index`."""

    cell: Cell
    index: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A captured graph once more."""

    graph: CudaGraph[Any]


Node = Value | Queued | Duplicate | ToHost | Apply | Unpartition | Zip | Part | Replay


class Cell:
    """An op that runs once for several consumers: the first to need it runs it."""

    def __init__(self, op: DeviceOp[Any]) -> None:
        self._op: DeviceOp[Any] | None = op
        # Re-entrant: a function that asks for the very op it is part of gets an error, not a dead lock.
        self._lock = threading.RLock()
        self._outcome: tuple[Execution, Any] | None = None

    @property
    def ran(self) -> bool:
        """Whether it has run, with or without success."""
        return self._op is None

    def evaluate(self, execution: Execution) -> Any:
        """The value, from the run of whoever came first; what follows is ordered behind that run."""
        with self._lock:
            if self._op is not None:
                op, self._op = self._op, None
                self._outcome = (execution, op._evaluate(execution))
            if self._outcome is None:
                raise OpError(
                    "the shared op has no value: it failed when it ran first, or asks for itself",
                    "a shared op runs once; build it again to try again",
                )
        first, value = self._outcome
        if first.records and first is not execution:
            raise OpError(
                "the shared op was captured by a graph and has not run",
                "launch the graph, or build the op again for other uses",
                rule="capture",
            )
        execution.follow(first)
        return value


def parts(op: DeviceOp[Any]) -> Iterator[DeviceOp[Any]]:
    """The op and what it is made of; a shared op belongs to others too."""
    left = [op]
    while left:
        op = left.pop()
        yield op
        match op._node:
            case ToHost(inner) | Apply(inner=inner) | Unpartition(inner):
                left.append(inner)
            case Zip(ops):
                left += reversed(ops)


def evaluate(node: Node, execution: Execution) -> Any:
    """Queue the work of `node` and give its value."""
    match node:
        case Value(value):
            return value
        case Queued(work, value, keep):
            execution.submit(work, keep)
            return value
        case Duplicate(source):
            return _duplicate(source, execution)
        case ToHost() | Apply() | Unpartition():
            return _chain(node, execution)
        case Zip(inner_ops):
            return tuple(inner._evaluate(execution) for inner in inner_ops)
        case Part(cell, index):
            value = cell.evaluate(execution)
            return value if index is None else _at(value, index)
        case Replay(graph):
            return graph._replay(execution)


def _chain(last: ToHost | Apply | Unpartition, execution: Execution) -> Any:
    """From the innermost op to `last`; a loop makes chains of thousands, so there is no recursion."""
    links = [last]
    while (op := links[-1].inner)._plain:
        node = op._open(execution)
        if not isinstance(node, ToHost | Apply | Unpartition):
            value = evaluate(node, execution)
            break
        links.append(node)
    else:
        value = op._evaluate(execution)
    for link in reversed(links):
        match link:
            case ToHost():
                value = _to_host(value, execution)
            case Apply():
                value = _apply(link, value, execution)
            case Unpartition():
                value = _partition(value, "unpartition")._unpartition(execution)
    return value


def _apply(node: Apply, value: Any, execution: Execution) -> Any:
    execution.settle()
    with phase.calling(execution):
        result = node.function(value)
    if not node.chains:
        return result
    from tilecheck_runtime.op import DeviceOp

    if not isinstance(result, DeviceOp):
        raise OpError(
            f"the function of `{node.name}` returned a `{type(result).__name__}`, not an op",
            "return an op, or use `map` for a function of the host",
        )
    chained = result._join(node.name)
    with chained._all_or_nothing():
        return chained._evaluate(execution)


def _duplicate(source: Elements, execution: Execution) -> Tensor:
    if isinstance(execution, Recording) and not execution.allocates:
        raise OpError(
            "a graph scope cannot record an op that makes memory",
            "make the tensor before the scope and record `tc.memcpy(target, source)`",
            rule="capture",
        )
    tensor = make(source.layout.shape, source.dtype, source.memory.backend)
    target = tensor._elements
    execution.hold(hold((target.request(Access.EXCLUDE, None),), "`dup`"))
    execution.submit(Copy(target.strided(), source.strided()), (target, source))
    return tensor


def _to_host(value: Any, execution: Execution) -> Array:
    if not isinstance(value, Tensor | Partition):
        raise OpError(f"`to_host` wants a tensor or a partition, the value is a `{type(value).__name__}`")
    value._usable("the value of `to_host`")
    elements = value._elements
    request = elements.request(Access.SHARE, value._loan, "the value of `to_host`", execution)
    execution.hold(hold((request,), "`to_host`"))
    target: Array = np.empty(elements.layout.shape, elements.dtype.numpy())
    execution.submit(Download(target, elements.strided()), elements)
    return target


def _partition(value: Any, name: str) -> Partition:
    if not isinstance(value, Partition):
        raise OpError(
            f"`{name}` wants a partition, the value is a `{type(value).__name__}`",
            "pick one first: `op.first().unpartition()`",
        )
    return value


def _at(value: Any, index: int) -> Any:
    if not isinstance(value, tuple) or index >= len(value):
        raise OpError(f"`unzip` wants a tuple of more than {index} items, the value is a `{type(value).__name__}`")
    return value[index]


def arity(node: Node) -> int | None:
    match node:
        case Value(value) | Queued(value=value) if isinstance(value, tuple):
            return len(value)
        case Zip(inner):
            return len(inner)
    return None
