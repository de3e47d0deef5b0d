"""From a checked launch to a compiled kernel: what is part of the key, and nothing else.

The key is the kernel's report (one object per kernel and extents), the facts of each array (dtype, unit stride, alignment,
power-of-two divisors of extents), the map shapes, whether the grid has one axis, and the device's architecture. Data,
float scalars, grid, strides and extents themselves are not in it. One compilation per key, also when several threads ask
at once; a failed one is not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilecheck.ir.kernel import TensorParam
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Grid, Launch, Strided
from tilecheck_runtime.backends.numba_cuda.compile import Binary, build
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.driver import Device, Function
from tilecheck_runtime.errors import LaunchRefused


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled and loaded kernel."""

    lowered: Lowered
    binary: Binary
    function: Function

    @property
    def checks(self) -> bool:
        """Whether a check remains in the kernel."""
        return self.lowered.checks

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel; `record` is the address of its fault record."""
        values: list[int | float] = []
        for param in work.report.kernel.params:
            value = work.arguments[param.name]
            if isinstance(value, Strided):
                size = value.dtype.numpy().itemsize
                values += [value.address, *value.shape, *(s // size for s in value.strides)]
            else:
                values.append(value)  # type: ignore[arg-type]
        blocks = work.grid[0] * work.grid[1] * work.grid[2]
        packed = self.function.pack(self.lowered.formats, [*values, *work.grid, record])
        packed.launch((blocks, 1, 1), (self.lowered.threads, 1, 1), self.lowered.shared, stream)


_lock = threading.Lock()
_cache: dict[Any, Ready] = {}
_building: dict[Any, threading.Lock] = {}


def facts_of(report: TileReport, arguments: Mapping[str, object]) -> dict[str, Facts]:
    """What the code may rely on for each array of a launch."""
    facts: dict[str, Facts] = {}
    for param in report.kernel.params:
        value = arguments[param.name]
        if isinstance(param, TensorParam) and isinstance(value, Strided):
            size = value.dtype.numpy().itemsize
            facts[param.name] = Facts.of(
                value.dtype.name, value.address, value.shape, (s // size for s in value.strides)
            )
    return facts


def compile_for(
    report: TileReport,
    dims: Mapping[str, int],
    facts: Mapping[str, Facts],
    maps: Mapping[str, tuple[int, ...]],
    line_grid: bool,
    capability: tuple[int, int],
) -> tuple[Lowered, Binary]:
    """Generate and compile one specialisation; needs no GPU."""
    lowered = lower(report.kernel, report.types, dims, facts, maps=maps, line_grid=line_grid)
    binary = build(
        lowered.name,
        lowered.source,
        lowered.namespace,
        lowered.formats,
        lowered.threads,
        capability,
        blocks_per_multiprocessor=lowered.resident,
    )
    return lowered, binary


def prepare(device: Device, work: Launch) -> Ready:
    """The compiled kernel for `work`, from the cache if its key is there. Raises `LaunchRefused` where the device's
    limits cannot hold it.
    """
    facts = facts_of(work.report, work.arguments)
    maps: dict[str, tuple[int, ...]] = dict(work.maps)
    line = work.grid[1] == work.grid[2] == 1
    key = (id(work.report), tuple(facts.items()), tuple(maps.items()), line, device.ordinal)
    found = _cache.get(key)
    if found is not None:
        return found
    with _lock:
        gate = _building.setdefault(key, threading.Lock())
    with gate:
        found = _cache.get(key)
        if found is None:
            found = _build(device, work, facts, maps, line)
            _cache[key] = found
    with _lock:
        _building.pop(key, None)
    return found


def _build(
    device: Device, work: Launch, facts: Mapping[str, Facts], maps: Mapping[str, tuple[int, ...]], line: bool
) -> Ready:
    lowered, binary = compile_for(work.report, work.dims, facts, maps, line, device.capability)
    limit = device.limits.shared_opt_in
    if lowered.shared > limit:
        raise LaunchRefused(
            f"`{lowered.name}` needs {lowered.shared} bytes of shared memory a block, {device.name} has {limit}",
            "use smaller tiles",
        )
    _grid(work.grid, device)
    function = device.load(binary.image, binary.entry)
    if lowered.shared > device.limits.shared_per_block:
        function.allow_shared(lowered.shared)
    return Ready(lowered, binary, function)


def _grid(grid: Grid, device: Device) -> None:
    blocks = grid[0] * grid[1] * grid[2]
    if blocks > device.limits.grid[0]:
        raise LaunchRefused(
            f"a grid of {grid[0]} x {grid[1]} x {grid[2]} = {blocks} blocks exceeds the {device.limits.grid[0]} of the device",
            "use larger tiles",
        )
