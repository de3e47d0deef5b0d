"""A stand-in for `numba.cuda` that runs kernels on the CPU, in our executor, and records what each launch did wrong.

Inside `cuda_on_cpu()` the names `numba` and `numba.cuda` mean this stand-in for whoever imports them: plain numba-cuda
programs run unchanged, without numba and without a GPU, and every launch leaves a `Ran` in `session.runs`. Device
arrays are NumPy arrays that share memory as device arrays would; host arrays are copied for each parameter and copied
back, as numba does.

Worked example:

    with cuda_on_cpu() as session:
        module = session.load("demo.py")
        module.main()
    session.runs[0].result.of("race")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tilecheck.frontend.host_dtypes import dtype_name
from tilecheck.frontend.numba import read_function
from tilecheck.interp.simt import Extents, SimtRun, run
from tilecheck.interp.simt_compile import Program, compile_kernel

_FORALL_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Ran:
    """One launch that ran: the kernel's name, its configuration, and what was found."""

    kernel: str
    grid: Extents
    block: Extents
    result: SimtRun


@dataclass
class Session:
    """What happens inside one `cuda_on_cpu()`; `seed` picks the schedules."""

    seed: int = 0
    runs: list[Ran] = field(default_factory=list)
    max_steps: int = 5_000_000

    def load(self, path: str | Path) -> ModuleType:
        """Run the file at `path` as a module of its own and return it."""
        text = Path(path).read_text()
        module = ModuleType(Path(path).stem)
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)
        return module


class DeviceArray(np.ndarray):
    """A device array: NumPy's, with numba's copying methods."""

    def copy_to_host(self, ary: Any = None, stream: object = 0) -> Any:
        """A host copy, into `ary` if it is given."""
        if ary is None:
            return np.array(self, subok=False)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:
        """Overwrite with the values of `ary`."""
        self[...] = ary


class NumbaType:
    """`numba.float32` and its kin: a cast when called with a number, a signature otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numba_path = f"numba.{name}"

    def __getitem__(self, item: object) -> NumbaType:
        return self

    def __call__(self, *args: Any) -> Any:
        dtype = dtype_name(self.name)
        if len(args) == 1 and isinstance(args[0], int | float | np.number) and dtype is not None:
            return np.dtype(dtype).type(args[0])
        return self


class Marker:
    """A name of `numba.cuda` that only means something inside kernels."""

    def __init__(self, path: str) -> None:
        self.numba_path = path

    def __getattr__(self, name: str) -> Marker:
        if name.startswith("__"):
            raise AttributeError(name)
        return Marker(f"{self.numba_path}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Marker:
        return self

    def __enter__(self) -> Marker:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class Kernel:
    """What `@cuda.jit` makes here: a launcher, or the plain function for host and device calls."""

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self.session = session
        self.py_func = function
        self._program: Program | None = None

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        grid, block, *rest = configuration
        shared = int(rest[1]) if len(rest) > 1 else 0
        return lambda *args: self._launch(_extents(grid), _extents(block), shared, args)

    def forall(self, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> Callable[..., None]:
        """A one-dimensional launch of at least `ntasks` threads."""
        width = tpb or _FORALL_BLOCK
        return lambda *args: self._launch((-(-ntasks // width), 1, 1), (width, 1, 1), sharedmem, args)

    def _launch(self, grid: Extents, block: Extents, shared: int, args: tuple[Any, ...]) -> None:
        if self._program is None:
            self._program = compile_kernel(read_function(self.py_func))
        program = self._program
        names = [param.name for param in program.kernel.params]
        values: dict[str, object] = {}
        copies: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        for name, value in zip(names, args, strict=True):
            if isinstance(value, np.ndarray) and not isinstance(value, DeviceArray):
                copy = value.copy()
                copies.append((value, copy))
                values[name] = copy
            else:
                values[name] = value.view(np.ndarray) if isinstance(value, DeviceArray) else value
        session = self.session
        result = run(
            program, values, grid, block, dynamic_shared=shared, seed=session.seed, max_steps=session.max_steps
        )
        for original, copy in copies:
            if original.flags.writeable:
                original[...] = copy
        session.runs.append(Ran(program.kernel.name, grid, block, result))


def _extents(value: Any) -> Extents:
    parts = list(value) if isinstance(value, tuple | list) else [value]
    x, y, z = [*(int(part) for part in parts), 1, 1][:3]
    return (x, y, z)


def _cuda(session: Session) -> ModuleType:
    """The stand-in of `numba.cuda`."""
    cuda = ModuleType("numba.cuda")

    def jit(*args: Any, **kwargs: Any) -> Any:
        if args and callable(args[0]) and not isinstance(args[0], NumbaType):
            return Kernel(session, args[0])
        return lambda function: Kernel(session, function)

    def to_device(obj: Any, stream: object = 0, copy: bool = True, to: Any = None) -> DeviceArray:
        made = np.array(obj).view(DeviceArray)
        if to is not None:
            to[...] = made
            return to  # type: ignore[no-any-return]
        return made

    def device_array(shape: Any, dtype: Any = np.float64, **options: object) -> DeviceArray:
        plain = np.dtype(dtype.name) if isinstance(dtype, NumbaType) else dtype
        return np.zeros(shape, plain).view(DeviceArray)

    def device_array_like(ary: Any, stream: object = 0) -> DeviceArray:
        return np.zeros_like(np.asarray(ary)).view(DeviceArray)

    def host_array(shape: Any, dtype: Any = np.float64, **options: object) -> np.ndarray[Any, Any]:
        return np.zeros(shape, dtype)

    members: dict[str, object] = {
        "jit": jit,
        "to_device": to_device,
        "as_cuda_array": to_device,
        "device_array": device_array,
        "device_array_like": device_array_like,
        "pinned_array": host_array,
        "mapped_array": device_array,
        "managed_array": device_array,
        "synchronize": lambda: None,
        "is_available": lambda: True,
    }
    for name, value in members.items():
        setattr(cuda, name, value)
    _markers(cuda, "numba.cuda")
    return cuda


def _markers(module: ModuleType, path: str) -> None:
    """Every other name of `module` is a type or a marker."""

    def missing(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return NumbaType(name) if dtype_name(name) is not None else Marker(f"{path}.{name}")

    module.__dict__["__getattr__"] = missing


def _random() -> ModuleType:
    module = ModuleType("numba.cuda.random")
    state = np.dtype([("s0", np.uint64), ("s1", np.uint64)])
    module.__dict__["create_xoroshiro128p_states"] = lambda n, seed=0, **_: np.zeros(n, state).view(DeviceArray)
    _markers(module, "numba.cuda.random")
    return module


@contextmanager
def cuda_on_cpu(seed: int = 0) -> Iterator[Session]:
    """Make `numba` and `numba.cuda` mean the stand-in; what was imported before is put back afterwards."""
    session = Session(seed)
    numba = ModuleType("numba")
    numba.__path__ = []
    cuda = _cuda(session)
    cuda.__path__ = []
    random, types = _random(), ModuleType("numba.types")
    for module, path in ((numba, "numba"), (types, "numba.types")):
        _markers(module, path)
    numba.__dict__.update(cuda=cuda, types=types)
    cuda.__dict__.update(random=random)
    names = {"numba": numba, "numba.cuda": cuda, "numba.cuda.random": random, "numba.types": types}
    saved = {name: module for name, module in sys.modules.items() if name == "numba" or name.startswith("numba.")}
    for name in saved:
        del sys.modules[name]
    sys.modules.update(names)
    try:
        yield session
    finally:
        for name in [n for n in sys.modules if n == "numba" or n.startswith("numba.")]:
            del sys.modules[name]
        sys.modules.update(saved)
