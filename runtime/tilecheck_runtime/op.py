"""`DeviceOp`: device work that was described and has not run.

Building an op does nothing but hold what it needs (borrow rules) and check what can be checked. It runs at most once,
through `sync`, `sync_on`, `run`, `await` or the capture of a graph; what an op became part of, it cannot run on its own.
Dropped unrun it lets go of everything and warns; `discard()` and `del op` say that this is meant.

An op is a small tree of nodes. Running it walks the tree on the calling thread and queues the work on one stream:
`then`'s function is called when its argument's work has been queued, not when it is over, so what it builds follows
without a gap; `map` and `inspect` likewise. Only arrays on their way to the host are waited for first, because a function
may read those. Tensors that a function gets are handles in flight.

Threads: ops may be built, combined and run from any thread. If two threads run one op, one of them gets the error that
it has run. A `shared` op runs once for all consumers on all threads.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tilecheck_runtime import phase
from tilecheck_runtime.backends import Array
from tilecheck_runtime.errors import DroppedOpWarning, NoSuchAttribute, OpError, UsageError
from tilecheck_runtime.execution import Execution
from tilecheck_runtime.grants import hold, release
from tilecheck_runtime.loans import Access, Loan
from tilecheck_runtime.nodes import (
    Apply,
    Cell,
    Duplicate,
    Node,
    Part,
    Queued,
    ToHost,
    Unpartition,
    Value,
    Zip,
    arity,
    evaluate,
    parts,
)
from tilecheck_runtime.running import Running
from tilecheck_runtime.sites import Site, here, in_del
from tilecheck_runtime.stream import Stream, next_stream
from tilecheck_runtime.tensor import Tensor
from tilecheck_runtime.unique import Unique

if TYPE_CHECKING:
    from tilecheck_runtime.graph import CudaGraph
    from tilecheck_runtime.prepared import Prepared

R = TypeVar("R", covariant=True)
S = TypeVar("S")


class Life(Enum):
    """What has become of an op; the value completes `the op ...`."""

    BUILT = "was built"
    JOINED = "is part of another op"
    STARTED = "has run"
    CLOSED = "was given up"
    COMPILED = "was compiled"


_WAYS = {
    Life.CLOSED: "build it again",
    Life.COMPILED: "build it again to run it: what was compiled is kept",
}


# ---- ops


class DeviceOp(Unique, Generic[R]):
    """Lazy device work with a value of type R."""

    def __init__(self, name: str, node: Node, loans: tuple[Loan, ...] = ()) -> None:
        self._name = name
        self._node = node
        self._loans = loans
        self._site: Site = loans[0].site if loans else here()
        self._life = Life.BUILT
        self._lock: AbstractContextManager[object] = threading.Lock()
        # An attempt to run it that was refused is no neglect.
        self._attempted = False

    # ---- running

    def run(self, stream: Stream | None = None) -> Running[R]:
        """Submit to `stream`, or to the policy's next one, and return without waiting.

        Raises OpError if it has run before, or inside a function of another op or a graph scope.
        """
        self._attempted = True
        if stream is not None and not isinstance(stream, Stream):
            raise UsageError(f"an op runs on a stream, this is a `{type(stream).__name__}`", "make one: `tc.Stream()`")
        phase.refuse_running("run")
        self._take("run", Life.STARTED)
        execution = Execution(next_stream() if stream is None else stream)
        made_of = tuple(parts(self))
        try:
            value = self._evaluate(execution)
        except BaseException:
            # What was queued before the error still uses its buffers; the host gets them back before it hears of it.
            try:
                execution.finish().wait()
            finally:
                execution.abandon()
                _let_go(made_of)
            raise
        execution.finish()
        return Running(execution, value, execution.stream)

    def sync(self) -> R:
        """Run and wait: the value."""
        phase.refuse_running("sync")
        return self.run().wait()

    def sync_on(self, stream: Stream) -> R:
        """Run on `stream` and wait: the value."""
        phase.refuse_running("sync_on")
        return self.run(stream).wait()

    def __await__(self) -> Generator[Any, None, R]:
        return self.run().__await__()

    def graph(self, stream: Stream | None = None) -> CudaGraph[R]:
        """Capture instead of running: a graph that can be launched again and again."""
        from tilecheck_runtime.graph import capture

        self._attempted = True
        return capture(self, stream)

    # ---- combining

    def then(self, function: Callable[[R], DeviceOp[S]]) -> DeviceOp[S]:
        """Run the op that `function` makes of the value right behind this one, on the same stream."""
        return DeviceOp("`then`", Apply(self._join("then"), function, "then", chains=True))

    def map(self, function: Callable[[R], S]) -> DeviceOp[S]:
        """The value changed by a function of the host."""
        return DeviceOp("`map`", Apply(self._join("map"), function, "map", chains=False))

    def inspect(self, function: Callable[[R], object]) -> DeviceOp[R]:
        """The value unchanged, after `function` has seen it."""

        def see(value: Any) -> Any:
            function(value)
            return value

        return DeviceOp("`inspect`", Apply(self._join("inspect"), see, "inspect", chains=False))

    def first(self) -> DeviceOp[Any]:
        """The first item of the value: of a launch, its first tensor argument."""
        return self._item(0, "first")

    def last(self) -> DeviceOp[Any]:
        """The last item of the value."""
        return self._item(-1, "last")

    def unpartition(self) -> DeviceOp[Tensor]:
        """The tensor behind the value, a partition; one that owned its tensor gives it back."""
        return DeviceOp("`unpartition`", Unpartition(self._join("unpartition")))

    def to_host(self) -> DeviceOp[Array]:
        """The value, a tensor or a partition, as a NumPy array; complete once this op was waited for."""
        return DeviceOp("`to_host`", ToHost(self._join("to_host")))

    def shared(self) -> DeviceOp[R]:
        """An op that may be used many times, combined and run: this one runs once, at the first use."""
        return _SharedOp("`shared`", Part(Cell(self._join("shared")), None))

    def unzip(self, n: int | None = None) -> tuple[DeviceOp[Any], ...]:
        """One op per item of the value, a tuple; together they run this op once. `n` where the op does not show it."""
        count = arity(self._node) if n is None else n
        if count is None:
            raise OpError("`unzip` cannot see how many items the value has", "say so: `op.unzip(2)`")
        cell = Cell(self._join("unzip"))
        whole: DeviceOp[Any] = DeviceOp("`unzip`", Part(cell, None))
        return tuple(_PartOp(whole, cell, i) for i in range(count))

    # ---- launches

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid of a launch. Raises LaunchRefused while nothing determines it, OpError for another kind of op."""
        raise OpError(f"{self._name} is no launch and has no grid")

    def with_grid(self, *grid: Any) -> DeviceOp[R]:
        """The launch with this grid, checked against its partitions; the op itself is used up."""
        self._close()
        raise OpError(f"{self._name} is no launch and has no grid", "set the grid where the kernel is called")

    def compile(self) -> None:
        """Prepare the kernel for these arguments without running it; the op is used up, build another to run. Only for launches."""
        self._close()
        raise OpError(f"{self._name} is no launch, there is nothing to compile")

    def prepare(self, stream: Stream | None = None) -> Prepared:
        """Check a launch once and make it ready to be repeated at the cost of the driver's own call. Only for launches."""
        self._close()
        raise OpError(f"{self._name} is no launch and cannot be prepared", "capture it: `op.graph().prepare()`")

    def discard(self) -> None:
        """Give the op up: it will not run, and what it held is free. Raises OpError if it has run or was used already."""
        self._take("discard", Life.CLOSED)
        self._attempted = True
        for part in parts(self):
            release(part._loans)

    # ---- for the rest of the runtime

    def _item(self, index: int, name: str) -> DeviceOp[Any]:
        def item(value: Any) -> Any:
            if not isinstance(value, tuple) or not value:
                raise OpError(f"`{name}` wants a tuple, the value is a `{type(value).__name__}`")
            return value[index]

        return DeviceOp(f"`{name}`", Apply(self._join(name), item, name, chains=False))

    def _join(self, by: str) -> DeviceOp[R]:
        self._take(by, Life.JOINED)
        return self

    def _take(self, by: str, life: Life) -> None:
        with self._lock:
            if self._life is not Life.BUILT:
                # `sync` and `await` run an op too.
                doing = f"cannot run {self._name}" if by == "run" else f"cannot use {self._name} for `{by}`"
                way_out = "an op runs once; build it again, or use `shared()`"
                raise OpError(
                    f"{doing}, which {self._life.value} already",
                    _WAYS.get(self._life, way_out),
                    rule="use-after-move",
                    points=(f"{self._site}: {self._name} was built here",),
                )
            self._life = life

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If running fails, the parts that were not reached let go of what they hold, whoever keeps the traceback."""
        made_of = tuple(parts(self))
        try:
            yield
        except BaseException:
            _let_go(made_of)
            raise

    def _close(self, life: Life = Life.CLOSED) -> None:
        """End the op without running it and without a warning."""
        self._life = life
        release(self._loans)

    @property
    def _plain(self) -> bool:
        """Whether running it is running its node."""
        return type(self) is DeviceOp

    def _open(self, execution: Execution) -> Node:
        """Take what it holds, and its node."""
        if self._loans:
            execution.hold(self._loans)
        self._loans = ()
        node, self._node = self._node, Value(None)
        return node

    def _evaluate(self, execution: Execution) -> Any:
        return evaluate(self._open(execution), execution)

    def _pending(self) -> bool:
        return self._life is Life.BUILT and not self._attempted

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, name)

    def __del__(self) -> None:
        # The constructor may have failed before there was a life.
        if getattr(self, "_life", None) is None:
            return
        release(self._loans)
        if self._pending() and not in_del():
            warnings.warn_explicit(
                f"{self._name} was built and never run; run it with `sync()`, or do not build it",
                DroppedOpWarning,
                self._site.path,
                self._site.line,
            )

    def __repr__(self) -> str:
        return f"<DeviceOp {self._name.strip('`')}: {self._life.name.lower()}>"


def _missing(op: DeviceOp[Any], name: str) -> AttributeError:
    """What to say of an attribute that ops do not have: it is one of what running them gives, or of nothing."""
    kind = DeviceOp.__name__
    if name.startswith("_"):
        return AttributeError(f"`{kind}` has no attribute `{name}`", name=name, obj=op)
    if hasattr(Running, name):
        way_out = "`op.run().wait()`, or `op.sync()`" if name == "wait" else f"`op.run().{name}`"
        return NoSuchAttribute(f"an op has no `{name}` before it runs", f"run it first: {way_out}")
    if name == "numpy":
        way_out = "run it first: `op.to_host().sync()`, and of a launch `op.first().to_host().sync()`"
        return NoSuchAttribute("an op has no `numpy`, its tensor has", way_out)
    if hasattr(Tensor, name):
        return NoSuchAttribute(f"an op has no `{name}`, its tensor has", "run it first: `op.sync()` gives its value")
    return NoSuchAttribute(f"an op has no `{name}`", "`sync()` runs it and waits, `then(...)` goes on with its value")


def _let_go(made_of: tuple[DeviceOp[Any], ...]) -> None:
    for part in made_of:
        release(part._loans)


class _SharedOp(DeviceOp[R]):
    """An op that may be taken any number of times."""

    def _take(self, by: str, life: Life) -> None:
        pass

    def _evaluate(self, execution: Execution) -> Any:
        return evaluate(self._node, execution)

    def _pending(self) -> bool:
        return isinstance(self._node, Part) and not self._node.cell.ran and not self._attempted


class _PartOp(DeviceOp[R]):
    """One of several that share the run of `whole`, which is neglected if none of them is run or used."""

    def __init__(self, whole: DeviceOp[Any], cell: Cell, index: int) -> None:
        super().__init__("`unzip`", Part(cell, index))
        self._whole = whole

    @property
    def _plain(self) -> bool:
        return True

    def _take(self, by: str, life: Life) -> None:
        super()._take(by, life)
        self._whole._life = life

    def _pending(self) -> bool:
        return False


# ---- ops to start from


def value(value: S) -> DeviceOp[S]:
    """An op that does nothing and has this value."""
    return DeviceOp("`value`", Value(value))


def zip(*ops: DeviceOp[Any]) -> DeviceOp[tuple[Any, ...]]:
    """All of `ops`, one after the other on one stream, with the tuple of their values."""
    for op in ops:
        if not isinstance(op, DeviceOp):
            raise UsageError(f"`zip` takes ops, not a `{type(op).__name__}`", "wrap it: `tc.value(...)`")
    return DeviceOp("`zip`", Zip(tuple(op._join("zip") for op in ops)))


def dup(source: Tensor) -> DeviceOp[Tensor]:
    """A copy of `source` in new memory, made when the op runs."""
    source._usable()
    loans = hold((source._elements.request(Access.SHARE, source._loan),), "`dup`")
    return DeviceOp("`dup`", Duplicate(source._elements), loans)


def memcpy(target: Tensor, source: Any) -> DeviceOp[Tensor]:
    """Copy `source`, a tensor or host array of the same shape and dtype, into `target`, which is the value.

    A host array is read when the op is built. Raises UsageError for another shape or dtype, BorrowError for a conflict.
    """
    from tilecheck_runtime.copies import copying

    work, loans = copying(target, source)
    return cast(DeviceOp[Tensor], DeviceOp("`memcpy`", Queued(work, target, (target, source)), loans))
