"""From a suspect to a launch that shows it.

A model of the solver gives the launch, the extents, the scalars and perhaps the contents of read-only arrays; what it
leaves open gets plausible values (arrays as large as the launch, sizes no larger than the smallest array). The launch
is replayed in the executor, and only what the executor sees happen is a refutation, with the executor's own threads.

Worked example: the model {blockDim.x: 2, gridDim.x: 2, out.size: 3} of an unguarded store becomes four threads on an
array of three elements; the executor reports index (3,) of `out` by thread (1, 0, 0) of block (1, 0, 0).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilecheck.diagnostic import Witness
from tilecheck.frontend.launches import Launch
from tilecheck.interp.simt import Kind, SimtFault, SimtRun
from tilecheck.interp.simt_compile import Program, compile_kernel
from tilecheck.ir.host_array import Contents, HostArray
from tilecheck.ir.kernel import Kernel, ScalarParam, TensorParam
from tilecheck.symbolic.smt_nodes import Symbol, Term
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.verify.cutile import STORED, thinned, writes_only
from tilecheck.verify.entry import Entry
from tilecheck.verify.replay import FILLS, Number, Scenario, elements_of, run_once, witness
from tilecheck.verify.run import itemsize
from tilecheck.verify.suspects import Standing, Suspect, data_symbols, positions, sources
from tilecheck.verify.values import Array, View
from tilecheck.verify.widths import integer_range

_KINDS: Mapping[str, Kind] = {
    "data-race": "race",
    "out-of-bounds": "out-of-bounds",
    "divergent-barrier": "divergent-barrier",
    "warp-sync": "warp-sync",
    "uninitialised-shared": "uninitialised-shared",
}
_SMALL_BLOCK = {0: 1, 1: 64, 2: 8, 3: 4}
_SMALL_GRID = 2
_DYNAMIC_BYTES = 48 * 1024
# Fills that differ enough to say "whatever the arrays hold": counting, random, negative, zeros.
_DIFFERENT_FILLS = (0, 3, 4, 1)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the executor saw, under which launch."""

    fault: SimtFault
    scenario: Scenario
    elements: Mapping[str, str] = field(default_factory=dict)

    def witness(self) -> Witness:
        """The counterexample as it is reported, with elements of arrays where it takes those."""
        made = witness(self.fault, self.scenario)
        return replace(made, launch={**made.launch, **self.elements})


class Replayer:
    """Replays suspects of one kernel; no run is started after `deadline` (of `time.process_time`)."""

    def __init__(self, kernel: Kernel, entry: Entry, launch: Launch | None, deadline: float) -> None:
        self.kernel = kernel
        self.entry = entry
        self.launch = launch
        self.deadline = deadline
        self._program: Program | None = None
        self._runs: list[tuple[Scenario, int, SimtRun]] = []

    def replay(self, suspect: Suspect) -> Seen | None:
        """A launch in which the suspect happens, None if none was found.

        A suspect that the walk could not follow must happen whatever the arrays hold, or with the contents that the
        launch shows.
        """
        unread = {term.symbol for term in self.entry.run.constants.values()}
        if suspect.question is not None and unread & set(suspect.question.first):
            return None
        if suspect.standing is not Standing.UNKNOWN:
            fills = range(2) if suspect.standing is Standing.LAUNCH else range(FILLS)
            return next(self._sightings(suspect, fills), None)
        if self._rests_on_contents(suspect):
            return next(self._sightings(suspect, range(1)), None) if self._contents_shown() else None
        found: Seen | None = None
        for fill in _DIFFERENT_FILLS:
            found = next(self._sightings(suspect, (fill,)), None)
            if found is None:
                return None
        return found

    def _sightings(self, suspect: Suspect, fills: Sequence[int]) -> Iterator[Seen]:
        """The suspect's own launch, then a plain one, with each way to fill the arrays."""
        models: list[Mapping[Symbol, int]] = [suspect.model] if suspect.model is not None else []
        scenarios = [self.scenario(values, suspect) for values in [*models, {}]]
        if suspect.standing is Standing.LAUNCH:
            # Whatever the arrays hold, so the contents shown need not be those that tell two writes apart.
            scenarios += [
                replace(s, arrays={n: replace(a, contents=None) for n, a in s.arrays.items()}) for s in scenarios
            ]
        for scenario in scenarios:
            for fill in fills if scenario.replayable else ():
                outcome = self._run(scenario, fill)
                if outcome is None or (outcome.inexact and not self._values_only(suspect, outcome)):
                    continue
                for fault in outcome.of(_KINDS[suspect.rule]):
                    if self._is_it(fault, suspect, bool(outcome.inexact)):
                        yield Seen(fault, scenario, self._shown(suspect, scenario, fill))

    def _shown(self, suspect: Suspect, scenario: Scenario, fill: int) -> dict[str, str]:
        """The first elements of the arrays that a data-dependent suspect takes its places from."""
        accesses = [a for a in (suspect.first, suspect.second) if a is not None]
        wanted = (
            sources([*positions(accesses), *(a.guard for a in accesses)]) if suspect.standing is Standing.DATA else ()
        )
        read = {name for name in wanted if name in scenario.shapes and name in self.entry.run.usage.whole_numbers}
        return elements_of(self.kernel, scenario, fill, sorted(read - self.entry.run.usage.written))

    def _values_only(self, suspect: Suspect, outcome: SimtRun) -> bool:
        """Whether what the executor could not follow are values that play no part in the suspect."""
        if self.kernel.track == "cutile" and STORED.issuperset(outcome.inexact) and writes_only(self.kernel):
            return True
        gaps = self.entry.run.gaps
        return suspect.standing is Standing.LAUNCH and not any(suspect.property in gap.properties for gap in gaps)

    def _is_it(self, fault: SimtFault, suspect: Suspect, inexact: bool) -> bool:
        if suspect.array is None:
            lines = {party.node.span.line for party in fault.parties}
            return not lines or suspect.node.span.line in lines
        arrays = self.entry.run.arrays
        names = {suspect.array.name, *(name for name, other in arrays.items() if other is suspect.array)}
        return fault.array in names and (inexact or not fault.same_value)

    def _rests_on_contents(self, suspect: Suspect) -> bool:
        accesses = [a for a in (suspect.first, suspect.second) if a is not None]
        return any(data_symbols(access.index) for access in accesses)

    def _contents_shown(self) -> bool:
        """Whether the launch shows the contents of every array that the kernel takes indices from."""
        wanted = self.entry.run.usage.whole_numbers & {p.name for p in self.kernel.params if isinstance(p, TensorParam)}
        return all(
            (seen := self._argument(name)) is not None and isinstance(seen.contents, Contents) for name in wanted
        )

    def _run(self, scenario: Scenario, fill: int) -> SimtRun | None:
        for known, way, outcome in self._runs:
            if way == fill and known == scenario:
                return outcome
        if time.process_time() > self.deadline:
            return None
        if self._program is None:
            self._program = compile_kernel(thinned(self.kernel) if self.kernel.track == "cutile" else self.kernel)
        outcome = run_once(self._program, scenario, fill, self.deadline)
        self._runs.append((scenario, fill, outcome))
        return outcome

    # ---- launches

    def scenario(self, values: Mapping[Symbol, int], suspect: Suspect) -> Scenario:
        """The launch that `values` describe, completed."""
        dims = self.entry.run.dims
        small = _SMALL_BLOCK[sum(1 for t in dims.block if t.kind != "const")]
        block = [_number(t, values, small) for t in dims.block]
        grid = [_number(t, values, _SMALL_GRID) for t in dims.grid]
        threads = math.prod(block) * math.prod(grid)
        widest = max(b * g for b, g in zip(block, grid, strict=True))
        shapes: dict[str, tuple[int, ...]] = {}
        arrays: dict[str, HostArray] = {}
        for param in self.kernel.params:
            if not isinstance(param, TensorParam):
                continue
            seen = self._argument(param.name)
            terms = self._extents(param.name)
            default = threads if len(terms) == 1 else widest
            shapes[param.name] = tuple(_number(term, values, default) for term in terms)
            arrays[param.name] = self._facts(param.name, seen)
        return Scenario(
            (grid[0], grid[1], grid[2]),
            (block[0], block[1], block[2]),
            shapes,
            self._scalars(values, shapes),
            arrays,
            self._elements(values, suspect),
            {name: _number(term, values, 4) for name, term in self.entry.run.constants.items()},
            self._dynamic(values),
            self._blocks(values, suspect),
        )

    def _blocks(self, values: Mapping[Symbol, int], suspect: Suspect) -> tuple[tuple[int, int, int], ...]:
        """The blocks of the one or two threads that `values` speak of."""
        x, y, z = self.entry.run.dims.at
        twin = suspect.question.twin if suspect.question is not None else None
        places = [(x, y, z)] if twin is None else [(x, y, z), (twin.of(x), twin.of(y), twin.of(z))]
        return tuple((_number(a, values, 0), _number(b, values, 0), _number(c, values, 0)) for a, b, c in places)

    def _argument(self, name: str) -> HostArray | None:
        value = self.launch.arguments.get(name) if self.launch is not None else None
        return value if isinstance(value, HostArray) else None

    def _facts(self, name: str, seen: HostArray | None) -> HostArray:
        """What is known of an array argument, its dtype guessed from its use where nothing says it."""
        array = self.entry.run.arrays[name]
        dtype = array.dtype or ("int64" if array.whole_numbers else "float64")
        if seen is None:
            return HostArray(None, dtype, buffer=-1)
        return (
            seen
            if seen.dtype is not None
            else HostArray(seen.shape, dtype, seen.contents, seen.host, seen.buffer, seen.offset, seen.strides)
        )

    def _extents(self, name: str) -> tuple[Term, ...]:
        view = self.entry.arguments[name]
        return tuple(axis.length for axis in view.free) if isinstance(view, View) else ()

    def _scalars(self, values: Mapping[Symbol, int], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Number]:
        smallest = min((e for shape in shapes.values() for e in shape), default=8)
        made: dict[str, Number] = {}
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
        return min(max(sizes), _DYNAMIC_BYTES)

    def _elements(self, model: Mapping[Symbol, int], suspect: Suspect) -> dict[str, dict[tuple[int, ...], Number]]:
        """The integers that the model reads from arrays which the kernel does not write."""
        made: dict[str, dict[tuple[int, ...], Number]] = {}
        for symbol in suspect.question.first if suspect.question is not None else ():
            applied = symbol.applied
            if applied is None or not applied.function.startswith("load ") or symbol not in model:
                continue
            name = applied.function.removeprefix("load ")
            array, seen = self.entry.run.arrays.get(name), self._argument(name)
            if (
                array is None
                or not _holds_integers(array)
                or (seen is not None and isinstance(seen.contents, Contents))
            ):
                continue
            try:
                place = tuple(evaluate(a, model) for a in applied.arguments)
            except (KeyError, ZeroDivisionError):
                continue
            made.setdefault(name, {})[place] = model[symbol]
        return made


def _holds_integers(array: Array) -> bool:
    return array.whole_numbers or integer_range(array.dtype) is not None


def _number(term: Term, values: Mapping[Symbol, int], default: int) -> int:
    try:
        return evaluate(term, values)
    except (KeyError, ZeroDivisionError):
        low = term.low if term.low is not None else 0
        high = term.high if term.high is not None else default
        return min(max(default, low), high)
