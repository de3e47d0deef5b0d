"""From a suspect to a launch that shows it.

A model of the solver gives the launch, the extents, the scalars and perhaps the contents of read-only arrays; what it
leaves open gets plausible values (arrays as large as the launch, sizes no larger than the smallest array). The launch
runs in the executor, and only what the executor sees happen is a refutation, with the executor's own two threads.

Worked example: the model {blockDim.x: 2, gridDim.x: 2, out.size: 3} of an unguarded store becomes four threads on an
array of three elements; the executor reports index (3,) of `out` by thread (1, 0, 0) of block (1, 0, 0).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilecheck.frontend.launches import Launch
from tilecheck.interp.simt import SimtFault, SimtRun
from tilecheck.interp.simt import run as execute
from tilecheck.interp.simt_compile import Program, compile_kernel
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Kernel, ScalarParam, TensorParam
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.symbolic.smt_terms import Symbol, Term
from tilecheck.verify.entry import Entry
from tilecheck.verify.memory import integer_range
from tilecheck.verify.run import itemsize
from tilecheck.verify.suspects import Standing, Suspect, data_symbols
from tilecheck.verify.values import Array, View

Extents = tuple[int, int, int]
MOST_THREADS = 40_000
_MOST_ELEMENTS = 2_000_000
_MOST_STEPS = 400_000
# Elements behind a shared buffer's first window, for the other windows on it.
_SLACK = 4096
_KINDS = {
    "data-race": "race",
    "out-of-bounds": "out-of-bounds",
    "divergent-barrier": "divergent-barrier",
    "warp-sync": "warp-sync",
    "uninitialised-shared": "uninitialised-shared",
}
_PATTERNS = ("shown", "counting", "random", "ones", "negative", "zeros", "scalar")


@dataclass(frozen=True, slots=True)
class Trial:
    """A concrete launch: `extents` of every array parameter, `scalars`, bytes of dynamic shared memory."""

    grid: Extents
    block: Extents
    dynamic: int
    extents: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, object]
    pattern: str = "shown"

    @property
    def threads(self) -> int:
        total = 1
        for extent in (*self.grid, *self.block):
            total *= extent
        return total

    def shown(self) -> dict[str, object]:
        """The launch as a witness reports it."""
        made: dict[str, object] = {"grid": self.grid, "block": self.block}
        if self.dynamic:
            made["dynamic shared bytes"] = self.dynamic
        for name, extents in self.extents.items():
            made[f"{name}.shape"] = extents
        made.update(self.scalars)
        return made


@dataclass(frozen=True, slots=True)
class Seen:
    """What the executor saw, under which launch."""

    fault: SimtFault
    trial: Trial


class Replayer:
    """Runs launches of one kernel, each at most once; none is started after `deadline` (of `time.monotonic`)."""

    def __init__(self, kernel: Kernel, entry: Entry, launch: Launch | None, deadline: float) -> None:
        self.kernel = kernel
        self.deadline = deadline
        self.entry = entry
        self.launch = launch
        self._program: Program | None = None
        self._runs: dict[tuple[object, ...], SimtRun | None] = {}

    def replay(self, suspect: Suspect) -> Seen | None:
        """A launch in which the suspect happens, None if none was found.

        A suspect that the walk could not follow must happen whatever the arrays hold, or with the contents that the
        launch shows.
        """
        patterns: Sequence[str] = _PATTERNS
        if suspect.standing is Standing.LAUNCH:
            patterns = _PATTERNS[:2]
        elif suspect.standing is Standing.UNKNOWN and self._rests_on_contents(suspect):
            if not self._contents_shown():
                return None
            patterns = _PATTERNS[:1]
        elif suspect.standing is Standing.UNKNOWN:
            return self._whatever_the_contents(suspect)
        for trial in self._candidates(suspect, patterns):
            seen = self._happens(trial, suspect)
            if seen is not None:
                return seen
        return None

    def _happens(self, trial: Trial, suspect: Suspect) -> Seen | None:
        if time.monotonic() > self.deadline:
            return None
        outcome = self._run(trial, suspect)
        if outcome is None or outcome.inexact:
            return None
        names = self._names(suspect.array)
        for fault in outcome.faults:
            if fault.kind == _KINDS[suspect.rule] and self._is_it(fault, suspect, names):
                return Seen(fault, trial)
        return None

    def _whatever_the_contents(self, suspect: Suspect) -> Seen | None:
        found: Seen | None = None
        for pattern in ("shown", "random", "negative", "zeros"):
            trials = list(self._candidates(suspect, (pattern,)))
            found = next((seen for t in trials if (seen := self._happens(t, suspect)) is not None), None)
            if found is None:
                return None
        return found

    def _rests_on_contents(self, suspect: Suspect) -> bool:
        accesses = [a for a in (suspect.first, suspect.second) if a is not None]
        return any(data_symbols(access.index) for access in accesses)

    def _contents_shown(self) -> bool:
        """Whether the launch shows the contents of every array that the kernel takes indices from."""
        wanted = self.entry.run.usage.whole_numbers & {p.name for p in self.kernel.params if isinstance(p, TensorParam)}
        return all(self._argument_contents(name) is not None for name in wanted)

    def _names(self, array: Array | None) -> set[str]:
        if array is None:
            return set()
        arrays = self.entry.run.arrays
        return {array.name, *(name for name, other in arrays.items() if other is array)}

    def _is_it(self, fault: SimtFault, suspect: Suspect, names: set[str]) -> bool:
        if suspect.array is None:
            return any(party.node.span.line == suspect.node.span.line for party in fault.parties) or not fault.parties
        return fault.array in names and not fault.same_value

    # ---- launches to try

    def _candidates(self, suspect: Suspect, patterns: Sequence[str]) -> Iterator[Trial]:
        """The suspect's own launch, then a plain one, with each pattern of contents."""
        models: list[Mapping[Symbol, int]] = [suspect.model] if suspect.model is not None else []
        for values in [*models, {}]:
            for pattern in patterns:
                trial = self.trial(values, pattern)
                if trial is not None:
                    yield trial

    def trial(self, values: Mapping[Symbol, int], pattern: str) -> Trial | None:
        """The launch that `values` describe, completed; None if it is too large to run."""
        dims = self.entry.run.dims
        rank = sum(1 for t in dims.block if t.kind != "const")
        small = {0: 1, 1: 64, 2: 8, 3: 4}[rank]
        block = [_number(t, values, small) for t in dims.block]
        grid = [_number(t, values, 2) for t in dims.grid]
        total = 1
        for extent in (*block, *grid):
            total *= extent
        if total > MOST_THREADS:
            return None
        extents: dict[str, tuple[int, ...]] = {}
        per_axis = [b * g for b, g in zip(block, grid, strict=True)]
        for param in self.kernel.params:
            if isinstance(param, TensorParam):
                array = self._argument(param.name)
                shape = array.shape if array is not None else None
                terms = self._extents(param.name)
                made = []
                for axis, term in enumerate(terms):
                    known = shape[axis] if shape is not None and axis < len(shape) else None
                    default = total if len(terms) == 1 else max(per_axis[:2])
                    made.append(known if known is not None else _number(term, values, default))
                extents[param.name] = tuple(made)
                if int(np.prod(made)) > _MOST_ELEMENTS:
                    return None
        scalars = self._scalars(values, extents)
        return Trial(_three(grid), _three(block), self._dynamic(values), extents, scalars, pattern)

    def _argument(self, name: str) -> HostArray | None:
        value = self.launch.arguments.get(name) if self.launch is not None else None
        return value if isinstance(value, HostArray) else None

    def _extents(self, name: str) -> tuple[Term, ...]:
        view = self.entry.arguments[name]
        return tuple(axis.length for axis in view.free) if isinstance(view, View) else ()

    def _scalars(self, values: Mapping[Symbol, int], extents: Mapping[str, tuple[int, ...]]) -> dict[str, object]:
        smallest = min((e for shape in extents.values() for e in shape), default=8)
        made: dict[str, object] = {}
        for param in self.kernel.params:
            if not isinstance(param, ScalarParam):
                continue
            given = self.launch.arguments.get(param.name) if self.launch is not None else None
            term = self.entry.scalars.get(param.name)
            if isinstance(given, int | float):
                made[param.name] = given
            elif term is not None:
                made[param.name] = _number(term, values, smallest)
            else:
                made[param.name] = True if param.kind == "bool" else 1.5
        return made

    def _dynamic(self, values: Mapping[Symbol, int]) -> int:
        if self.launch is not None and self.launch.dynamic_shared is not None:
            return self.launch.dynamic_shared
        sizes = [0]
        for array in self.entry.run.arrays.values():
            if array.dynamic:
                sizes.append(_number(array.extents[0], values, 1024) * (itemsize(array.dtype) or 8))
        return min(max(sizes), 48 * 1024)

    # ---- running

    def _run(self, trial: Trial, suspect: Suspect) -> SimtRun | None:
        contents = tuple(sorted(self._model_contents(suspect).items())) if suspect.model is not None else ()
        sizes = tuple(trial.extents.items()), tuple(trial.scalars.items())
        key = (trial.grid, trial.block, trial.dynamic, *sizes, trial.pattern, contents)
        if key not in self._runs:
            self._runs[key] = self._execute(trial, dict(contents))
        return self._runs[key]

    def _execute(self, trial: Trial, contents: Mapping[tuple[str, tuple[int, ...]], int]) -> SimtRun | None:
        if self._program is None:
            self._program = compile_kernel(self.kernel)
        arguments: dict[str, object] = {}
        buffers: dict[int, np.ndarray[Any, Any]] = {}
        for param in self.kernel.params:
            if isinstance(param, TensorParam):
                arguments[param.name] = self._array(param.name, trial, contents, buffers)
            else:
                arguments[param.name] = trial.scalars[param.name]
        return execute(
            self._program, arguments, trial.grid, trial.block, dynamic_shared=trial.dynamic, max_steps=_MOST_STEPS
        )

    def _array(
        self,
        name: str,
        trial: Trial,
        contents: Mapping[tuple[str, tuple[int, ...]], int],
        buffers: dict[int, np.ndarray[Any, Any]],
    ) -> np.ndarray[Any, Any]:
        shape = trial.extents[name]
        seen = self._argument(name)
        array = self.entry.run.arrays[name]
        dtype = array.dtype or ("int64" if array.whole_numbers else "float64")
        if seen is not None and not seen.host:
            window = _window(seen, shape, dtype, trial.pattern, buffers)
            if window is not None:
                return window
        made = filled(shape, dtype, trial.pattern, seen, trial.scalars)
        for (owner, index), value in contents.items():
            if (
                owner == name
                and len(index) == len(shape)
                and all(0 <= i < n for i, n in zip(index, shape, strict=True))
            ):
                made[index] = value
        return made

    def _model_contents(self, suspect: Suspect) -> dict[tuple[str, tuple[int, ...]], int]:
        """The elements of read-only arrays that the model fixes."""
        model, question = suspect.model, suspect.question
        made: dict[tuple[str, tuple[int, ...]], int] = {}
        if model is None or question is None:
            return made
        for symbol in question.first:
            applied = symbol.applied
            if applied is None or not applied.function.startswith("load ") or symbol not in model:
                continue
            name = applied.function.removeprefix("load ")
            array = self.entry.run.arrays.get(name)
            if array is not None and _holds_integers(array) and self._argument_contents(name) is None:
                try:
                    made[(name, tuple(evaluate(a, model) for a in applied.arguments))] = model[symbol]
                except (KeyError, ZeroDivisionError):
                    continue
        return made

    def _argument_contents(self, name: str) -> object:
        seen = self._argument(name)
        return seen.contents if seen is not None else None


def _holds_integers(array: Array) -> bool:
    return array.whole_numbers or integer_range(array.dtype) is not None


def _number(term: Term, values: Mapping[Symbol, int], default: int) -> int:
    try:
        return evaluate(term, values)
    except (KeyError, ZeroDivisionError):
        low = term.low if term.low is not None else 0
        high = term.high if term.high is not None else default
        return min(max(default, low), high)


def _three(values: Sequence[int]) -> Extents:
    return values[0], values[1], values[2]


def filled(
    shape: tuple[int, ...], dtype: str, pattern: str, seen: HostArray | None, scalars: Mapping[str, object]
) -> np.ndarray[Any, Any]:
    """An array with the contents that host code shows, else with a pattern (`scalar`: a scalar of the launch)."""
    size = int(np.prod(shape)) if shape else 1
    kind = np.dtype(dtype)
    contents = seen.contents if seen is not None else None
    if contents is not None:
        if contents.values is not None and len(contents.values) == size:
            return np.array(contents.values).astype(kind).reshape(shape)
        if contents.values is None:
            return (contents.start + contents.step * np.arange(size)).astype(kind).reshape(shape)
    if pattern == "scalar":
        value = next((v for v in scalars.values() if isinstance(v, int | float)), 3)
        return np.full(shape, value).astype(kind)
    if pattern == "zeros":
        return np.zeros(shape, kind)
    if pattern == "ones":
        return np.ones(shape, kind)
    if pattern == "negative":
        return (-1 - np.arange(size) % 7).astype(kind).reshape(shape)
    if pattern == "random":
        return np.random.default_rng(7).integers(0, max(2, size), size).astype(kind).reshape(shape)
    return (np.arange(size) + 1).astype(kind).reshape(shape)


def _window(
    seen: HostArray, shape: tuple[int, ...], dtype: str, pattern: str, buffers: dict[int, np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any] | None:
    """A view of the buffer that arguments share, None if its place in the buffer is not known."""
    steps = seen.steps() if seen.shape is not None else ()
    if seen.offset is None or any(step is None for step in steps) or len(steps) != len(shape):
        return None
    strides = [step for step in steps if step is not None]
    if any(step < 0 for step in strides):
        return None
    reach = seen.offset + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + 1
    buffer = buffers.get(seen.buffer)
    if buffer is None or buffer.size < reach or buffer.dtype != np.dtype(dtype):
        if buffer is not None:
            return None
        buffer = filled((reach + _SLACK,), dtype, pattern, None, {})
        buffers[seen.buffer] = buffer
    width = buffer.itemsize
    return np.lib.stride_tricks.as_strided(buffer[seen.offset :], shape, [step * width for step in strides])
