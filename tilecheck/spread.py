"""Calls spread over processes, some of which may be ended from outside.

The kernel ends a process that takes too much memory, and native code may crash; a pool of processes is useless from
then on and does not say which call it was. So what was under way is done again, one call after the other in a fresh
process, and the call that ends that one too is given up; the rest goes to a fresh pool.

Invariant: answers come in the order of the calls, one for each; None stands for a call that was given up.

    with Processes(2, start, options) as processes:
        list(processes.spread(check, [("a.py",), ("crash.py",), ("b.py",)]))    # [..., None, ...]
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

T = TypeVar("T")

# Calls that a pool hands out beyond one per process: one waits in its queue, one is on its way there.
_AHEAD = 2


class Processes:
    """Up to `jobs` processes, in each of which `start(given)` ran first."""

    def __init__(self, jobs: int, start: Callable[..., None], given: object) -> None:
        self._jobs, self._start, self._given = jobs, start, given
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None:
        if kind is not None:
            # Interrupted: nobody waits for the work under way.
            for process in multiprocessing.active_children():
                process.terminate()
        self._drop()

    def spread(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T | None]:
        """`function(*call)` for each of `calls`; None for one that ended its process twice."""
        known: dict[int, T | None] = {}
        suspects: list[int] = []
        shown = 0
        while shown < len(calls):
            batch = suspects or [n for n in range(shown, len(calls)) if n not in known]
            futures = self._submit(function, {n: calls[n] for n in batch}, alone=bool(suspects))
            broken = False
            for n in batch:
                try:
                    known[n] = futures[n].result()
                except BrokenProcessPool:
                    broken = True
                    break
                while shown in known:
                    yield known.pop(shown)
                    shown += 1
            known.update({n: futures[n].result() for n in batch if n >= shown and _answered(futures[n])})
            left = [n for n in batch if n >= shown and n not in known]
            if broken and suspects:
                known[left.pop(0)] = None
            if broken or suspects:
                self._drop()
            suspects = left if suspects else left[: self._jobs + _AHEAD]
            while shown in known:
                yield known.pop(shown)
                shown += 1

    def _submit(
        self, function: Callable[..., T], calls: dict[int, tuple[Any, ...]], *, alone: bool
    ) -> dict[int, Future[T]]:
        with _shielded():
            if self._pool is None:
                workers = 1 if alone else self._jobs
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(workers, context, self._start, (self._given,))
            return {n: self._pool.submit(function, *call) for n, call in calls.items()}

    def _drop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _answered(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


@contextlib.contextmanager
def _shielded() -> Iterator[None]:
    """Processes that are started here never see the SIGINT that a terminal sends to all; this one does, afterwards."""
    if sys.platform == "win32":
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    # Its start unblocks SIGINT.
    ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
