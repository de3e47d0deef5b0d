"""One checked kernel on three executors: the interpreter, numba-cuda and Tile IR, from NumPy arrays to NumPy arrays.

Below the runtime on purpose: what is compared is the code that each lowering makes, not how tensors travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilecheck.interp import tile as interpreter
from tilecheck.interp.arguments import TensorArgument, TileMap
from tilecheck.ir.kernel import ScalarParam, TensorParam
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import faults
from tilecheck_runtime.backends.numba_cuda.compile import Binary, build
from tilecheck_runtime.backends.numba_cuda.lower import Lowered
from tilecheck_runtime.backends.numba_cuda.lower import lower as lower_numba
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, compile_cubin
from tilecheck_runtime.backends.tile_ir.lower import Lowered as TileLowered
from tilecheck_runtime.backends.tile_ir.lower import lower as lower_tile
from tilecheck_runtime.backends.tile_ir.specialise import SCALARS, scalar_kind
from tilecheck_runtime.driver import Device

Array = npt.NDArray[Any]
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Call:
    """A kernel for given extents, its arguments by name, and how what it writes is cut."""

    report: TileReport
    arguments: Mapping[str, Any]
    grid: Grid
    tiles: Mapping[str, tuple[int, ...]]
    maps: Mapping[str, TileMap]

    @property
    def written(self) -> tuple[str, ...]:
        """The parameters that are not `Shared`."""
        return tuple(
            p.name
            for p in self.report.kernel.params
            if isinstance(p, TensorParam) and p.access is not None and p.access.value != "Shared"
        )


def dtype_name(array: Array) -> str:
    """The short name of an array's dtype."""
    names = {"bool": "bool_", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}
    name = array.dtype.name
    if name in names:
        return names[name]
    kind = {"f": "f", "i": "i", "u": "u"}[array.dtype.kind]
    return f"{kind}{8 * array.dtype.itemsize}"


def interpreted(call: Call) -> dict[str, Array]:
    """What the interpreter leaves in the written arrays."""
    copies: dict[str, Any] = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in call.arguments.items()}
    arguments = {
        n: TensorArgument(a, call.tiles.get(n), call.maps.get(n)) if isinstance(a, np.ndarray) else a
        for n, a in copies.items()
    }
    dims = {key: decl.size for key, decl in call.report.kernel.dims.items() if decl.size is not None}
    interpreter.run(call.report, arguments, call.grid, dims)
    return {n: copies[n] for n in call.written}


class OnDevice:
    """The arrays of a call in device memory, and a stream."""

    def __init__(self, device: Device, call: Call) -> None:
        self.device = device
        self.call = call
        self.stream = device.new_stream()
        self.addresses: dict[str, int] = {}
        for name, value in call.arguments.items():
            if isinstance(value, np.ndarray):
                host = np.ascontiguousarray(value)
                self.addresses[name] = device.allocate(max(host.nbytes, 1), self.stream)
                device.copy_in(self.addresses[name], host.ctypes.data, host.nbytes, self.stream)
        self.record = device.allocate_pinned(8)
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint64 * 1).from_address(self.record))[0] = 0

    def fault(self) -> int:
        """The fault record: 0 while all is well."""
        return int(np.ctypeslib.ctypes.c_uint64.from_address(self.record).value)

    def results(self) -> dict[str, Array]:
        """The written arrays, once the stream is done; frees everything."""
        found: dict[str, Array] = {}
        for name in self.call.written:
            found[name] = np.empty_like(np.ascontiguousarray(self.call.arguments[name]))
            self.device.copy_out(found[name].ctypes.data, self.addresses[name], found[name].nbytes, self.stream)
        self.device.wait_stream(self.stream)
        for address in self.addresses.values():
            self.device.free(address, self.stream)
        return found


def strides_of(array: Array) -> tuple[int, ...]:
    """Strides of the contiguous copy, in elements."""
    host = np.ascontiguousarray(array)
    return tuple(s // host.itemsize for s in host.strides)


def arrays_of(call: Call) -> dict[str, Array]:
    """The array arguments."""
    return {n: a for n, a in call.arguments.items() if isinstance(a, np.ndarray)}


def numba_binary(
    call: Call, capability: tuple[int, int], addresses: Mapping[str, int], threads: int | None = None
) -> tuple[Lowered, Binary]:
    """The numba-cuda kernel of a call; needs no device. `addresses` matter by their alignment."""
    facts = {n: Facts.of(dtype_name(a), addresses[n], a.shape, strides_of(a)) for n, a in arrays_of(call).items()}
    maps = {n: m.shape for n, m in call.maps.items()}
    code = lower_numba(call.report, facts, maps=maps, threads=threads, capability=capability)
    return code, build(
        code.name,
        code.source,
        code.namespace,
        code.identity,
        code.formats,
        code.threads,
        capability,
        blocks_per_multiprocessor=code.resident,
        accelerated=code.accelerated,
    )


def with_numba(device: Device, call: Call, threads: int | None = None) -> dict[str, Array]:
    """What the numba-cuda lowering leaves in the written arrays. Raises AssertionError with the record of a fault."""
    on = OnDevice(device, call)
    code, binary = numba_binary(call, device.capability, on.addresses, threads)
    function = device.load(binary.image, binary.entry)
    if code.shared + function.shared_bytes > device.limits.shared_per_block:
        function.allow_shared(code.shared)
    values: list[Any] = []
    for param in call.report.kernel.params:
        value = call.arguments[param.name]
        if isinstance(value, np.ndarray):
            values += [on.addresses[param.name], *value.shape, *strides_of(value)]
        else:
            values.append(value)
    packed = function.pack(code.formats, [*values, *call.grid, on.record])
    grid = (prod(call.grid), 1, 1) if code.in_row else call.grid
    packed.launch(grid, (code.threads, 1, 1), code.shared, on.stream)
    found = on.results()
    assert on.fault() == 0, f"a check failed: (line, block) is {faults.decoded(on.fault())}"
    return found


def tile_facts(call: Call) -> dict[str, ArrayFacts]:
    """What the Tile IR compiler may rely on."""
    facts: dict[str, ArrayFacts] = {}
    for name, array in arrays_of(call).items():
        strides = strides_of(array)
        facts[name] = ArrayFacts(
            dtype_name(array),
            array.ndim,
            array.size >= 2**31,
            array.ndim > 0 and strides[-1] == 1,
            16,
            tuple(min(n & -n, 16) for n in array.shape),
            tuple(min(s & -s, 16) for s in strides),
        )
    return facts


def tile_binary(call: Call, architecture: str) -> tuple[TileLowered, bytes, str]:
    """The Tile IR kernel of a call and its entry; needs no device. Raises `NoLowering`."""
    lowered = lower_tile(call.report, {n: m.shape for n, m in call.maps.items()})
    kernel = call.report.kernel
    scalars = {p.name: SCALARS[scalar_kind(p)][0] for p in kernel.params if isinstance(p, ScalarParam)}
    return lowered, *compile_cubin(lowered, kernel, tile_facts(call), scalars, architecture)


def with_tile_ir(device: Device, call: Call) -> dict[str, Array]:
    """What the Tile IR lowering leaves in the written arrays."""
    lowered, image, entry = tile_binary(call, f"sm_{device.capability[0]}{device.capability[1]}")
    on = OnDevice(device, call)
    facts = tile_facts(call)
    function = device.load(image, entry)
    formats, values = "", []
    for param in call.report.kernel.params:
        value = call.arguments[param.name]
        if isinstance(value, np.ndarray):
            letter = "q" if facts[param.name].wide else "i"
            formats += "P" + letter * (2 * value.ndim)
            values += [on.addresses[param.name], *value.shape, *strides_of(value)]
        else:
            formats += SCALARS[scalar_kind(param)][1]
            values.append(value)
    if lowered.checks:
        formats += "Pii"
        values += [on.record, 1, 1]
    # Fewer blocks than tiles, where the kernel walks over them.
    grid = (-(-prod(call.grid) // 2), 1, 1) if lowered.walks else call.grid
    function.pack(formats, values).launch(grid, (1, 1, 1), 0, on.stream)
    found = on.results()
    assert on.fault() == 0, f"a check failed: (line, block) is {faults.decoded(on.fault())}"
    return found
