"""What comes again takes less time and nothing else: random programs, with and without what the run time remembers.

Two independent answers: the quick way (partitions that share a borrow, seats) and the long way, in which every borrow is taken and
every launch is checked from the start. Both must refuse the same steps by the same rules, and compute the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck_runtime import calls, launcher, partition
from tilecheck_runtime.seat import Recent

SIZE = 32
PROGRAMS, STEPS = 250, 60
pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@contextmanager
def the_long_way() -> Iterator[None]:
    """Nothing is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "_known", lambda slot, asked: None)
        patch.setattr(partition, "renew", lambda request, by, loan: False)
        patch.setattr(Recent, "again", lambda *given, **named: False)
        patch.setattr(calls, "_quick", lambda *given: None)
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
        self.launchers = [k.move.on(self.streams[0]), k.plus.on(self.streams[1]), k.fill.on(self.streams[0])]

    def any(self, items: list[Any]) -> Any:
        return items[self.rng.randrange(len(items))] if items else None

    def tensor(self) -> Any:
        return self.any(self.views) if self.views and self.rng.random() < 0.2 else self.any(self.tensors)

    def output(self) -> Any:
        """Mostly a partition made anew."""
        if self.pieces and self.rng.random() < 0.25:
            return self.any(self.pieces)
        tile = self.rng.choice([8, 8, 8, 16])
        pieces = self.tensor().partition(tile)
        if self.rng.random() < 0.1:
            self.pieces.append(pieces)
        return pieces

    def call(self) -> tuple[Any, tuple[Any, ...]]:
        out = self.output()
        if self.rng.random() < 0.3:
            return 2, (out, float(self.rng.randrange(3)))
        if self.rng.random() < 0.5:
            return 0, (out, self.any(self.tensors))
        return 1, (out, self.any(self.tensors), self.any(self.tensors))

    def step(self) -> object:
        """One step; what it gives is part of the answer."""
        kernels = (k.move, k.plus, k.fill)
        match self.rng.choices(
            ["sync", "run", "launcher", "build", "go", "wait", "rest", "read", "write", "view", "keep", "graph", "replay", "forget", "done"],
            [30, 12, 14, 4, 6, 10, 6, 5, 5, 4, 4, 2, 4, 6, 3],
        )[0]:  # fmt: skip
            case "sync":
                which, args = self.call()
                kernels[which](*args).sync_on(self.rng.choice(self.streams))
            case "run":
                which, args = self.call()
                self.running.append(kernels[which](*args).run(self.rng.choice(self.streams)))
            case "launcher":
                which, args = self.call()
                self.launchers[which](*args)
            case "build":
                which, args = self.call()
                self.ops.append(kernels[which](*args))
            case "go" if self.ops:
                self.running.append(self.ops.pop().run(self.rng.choice(self.streams)))
            case "wait" if self.running:
                self.running.pop(self.rng.randrange(len(self.running))).wait()
            case "rest":
                self.rng.choice(self.launchers).wait()
            case "read":
                return self.tensor().numpy().tolist()
            case "write":
                self.tensor()[0:4] = float(self.rng.randrange(9))
            case "view":
                low = self.rng.randrange(0, SIZE, 8)
                self.views.append(self.any(self.tensors)[low:])
            case "keep":
                self.pieces.append(self.tensor().partition(8))
            case "graph":
                which, args = self.call()
                self.graphs.append(kernels[which](*args).graph(self.streams[0]))
            case "replay" if self.graphs:
                self.any(self.graphs).launch().sync_on(self.rng.choice(self.streams))
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
    program, found = Program(seed), list[object]()
    for _ in range(STEPS):
        state = program.rng.getstate()
        try:
            found.append(program.step())
        except tc.TilecheckError as error:
            # A step that fails in the middle draws no more, so both ways go on from one place.
            found.append(error.rule)
        program.rng.setstate(state)
        program.rng.random()
    for running in program.running:
        running.wait()
    for launch in program.launchers:
        launch.wait()
    program.ops.clear()
    program.graphs.clear()
    return [*found, [t.numpy().tolist() for t in program.tensors]]


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
    taken = {"quick": 0, "known": 0}
    quick, known = calls._quick, partition._known

    def counted_quick(*given: Any) -> Any:
        op = quick(*given)
        taken["quick"] += op is not None
        return op

    def counted_known(*given: Any) -> Any:
        form = known(*given)
        taken["known"] += form is not None
        return form

    monkeypatch.setattr(calls, "_quick", counted_quick)
    monkeypatch.setattr(partition, "_known", counted_known)
    for seed in range(20):
        answers(seed)
    assert taken["quick"] > 20 and taken["known"] > 100
    assert launcher.key_of is calls.key_of
