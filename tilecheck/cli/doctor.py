"""`tilecheck doctor`: what this machine can run, and what is missing for the rest.

Checking needs only Python and the packages of the plain install; launching on a GPU needs a driver, a device and the
`cuda` extra. Each line is one fact and, where something is missing, the one step that supplies it. Exit status 1 if
checking or launching on the CPU would not work; a missing GPU is no fault.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import click

from tilecheck.cli import terminal

_COMPILING = ("numba", "numba-cuda", "cuda-core", "cuda-bindings")
_NEEDED = ("click", "libcst", "ml-dtypes", "numpy", "platformdirs", "rich", "typing-extensions", "z3-solver")


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the report. `state` is ok, missing (optional) or broken."""

    state: str
    what: str
    step: str = ""


@click.command("doctor")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Say what this machine can run: checking, mypy, the CPU, the GPU."""
    style = {"ok": "green", "missing": "yellow", "broken": "bold red"}
    broken = False
    for title, facts in (("check", _checking()), ("mypy", _mypy()), ("launch on a GPU", _cuda())):
        terminal.show([((title, "bold"),)])
        for fact in facts:
            broken = broken or fact.state == "broken"
            step = f": {fact.step}" if fact.step else ""
            terminal.show([((f"  {fact.state:<8}", style[fact.state]), (fact.what + step, ""))])
    ctx.exit(1 if broken else 0)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _numbers(release: str) -> tuple[int, ...]:
    """`2.4.6rc1` is (2, 4)."""
    return tuple(int(part) for part in release.split(".")[:2] if part.isdigit())


def _checking() -> Iterator[Fact]:
    yield Fact("ok", "Python " + ".".join(map(str, sys.version_info[:3])))
    for package in _NEEDED:
        found = _installed(package)
        if found is None:
            yield Fact("broken", f"{package} is not installed", "pip install tilecheck")
        else:
            yield Fact("ok", f"{package} {found}")


def _mypy() -> Iterator[Fact]:
    found = _installed("mypy")
    if found is None:
        yield Fact("missing", "mypy is not installed", 'pip install "tilecheck[mypy]"')
        return
    yield Fact(
        "ok",
        f"mypy {found}",
        'set `plugins = ["tilecheck"]` under [tool.mypy] in pyproject.toml, or `plugins = tilecheck` in mypy.ini',
    )


def _cuda() -> Iterator[Fact]:
    yield Fact("ok", "the `cpu` backend needs nothing else")
    for package in _COMPILING:
        found = _installed(package)
        if found is None:
            yield Fact("missing", f"{package} is not installed", 'pip install "tilecheck[cuda]"')
        else:
            yield Fact("ok", f"{package} {found}")
    numpy = _installed("numpy")
    if _installed("numba-cuda") is not None and numpy is not None and _numbers(numpy) >= (2, 5):
        yield Fact("missing", f"numba-cuda does not import with numpy {numpy}", 'pip install "numpy<2.5"')
    if all(_installed(package) is not None for package in _COMPILING):
        for library in import_module("tilecheck_runtime.backends.numba_cuda.installed").lacking():
            yield Fact("missing", f"{library} is not installed", 'pip install "tilecheck[cuda]", or a CUDA toolkit')
    yield from _device()
    yield from _tile_ir()


def _tile_ir() -> Iterator[Fact]:
    """The second compiler: its package, and `tileiras`, which comes in a package of its own or with a toolkit."""
    step = 'pip install "tilecheck[tile-ir]" for the `tile-ir` backend; without it numba-cuda compiles every kernel'
    package = _installed("cuda-tile")
    if package is None:
        yield Fact("missing", "cuda-tile is not installed", step)
        return
    compiler = _installed("nvidia-cuda-tileiras")
    if compiler is None and shutil.which("tileiras") is None:
        yield Fact("missing", f"cuda-tile {package} is there, its compiler `tileiras` is not", step)
        return
    whose = f"tileiras {compiler}" if compiler is not None else "the toolkit's tileiras"
    use = (
        "the `tile-ir` backend, which gets the kernels that multiply matrices in tiles of more than 16 rows and columns"
    )
    yield Fact("ok", f"cuda-tile {package} with {whose}", use)


def _device() -> Iterator[Fact]:
    """Driver and device, asked of the driver's own library, so that a missing toolkit does not hide them."""
    import ctypes

    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        yield Fact("missing", f"no NVIDIA driver ({library} was not found)", "kernels run on the `cpu` backend")
        return
    number = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(number)) == 0:
        major, minor = number.value // 1000, number.value % 1000 // 10
        yield Fact("ok", f"NVIDIA driver for CUDA {major}.{minor}")
        bindings = _installed("cuda-bindings")
        if bindings is not None and _numbers(bindings)[:1] > (major,):
            step = f"update the driver, or pip install 'cuda-bindings<{major + 1}'"
            yield Fact("missing", f"the driver is older than cuda-bindings {bindings}", step)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(number)) != 0 or number.value == 0:
        yield Fact("missing", "the driver sees no device", "check CUDA_VISIBLE_DEVICES and the driver's own tools")
        return
    for ordinal in range(number.value):
        name = ctypes.create_string_buffer(256)
        first, second = ctypes.c_int(), ctypes.c_int()
        driver.cuDeviceGetName(name, 256, ordinal)
        driver.cuDeviceGetAttribute(ctypes.byref(first), 75, ordinal)
        driver.cuDeviceGetAttribute(ctypes.byref(second), 76, ordinal)
        yield Fact("ok", f"device {ordinal}: {name.value.decode()}, compute capability {first.value}.{second.value}")
