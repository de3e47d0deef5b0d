"""Random host programs: the runtime refuses exactly what the plain model refuses, and no memory is left behind.

A program is a list of steps; each step picks its operands among what exists. The real objects and the model's run side by
side. Work is always over before the next step (nobody has *waited* for it, which is what the rules look at), so that what
is alive never depends on timing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilecheck as tc
import tilecheck_runtime as rt
from tests.host_model import CONFLICT, FINE, Handle, Loan, Model, Rules
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck.surface.errors import TilecheckError

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

SIZE = 8


class BM(Dim): ...


@tc.kernel
def touch(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.full(BM, 1.0))


@dataclass
class Op:
    """A built op, a running one or a graph: the real object, its loans, the handles it keeps alive."""

    real: Any
    loans: list[Loan]
    keeps: list[Handle]
    graph: Op | None = None
    # What its value refers to, once it has run.
    value: list[Handle] = field(default_factory=list)


@dataclass
class World:
    """Real objects and model objects side by side; what is dropped here is gone in both."""

    model: Model = field(default_factory=Model)
    handles: list[tuple[Any, Handle]] = field(default_factory=list)
    built: list[Op] = field(default_factory=list)
    running: list[Op] = field(default_factory=list)
    graphs: list[Op] = field(default_factory=list)
    lent: list[Op] = field(default_factory=list)
    allocations: int = 0
    refusals: int = 0

    def pick(self, what: list[Any], n: int) -> Any:
        """One of `what`, or None if there is none."""
        return what[n % len(what)] if what else None

    def tensor(self, n: int) -> Any:
        """A tensor handle, or None."""
        return self.pick([pair for pair in self.handles if pair[1].kind == "tensor"], n)

    def partition(self, n: int) -> Any:
        """A partition handle, or None."""
        return self.pick([pair for pair in self.handles if pair[1].kind != "tensor"], n)

    def alive(self, handle: Handle) -> bool:
        """Whether anything refers to the handle."""
        holders = [*self.built, *self.running, *self.graphs]
        holders += [op.graph for op in holders if op.graph is not None]
        return any(h is handle for _, h in self.handles) or any(handle in op.keeps for op in holders)

    def known(self) -> list[Handle]:
        """All handles that are alive, kept ones included."""
        holders = [*self.built, *self.running, *self.graphs]
        holders += [op.graph for op in holders if op.graph is not None]
        return [h for _, h in self.handles] + [h for op in holders for h in op.keeps]

    def expect(self, rules: Rules, call: Callable[[], Any]) -> Any:
        """Run `call`; it raises one of `rules`, or succeeds if there is none."""
        try:
            result = call()
        except TilecheckError as error:
            assert error.rule in rules, (error.rule, rules, str(error))
            self.refusals += 1
            return None
        assert rules == FINE, (rules, "granted")
        return result

    # ---- steps

    def new(self, a: int, b: int, c: int) -> None:
        """A fresh tensor."""
        handle = Handle(self.allocations, frozenset(range(SIZE)), None)
        self.allocations += 1
        self.handles.append((rt.zeros(SIZE), handle))

    def view(self, a: int, b: int, c: int) -> None:
        """A slice, with steps."""
        found = self.tensor(a)
        if found is None or len(found[1].elements) < 2:
            return
        real, handle = found
        order = sorted(handle.elements)
        start, step = b % (len(order) // 2), 1 + c % 2
        elements = frozenset(order[start::step])
        rules = self.model.refusal(handle, "share", elements=elements)
        result = self.expect(rules, lambda: real[start::step])
        if result is not None:
            self.handles.append((result, Handle(handle.allocation, elements, self.model.lend(handle, elements, False))))

    def split(self, a: int, b: int, c: int) -> None:
        """Two exclusive halves."""
        found = self.tensor(a)
        if found is None or len(found[1].elements) < 2:
            return
        real, handle = found
        order = sorted(handle.elements)
        at = 1 + b % (len(order) - 1)
        result = self.expect(self.model.refusal(handle, "exclude"), lambda: real.split(at))
        if result is not None:
            self.model.exclude(handle)
            for half, part in zip(result, (order[:at], order[at:]), strict=True):
                loan = self.model.lend(handle, frozenset(part), True)
                self.handles.append((half, Handle(handle.allocation, frozenset(part), loan)))

    def cut(self, a: int, b: int, c: int) -> None:
        """A borrowed partition."""
        found = self.tensor(a)
        if found is None:
            return
        real, handle = found
        result = self.expect(self.model.refusal(handle, "exclude"), lambda: real.partition(2))
        if result is not None:
            self.model.exclude(handle)
            loan = self.model.lend(handle, handle.elements, True)
            self.handles.append((result, Handle(handle.allocation, handle.elements, loan, "partition")))

    def move(self, a: int, b: int, c: int) -> None:
        """An owned partition."""
        found = self.tensor(a)
        if found is None:
            return
        real, handle = found
        rules = self.model.refusal(handle, "move")
        others = [
            h for h in self.known()
            if h is not handle and h.allocation == handle.allocation and h.kind != "partition" and not h.moved
        ]  # fmt: skip
        if others and not handle.moved:
            rules = rules | CONFLICT
        result = self.expect(rules, lambda: real.into_partition(2))
        if result is not None:
            self.model.exclude(handle)
            handle.moved = True
            self.handles.append((result, Handle(handle.allocation, handle.elements, handle.loan, "owned")))

    def unpartition(self, a: int, b: int, c: int) -> None:
        """The tensor behind a partition."""
        found = self.partition(a)
        if found is None:
            return
        real, handle = found
        owned = handle.kind == "owned"
        result = self.expect(self.model.refusal(handle, "move" if owned else "share"), real.unpartition)
        if result is None:
            return
        if owned:
            self.model.exclude(handle)
            handle.moved = True
            self.handles.append((result, Handle(handle.allocation, handle.elements, handle.loan)))
        else:
            loan = self.model.lend(handle, handle.elements, False)
            self.handles.append((result, Handle(handle.allocation, handle.elements, loan)))

    def read(self, a: int, b: int, c: int) -> None:
        """A read by the host."""
        found = self.tensor(a)
        if found is not None:
            self.expect(self.model.refusal(found[1], "read"), found[0].numpy)

    def write(self, a: int, b: int, c: int) -> None:
        """A write by the host."""
        found = self.tensor(a)
        if found is not None:
            real, handle = found
            rules = self.model.refusal(handle, "write")
            self.expect(rules, lambda: real.__setitem__(slice(None), 1.0))

    def lend(self, a: int, b: int, c: int) -> None:
        """Another library's array on the memory: one that reads, or one that cannot be told to."""
        found = self.tensor(a)
        if found is None:
            return
        real, handle = found
        told = b % 2 == 0
        rules = self.model.refusal(handle, "read" if told else "write")
        rules |= self.model.refusal(handle, "share" if told else "exclude")
        lent = self.expect(rules, lambda: real.__dlpack__(max_version=(1, 1) if told else None))
        if lent is not None:
            if not told:
                self.model.exclude(handle)
            self.lent.append(Op(lent, [self.model.lend(handle, handle.elements, not told, "lent")], []))

    def launch(self, a: int, b: int, c: int) -> None:
        """A kernel that writes a partition and reads a tensor."""
        target, source = self.partition(a), self.tensor(b)
        if target is not None and source is not None:
            self._build(target, source, lambda: touch(target[0], source[0]), [target[1], source[1]])

    def copy(self, a: int, b: int, c: int) -> None:
        """A copy between tensors."""
        target, source = self.tensor(a), self.tensor(b)
        if target and source and len(target[1].elements) == len(source[1].elements):
            self._build(target, source, lambda: rt.memcpy(target[0], source[0]), [target[1]])

    def _build(self, target: Any, source: Any, call: Callable[[], Any], value: list[Handle]) -> None:
        writes, reads = target[1], source[1]
        rules = self.model.refusal(writes, "exclude") | self.model.refusal(reads, "share")
        if writes.allocation == reads.allocation and writes.elements & reads.elements:
            rules = rules | CONFLICT
        op = self.expect(rules, call)
        if op is not None:
            self.model.exclude(writes)
            loans = [self.model.lend(writes, writes.elements, True, "built"),
                     self.model.lend(reads, reads.elements, False, "built")]  # fmt: skip
            self.built.append(Op(op, loans, [writes, reads], value=value))

    def run(self, a: int, b: int, c: int) -> None:
        """Run a built op; its work is over when the step is."""
        op = self.pick(self.built, a)
        if op is not None:
            self.built.remove(op)
            op.real = op.real.run()
            op.real._event.wait()
            op.real.stream._queue.mark(()).wait()
            for loan in op.loans:
                loan.state = "running"
            op.graph, op.keeps = None, op.value
            self.running.append(op)

    def wait(self, a: int, b: int, c: int) -> None:
        """Wait for a running op; the object stays."""
        op = self.pick(self.running, a)
        if op is not None:
            op.real.wait()
            for loan in op.loans:
                loan.state = "over"

    def capture(self, a: int, b: int, c: int) -> None:
        """Turn a built op into a graph."""
        op = self.pick([op for op in self.built if op.graph is None], a)
        if op is not None:
            self.built.remove(op)
            op.real = op.real.graph()
            op.real.take_output()
            for loan in op.loans:
                loan.state = "captured"
            self.graphs.append(op)

    def replay(self, a: int, b: int, c: int) -> None:
        """Build the launch of a graph."""
        graph = self.pick(self.graphs, a)
        if graph is None:
            return
        rules: Rules = FINE
        exempt = tuple(graph.loans)
        proxies = [Handle(loan.allocation, loan.elements, loan) for loan in graph.loans]
        for proxy, loan in zip(proxies, graph.loans, strict=True):
            rules |= self.model.refusal(proxy, "exclude" if loan.exclusive else "share", exempt)
        op = self.expect(rules, graph.real.launch)
        if op is not None:
            for proxy, loan in zip(proxies, graph.loans, strict=True):
                if loan.exclusive:
                    self.model.exclude(proxy)
            loans = [self.model.lend(p, p.elements, lo.exclusive, "built") for p, lo in zip(proxies, graph.loans, strict=True)]  # fmt: skip
            self.built.append(Op(op, loans, [], graph))

    def drop_handle(self, a: int, b: int, c: int) -> None:
        """Let go of a tensor or partition."""
        if self.handles:
            self.handles.pop(a % len(self.handles))

    def drop_op(self, a: int, b: int, c: int) -> None:
        """Let go of an op that was not run."""
        self._drop(self.built, a)

    def drop_running(self, a: int, b: int, c: int) -> None:
        """Let go of a running op: its work is over, so its borrows end."""
        self._drop(self.running, a)

    def drop_lent(self, a: int, b: int, c: int) -> None:
        """Let go of another library's array."""
        self._drop(self.lent, a)

    def drop_graph(self, a: int, b: int, c: int) -> None:
        """Let go of a graph, unless a built launch of it keeps it."""
        graph = self.pick(self.graphs, a)
        if graph is not None and not any(op.graph is graph for op in self.built):
            self._drop(self.graphs, a)

    def _drop(self, what: list[Op], n: int) -> None:
        if what:
            for loan in what.pop(n % len(what)).loans:
                loan.state = "over"


STEPS = [
    *["new", "view", "view", "split", "cut", "cut", "cut", "move", "unpartition", "read", "read", "write"],
    *["launch", "launch", "launch", "copy", "copy", "run", "run", "wait", "wait", "capture", "replay", "replay"],
    *["drop_handle", "drop_op", "drop_running", "drop_graph", "lend", "drop_lent"],
]
small = st.integers(0, 11)
programs = st.lists(st.tuples(st.sampled_from(STEPS), small, small, small), min_size=10, max_size=40)


def play(program: list[tuple[str, int, int, int]]) -> World:
    world = World()
    world.new(0, 0, 0)
    world.new(0, 0, 0)
    for step, a, b, c in program:
        getattr(world, step)(a, b, c)
        # What nobody refers to borrows nothing.
        alive = {id(h.loan) for h in world.known()} | {
            id(loan) for op in (*world.built, *world.running, *world.graphs, *world.lent) for loan in op.loans
        }
        world.model.loans = [loan for loan in world.model.loans if id(loan) in alive and loan.state != "over"]
    return world


refusals = 0


@settings(max_examples=1000, deadline=None, derandomize=True, database=None)
@given(programs)
def check(program: list[tuple[str, int, int, int]]) -> None:
    global refusals
    # A refusal looks for garbage; what was there before this program is not worth looking at each time.
    gc.freeze()
    before = rt.allocated()
    world = play(program)
    refusals += world.refusals
    del world
    gc.collect()
    assert rt.allocated() == before


def test_the_runtime_refuses_exactly_what_the_model_refuses() -> None:
    try:
        check()
    finally:
        gc.unfreeze()
    # Programs that never meet a refusal would show little.
    assert refusals > 1000
