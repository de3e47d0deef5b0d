"""The libraries that compile a kernel: numba-cuda and cuda-core call them, and either fails late and in words of its own.

Asked for before the compiler is, in the way in which both look for them, so that a machine without one hears which one and
what brings it. Nothing is asked for where the kernel cache has the kernel.

    UsageError: `saxpy` cannot be compiled here: NVVM (libnvvm) is not installed
    help: `pip install 'tilecheck[cuda]'` brings it, or a CUDA toolkit that CUDA_HOME names; `tilecheck doctor` says what is there
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tilecheck_runtime.errors import UsageError

# By the name under which cuda.pathfinder knows it: what makes PTX, what reads headers, what makes the cubin.
LIBRARIES = {"nvvm": "NVVM (libnvvm)", "nvrtc": "NVRTC (libnvrtc)", "nvJitLink": "nvJitLink (libnvJitLink)"}
STEP = "`pip install 'tilecheck[cuda]'` brings it, or a CUDA toolkit that CUDA_HOME names; `tilecheck doctor` says what is there"


def missing() -> str | None:
    """The first package or library that compiling lacks, None if all are there."""
    return next(lacking(), None)


def lacking() -> Iterator[str]:
    """The packages that compiling lacks, or with all of them there the libraries."""
    packages_there = True
    for package, module in (
        ("numba-cuda", "numba_cuda"),
        ("cuda-core", "cuda.core"),
        ("cuda-bindings", "cuda.bindings"),
    ):
        if not found(module):
            packages_there = False
            yield f"`{package}`"
    if not packages_there:
        return
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for name, shown in LIBRARIES.items():
        try:
            load_nvidia_dynamic_lib(name)
        except DynamicLibNotFoundError:
            yield shown


def refuse_missing(kernel: str) -> None:
    """Raises UsageError if `kernel` cannot be compiled for want of a library."""
    library = missing()
    if library is not None:
        raise UsageError(f"`{kernel}` cannot be compiled here: {library} is not installed", STEP)


def libraries() -> Iterator[tuple[str, Path]]:
    """The files of those libraries that are there, by name."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for name in LIBRARIES:
        try:
            path = load_nvidia_dynamic_lib(name).abs_path
        except DynamicLibNotFoundError:
            continue
        if path is not None:
            yield name, Path(path).resolve()


def found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it lies in
        return False
