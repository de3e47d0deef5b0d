"""cuTile text to a cubin, offline: neither a GPU nor a driver is needed, only `tileiras` from `cuda-tile[tileiras]`.

Arrays are passed as cuTile's calling convention 1 has it: address, extents, strides. Extents and strides are 32-bit where
they fit, which the specialisation key knows.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends import generated
from tilecheck_runtime.backends.tile_ir.lower import Lowered
from tilecheck_runtime.backends.tile_ir.words import CT_DTYPE, NoLowering
from tilecheck_runtime.specialise import NO_HINTS

# Where the kernel cache says which compiler filled it, for machines that have none.
_VERSION_KEY = disk_cache.key_of("tile-ir compiler")


class NotInstalled(Exception):
    """The `cuda-tile` package or its compiler is missing; `step` supplies it."""

    step = "`pip install 'tilecheck[tile-ir]'`"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What the compiler may rely on for one array: `divisor` per axis of the extent, address and strides in elements."""

    dtype: str
    rank: int
    wide: bool
    unit: bool
    address_divisor: int
    extent_divisors: tuple[int, ...]
    stride_divisors: tuple[int, ...]


# The fault record: one 64-bit word.
FAULT = ArrayFacts("i64", 1, False, True, 8, (1,), (1,))


def compile_cubin(
    lowered: Lowered,
    kernel: Kernel,
    facts: Mapping[str, ArrayFacts],
    scalars: Mapping[str, str],
    architecture: str,
    hints: Mapping[str, int] = NO_HINTS,
) -> tuple[bytes, str]:
    """The cubin for `architecture` (such as `sm_90`) and its entry symbol. `scalars` names each scalar's dtype.

    A kernel kept on disk needs no compiler. Raises `NotInstalled` if there is neither, `NoLowering` for an architecture or
    a kernel that `tileiras` refuses.
    """
    shown = generated.folder() is not None
    key = disk_cache.key_of(
        "tile-ir",
        compiler_version(),
        _constraints(),
        lowered.source,
        [(n, facts[n]) for n in sorted(facts)],
        sorted(scalars.items()),
        architecture,
        sorted(hints.items()),
    )
    # Whoever asks for the generated source gets it, which takes a compilation.
    kept = None if shown and installed() else disk_cache.read(key)
    if kept is not None:
        return kept, lowered.name
    if not installed():
        raise NotInstalled(missing())
    image = _compiled(lowered, kernel, facts, scalars, architecture, hints)
    disk_cache.write(_VERSION_KEY, compiler_version().encode())
    disk_cache.write(key, image)
    return image, lowered.name


def missing() -> str | None:
    """What this machine lacks for compiling through Tile IR, None if nothing."""
    if _version("cuda-tile") is None:
        return "the tile-ir backend needs the package `cuda-tile`"
    compilers_on_path()
    if shutil.which("tileiras") is None:
        return "the tile-ir backend needs `tileiras`, the compiler of `cuda-tile`"
    return None


@cache
def installed() -> bool:
    """Whether this machine can compile through Tile IR."""
    return missing() is None


def compiler_version() -> str:
    """The compiler that decides a binary: the one installed, else the one that filled the kernel cache, else none."""
    if installed():
        return f"cuda-tile {_version('cuda-tile')}, tileiras {_version('nvidia-cuda-tileiras')}"
    kept = disk_cache.read(_VERSION_KEY)
    return "" if kept is None else kept.decode()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def compilers_on_path() -> None:
    """cuTile starts `tileiras`, which starts `ptxas`, by name; the wheels put them beside their package.

    They come first: an older `ptxas` of a system-wide toolkit does not read what this `tileiras` writes.
    """
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else ():
        for found in sorted(Path(folder).glob("cu*/bin")):
            os.environ["PATH"] = f"{found}{os.pathsep}{os.environ.get('PATH', '')}"


def _compiled(
    lowered: Lowered,
    kernel: Kernel,
    facts: Mapping[str, ArrayFacts],
    scalars: Mapping[str, str],
    architecture: str,
    hints: Mapping[str, int],
) -> bytes:
    import cuda.tile as ct
    from cuda.tile import compilation

    file = generated.place("tile-ir", lowered.name, lowered.source)
    scope: dict[str, Any] = {"ct": ct, "math": math}
    exec(compile(lowered.source, file, "exec"), scope)
    constraints: list[Any] = []
    for param in kernel.params:
        if isinstance(param, TensorParam):
            constraints.append(_array(ct, compilation, facts[param.name]))
        else:
            constraints.append(compilation.ScalarConstraint(getattr(ct, CT_DTYPE[scalars[param.name]])))
    if lowered.checks:
        constraints.append(_array(ct, compilation, FAULT))
    signature = compilation.KernelSignature(
        constraints, compilation.CallingConvention.cutile_python_v1(), symbol=lowered.name
    )
    options = {name: value for name, value in hints.items() if name != "latency"}
    out = io.BytesIO()
    try:
        compilation.export_kernel(
            ct.kernel(scope[lowered.name], **options), [signature], out, gpu_code=architecture, output_format="cubin"
        )
    except ct.TileError as refused:
        said = next((line for line in str(refused).splitlines() if "error" in line), str(refused).partition("\n")[0])
        raise NoLowering(f"`{lowered.name}` for {architecture}: {said.strip()}", kernel) from None
    return out.getvalue()


@cache
def _constraints() -> str:
    """The text of this module, which says what the compiler may rely on and how parameters are passed."""
    return disk_cache.key_of(Path(__file__).read_bytes())


def _array(ct: Any, compilation: Any, facts: ArrayFacts) -> Any:
    return compilation.ArrayConstraint(
        getattr(ct, CT_DTYPE[facts.dtype]),
        facts.rank,
        index_dtype=ct.int64 if facts.wide else ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[None] * (facts.rank - 1) + [1 if facts.unit else None],
        stride_divisible_by=_whole(facts.stride_divisors),
        shape_divisible_by=_whole(facts.extent_divisors),
        base_addr_divisible_by=facts.address_divisor,
    )


def _whole(divisors: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(d, 1) for d in divisors)
