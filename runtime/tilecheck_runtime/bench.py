"""Timing: how long something takes, and which of two things is faster.

A benchmark is a function that does the work once. One that returns an op has that op run, and counts from the start of
its first piece of work to the end of the last by the device's clock; what the host does before is not in it. Before each
repetition the second-level cache of a GPU is overwritten, as the data of a real program would have left it. One that
returns anything else has done its work when it returns, and counts by the host's clock.

It is warmed up for 25 ms, then repeated for 100 ms, at least 5 and at most 1000 times. The paired form alternates the two
sides, repetition by repetition, so that a clock that drifts or a device that warms up hits both alike.

    >>> r = do_bench_paired(lambda: copy(z.partition(128), x), lambda: tc.memcpy(z, x))     # doctest: +SKIP
    >>> r.a.median / r.b.median                                                             # doctest: +SKIP
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.op import DeviceOp
from tilecheck_runtime.stream import Stream

Work = Callable[[], object]

WARM_UP = 0.025
MEASURED = 0.1
REPETITIONS = (5, 1000)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each repetition, in the order they ran."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the samples, in seconds."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> float:
        """The value that a share `q` of the samples does not exceed, interpolated. Raises UsageError outside 0 to 1."""
        if not 0 <= q <= 1:
            raise UsageError(f"quantile {q}", "between 0 and 1")
        ordered = sorted(self.samples)
        place = q * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"<Timing of {len(self)}: median {self.median * 1e6:.1f} us>"


@dataclass(frozen=True, slots=True)
class PairedTiming:
    """Two sides, repetition by repetition in turn."""

    a: Timing
    b: Timing

    @property
    def ratio(self) -> float:
        """The median of a's time over b's, pair by pair: above 1, b is faster."""
        return Timing(tuple(a / b for a, b in zip(self.a.samples, self.b.samples, strict=True))).median


def do_bench(work: Work, *, warm_up: float = WARM_UP, measured: float = MEASURED) -> Timing:
    """The times that `work` takes, one per repetition; `warm_up` and `measured` are seconds. Its errors pass through."""
    (timing,) = _alternate((work,), warm_up, measured)
    return timing


def do_bench_paired(a: Work, b: Work, *, warm_up: float = WARM_UP, measured: float = MEASURED) -> PairedTiming:
    """Time `a` and `b` in turn, each as often. Their errors pass through."""
    return PairedTiming(*_alternate((a, b), warm_up, measured))


def _alternate(works: tuple[Work, ...], warm_up: float, measured: float) -> tuple[Timing, ...]:
    for work in works:
        if not callable(work):
            kind = "an op" if isinstance(work, DeviceOp) else f"a `{type(work).__name__}`"
            raise UsageError(f"a function is timed, this is {kind}", "wrap it: `lambda: kernel(z.partition(128), x)`")
    if warm_up < 0 or measured <= 0:
        raise UsageError(f"warm_up={warm_up}, measured={measured}", "seconds, measured more than 0")
    once = _warm(works, warm_up)
    low, high = REPETITIONS
    count = min(max(math.ceil(measured / max(once, 1e-9)), low), high)
    samples: tuple[list[float], ...] = tuple([] for _ in works)
    for _ in range(count):
        for work, taken in zip(works, samples, strict=True):
            taken.append(_time(work))
    return tuple(Timing(tuple(taken)) for taken in samples)


def _warm(works: tuple[Work, ...], seconds: float) -> float:
    """Run all sides for this long, at least once; seconds of the quickest round."""
    end = time.perf_counter() + seconds
    quickest = math.inf
    while quickest == math.inf or time.perf_counter() < end:
        quickest = min(quickest, sum(_time(work) for work in works))
    return quickest


def _time(work: Work) -> float:
    start = time.perf_counter()
    result = work()
    if not isinstance(result, DeviceOp):
        return time.perf_counter() - start
    stream = _stream()
    queue = stream._queue
    queue.flush()
    first = queue.stamp()
    running = result.run(stream)
    last = queue.stamp()
    running.wait()
    return last.since(first)


@cache
def _stream() -> Stream:
    return Stream()
