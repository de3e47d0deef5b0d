"""How the device benchmarks measure: every side on one stream, in turns, between two events of the device.

Before each turn the second-level cache is overwritten; while that runs the host submits the turn, so the cost of
launching is not in it. Each round has an order of its own. A side counts by the median of its turns. A ratio is the median
over the rounds of the other side's time by ours, both from the same round: above 1 we are faster. Single turns of a short
kernel vary by 4 %, so those get many rounds.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from statistics import median
from typing import Any, TypeVar

from tilecheck_runtime.errors import TilecheckError
from tilecheck_runtime.prepared import Prepared

T = TypeVar("T")
Run = Callable[[], object]

ROUNDS = 21
# For what takes less than a millisecond.
MANY_ROUNDS = 151
# How a configuration is picked: turns for each, and how many of them are measured again.
FEW = 15
FINALISTS = 6
# More than any second-level cache; reading it takes the device longer than the host takes to submit a turn.
FLUSHED = 512 << 20


@dataclass(frozen=True)
class Against:
    """Another side: its time in microseconds, the ratio, and what the ratio must be."""

    peer: str
    us: float
    ratio: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def text(self) -> str:
        """The ratio next to its target."""
        shown = f"{self.ratio:.3f} of {self.peer} ({self.us:.1f} us"
        if self.at_least is not None:
            return f"{shown}; must be >= {self.at_least}: {'holds' if self.ratio >= self.at_least else 'FAILS'})"
        if self.at_most is not None:
            return f"{shown}; must be <= {self.at_most}: {'holds' if self.ratio <= self.at_most else 'FAILS'})"
        return shown + ")"


@dataclass(frozen=True)
class Line:
    """One item: our time, the rate that it means, and the other sides."""

    item: str
    us: float
    rate: float | None
    unit: str
    against: Sequence[Against] = field(default_factory=tuple)

    def show(self) -> None:
        rate = "" if self.rate is None else f" {self.rate:.3g} {self.unit}"
        print(f"{self.item}:{rate} {self.us:.2f} us", flush=True)
        for other in self.against:
            print(f"    {other.text}", flush=True)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """The device, one stream on which every side runs, and the lines so far."""

    def __init__(self) -> None:
        self.torch: Any = import_module("torch")
        self.tc: Any = import_module("tilecheck")
        self.stream = self.tc.Stream()
        self.handle: int = self.stream._queue.handle
        self.theirs = self.torch.cuda.ExternalStream(self.handle)
        self._flushed = self.torch.zeros(FLUSHED // 4, device="cuda")
        self._sum = self.torch.empty((), device="cuda")
        self.lines: list[Line] = []

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def turns(self, sides: Sequence[Run], rounds: int = ROUNDS, in_a_row: int = 0) -> list[list[float]]:
        """Microseconds of every turn, by side: after other memory has gone through the second-level cache, or, if `in_a_row`
        is not 0, the mean of as many calls that follow each other.
        """
        event = self.torch.cuda.Event
        marks = [[(event(enable_timing=True), event(enable_timing=True)) for _ in range(rounds)] for _ in sides]
        places, shuffled = list(range(len(sides))), random.Random(rounds)
        for side in sides:
            side()
        self.wait()
        with self.torch.cuda.stream(self.theirs):
            for round_ in range(rounds):
                shuffled.shuffle(places)
                for place in places:
                    if not in_a_row:
                        # Read, not written: no side should pay for what it finds changed in the cache.
                        self.torch.sum(self._flushed, 0, out=self._sum)
                    first, last = marks[place][round_]
                    first.record(self.theirs)
                    for _ in range(in_a_row or 1):
                        sides[place]()
                    last.record(self.theirs)
                self.wait()
        for side in sides:
            # A prepared launch holds its arguments until it is waited for.
            if isinstance(side, Prepared):
                side.wait()
        return [[1000 * first.elapsed_time(last) / (in_a_row or 1) for first, last in own] for own in marks]

    def compare(
        self,
        item: str,
        ours: Run,
        peers: Mapping[str, Run],
        *,
        work: float,
        unit: str,
        at_least: Mapping[str, float] | None = None,
        rounds: int = ROUNDS,
        in_a_row: int = 0,
    ) -> Line:
        """Measure `ours` against `peers`; `work` is in bytes or operations, `unit` names 10**12 of it a second; `in_a_row`
        as in `turns`.
        """
        mine, *others = self.turns([ours, *peers.values()], rounds, in_a_row)
        us = median(mine)
        wanted = at_least or {}
        against = [
            Against(name, median(their), median(t / m for t, m in zip(their, mine, strict=True)), wanted.get(name))
            for name, their in zip(peers, others, strict=True)
        ]
        return self.add(Line(item, us, work / us / 1e6, unit, against))

    def add(self, line: Line) -> Line:
        line.show()
        self.lines.append(line)
        return line

    def prepared(self, op: Any) -> Any:
        """`op` as a launch on our stream that is repeated as often as asked; the first one is over when this returns."""
        again = op.prepare(self.stream)
        again()
        again.wait()
        return again

    def quickest(
        self, item: str, build: Callable[[T], Any], configurations: Sequence[T], rounds: int = ROUNDS
    ) -> tuple[T, Any]:
        """The configuration whose launch is the quickest, and its launch: a few turns each, and as many as a comparison
        takes for the best of them. Refused ones are named; raises LookupError if all are.
        """
        taken: list[T] = []
        for configuration in configurations:
            try:
                self.prepared(build(configuration))
            except TilecheckError as refused:
                print(f"    {item}, {configuration}: {refused}", file=sys.stderr, flush=True)
            else:
                taken.append(configuration)
        if not taken:
            raise LookupError(f"{item}: no configuration was taken")
        finals = self._by_time(build, taken, FEW)[:FINALISTS]
        best = self._by_time(build, finals, rounds)[0]
        return best, self.prepared(build(best))

    def _by_time(self, build: Callable[[T], Any], configurations: Sequence[T], rounds: int) -> list[T]:
        """The configurations, the quickest first."""
        taken = self.turns([self._repeated(build(one)) for one in configurations], rounds)
        order = sorted(range(len(configurations)), key=lambda at: median(taken[at]))
        return [configurations[at] for at in order]

    def _repeated(self, op: Any) -> Run:
        """`op` as the driver's call alone, without a loan: candidates share their output and take turns."""
        op.compile()
        repeat: Run = self.stream._queue.repeat(op.plan.work(op.plan.grid), op.plan)
        return repeat

    def fastest(self, runs: Sequence[Run], rounds: int = ROUNDS) -> Run:
        """The quickest of a peer's own variants, with as many turns as ours get in the end."""
        return min(zip(runs, self.turns(runs, rounds), strict=True), key=lambda run: median(run[1]))[0]

    def tensors(self, *theirs: Any) -> list[Any]:
        """torch tensors as ours, without a copy."""
        return [self.tc.from_dlpack(t) for t in theirs]

    def copy_of(self, nbytes: int) -> Run:
        """A copy on the device that reads and writes `nbytes` in all."""
        source, target = (self.torch.empty(nbytes // 2, dtype=self.torch.int8, device="cuda") for _ in range(2))
        return lambda: target.copy_(source)

    def close(self, what: str, got: Any, want: Any, tolerance: float) -> None:
        """Raises AssertionError unless `got` is `want`, relative to its size."""
        self.wait()
        error = float((got.double() - want.double()).norm() / want.double().norm())
        assert error < tolerance, f"{what}: relative error {error}"


def host_turns(sides: Sequence[tuple[Run, Run]], launches: int, rounds: int = 7) -> list[list[float]]:
    """Host microseconds a call, by side, turn by turn; a side is what is called and what waits for it. Waiting is not
    counted.
    """
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds + 1):
        for (call, wait), own in zip(sides, taken, strict=True):
            wait()
            started = time.perf_counter()
            for _ in range(launches):
                call()
            own.append(1e6 * (time.perf_counter() - started) / launches)
            wait()
    return [own[1:] for own in taken]


def host_line(
    item: str,
    ours: tuple[Run, Run],
    peers: Mapping[str, tuple[tuple[Run, Run], float | None]],
    launches: int,
) -> Line:
    """Host cost of `ours` over each peer's: the peer's call and wait, and what the ratio must not exceed."""
    mine, *others = host_turns([ours, *(side for side, _ in peers.values())], launches)
    against = [
        Against(name, median(their), median(m / t for t, m in zip(their, mine, strict=True)), at_most=limit)
        for (name, (_, limit)), their in zip(peers.items(), others, strict=True)
    ]
    return Line(item, median(mine), None, "", against)
