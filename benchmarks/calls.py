"""What a launch costs the host on our side, by the way it is written, without a GPU: `python -m benchmarks calls`.

The driver is the one on paper of the tests, so what is left of `cuLaunchKernel` is a call of a Python function; every way is
shown next to that. Times are those of the thread, so that other work of the machine is not in them. `benchmarks/device/launch.py`
measures the same ways on a GPU, against the driver's own call.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any

import tilecheck as tc
from tilecheck_runtime import kernels

Run = Callable[[], object]
# What is called, and what waits for it.
Side = tuple[Run, Run]

COUNT, TILE, ROWS = 4096, 1024, 8192
LAUNCHES, TURNS = 1000, 7
AT_ONCE, REPLAY = "add.on(stream)(pieces, x, y)", "graph.launch().run(stream)"


def ways(stream: tc.Stream, z: Any, w: Any, x: Any, y: Any) -> dict[str, Side]:
    """Launches of sums of `x` and `y`: into one partition of `z`, and into new ones of `w`."""
    pieces, add, anew = z.partition(TILE), kernels.add.on(stream), kernels.add.on(stream)
    steps, rows, table = iter(range(1, 1 << 40)), itertools.count(), tc.empty(ROWS, COUNT)

    def nothing() -> None:
        """What was launched was waited for."""

    return {
        AT_ONCE: (lambda: add(pieces, x, y), add.wait),
        "add(pieces, x, y).run(stream)": (lambda: kernels.add(pieces, x, y).run(stream), stream.synchronize),
        "add(pieces, x, y).sync_on(stream)": (lambda: kernels.add(pieces, x, y).sync_on(stream), nothing),
        "add.on(stream)(z.partition(...), x, y)": (lambda: anew(w.partition(TILE), x, y), anew.wait),
        "add(z.partition(...), x, y).run(stream)": (
            lambda: kernels.add(w.partition(TILE), x, y).run(stream),
            stream.synchronize,
        ),
        "add(z.partition(...), x, y).sync()": (lambda: kernels.add(w.partition(TILE), x, y).sync(), nothing),
        "saxpy(z.partition(...), x, y, a).run(stream), another a each time": (
            lambda: kernels.saxpy(w.partition(TILE), x, y, next(steps) / 7).run(stream),
            stream.synchronize,
        ),
        "add(z[:n].partition(...), x, y).run(stream), another view each time": (
            lambda: kernels.add(w[:COUNT].partition(TILE), x, y).run(stream),
            stream.synchronize,
        ),
        "add(z.partition(...), x, table[i]).run(stream), a row never seen": (
            lambda: kernels.add(w.partition(TILE), x, table[next(rows) % ROWS]).run(stream),
            stream.synchronize,
        ),
        "add(tc.empty(n).partition(...), x, y).run(stream), a new tensor": (
            lambda: kernels.add(tc.empty(COUNT).partition(TILE), x, y).run(stream),
            stream.synchronize,
        ),
    }


def main() -> None:
    try:
        from tests.paper_driver import on_paper
    except ImportError as missing:
        print(f"{missing}: nothing measured")
        return
    with on_paper() as driver:
        # Nobody reads them, and a long list costs time.
        driver.launched = driver.waits = _Forgetful()
        stream = tc.Stream()
        tensors = [tc.ones(COUNT) for _ in range(4)]
        bare = partial(driver.cuLaunchKernel, 0, 16, 1, 1, 256, 1, 1, 0, stream._queue.handle, 0, 0)
        graph = kernels.add(tc.empty(COUNT).partition(TILE), *tensors[2:]).graph(stream)
        sides = {
            "cuLaunchKernel on paper": (bare, stream.synchronize),
            **ways(stream, *tensors),
            REPLAY: (lambda: graph.launch().run(stream), stream.synchronize),
        }
        taken = turns(list(sides.values()))
        for item, own in zip(sides, taken, strict=True):
            print(f"{item}: {median(own):.2f} us, {median(own) - median(taken[0]):.2f} us of it ours")


def turns(sides: list[Side]) -> list[list[float]]:
    """Microseconds of a call, by side, the sides in turns; waiting at the end of a turn is not counted."""
    taken: list[list[float]] = [[] for _ in sides]
    for turn in range(TURNS + 1):
        for (call, wait), own in zip(sides, taken, strict=True):
            started = time.thread_time()
            for _ in range(LAUNCHES):
                call()
            if turn:
                own.append(1e6 * (time.thread_time() - started) / LAUNCHES)
            wait()
    return taken


class _Forgetful(list[Any]):
    """A list that keeps nothing."""

    def append(self, item: Any) -> None:
        with suppress(IndexError):
            self.pop()


if __name__ == "__main__":
    main()
