"""Generated source to a binary: numba-cuda makes PTX, nvJitLink makes the cubin. Neither needs a GPU or a driver.

A numba error, a profile or a debugger shows the generated line; see `backends/generated.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends import generated
from tilecheck_runtime.backends.numba_cuda import installed, ordering
from tilecheck_runtime.backends.numba_cuda.registers import TARGET


class CompileFailed(Exception):
    """numba-cuda or the assembler refused a kernel; of generated code `source` is the text. `way_out` is what may help."""

    def __init__(self, name: str, reason: str, way_out: str | None = None) -> None:
        super().__init__(f"`{name}` does not compile: {reason}")
        self.source = ""
        self.way_out = way_out


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes: registers a thread, bytes a thread that registers spill to memory, bytes of shared memory that
    a block has besides the dynamic ones.
    """

    registers: int
    spilled: int
    shared: int


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel: `entry` is its symbol, `image` the cubin."""

    entry: str
    image: bytes
    resources: Resources
    capability: tuple[int, int]


# Formats as `driver.Packed` spells them, to the numba type of the generated kernel's parameter.
_PARAMETER = {"P": "int64", "q": "int64", "d": "float64", "?": "boolean"}


def compile_ptx(
    name: str,
    source: str,
    namespace: Mapping[str, object],
    formats: str,
    threads: int,
    capability: tuple[int, int],
    *,
    blocks_per_multiprocessor: int = 1,
    accelerated: bool = False,
) -> tuple[str, str]:
    """The PTX of function `name` defined by `source`, and its entry symbol. `formats` has a letter per parameter;
    `accelerated` names the architecture-specific target.
    """
    from numba import types

    file = generated.place("numba-cuda", name, source)
    scope: dict[str, Any] = dict(namespace)
    exec(compile(source, file, "exec"), scope)
    signature = types.void(*(getattr(types, _PARAMETER[f]) for f in formats))
    try:
        ptx, entry = numba_ptx(scope[name], signature, threads, capability, resident=blocks_per_multiprocessor)
    except CompileFailed as error:
        error.source = source
        raise
    if accelerated:
        # numba takes a compute capability, which has no such letter.
        ptx = re.sub(r"^(\.target sm_\d+)\b", r"\1a", ptx, flags=re.MULTILINE)
    return ordering.by_need(ptx), entry


def numba_ptx(
    function: Any,
    signature: Any,
    threads: int,
    capability: tuple[int, int],
    *,
    resident: int = 1,
) -> tuple[str, str]:
    """The PTX of a kernel function for a numba signature, and its entry symbol; kept if `TILECHECK_SOURCES` says so.

    Raises `CompileFailed`, and UsageError where a library of the compiler is missing.
    """
    installed.refuse_missing(function.__name__)
    from numba import cuda

    kept = generated.folder()

    compiler: Any = cuda
    token = TARGET.set(capability)
    try:
        ptx, _ = compiler.compile(
            function,
            signature,
            device=False,
            abi="numba",
            cc=capability,
            lineinfo=kept is not None,
            launch_bounds=(threads, resident),
        )
    except Exception as error:  # numba raises many unrelated types; all of them mean the same here
        reason = str(error).strip().splitlines()[0] if str(error) else repr(error)
        raise CompileFailed(function.__name__, reason) from error
    finally:
        TARGET.reset(token)
    entry = _ENTRY.search(ptx)
    if entry is None:
        raise CompileFailed(function.__name__, "the PTX has no entry")
    if kept is not None:
        generated.keep(kept / f"{function.__name__}-{hashlib.sha256(ptx.encode()).hexdigest()[:12]}.ptx", ptx)
    return ptx, entry[1]


def link(ptx: Sequence[str], capability: tuple[int, int], *, accelerated: bool = False) -> tuple[bytes, Resources]:
    """The cubin for `capability` and what it takes; `accelerated` asks for the architecture-specific target (sm_90a).

    Raises `CompileFailed`, as for an instruction whose tile is larger than the registers of a thread.
    """
    from cuda.bindings.nvjitlink import nvJitLinkError
    from cuda.core import Linker, LinkerOptions, ObjectCode

    arch = f"sm_{capability[0]}{capability[1]}{'a' if accelerated else ''}"
    objects = [ObjectCode.from_ptx(text.encode()) for text in ptx]
    if any(_GRID_BARRIER in text for text in ptx):
        objects.append(ObjectCode.from_library(_device_runtime()))
    try:
        linker = Linker(*objects, options=LinkerOptions(arch=arch, ptxas_options="-v"))
        image = bytes(linker.link("cubin").code)
    except nvJitLinkError as error:
        raise CompileFailed("the PTX", _reason(str(error)), "use smaller tiles") from error
    said = linker.get_info_log()
    return image, Resources(*(sum(map(int, re.findall(words, said))) for words in _SAID))


# numba calls the device runtime for the barriers of a grid.
_GRID_BARRIER = "cudaCGSynchronize"


def _device_runtime() -> str:
    """The path of the library with the barrier of a grid. Raises `CompileFailed` without it."""
    from cuda.pathfinder import StaticLibNotFoundError, find_static_lib

    try:
        return str(find_static_lib("cudadevrt"))
    except StaticLibNotFoundError:
        raise CompileFailed("a grid barrier", "the library cudadevrt is not there", installed.STEP) from None


def _reason(said: str) -> str:
    """What the assembler has against a kernel, in a line."""
    left, needed = re.search(r"Insufficient registers \((\d+)\)", said), re.search(r"register target of (\d+)", said)
    if left is not None and needed is not None:
        return f"one instruction needs {needed[1]} registers a thread, a block of so many threads leaves {left[1]}"
    return next((line for line in said.splitlines() if "fatal" in line), said.splitlines()[0])


# Registers, spilled bytes and shared memory in the words of ptxas.
_SAID = (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem")
_ENTRY = re.compile(r"\.visible \.entry (\w+)")
_RESIDENT = re.compile(r"\.minnctapersm (\d+)")


def unspilled(ptx: str, capability: tuple[int, int], *, accelerated: bool = False) -> tuple[bytes, Resources]:
    """The cubin with as many resident blocks a multiprocessor as `ptx` asks for, or as many as leave each thread the
    registers that it needs.
    """
    image, resources = link([ptx], capability, accelerated=accelerated)
    asked = _RESIDENT.search(ptx)
    for blocks in range(int(asked[1]) - 1 if asked else 0, 0, -1):
        if resources.spilled == 0:
            break
        fewer = _RESIDENT.sub(f".minnctapersm {blocks}", ptx)
        image, resources = link([fewer], capability, accelerated=accelerated)
    return image, resources


def build(
    name: str,
    source: str,
    namespace: Mapping[str, object],
    identity: str,
    formats: str,
    threads: int,
    capability: tuple[int, int],
    *,
    blocks_per_multiprocessor: int = 1,
    accelerated: bool = False,
) -> Binary:
    """Source to cubin in one step, by way of the disk cache if that is on.

    The source only names its intrinsics; `identity` says which layouts they were made for, and the text of this backend,
    which makes them, is part of the key as well. While the generated source is asked for, every kernel is compiled: its
    line tables name the folder, and what comes from the disk would leave nothing there.
    """
    shown = generated.folder() is not None
    key = disk_cache.key_of(
        disk_cache.signature() or compilers(),
        _backend(),
        source,
        identity,
        formats,
        threads,
        capability,
        blocks_per_multiprocessor,
        accelerated,
    )
    kept = None if shown else disk_cache.read(key)
    if kept is not None:
        header, _, image = kept.partition(b"\n")
        entry, *numbers = header.decode().split()
        return Binary(entry, image, Resources(*map(int, numbers)), capability)
    ptx, entry = compile_ptx(
        name,
        source,
        namespace,
        formats,
        threads,
        capability,
        blocks_per_multiprocessor=blocks_per_multiprocessor,
        accelerated=accelerated,
    )
    image, used = unspilled(ptx, capability, accelerated=accelerated)
    if not shown:
        disk_cache.write(key, f"{entry} {used.registers} {used.spilled} {used.shared}\n".encode() + image)
    return Binary(entry, image, used, capability)


@cache
def _backend() -> str:
    """The text of this backend, which makes the intrinsics."""
    code = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        code.update(file.read_bytes())
    return code.hexdigest()


@cache
def compilers() -> str:
    """The compilers of this machine: versions of the packages, and for a library, which does not tell the release that it
    belongs to, its file and size.
    """
    found = [f"{name} {version(name)}" for name in ("numba-cuda", "numba", "llvmlite")]
    for name, path in installed.libraries():
        found.append(f"{name} {path.name} {path.stat().st_size}")
    return ", ".join(found)
