"""Replays a counterexample: does the fault really happen in the launch that the solver found?

A `Scenario` is a concrete launch: extents, scalars, and what is known of array contents. What is not known is tried in
a few ways (zeros, ones, small counting numbers, random small numbers), each under its own schedule. Contents keep what
`requires` says of them, and a launch that breaks `requires` is not run: it would be refused. Only a fault that the
executor shows is a refutation; the executor's own parties, lines and index are what gets reported.

Worked example: for `x[0] = threadIdx.x` and `Scenario(grid=(1, 1, 1), block=(2, 1, 1), shapes={"x": (1,)})`,
`replay(kernel, scenario, "race")` gives the race of threads (0, 0, 0) and (1, 0, 0) on `x[0]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilecheck.diagnostic import Witness
from tilecheck.interp import contents
from tilecheck.interp.simt import Extents, Kind, SimtFault, SimtRun, run
from tilecheck.interp.simt_compile import Program, compile_kernel
from tilecheck.interp.simt_machine import host_values
from tilecheck.ir.host_array import Contents, HostArray
from tilecheck.ir.kernel import Kernel, Node, ScalarParam, TensorParam
from tilecheck.symbolic.contents import ElementFact
from tilecheck.symbolic.linear import Atom, LaunchAxis, Unresolved
from tilecheck.symbolic.requires import Comparison, comparisons, element_facts
from tilecheck.verify.known import shown_facts
from tilecheck.verify.tile_conditions import resolver

Number = int | float | bool
# A larger launch is replayed by its first and last blocks, as the beginning of a run.
_MAX_THREADS = 20_000
_SAMPLED_THREADS = 2_048
# The ways in which unknown contents are filled, see `filled`.
FILLS = 6
_MAX_ELEMENTS = 1 << 26
# Of a larger array only the first and the last elements are filled; the rest stays 0 and takes no memory.
_FILLED = 1 << 18
_MAX_STEPS = 200_000
# Elements of an array that a report shows.
_SHOWN = 8
_LONG_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "float32", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A concrete launch.

    `shapes` has an entry per array parameter. `arrays` are host facts: dtype, contents, and which arguments share a
    buffer. `elements` are single elements that matter, by array and index; `scalars` are the scalar parameters (0 if
    absent), `constants` unread constants of the enclosing Python scope. `dynamic_shared` is in bytes. `suspected` are the
    blocks that must run when not all of them can.
    """

    grid: Extents
    block: Extents
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    scalars: Mapping[str, Number] = field(default_factory=dict)
    arrays: Mapping[str, HostArray] = field(default_factory=dict)
    elements: Mapping[str, Mapping[tuple[int, ...], Number]] = field(default_factory=dict)
    constants: Mapping[str, Number] = field(default_factory=dict)
    dynamic_shared: int = 0
    suspected: tuple[Extents, ...] = ()

    @property
    def threads(self) -> int:
        """The number of threads of the launch."""
        return math.prod(self.grid) * math.prod(self.block)

    @property
    def replayable(self) -> bool:
        """Whether the launch is small enough to run, if need be by some of its blocks."""
        elements = sum(math.prod(shape) for shape in self.shapes.values())
        return self.threads > 0 and math.prod(self.block) <= _SAMPLED_THREADS and elements <= _MAX_ELEMENTS

    def sample(self) -> tuple[int, ...] | None:
        """The blocks that stand for a large launch, None for all: those suspected, then corners, neighbours along every
        axis, both ends.
        """
        if self.threads <= _MAX_THREADS:
            return None
        x, y, z = self.grid
        total, most = x * y * z, max(4, _SAMPLED_THREADS // math.prod(self.block))
        corners = [a + b * x + c * x * y for c in (0, z - 1) for b in (0, y - 1) for a in (0, x - 1)]
        neighbours = [corner + step for step in (1, x, x * y, -1, -x, -x * y) for corner in (0, total - 1)]
        ends = [number for k in range(most) for number in (k, total - 1 - k)]
        suspected = [a + b * x + c * x * y for a, b, c in self.suspected]
        chosen = dict.fromkeys(n for n in (*suspected, *corners[::7], *neighbours, *corners, *ends) if 0 <= n < total)
        return tuple(chosen)[:most]


def replay(
    kernel: Kernel | Program,
    scenario: Scenario,
    kind: Kind,
    *,
    array: str | None = None,
    nodes: Collection[Node] = (),
    attempts: int = 4,
    same_value: bool = False,
) -> SimtFault | None:
    """The fault of `kind` that a run of `scenario` shows, None if none does.

    With `array` or `nodes` (the accesses or barriers suspected) a fault on just those is preferred, and one on the
    array is required. Races of equal values count only with `same_value`. A scenario too big to run gives None.
    """
    if not scenario.replayable:
        return None
    program = kernel if isinstance(kernel, Program) else compile_kernel(kernel)
    best: SimtFault | None = None
    wanted = set(nodes)
    for attempt in range(attempts):
        result = run_once(program, scenario, attempt)
        for fault in result.of(kind):
            if fault.same_value and not same_value:
                continue
            if wanted and {party.node for party in fault.parties} <= wanted:
                return fault
            if array is None or fault.array == array:
                best = best if best is not None else fault
        if best is not None and not wanted:
            return best
    return best


def run_once(program: Program, scenario: Scenario, attempt: int, deadline: float | None = None) -> SimtRun:
    """One run of `scenario`; `attempt` picks the schedule and how unknown contents are filled.

    A large launch runs by some of its blocks; with a grid barrier it cannot, and shows nothing.
    """
    blocks = scenario.sample()
    if blocks is not None and program.meets_grid:
        return SimtRun((), ("a grid barrier among too many threads",))
    arguments = _arguments(program.kernel, scenario, attempt)
    if arguments is None:
        return SimtRun((), ("a launch that `requires` refuses",))
    return run(
        program,
        arguments,
        scenario.grid,
        scenario.block,
        dynamic_shared=scenario.dynamic_shared,
        seed=attempt,
        constants=dict(scenario.constants),
        max_steps=_MAX_STEPS,
        blocks=blocks,
        deadline=deadline,
    )


def witness(fault: SimtFault, scenario: Scenario) -> Witness:
    """The counterexample as it is reported."""
    launch: dict[str, object] = {"grid": scenario.grid, "block": scenario.block}
    launch.update({f"{name}.shape": shape for name, shape in scenario.shapes.items()})
    launch.update(scenario.scalars)
    if scenario.dynamic_shared:
        launch["dynamic_shared"] = scenario.dynamic_shared
    threads = tuple(str(party) for party in fault.parties)
    return Witness(launch, threads, fault.array or "", fault.index, fault.lines)


def elements_of(kernel: Kernel, scenario: Scenario, attempt: int, names: Sequence[str]) -> dict[str, str]:
    """The first elements of arrays, in words, as the run of `attempt` begins with them."""
    values = (_arguments(kernel, scenario, attempt) if names else None) or {}
    shown: dict[str, str] = {}
    for name in names:
        array = values.get(name)
        if isinstance(array, np.ndarray):
            first = ", ".join(str(element) for element in array.ravel()[:_SHOWN].tolist())
            shown[name] = f"[{first}{', ...' if array.size > _SHOWN else ''}]"
    return shown


# ---- arguments


def _arguments(kernel: Kernel, scenario: Scenario, attempt: int) -> dict[str, object] | None:
    """Values for all parameters; `attempt` picks how unknown contents are filled. None if they break `requires`."""
    value = scenario_values(scenario)
    if any(_broken(comparison, value) for comparison in comparisons(kernel)):
        return None
    facts: dict[str, tuple[ElementFact, ...]] = {}
    for fact in (
        *element_facts(kernel),
        *(f for name, seen in scenario.arrays.items() for f in shown_facts(name, seen)),
    ):
        facts[fact.array] = (*facts.get(fact.array, ()), fact)
    buffers = _Buffers(_reaches(scenario))
    values: dict[str, object] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for param in kernel.params:
        if param.name in scenario.shapes:
            array = _array(param.name, param, scenario, attempt, buffers)
            stated = facts.get(param.name, ())
            try:
                _fill(array, stated, value, param.name, scenario, attempt)
            except Unresolved:
                return None
            values[param.name] = arrays[param.name] = array
        elif isinstance(param, ScalarParam):
            values[param.name] = scenario.scalars.get(param.name, 0)
        else:
            values[param.name] = scenario.scalars.get(param.name, np.zeros(0))
    kept = all(name not in arrays or contents.kept(stated, arrays[name], value) for name, stated in facts.items())
    return values if kept else None


def scenario_values(scenario: Scenario) -> Callable[[Atom], int]:
    """What the atoms of conditions are in a scenario."""
    rest = resolver(scenario.shapes, scenario.scalars, {}, scenario.grid)

    def value(atom: Atom) -> int:
        if isinstance(atom, LaunchAxis) and atom.kind == "blockDim":
            return scenario.block[atom.axis]
        return rest(atom)

    return value


def _broken(comparison: Comparison, value: Callable[[Atom], int]) -> bool:
    """Whether a scenario surely breaks a condition."""
    try:
        return not comparison.holds(value)
    except Unresolved:
        return False


def _fill(
    array: np.ndarray[Any, Any],
    facts: Sequence[ElementFact],
    value: Callable[[Atom], int],
    name: str,
    scenario: Scenario,
    attempt: int,
) -> None:
    """Give an array contents that keep `facts`, unless a launch shows them, and the elements that matter."""
    known = scenario.arrays.get(name)
    shown = known is not None and isinstance(known.contents, Contents)
    if facts and not shown and not contents.kept(facts, array, value):
        array[...] = contents.made(facts, array, value, attempt)
    for index, element in scenario.elements.get(name, {}).items():
        if len(index) == array.ndim and all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
            contents.put(facts, array, index, element)


def _array(
    name: str,
    param: TensorParam | ScalarParam,
    scenario: Scenario,
    attempt: int,
    buffers: _Buffers,
) -> np.ndarray[Any, Any]:
    shape = scenario.shapes[name]
    known = scenario.arrays.get(name)
    dtype = _dtype(param, known, attempt)
    shared = known is not None and not known.host and _placed(known)
    if known is not None and shared:
        array = _window(known, dtype, shape, attempt, buffers)
    else:
        given = host_values(known) if known is not None and known.shape == shape else None
        array = given if given is not None else filled(shape, dtype, attempt, scenario.scalars, name)
    return array


def _placed(known: HostArray) -> bool:
    """Whether the place of an array in its buffer is known."""
    return known.shape is not None and known.offset is not None and None not in (*known.shape, *known.steps())


@dataclass(slots=True)
class _Buffers:
    """The device buffers of a scenario: how far each is reached, in elements, and those made so far."""

    reaches: dict[int, int]
    made: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)


def _reaches(scenario: Scenario) -> dict[int, int]:
    reaches: dict[int, int] = {}
    for name, known in scenario.arrays.items():
        if name in scenario.shapes and _placed(known):
            steps = [int(step or 0) for step in known.steps()]
            last = sum(max(0, (n - 1) * step) for n, step in zip(scenario.shapes[name], steps, strict=False))
            reaches[known.buffer] = max(reaches.get(known.buffer, 1), int(known.offset or 0) + last + 1)
    return reaches


def _window(
    known: HostArray, dtype: np.dtype[Any], shape: tuple[int, ...], attempt: int, buffers: _Buffers
) -> np.ndarray[Any, Any]:
    """A strided view of the buffer that all arguments of one device array share."""
    buffer = buffers.made.get(known.buffer)
    if buffer is None or buffer.dtype != dtype:
        reach = buffers.reaches[known.buffer]
        given = host_values(known) if known.contiguous() and known.shape == shape and known.offset == 0 else None
        if given is not None and given.size == reach and given.dtype == dtype:
            buffer = given.ravel()
        else:
            buffer = filled((reach,), dtype, attempt, {})
            if given is not None:
                buffer[: given.size] = given.ravel()
        buffers.made[known.buffer] = buffer
    strides = tuple(int(step or 0) * buffer.itemsize for step in known.steps())
    return np.lib.stride_tricks.as_strided(buffer[int(known.offset or 0) :], shape, strides)


def _dtype(param: TensorParam | ScalarParam, known: HostArray | None, attempt: int) -> np.dtype[Any]:
    if known is not None and known.dtype is not None:
        return np.dtype("float32" if known.dtype == "bfloat16" else known.dtype)
    short = param.dtype if isinstance(param, TensorParam) else None
    if short is not None:
        kinds = {"i": "int", "u": "uint"}
        long = f"{kinds[short[0]]}{short[1:]}" if short[0] in kinds and short[1:].isdigit() else short
        return np.dtype(_LONG_DTYPES.get(short, long))
    return np.dtype("int64" if attempt % 2 == 0 else "float64")


def filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], attempt: int, scalars: Mapping[str, Number], name: str = ""
) -> np.ndarray[Any, Any]:
    """An array of unknown contents, filled in the way of `attempt`: counting, zeros, ones, random small numbers, others
    for each `name`, negative numbers, a scalar of the launch.
    """
    size = math.prod(shape)
    if size > _FILLED:
        large = np.zeros(size, dtype)
        end = _FILLED // 2
        large[:end] = filled((end,), dtype, attempt, scalars, name)
        large[-end:] = filled((end,), dtype, attempt, scalars, name)
        return large.reshape(shape)
    way = attempt % FILLS
    if dtype.names is not None or way == 1:
        return np.zeros(shape, dtype)
    if way == 0:
        return (np.arange(size) % 7).astype(dtype).reshape(shape)
    if way == 2:
        return np.ones(shape, dtype)
    if way == 4:
        return (-1 - np.arange(size) % 7).astype(dtype).reshape(shape)
    if way == 5:
        return np.full(shape, next(iter(scalars.values()), 3)).astype(dtype)
    return np.random.default_rng([attempt, *name.encode()]).integers(0, 8, size).astype(dtype).reshape(shape)
