"""Kernels in CUDA C++ under our launch: ownership is checked, what the kernel does is not.

What it writes is passed as a partition and borrowed exclusively; tensors are only read. A kernel gets the address of the
first element, so that tensors must be contiguous, and numbers as wide as they come: `int` is a `long long`, `float` a `double`,
`np.float32(a)` a `float`. Nobody proves what C++ does, so a kernel is made inside of `with tc.unsafe("reason"):`, which
`tilecheck audit` lists. Its launches are ops like all others: they run once, on any stream, and graphs record them.

    with tc.unsafe("the guard keeps it inside of z, and x is as long"):
        scale = tc.cuda_cpp(SOURCE, "scale", block=256)
    scale(z.partition(256), x, np.float32(2), z.size).sync()        # grid from the partition
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilecheck.surface.kernel import contract
from tilecheck.surface.unsafe import vouched
from tilecheck_runtime.backends import Grid, Launch, Operand, default
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import LaunchRefused, UsageError
from tilecheck_runtime.grants import hold
from tilecheck_runtime.loans import Access
from tilecheck_runtime.nodes import Queued
from tilecheck_runtime.op import DeviceOp
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.specialise import Once
from tilecheck_runtime.tensor import Tensor

# Numbers by NumPy's kind and width, as they are packed.
_FORMATS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
_FORMATS |= {"f2": "e", "f4": "f", "f8": "d"}


class CppKernel:
    """A kernel in CUDA C++; made by `cuda_cpp`."""

    def __init__(self, source: str, name: str, block: Grid, shared: int, options: tuple[str, ...]) -> None:
        self.source, self.name, self.block, self.shared, self.options = source, name, block, shared, options
        self._programs: Once[tuple[str, str], Any] = Once()

    def __call__(self, *args: Any, grid: int | tuple[int, ...] | None = None) -> DeviceOp[tuple[Any, ...]]:
        """The op of a launch, with the tuple of its tensor arguments as its value. Partitions are written, tensors read;
        without `grid` the partitions define it.

        Raises LaunchRefused for what does not compile or fit the device, and on the CPU; UsageError for arguments that
        are none; BorrowError for a conflict.
        """
        formats, values, requests, given = "", [], [], []
        arguments: dict[str, Operand | int | float | bool] = {}
        for number, value in enumerate(args):
            elements = self._elements(number, value)
            if elements is None:
                letter, plain = self._number(number, value)
                arguments[f"{number}"] = plain
                given.append((f"`{value!r}`", struct.calcsize(f"@{letter}")))
            else:
                letter = "P"
                access = Access.EXCLUDE if isinstance(value, Partition) else Access.SHARE
                requests.append(elements.request(access, value._loan, f"argument {number + 1}"))
                arguments[f"{number}"] = Operand(elements.strided(), None, None)
                values.append(value)
                given.append(("an address", struct.calcsize("@P")))
            formats += letter
        cells = self._grid(values, grid)
        program = self._program(formats, given)
        loans = hold(tuple(requests), f"`{self.name}`")
        kept = tuple(value._elements.allocation for value in values)
        return DeviceOp(
            f"`{self.name}`", Queued(Launch(self.name, program, arguments, cells), tuple(values), kept), loans
        )

    def _program(self, formats: str, given: Sequence[tuple[str, int]]) -> Any:
        backend = default()
        return self._programs.get(
            (backend.name, formats),
            lambda: backend.compile_cpp(self.source, self.name, self.options, self.block, self.shared, formats, given),
        )

    def _elements(self, number: int, value: Any) -> Elements | None:
        """Those of a tensor or a partition, None for anything else."""
        if not isinstance(value, Tensor | Partition):
            return None
        value._usable(f"argument {number + 1}")
        elements = value._elements
        # Refuses shape-only ones.
        _ = elements.memory
        if not elements.layout.contiguous(elements.width):
            raise UsageError(
                f"argument {number + 1} of `{self.name}` is not contiguous, and C++ gets an address alone",
                "pass a copy: `x.copy()`",
            )
        if isinstance(value, Partition) and value.mapping is not None:
            raise UsageError(
                f"argument {number + 1} of `{self.name}` is mapped, which C++ knows nothing of", "leave out `.map(...)`"
            )
        return elements

    def _number(self, number: int, value: Any) -> tuple[str, int | float | bool]:
        """Its format, and the number itself. Raises UsageError for what is none."""
        if isinstance(value, bool | int | float):
            letter = "?" if isinstance(value, bool) else "q" if isinstance(value, int) else "d"
            if letter == "q" and not -(2**63) <= value < 2**63:
                raise UsageError(f"argument {number + 1} of `{self.name}` is {value}, a `long long` has 64 bits")
            return letter, value
        if isinstance(value, np.generic) and (letter := _FORMATS.get(value.dtype.kind + str(value.itemsize), "")):
            return letter, value.item()
        raise UsageError(
            f"argument {number + 1} of `{self.name}` is a `{type(value).__name__}`, C++ takes tensors, partitions and numbers",
            "copy arrays to the device: `tc.asarray(...)`, or borrow them: `tc.from_dlpack(...)`",
        )

    def _grid(self, values: Sequence[Any], grid: int | tuple[int, ...] | None) -> Grid:
        if grid is not None:
            cells = grid if isinstance(grid, tuple) else (grid,)
            whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in cells)
            if not 1 <= len(cells) <= 3 or not whole:
                raise UsageError(f"`grid={grid!r}` is no grid: one to three positive ints", rule="launch-contract")
            x, y, z = (*cells, 1, 1)[:3]
            return (x, y, z)
        grids = [value.grid for value in values if isinstance(value, Partition) and value.exact]
        if not grids:
            raise LaunchRefused(
                f"the launch of `{self.name}` has no grid: no partition defines one", "give one: `grid=n`"
            )
        if len(set(grids)) > 1:
            raise LaunchRefused(
                f"the partitions of `{self.name}` define different grids: {' and '.join(map(str, dict.fromkeys(grids)))}",
                "cut them alike, or give one: `grid=n`",
            )
        return grids[0]

    def __repr__(self) -> str:
        return f"<CUDA C++ kernel {self.name}, {prod(self.block)} threads a block>"


def cuda_cpp(
    source: str, name: str, *, block: int | tuple[int, ...], shared: int = 0, options: Sequence[str] = ()
) -> CppKernel:
    """The kernel `name` of CUDA C++ `source`, a function or an instance of a template (`"scale<float>"`), in blocks of `block`
    threads with `shared` bytes of dynamic shared memory. `options` are for NVRTC; it is compiled at the first launch.

    Raises UsageError outside of `with tc.unsafe("reason"):`, and for what is no source, block or option.
    """
    if not isinstance(source, str) or not isinstance(name, str) or not name.strip():
        raise UsageError("`cuda_cpp` takes the source and the name of a kernel, both as text")
    if isinstance(options, str) or not all(isinstance(option, str) for option in options):
        raise UsageError(f"`options={options!r}` is no list of options", 'such as `["--use_fast_math"]`')
    if not vouched():
        raise UsageError(
            f"nobody checks what `{name}` does, and it is not said why it is safe",
            'make it inside of `with tc.unsafe("reason"):`',
            rule="allow-without-reason",
        )
    shape = contract(block, None, shared)["block"]
    assert isinstance(shape, tuple)
    x, y, z = (*shape, 1, 1)[:3]
    return CppKernel(source, name, (x, y, z), shared, tuple(options))
