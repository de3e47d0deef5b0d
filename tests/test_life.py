"""Ops, streams and graphs that end otherwise than planned: by errors, cancellation, forks, threads and the end of the process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests import launch_kernels as k
from tilecheck_runtime import driver

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


# ---- errors


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("how", ["then", "map", "inspect", "graph", "scope"])
def test_an_error_of_a_users_function_passes_and_nothing_is_held(error: type[BaseException], how: str) -> None:
    z, x, stream = tc.zeros(64), tc.ones(64), tc.Stream()
    for _ in range(3):
        k.move(z.partition(16), x).run(stream).wait()

    def fails(value: object) -> Any:
        raise error("mine")

    def run() -> object:
        op = k.move(z.partition(16), x)
        if how == "scope":
            with tc.CudaGraph.scope(stream) as scope:
                scope.record(op)
                fails(0)
        if how == "graph":
            return op.map(fails).graph(stream)
        return getattr(op, how)(fails).run(stream)

    with pytest.raises(error, match="mine"):
        run()
    z[...] = 5
    x[...] = 2
    k.move(z.partition(16), x).run(stream).wait()
    assert z.numpy().tolist() == [2] * 64


def test_a_signal_while_waiting_leaves_everything_usable() -> None:
    z, x = tc.zeros(4096), tc.ones(4096)
    # Not while it compiles: a compiler that is stopped says so in its own words.
    k.move(z.partition(16), x).sync()

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            while True:
                k.move(z.partition(16), x).sync()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    tc.Stream().synchronize()
    for _ in range(3):
        k.move(z.partition(16), x).sync()
    assert z.numpy().sum() == 4096


def test_chains_of_thousands() -> None:
    op: Any = tc.value(0)
    for _ in range(5000):
        op = op.map(lambda n: n + 1)
    assert op.sync() == 5000
    z, x = tc.zeros(8), tc.ones(8)
    op = k.move(z.partition(4), x)
    for _ in range(1500):
        op = op.then(lambda value: k.plus(value[0], x, x))
    assert op.first().unpartition().to_host().sync().tolist() == [2] * 8
    op = tc.value(1)
    for n in range(3000):
        op = op.map((lambda v: v // 0) if n == 1500 else (lambda v: v))
    with pytest.raises(ZeroDivisionError):
        op.sync()


# ---- coroutines


def test_a_cancelled_task_lets_the_work_finish() -> None:
    z, x = tc.zeros(64), tc.ones(64)

    async def main() -> None:
        async def one() -> object:
            return await k.move(z.partition(16), x)

        for _ in range(4):
            task = asyncio.create_task(one())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        running = k.move(z.partition(16), x).run()

        async def wait() -> object:
            return await running

        assert len({id(value) for value in await asyncio.gather(wait(), wait(), wait())}) == 1

    asyncio.run(main())
    z[...] = 0
    k.move(z.partition(16), x).sync()
    assert z.numpy().sum() == 64


def test_a_coroutine_that_outlives_its_loop() -> None:
    z, x = tc.zeros(64), tc.ones(64)

    async def main() -> Any:
        waiting = k.move(z.partition(16), x).run().__await__()
        next(waiting)
        return waiting

    waiting = asyncio.run(main())
    waiting.close()
    del waiting
    gc.collect()
    tc.Stream().synchronize()
    k.move(z.partition(16), x).sync()
    assert z.numpy().sum() == 64


# ---- lifetimes


def test_a_graph_outlives_its_handles() -> None:
    graph = k.move(tc.zeros(64).partition(16), tc.full(64, 3.0)).graph()
    (pieces, _) = graph.take_output()
    gc.collect()
    others = [tc.zeros(64) for _ in range(8)]
    graph.launch().sync()
    assert pieces.unpartition().numpy().tolist() == [3] * 64
    replay = graph.launch()
    del graph
    gc.collect()
    replay.sync()
    assert not any(other.numpy().any() for other in others)


def test_a_stream_is_dropped_while_it_works() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    running = k.move(z.partition(16), x).run(tc.Stream())
    gc.collect()
    running.wait()
    launcher = k.fill.on(tc.Stream())
    for n in range(6):
        launcher(z.partition(16), float(n))
    launcher.wait()
    del launcher
    assert z.numpy().tolist() == [5] * 64


@pytest.mark.cpu
def test_an_array_of_another_library_is_kept_while_it_is_used() -> None:
    values = np.full(64, 4, np.float32)
    x, z = tc.from_dlpack(values), tc.zeros(64)
    running = k.move(z.partition(16), x).run()
    with pytest.raises(ValueError, match="resize"):
        values.resize(1 << 20)
    del values, x
    gc.collect()
    running.wait()
    assert z.numpy().sum() == 256


# ---- threads


def test_threads_call_a_kernel_for_the_first_time() -> None:
    @tc.kernel
    def fresh(z: tc.Tensor[tc.Mut, tc.f32, k.BM], x: tc.Tensor[tc.Shared, tc.f32, tc.Dyn]) -> None:
        z.store(tc.load_like(x, z) + 1.0)

    x, start = tc.ones(64), threading.Barrier(8)

    def work(_: int) -> float:
        z = tc.zeros(64)
        start.wait()
        for _ in range(10):
            fresh(z.partition(16), x).sync()
        return float(z.numpy().sum())

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [128.0] * 8


def test_threads_run_one_op_once() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    for _ in range(4):
        op = k.move(z.partition(16), x)
        start = threading.Barrier(4)

        def work(_: int, op: Any = op, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                op.sync()
            except tc.OpError:
                return False
            return True

        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(work, range(4))) == 1
    assert z.numpy().sum() == 64


# ---- processes


@pytest.mark.cpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_goes_on_with_its_own_copy() -> None:
    z, x, stream = tc.zeros(64), tc.ones(64), tc.Stream()
    for _ in range(4):
        k.move(z.partition(16), x).run(stream).wait()
    running = k.fill(z.partition(16), 3.0).run(stream)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            running.wait()
            assert z.numpy().sum() == 3 * 64
            for _ in range(3):
                k.move(z.partition(16), x).run(stream).wait()
                k.move(z.partition(16), x).sync()
            status = 0 if z.numpy().sum() == 64 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    running.wait()
    assert z.numpy().sum() == 3 * 64


def test_a_gpu_is_left_behind_by_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_left_behind", True)
    driver._bindings.cache_clear()
    try:
        error = refused(lambda: driver._ok("cuStreamQuery", (_Status(),)))
        assert "before this process was forked" in error.message and "spawn" in str(error)
        gone = object.__new__(driver.Device)
        gone.free(0, 0)
        gone.free_event(0)
        gone.free_graph(0)
    finally:
        driver._bindings.cache_clear()


class _Status:
    """What the driver answers in a forked process."""

    name, value = "CUDA_ERROR_NOT_INITIALIZED", 3


END = """
import tilecheck as tc
from tests import launch_kernels as k

class Ring: ...

z, x, y = tc.zeros(64), tc.ones(64), tc.zeros(64)
running = [k.move(z.partition(16), x).run() for _ in range(50)]
graph = k.move(y.partition(16), x).graph()
again = graph.prepare()
again(), again()
launcher = k.fill.on(tc.Stream())
w = tc.zeros(64)
for n in range(9):
    launcher(w.partition(16), float(n))
ring = Ring()
ring.ring, ring.op = ring, k.move(tc.zeros(64).partition(16), x)
pending = k.move(tc.zeros(64).partition(16), x).map(print)
"""


def test_the_process_may_end_at_any_time() -> None:
    ended = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, timeout=120, check=False)
    said = [line for line in ended.stderr.splitlines() if line.strip()]
    assert ended.returncode == 0 and ended.stdout == ""
    assert said and all("DroppedOpWarning" in line or line.startswith("  ") for line in said), ended.stderr
