"""SIMT kernels on the GPU: compiled by numba-cuda as written, launched by us.

The contract and the proof leave no trace in the code: what numba sees is the user's function with its own globals (see
`erasure`). One compilation per combination of dtypes, ranks and contiguity, made at the first launch that needs it.

numba's kernel ABI flattens an array into two object pointers (null for us), element count, element size, address, extents
and strides in bytes, 8 bytes each; scalars are 64-bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tilecheck.ir.kernel import Kernel, walk
from tilecheck.ir.simt import Barrier
from tilecheck_runtime.backends import Grid, Launch, Operand, Strided
from tilecheck_runtime.backends.limits import hold, hold_at_once
from tilecheck_runtime.backends.numba_cuda.compile import CompileFailed, link, numba_ptx
from tilecheck_runtime.backends.numba_cuda.erasure import erased
from tilecheck_runtime.backends.numba_cuda.registers import SIZE
from tilecheck_runtime.driver import Bound, Device, Function
from tilecheck_runtime.errors import LaunchRefused
from tilecheck_runtime.specialise import Once

# What one argument looks like to numba: dtype, rank and contiguity of an array, or the kind of a scalar.
Seen = tuple[str, int, bool] | str


@dataclass(frozen=True, slots=True)
class SimtProgram:
    """One SIMT kernel with its block; `dims` are its extents by key, `compiled` goes by what its arguments look like."""

    device: Device
    kernel: Kernel
    function: FunctionType
    dims: Mapping[str, int]
    block: Grid
    shared: int
    compiled: Once[tuple[Seen, ...], Function]

    checks = False

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel."""
        function, formats, values = self._call(work)
        together = self._together(function, work)
        function.submit(formats, values, work.grid, self.block, self.shared, stream, together=together)

    def bound(self, work: Launch, stream: int, record: int) -> Bound:
        """The packed arguments, and a call that submits the kernel with them."""
        function, formats, values = self._call(work)
        packed = function.pack(formats, values)
        together = self._together(function, work)
        return packed, packed.bound(work.grid, self.block, self.shared, stream, together=together)

    def _together(self, function: Function, work: Launch) -> bool:
        """Whether blocks wait for each other. Raises LaunchRefused if the device cannot hold all of them at once."""
        if not any(isinstance(node, Barrier) and node.scope == "grid" for node in walk(*self.kernel.body)):
            return False
        hold_at_once(self.device, self.kernel.name, function, self.block, self.shared, work.grid)
        return True

    def grid(self, work: Launch) -> Grid:
        """The blocks as the driver starts them."""
        return work.grid

    def values(self, work: Launch, record: int) -> list[int | float]:
        """What is packed for a launch."""
        return self._call(work)[2]

    def _call(self, work: Launch) -> tuple[Function, str, list[int | float]]:
        """The kernel compiled for these arguments, their formats and values."""
        seen: list[Seen] = []
        formats = ""
        values: list[int | float] = []
        for param in self.kernel.params:
            value = work.arguments[param.name]
            if isinstance(value, Operand):
                array = value.array
                rank = len(array.shape)
                seen.append((array.dtype.name, rank, _contiguous(array)))
                count = 1
                for extent in array.shape:
                    count *= extent
                formats += "PPqqP" + "q" * (2 * rank)
                values += [0, 0, count, SIZE[array.dtype.name], array.address, *array.shape, *array.strides]
            else:
                kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
                seen.append(kind)
                formats += {"bool": "?", "int": "q", "float": "d"}[kind]
                values.append(value)
        function = self.compiled.get(tuple(seen), lambda: self._compile(tuple(seen)))
        return function, formats, values

    def _compile(self, seen: tuple[Seen, ...]) -> Function:
        from numba import types

        kinds: list[Any] = []
        for argument in seen:
            if isinstance(argument, str):
                kinds.append({"bool": types.boolean, "int": types.int64, "float": types.float64}[argument])
            else:
                dtype, rank, contiguous = argument
                kinds.append(types.Array(element(dtype), rank, "C" if contiguous else "A"))
        threads = self.block[0] * self.block[1] * self.block[2]
        try:
            function = erased(self.function, self.dims, element)
            ptx, entry = numba_ptx(function, types.void(*kinds), threads, self.device.capability)
            image, _ = link([ptx], self.device.capability)
        except CompileFailed as error:
            raise LaunchRefused(f"numba-cuda does not compile `{self.kernel.name}`: {error}") from error
        loaded = self.device.load(image, entry)
        hold(self.device, self.kernel.name, loaded, threads, self.shared)
        return loaded


def element(dtype: str) -> Any:
    from numba import types

    if dtype == "bool_":
        return types.boolean
    kind = {"f": "float", "i": "int", "u": "uint"}.get(dtype[0])
    if kind is None or not hasattr(types, f"{kind}{dtype[1:]}"):
        raise LaunchRefused(f"numba has no {dtype}", "pass a tensor of another dtype, such as f32 or u16")
    return getattr(types, f"{kind}{dtype[1:]}")


def _contiguous(array: Strided) -> bool:
    expected = SIZE[array.dtype.name]
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
