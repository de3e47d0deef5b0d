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
from unittest.mock import patch

import numpy as np
from numba import cuda

import tilecheck as tc
from tilecheck import Mut, Shared, Tensor, f32
from tilecheck_runtime import kernels
from tilecheck_runtime.backends import cuda_interop
from tilecheck_runtime.backends.cuda import CUDABuffer
from tilecheck_runtime.layout import Layout

Run = Callable[[], object]
# What is called, and what waits for it.
Side = tuple[Run, Run]

COUNT, TILE, ROWS = 4096, 1024, 8192
LAUNCHES, TURNS = 1000, 7
AT_ONCE, REPLAY = "add.on(stream)(pieces, x, y)", "graph.launch().run(stream)"


@tc.simt(block=TILE)
def doubled(z: Tensor[Mut, f32], x: Tensor[Shared, f32]) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = 2.0 * x[i]


def ways(stream: tc.Stream, z: Any, w: Any, x: Any, y: Any, theirs: Callable[[], Any]) -> dict[str, Side]:
    """Launches of sums of `x` and `y`: into one partition of `z`, and into new ones of `w`; `theirs` gives an array of another
    library, another one each time.
    """
    pieces, add, anew, never = z.partition(TILE), kernels.add.on(stream), kernels.add.on(stream), kernels.add.on(stream)
    steps, rows, table = iter(range(1, 1 << 40)), itertools.count(), tc.empty(ROWS, COUNT)
    waits = stream.synchronize

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
        "add.on(stream)(z.partition(...), x, table[i]), a row never seen": (
            lambda: never(w.partition(TILE), x, table[next(rows) % ROWS]),
            never.wait,
        ),
        "add(tc.empty(n).partition(...), x, y).run(stream), a new tensor": (
            lambda: kernels.add(tc.empty(COUNT).partition(TILE), x, y).run(stream),
            waits,
        ),
        "add.on(stream)(tc.empty(n).partition(...), x, y), a new tensor": (
            lambda: never(tc.empty(COUNT).partition(TILE), x, y),
            never.wait,
        ),
        "add(z.partition(...), x, tc.from_dlpack(theirs)).run(stream), an array never seen": (
            lambda: kernels.add(w.partition(TILE), x, tc.from_dlpack(theirs())).run(stream),
            waits,
        ),
        "doubled(z.partition(...), x).run(stream), a thread-level kernel": (
            lambda: doubled(w.partition(TILE), x).run(stream),
            waits,
        ),
        "doubled(z.partition(...), table[i]).run(stream), a thread-level kernel and a row never seen": (
            lambda: doubled(w.partition(TILE), table[next(rows) % ROWS]).run(stream),
            waits,
        ),
    }


def handles(theirs: Callable[[], Any]) -> dict[str, Side]:
    """What the handles alone cost that some launches of `ways` make anew."""
    rows, table = itertools.count(), tc.empty(ROWS, COUNT)

    def nothing() -> None:
        """Nothing was launched."""

    return {
        "table[i], a row never seen": (lambda: table[next(rows) % ROWS], nothing),
        "tc.empty(n).partition(...)": (lambda: tc.empty(COUNT).partition(TILE), nothing),
        "tc.from_dlpack(theirs), an array never seen": (lambda: tc.from_dlpack(theirs()), nothing),
    }


def main() -> None:
    try:
        from tests.paper_driver import on_paper
    except ImportError as missing:
        print(f"{missing}: nothing measured")
        return
    with on_paper() as driver, patch.object(cuda_interop, "borrowed_from", borrowed):
        # Nobody reads them, and a long list costs time.
        driver.launched = driver.waits = _Forgetful()
        stream = tc.Stream()
        tensors = [tc.ones(COUNT) for _ in range(4)]
        bare = partial(driver.cuLaunchKernel, 0, 16, 1, 1, 256, 1, 1, 0, stream._queue.handle, 0, 0)
        graph = kernels.add(tc.empty(COUNT).partition(TILE), *tensors[2:]).graph(stream)
        sides = {
            "cuLaunchKernel on paper": (bare, stream.synchronize),
            **ways(stream, *tensors, Foreign(ROWS)),
            **handles(Foreign(ROWS)),
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


class Foreign:
    """Gives arrays of another library, as far as a driver on paper goes: one place after the other."""

    def __init__(self, count: int) -> None:
        self._memory = np.empty(count * COUNT, np.float32)
        self._at = itertools.cycle(range(count))

    def __call__(self) -> int:
        return int(self._memory.ctypes.data) + 4 * COUNT * next(self._at)


def borrowed(address: int) -> tuple[CUDABuffer, Layout, Any, bool, Any]:
    """What `cuda_interop.borrowed_from` says of such an array."""
    return CUDABuffer(address, 4 * COUNT), Layout(0, (COUNT,), (4,)), f32, True, address


class _Forgetful(list[Any]):
    """A list that keeps nothing."""

    def append(self, item: Any) -> None:
        with suppress(IndexError):
            self.pop()


if __name__ == "__main__":
    main()
