"""CUDA C++ to a loaded kernel: NVRTC makes the cubin, without a GPU; launches go by way of our driver calls.

A kernel gets of a tensor the address of its first element, and numbers in the width that they come in. Nothing in it is
checked but what the driver can tell: how many bytes each parameter has.

    image, entry = cubin(source, "scale<float>", (9, 0), ())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends import Grid, Launch, Operand
from tilecheck_runtime.backends.limits import hold
from tilecheck_runtime.backends.numba_cuda import installed
from tilecheck_runtime.driver import Bound, Device, Function
from tilecheck_runtime.errors import LaunchRefused, UsageError

# Lines of the compiler's log that a refusal shows.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class CppProgram:
    """A loaded kernel for parameters of these `formats` (see `driver.Packed`)."""

    function: Function
    formats: str
    block: Grid
    shared: int

    checks = False

    def launch(self, work: Launch, stream: int, record: int) -> None:
        """Submit the kernel."""
        self.function.submit(self.formats, self.values(work, record), work.grid, self.block, self.shared, stream)

    def bound(self, work: Launch, stream: int, record: int) -> Bound:
        """The packed arguments, and a call that submits the kernel with them."""
        packed = self.function.pack(self.formats, self.values(work, record))
        return packed, packed.bound(work.grid, self.block, self.shared, stream)

    def grid(self, work: Launch) -> Grid:
        """The blocks as the driver starts them."""
        return work.grid

    def values(self, work: Launch, record: int) -> list[int | float]:
        """What is packed for a launch."""
        return [a.array.address if isinstance(a, Operand) else a for a in work.arguments.values()]


def load(device: Device, source: str, name: str, options: Sequence[str], block: Grid, shared: int) -> Function:
    """Compile for `device` and load. Raises LaunchRefused for what does not compile and for what the device cannot hold,
    UsageError where the compiler is missing.
    """
    image, entry = cubin(source, name, device.capability, options)
    function = device.load(image, entry)
    hold(device, name, function, block[0] * block[1] * block[2], shared)
    return function


def match(name: str, function: Function, given: Sequence[tuple[str, int]]) -> None:
    """Raise UsageError if the arguments, in words and with their bytes, are not what the kernel takes."""
    taken = function.parameters()
    if taken is None:
        return
    if len(taken) != len(given):
        raise UsageError(f"`{name}` takes {len(taken)} arguments, it got {len(given)}")
    for number, (size, (what, there)) in enumerate(zip(taken, given, strict=True), 1):
        if size != there:
            raise UsageError(
                f"parameter {number} of `{name}` has {size} bytes, it got {what}, which has {there}",
                "give numbers the width of the parameter: `np.int32(n)`, `np.float32(a)`",
                rule="dtype-mismatch",
            )


def cubin(source: str, name: str, capability: tuple[int, int], options: Sequence[str]) -> tuple[bytes, str]:
    """The cubin of `source` and the symbol of the kernel `name`, which may be an instance of a template. One in the kernel
    cache needs no compiler. Raises LaunchRefused for what does not compile, UsageError where the compiler is missing.
    """
    if not installed.found("cuda.bindings"):
        raise UsageError(f"`{name}` cannot be compiled here: `cuda-bindings` is not installed", installed.STEP)
    key = disk_cache.key_of("cuda-c++", _version(), source, name, capability, tuple(options))
    kept = disk_cache.read(key)
    if kept is not None:
        symbol, _, image = kept.partition(b"\n")
        return image, symbol.decode()
    image, entry = _compiled(source, name, capability, options)
    disk_cache.write(key, entry.encode() + b"\n" + image)
    return image, entry


def _version() -> tuple[int, int] | None:
    """The compiler's; None without one."""
    from cuda.bindings import nvrtc

    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError:  # the library is not there
        return None
    return int(major), int(minor)


def _compiled(source: str, name: str, capability: tuple[int, int], options: Sequence[str]) -> tuple[bytes, str]:
    if _version() is None:
        raise UsageError(
            f"`{name}` cannot be compiled here: {installed.LIBRARIES['nvrtc']} is not installed", installed.STEP
        )
    from cuda.bindings import nvrtc
    from cuda.pathfinder import find_nvidia_header_directory

    headers = find_nvidia_header_directory("cudart")
    flags = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", *options]
    flags += [] if headers is None else [f"-I{headers}"]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), f"{_plain(name)}.cu".encode(), 0, None, None)
    assert status == 0
    try:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if status != 0:
            log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
            lines = [line.rstrip("\0 ") for line in log.splitlines() if line.strip("\0 ")]
            first = next((line for line in lines if "error" in line), lines[0] if lines else str(status))
            raise LaunchRefused(
                f"`{name}` does not compile for sm_{capability[0]}{capability[1]}: {first}",
                rule="unsupported",
                points=tuple(lines[:_SHOWN]),
            )
        _, symbol = nvrtc.nvrtcGetLoweredName(program, name.encode())
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), symbol.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of: Any, read: Any, program: Any) -> bytes:
    _, size = size_of(program)
    # The binding fills it in.
    data: bytes = b" " * size
    read(program, data)
    return data


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
