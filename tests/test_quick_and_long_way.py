"""What comes again takes less time and nothing else: random programs, with and without what the run time remembers.

Two independent answers: the quick way (partitions that share a borrow, seats) and the long way, in which every borrow is taken and
every launch is checked from the start. Both must refuse the same steps by the same rules, and compute the same.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck import Dyn, Mut, Shared, Tensor, f32
from tilecheck_runtime import calls, graph, partition, tensor, views
from tilecheck_runtime.seat import Recent

SIZE = 32
PROGRAMS, STEPS = 30, 60
pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@tc.kernel
def moved(z: Tensor[Mut, f32, k.BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


@tc.kernel
def added(z: Tensor[Mut, f32, k.BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) + tc.load_like(y, z))


@tc.kernel
def filled(z: Tensor[Mut, f32, k.BM], v: float) -> None:
    z.store(tc.full(k.BM, v))


@contextmanager
def the_long_way() -> Iterator[None]:
    """Nothing is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "_known", lambda slot, asked: None)
        patch.setattr(partition, "renew", lambda request, by, loan, view: False)
        patch.setattr(tensor, "known", lambda viewed, asked: None)
        patch.setattr(views, "_remembered", lambda viewed, asked: None)
        patch.setattr(Recent, "again", lambda *given, **named: False)
        patch.setattr(calls, "_quick", lambda *given: None)
        patch.setattr(calls, "_mould", lambda *given: None)
        patch.setattr(graph.CudaGraph, "_ran_on", lambda graph, stream: None)
        yield


class Program:
    """The state of one random program: steps draw from `rng` alone, so that equal seeds are equal programs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tensors: list[Any] = [tc.full(SIZE, float(n)) for n in range(3)]
        self.views: list[Any] = []
        self.pieces: list[Any] = []
        self.ops: list[Any] = []
        self.running: list[Any] = []
        self.graphs: list[Any] = []
        self.streams = [tc.Stream(), tc.Stream()]
        # Kernels of their own: who waits for the last of the launches that share a seat has waited for all of them.
        self.launchers = [moved.on(self.streams[0]), added.on(self.streams[1]), filled.on(self.streams[0])]

    def any(self, items: list[Any]) -> Any:
        return items[self.rng.randrange(len(items))] if items else None

    def tensor(self) -> Any:
        return self.any(self.views) if self.views and self.rng.random() < 0.2 else self.any(self.tensors)

    def stream(self) -> tc.Stream:
        return self.streams[self.rng.random() < 0.15]

    def output(self) -> Callable[[], Any]:
        """What gives the partition to write: mostly a new one each time."""
        if self.pieces and self.rng.random() < 0.2:
            kept = self.any(self.pieces)
            return lambda: kept
        tensor, tile = self.source(), self.rng.choice([8, 8, 8, 16])
        return lambda: tensor().partition(tile)

    def source(self) -> Callable[[], Any]:
        """What gives a tensor, or a view that is taken anew each time."""
        whole, low = self.tensor(), self.rng.randrange(0, SIZE, 8)
        how = self.rng.choice([0, 0, 0, 1, 1, 2, 3])
        return [lambda: whole, lambda: whole[low:], lambda: whole[:16], lambda: whole.reshape(-1)][how]

    def call(self) -> tuple[int, Callable[[], tuple[Any, ...]]]:
        """A kernel, and what gives its arguments."""
        out, first, second = self.output(), self.source(), self.source()
        which, value = self.rng.choice([0, 0, 1, 2]), float(self.rng.randrange(3))
        return which, lambda: (out(), *([value] if which == 2 else [get() for get in (first, second)[: which + 1]]))

    def rest(self) -> None:
        """Wait for the earliest first: of launches that come again, the last one to be waited for ends the borrows of all."""
        for running in self.running:
            running.wait()
        self.running.clear()

    def step(self) -> object:
        """One step; what it gives is part of the answer."""
        kernels = (k.move, k.plus, k.fill)
        match self.rng.choices(
            ["sync", "run", "launcher", "build", "go", "wait", "rest", "read", "write", "view", "derive", "keep", "graph", "replay", "forget", "done"],
            [34, 10, 14, 3, 6, 12, 8, 5, 5, 3, 2, 3, 1, 4, 8, 4],
        )[0]:  # fmt: skip
            case "sync":
                self.rest()
                which, args = self.call()
                stream, times = self.stream(), self.rng.choice([1, 2, 5])
                for _ in range(times):
                    kernels[which](*args()).sync_on(stream)
            case "run":
                which, args = self.call()
                stream = self.stream()
                for _ in range(self.rng.choice([1, 4])):
                    # Kept at once: what is dropped holds its borrows for as long as the work takes.
                    self.running.append(kernels[which](*args()).run(stream))
            case "launcher":
                which, args = self.call()
                for _ in range(self.rng.choice([1, 4])):
                    self.launchers[which](*args())
            case "build":
                which, args = self.call()
                self.ops.append(kernels[which](*args()))
            case "go" if self.ops:
                self.running.append(self.ops.pop().run(self.stream()))
            case "wait":
                self.rest()
            case "rest":
                self.rng.choice(self.launchers).wait()
            case "read":
                return self.tensor().numpy().tolist()
            case "write":
                self.tensor()[0:4] = float(self.rng.randrange(9))
            case "view":
                low = self.rng.randrange(0, SIZE, 8)
                self.views.append(self.any(self.tensors)[low:])
            case "derive":
                self.views.append(self.source()()[0:8] if self.rng.random() < 0.5 else self.output()().unpartition())
            case "keep":
                self.pieces.append(self.source()().partition(8))
            case "graph":
                which, args = self.call()
                self.graphs.append(kernels[which](*args()).graph(self.streams[0]))
            case "replay" if self.graphs:
                self.any(self.graphs).launch().sync_on(self.stream())
            case "forget":
                for held in (self.views, self.pieces, self.ops, self.graphs):
                    if held and self.rng.random() < 0.5:
                        held.pop(self.rng.randrange(len(held)))
            case "done":
                self.streams[0].synchronize()
                self.streams[1].synchronize()
        return None


def answers(seed: int) -> list[object]:
    """What each step gave, or the rule that it broke; last what the tensors hold when all is over."""
    program = Program(seed)
    found: list[object] = []
    for _ in range(STEPS):
        state = program.rng.getstate()
        try:
            found.append(program.step())
        except tc.TilecheckError as error:
            # A step that fails in the middle draws no more, so both ways go on from one place.
            found.append(error.rule)
        program.rng.setstate(state)
        program.rng.random()
    program.rest()
    for launch in program.launchers:
        launch.wait()
    program.ops.clear()
    program.graphs.clear()
    return [*found, [t.numpy().tolist() for t in program.tensors]]


@pytest.fixture(autouse=True)
def little_garbage() -> Iterator[None]:
    """Every refusal looks for garbage, which takes long among all that the other tests left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_both_ways_agree() -> None:
    refusals = 0
    for seed in range(PROGRAMS):
        quick = answers(seed)
        with the_long_way():
            long = answers(seed)
        assert quick == long, f"program {seed}, step {[a == b for a, b in zip(quick, long, strict=True)].index(False)}"
        refusals += sum(isinstance(answer, str) for answer in quick)
    assert refusals > PROGRAMS


def test_the_quick_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"quick": 0, "known": 0, "view": 0}
    quick, known, view = calls._quick, partition._known, views.known

    def counted_quick(*given: Any) -> Any:
        op = quick(*given)
        taken["quick"] += op is not None
        return op

    def counted_known(*given: Any) -> Any:
        form = known(*given)
        taken["known"] += form is not None
        return form

    def counted_view(*given: Any) -> Any:
        found = view(*given)
        taken["view"] += found is not None
        return found

    monkeypatch.setattr(tensor, "known", counted_view)
    monkeypatch.setattr(calls, "_quick", counted_quick)
    monkeypatch.setattr(partition, "_known", counted_known)
    for seed in range(20):
        answers(seed)
    assert taken["quick"] > 20 and taken["known"] > 100 and taken["view"] > 20, taken
