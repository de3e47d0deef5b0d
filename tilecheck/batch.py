"""Many files: gate, cache, processes.

The gate reads bytes and nothing else, so a code base without kernels is decided before libcst is imported. What passes,
and what imports a file that passes, is looked up in the cache; what is left is checked, in this process or spread over several.

Invariant: results come back in the order of the files and do not depend on the number of processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilecheck.frontend.gate import mentions_kernels
from tilecheck.report.result import FileResult
from tilecheck.stack import LIMIT, deep_stack

if TYPE_CHECKING:
    from tilecheck.cache import ResultCache
    from tilecheck.frontend.launches import Launch
    from tilecheck.judge import Options

# A pool costs about a second of imports per process: below this many files one process is faster.
_POOL_FROM = 8


@dataclass(frozen=True, slots=True)
class Input:
    """One file to check; `data` is None if it could not be read, `problem` says why."""

    path: str
    data: bytes | None
    problem: str = ""
    # A folder of which nobody knows what it holds: there is more to check than was checked.
    folder: bool = False


def read_inputs(paths: Sequence[str], named: Collection[str] = ()) -> Iterator[Input]:
    """The files of `paths` that need more than the gate, in their order: those that pass it and those that import one
    that does. Those in `named` were asked for one by one: of them the ones that are not Python at all are kept too, and
    those that import a file with kernels that is not in `paths`.
    """
    kept: dict[str, Input] = {}
    held: list[str] = []
    for path in paths:
        try:
            if os.path.isdir(path):
                why = "this folder may not be listed, so nothing in it was checked"
                kept[path] = Input(path, None, why, folder=True)
                continue
            if not os.path.isfile(path):
                os.stat(path)
                kept[path] = Input(path, None, "not a regular file")
                continue
            data = _bytes(path)
        except OSError as error:
            kept[path] = Input(path, None, f"cannot be opened: {(error.strerror or str(error)).lower()}")
            continue
        if worth_checking(path, data, path in named):
            kept[path] = Input(path, data)
        else:
            held.append(path)
    kept.update(_importing(held, [(path, item.data) for path, item in kept.items() if item.data is not None]))
    return (kept[path] for path in dict.fromkeys(paths) if path in kept)


def _importing(held: Sequence[str], kernels: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, Input]]:
    """Of the files that the gate held back, those that import one that it let through."""
    if not held or not kernels:
        return
    from tilecheck.reach import Importers

    importers = Importers(kernels)
    # A package hands on what its `__init__.py` imports; the inner ones come first.
    for path in sorted(held, key=lambda path: (os.path.basename(path) != "__init__.py", -path.count(os.sep))):
        try:
            data = _bytes(path)
        except OSError:
            continue
        if importers.holds(data):
            yield path, Input(path, data)
            if os.path.basename(path) == "__init__.py":
                importers.add(path)


def worth_checking(path: str, data: bytes, named: bool) -> bool:
    """Whether the file with these bytes has anything to check by itself: it passes the gate, or was named and is not
    Python or imports a file near it that passes.
    """
    return mentions_kernels(data) or (named and (not _is_python(data) or _near_kernels(path, data)))


def _near_kernels(path: str, data: bytes) -> bool:
    """Whether the file imports one near it that may hold kernels, by its own name or through an `__init__.py`."""
    from tilecheck.reach import has_language, neighbours

    seen: set[str] = set()
    pending = [(path, data)]
    while pending:
        for near in neighbours(*pending.pop()):
            if near in seen:
                continue
            seen.add(near)
            with contextlib.suppress(OSError):
                theirs = _bytes(near)
                if mentions_kernels(theirs) and has_language(theirs):
                    return True
                if os.path.basename(near) == "__init__.py":
                    pending.append((near, theirs))
    return False


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _is_python(data: bytes) -> bool:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "<file>", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def run(
    inputs: Sequence[Input],
    options: Options,
    *,
    jobs: int = 1,
    cache: ResultCache | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[FileResult]:
    """Check `inputs`; `progress(done, total)` is called as results come in."""
    from tilecheck.cache import key_of
    from tilecheck.modules import Modules
    from tilecheck.reach import reachers

    data = {item.path: item.data for item in inputs if item.data is not None}
    launchers = reachers(list(data.items()))
    reached = _reached(launchers)
    modules = Modules((os.curdir,))
    results: dict[int, FileResult] = {}
    todo: list[tuple[int, str]] = []
    for n, item in enumerate(inputs):
        around = sorted(launchers.get(item.path, ()))
        content = item.problem if item.data is None else item.data
        settings = repr((options, sorted(reached.get(item.path, ()))))
        key = key_of(os.getcwd(), item.path, content, settings, *around, *(data[path] for path in around))
        hit = cache.get(key, modules) if cache is not None else None
        if hit is None:
            todo.append((n, key))
        else:
            results[n] = hit
    progress(len(results), len(inputs))
    work = [inputs[n] for n, _ in todo]
    with contextlib.closing(_checked(work, data, launchers, reached, options, jobs)) as answers:
        for (n, key), (result, asked) in zip(todo, answers, strict=True):
            results[n] = result
            if cache is not None and not result.unfinished:
                cache.put(key, result, asked)
            progress(len(results), len(inputs))
    return [results[n] for n in range(len(inputs))]


def _reached(launchers: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """For each path the files of this run whose kernels it may launch, as a `Source` calls them."""
    found: dict[str, set[str]] = {}
    for path, by in launchers.items():
        for launcher in by:
            found.setdefault(launcher, set()).add(os.path.relpath(path))
    return {path: frozenset(others) for path, others in found.items()}


# What imports were answered, see `Modules.asked`.
Asked = dict[tuple[str, str], str]
Answer = tuple[FileResult, Asked]


def _checked(
    todo: Sequence[Input],
    data: Mapping[str, bytes],
    launchers: Mapping[str, frozenset[str]],
    reached: Mapping[str, frozenset[str]],
    options: Options,
    jobs: int,
) -> Generator[Answer, None, None]:
    """Check the files of `todo`: first the launches of the files that may launch their kernels, then each file."""
    others = sorted({path for item in todo for path in launchers.get(item.path, ())})
    if jobs == 1 or len(todo) < _POOL_FROM:
        worker = _Worker(options)
        with deep_stack():
            shown = {path: worker.launches(path, data[path]) for path in others}
            for item in todo:
                answer = worker.check(item, _of(item.path, shown), reached.get(item.path, frozenset()))
                yield _with_asked(answer, shown, launchers.get(item.path, ()))
        return
    from tilecheck.spread import Processes

    with Processes(min(jobs, len(todo)), _start_worker, options) as processes:
        found = processes.spread(_launches_in_worker, [(path, data[path]) for path in others])
        shown = {path: ((), {}) if seen is None else seen for path, seen in zip(others, found, strict=True)}
        calls = [(item, _of(item.path, shown), reached.get(item.path, frozenset())) for item in todo]
        for item, got in zip(todo, processes.spread(_check_in_worker, calls), strict=True):
            if got is None:
                yield _lost(item, options), {}
            else:
                yield _with_asked(got, shown, launchers.get(item.path, ()))


def _lost(item: Input, options: Options) -> FileResult:
    """The result of a file whose process ended while it was checked, twice."""
    from tilecheck.check import unreadable

    why = "not checked: the process that checked it was ended, by a lack of memory or a crash"
    return replace(unreadable(item.path, options, why), unfinished=True)


# The launches of one file, and the imports they rest on.
Shown = tuple[Sequence["Launch"], Asked]


def _of(path: str, shown: Mapping[str, Shown]) -> list[Launch]:
    """The launches, made in other files, of kernels in the file at `path`, under that name of it."""
    here = os.path.abspath(path)
    return [
        replace(launch, kernel=replace(launch.kernel, path=path))
        for launches, _ in shown.values()
        for launch in launches
        if os.path.abspath(launch.kernel.path) == here and os.path.abspath(launch.span.path) != here
    ]


def _with_asked(answer: Answer, shown: Mapping[str, Shown], launchers: Collection[str]) -> Answer:
    """`answer` with the imports that the launches from other files rest on."""
    result, asked = answer
    for path in launchers:
        asked = {**shown[path][1], **asked}
    return result, asked


class _Worker:
    """What one process keeps between files."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def launches(self, path: str, data: bytes) -> Shown:
        from tilecheck.check import launches_in
        from tilecheck.modules import Modules

        modules = Modules((os.curdir,))
        return launches_in(path, data, modules), modules.asked

    def check(self, item: Input, elsewhere: Sequence[Launch], listed: Collection[str]) -> Answer:
        from tilecheck.check import check_bytes, unreadable
        from tilecheck.modules import Modules

        if item.data is None:
            return replace(unreadable(item.path, self._options, item.problem), unfinished=item.folder), {}
        modules = Modules((os.curdir,))
        return check_bytes(item.path, item.data, modules, self._options, elsewhere, listed), modules.asked


_worker: _Worker | None = None


def _start_worker(options: Options) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), LIMIT))
    _worker = _Worker(options)


def _launches_in_worker(path: str, data: bytes) -> Shown:
    assert _worker is not None
    return _worker.launches(path, data)


def _check_in_worker(item: Input, elsewhere: Sequence[Launch], listed: Collection[str]) -> Answer:
    assert _worker is not None
    return _worker.check(item, elsewhere, listed)
