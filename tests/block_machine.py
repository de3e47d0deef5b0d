"""Runs a whole generated kernel, block after block, without a GPU and without numba.

The generated module is Python: its scalars are numbers, its control flow is the same in all threads of a block, and each
intrinsic is one run of a `Machine` that lives as long as the block. So what is tested is the text and the intrinsics
together: which stage a copy goes to, which round waits for it, who stores what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from tests.warp_machine import Build, Machine
from tilecheck.ir.kernel import TensorParam
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends.numba_cuda import source
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.backends.numba_cuda.registers import I1, I64, llvm_type

Array = npt.NDArray[Any]
_DTYPES = {"float16": "f16", "float32": "f32"}
_GAP = 4096


@dataclass(frozen=True)
class Intrinsic:
    """What stands in the module for one op: `result` is the dtype and the number of registers."""

    result: tuple[str, int] | None
    build: Build


@dataclass(frozen=True)
class Tile:
    """Registers of a tile: a value per thread each."""

    dtype: str
    registers: tuple[Array, ...]

    def __getitem__(self, slot: int) -> int | float:
        return one(self.registers[slot])


def one(values: Array) -> int | float:
    """What all threads agree on."""
    assert len(set(values.tolist())) == 1
    found: int | float = values[0].item()
    return found


def lowered(monkeypatch: pytest.MonkeyPatch, report: TileReport, facts: Mapping[str, Facts], **more: Any) -> Lowered:
    """The generated module with intrinsics that `Block` runs."""
    monkeypatch.setattr(source, "tile_intrinsic", lambda name, arity, result, build: Intrinsic(result, build))
    return lower(report, facts, **more)


class Memory:
    """Arrays in global memory, apart from each other, so that no access finds another array by mistake."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.addresses: dict[str, int] = {}
        end = _GAP
        for name, array in arrays.items():
            self.addresses[name] = end
            end = (end + array.nbytes + 2 * _GAP) // _GAP * _GAP
        self.bytes = bytearray(end)
        for name, array in arrays.items():
            self.bytes[self.addresses[name] : self.addresses[name] + array.nbytes] = array.tobytes("A")

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(start, start + self.arrays[name].nbytes) for name, start in self.addresses.items()]

    def facts(self) -> dict[str, Facts]:
        return {
            name: Facts.of(_DTYPES[array.dtype.name], self.addresses[name], array.shape, strides(array))
            for name, array in self.arrays.items()
        }


def strides(array: Array) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def run(
    report: TileReport,
    code: Lowered,
    memory: Memory,
    scalars: Mapping[str, Any],
    grid: Sequence[int],
    *,
    late: frozenset[str],
) -> dict[str, Array]:
    """The arrays after a launch. `late`: what happens as late as it may, see `TensorCores`."""
    values: list[Any] = []
    for param in report.kernel.params:
        if isinstance(param, TensorParam):
            array = memory.arrays[param.name]
            values += [memory.addresses[param.name], *array.shape, *strides(array)]
        else:
            values.append(scalars[param.name])
    data = bytes(memory.bytes)
    for block in range(grid[0] * grid[1] * grid[2]):
        at = SimpleNamespace(x=block % grid[0], y=block // grid[0] % grid[1], z=block // grid[0] // grid[1])
        machine = Machine(code.threads, code.shared, data, late=late, ranges=memory.ranges)
        scope = {name: _callable(machine, value) for name, value in code.namespace.items()}
        scope |= {
            "cuda": SimpleNamespace(blockIdx=SimpleNamespace(x=block) if code.in_row else at),
            "int64": int,
            "float64": float,
        }
        exec(code.source, scope)
        scope[code.name](*values, *grid, 0)
        data = machine.memory.tobytes()
    z = memory.arrays
    return {
        name: np.frombuffer(data, z[name].dtype, z[name].size, start).reshape(z[name].shape)
        for name, start in memory.addresses.items()
        if z[name].flags.c_contiguous
    }


def _callable(machine: Machine, value: object) -> Any:
    if not isinstance(value, Intrinsic):
        return value

    def call(*arguments: Any) -> Any:
        groups, kinds = [], []
        for argument in arguments:
            values, kind = _registers(argument)
            groups.append(values)
            kinds.append([kind] * len(values))
        results = machine.run(value.build, groups, kinds)
        if value.result is None:
            return None
        dtype, count = value.result
        assert len(results) == count
        if dtype == "i64" and count == 3:
            return tuple(one(result) for result in results)
        return Tile(dtype, tuple(results))

    return call


def _registers(argument: Any) -> tuple[Sequence[Any], Any]:
    match argument:
        case Tile(dtype=dtype, registers=registers):
            return registers, llvm_type(dtype)
        case tuple():
            return argument, I64
        case bool():
            return [int(argument)], I1
        case int():
            return [argument], I64
    return [argument], ir.DoubleType()
