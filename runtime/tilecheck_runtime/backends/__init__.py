"""What a device must offer. `cpu.py` is the meaning and the default; a GPU backend sits beside it.

A backend moves bytes and runs work in the order of its streams; it knows nothing of borrows, of shapes that fit or of
ops: whatever arrives here has been checked. Work is data (`Launch`, `Copy`, `Download`), so that one description can be
run now, or be put into a graph and replayed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from tilecheck.interp.arguments import TileMap
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.errors import UsageError

Grid = tuple[int, int, int]
Array = npt.NDArray[Any]


class Buffer(Protocol):
    """Bytes of a device."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Strided:
    """A strided array in a buffer: `offset` and `strides` in bytes."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DTypeClass
    # Worked out at the first use: every launch asks.
    _numbers: tuple[int, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Address, extents and strides in elements, as kernels take them."""
        if self._numbers is None:
            size = self.dtype.bits // 8
            numbers = (self.address, *self.shape, *(s // size for s in self.strides))
            object.__setattr__(self, "_numbers", numbers)
        assert self._numbers is not None
        return self._numbers

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.buffer.address + self.offset


class Operand(NamedTuple):
    """A tensor argument: `tile` is one block's tile of what is written, `mapping` how blocks walk a mapped one."""

    array: Strided
    tile: tuple[int, ...] | None
    mapping: TileMap | None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a compiled kernel: arguments by parameter name, scalars as Python numbers."""

    kernel: str
    program: Any
    arguments: Mapping[str, Operand | int | float | bool]
    grid: Grid


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements of `source` to `target`, same shape and dtype."""

    target: Strided
    source: Strided


@dataclass(frozen=True, slots=True)
class Upload:
    """Elements of the host array `source`, which nobody changes any more, to `target`."""

    target: Strided
    source: Array


@dataclass(frozen=True, slots=True)
class Download:
    """Elements of `source` to the host array `target`."""

    target: Array
    source: Strided


Work = Launch | Copy | Upload | Download


class Event(Protocol):
    """The end of submitted work."""

    def wait(self) -> None:
        """Block until the work is over, then raise its error, if any."""

    def done(self) -> bool: ...

    def then(self, call: Callable[[], None]) -> None:
        """Call once the work is over, at once if it is; on any thread."""

    def let_go(self, call: Callable[[], None]) -> None:
        """Call once the work is over and somebody looks: at this event, at the device's memory, by a later submission."""


class Graph(Protocol):
    """Work made ready to be replayed."""


class Repeat(Protocol):
    """One launch or graph on one stream, ready to be submitted any number of times."""

    def after(self, events: tuple[Event, ...]) -> bool:
        """Let the rounds to come follow `events`. False, and nothing done, if one of those may fail unnoticed by them."""

    def __call__(self) -> None: ...

    def fill(self, scalars: Mapping[str, float]) -> None:
        """Let the rounds to come of a launch take other floats, by parameter name."""

    def end(self) -> Event:
        """The end of the rounds so far."""

    @property
    def last(self) -> Event | None:
        """The end of the last round, where each has an end of its own."""

    def idle(self) -> bool:
        """Whether every round is over, as far as that can be told without waiting."""

    def settled(self) -> None:
        """Every round is over, and its failure, if any, was told: those to come do not follow it."""

    def wait(self) -> None:
        """Block until every round is over, then raise the error of one that failed, if any."""

    def close(self, over: Callable[[], None]) -> None:
        """No more rounds; what the launch needs is kept until the last one is over, then `over` is called."""


class Looks(Protocol):
    """Somebody who keeps what submitted work needs."""

    @property
    def empty(self) -> bool:
        """Whether nothing is kept."""

    def look(self) -> None:
        """Let go of what is over."""


class Cast(Protocol):
    """One launch on one stream that is submitted with other addresses and floats each time."""

    def __call__(self, numbers: Sequence[int | float]) -> None:
        """Submit it with these, by the parameters it was made for. Not safe from two threads at once."""


class Line(Protocol):
    """A stream that takes launches without telling the end of each."""

    def cast(self, work: Launch, varying: Sequence[str]) -> Cast | None:
        """`work` with everything packed but the addresses and the floats of the parameters `varying`. None for a kernel in
        which checks remain: it needs a record of its own each time.
        """

    def after(self, events: Sequence[Event]) -> bool:
        """Let what is submitted next come behind `events`. False, and nothing done, if one of those may fail unnoticed by it."""

    def mark(self, after: tuple[Event, ...]) -> Event:
        """As of `Stream`."""

    def point(self) -> Event:
        """The end of everything submitted so far, which the device does not look at by itself."""

    def idle(self) -> bool:
        """Whether everything submitted is over, as far as that can be told without waiting."""

    def drain(self) -> None:
        """Block until everything submitted is over."""

    def look(self) -> None:
        """As of the device."""

    def attend(self, keeper: Looks) -> None:
        """Let `keeper` look whenever memory is asked for, until it is empty."""


class Stamp(Protocol):
    """A point of a stream, with the time at which the device passed it."""

    def since(self, earlier: Any) -> float:
        """Seconds from `earlier`, a stamp of the same stream, to this one; waits until the device has passed both."""


class Stream(Protocol):
    """Work runs in order, one item at a time."""

    def submit(self, work: Work | Graph, after: tuple[Event, ...], keep: object) -> Event:
        """Queue work behind everything submitted before and behind `after`.

        If something in `after` failed, the work does not run and fails with that error. `keep` is referenced until
        the work is over.
        """

    @property
    def shares(self) -> bool:
        """Whether rounds of a `Repeat` whose program has `checks` tell of a failure in one place, so that it is not known
        which one failed.
        """

    def line(self) -> Line | None:
        """This stream for launches without an end of their own; None where each has one anyway."""

    def repeat(self, work: Launch | Graph, keep: object) -> Repeat:
        """`work`, prepared for this stream; `keep` is what it needs."""

    def mark(self, after: tuple[Event, ...]) -> Event:
        """The end of everything submitted so far and of `after`; fails with what failed there."""

    def stamp(self) -> Stamp:
        """The end of everything submitted so far, timed by the device."""

    def flush(self) -> None:
        """Leave nothing of earlier work in the second-level cache; nothing to do for a device whose caches are its own."""


class Backend(Protocol):
    """A device."""

    @property
    def name(self) -> str:
        """As in `tensor.device`."""

    @property
    def model(self) -> str:
        """What kind of device it is: times of one say nothing of another."""

    def look(self) -> None:
        """Let go of what work that is over kept, and call what waits for its end."""

    def allocate(self, nbytes: int) -> Buffer: ...
    def free(self, buffer: Buffer) -> None: ...

    def upload(self, target: Strided, source: Array) -> None:
        """Copy a host array, broadcast and cast to the target's shape and dtype; over when it returns."""

    def download(self, source: Strided) -> Array:
        """A fresh host array of the source's values; over when it returns."""

    def compile(self, report: TileReport, key: Any, dims: Mapping[str, int]) -> Any:
        """The program of a checked kernel for one specialisation key; kept and reused by the caller."""

    def compile_simt(
        self, report: SimtReport, block: Grid, shared: int, dims: Mapping[str, int], function: FunctionType
    ) -> Any:
        """The program of a proved SIMT kernel with `block` threads and `shared` bytes of dynamic shared memory;
        `function` is what the user wrote."""

    def compile_cpp(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        block: Grid,
        shared: int,
        formats: str,
        given: Sequence[tuple[str, int]],
    ) -> Any:
        """The program of a kernel in CUDA C++ for arguments of these `formats` (see `driver.Packed`); `given` says in words what
        they are, and their bytes. Raises LaunchRefused where there is no C++, for what does not compile and for what the device
        cannot hold.
        """

    def stream(self) -> Stream: ...

    def wrap(self, foreign: object) -> Stream:
        """The stream of another library, which stays alive as long as ours. Raises UsageError for what is none of this device."""

    def graph(self, work: tuple[Work, ...]) -> Graph: ...


@cache
def default() -> Backend:
    """The device of this process: the GPU if numba-cuda and a GPU are there, else the CPU.

    The environment variable `TILECHECK_DEVICE` decides instead: `cpu`, or `cuda`, which raises UsageError with the reason
    where no GPU can be used.
    """
    from tilecheck_runtime.backends.cpu import CPU
    from tilecheck_runtime.errors import NoDevice

    wanted = os.environ.get("TILECHECK_DEVICE", "")
    if wanted not in ("", "cpu", "cuda"):
        raise UsageError(f"TILECHECK_DEVICE is {wanted!r}", "use `cpu` or `cuda`, or leave it unset")
    if wanted == "cpu":
        return CPU
    try:
        return _cuda()
    except NoDevice as reason:
        if wanted == "cuda":
            raise UsageError(f"no GPU can be used: {reason}", "`tilecheck doctor` says what is missing") from None
        return CPU


def _cuda() -> Backend:
    # The driver is asked first: it is the cheaper question, and numba's import is slow.
    from tilecheck_runtime.driver import Device
    from tilecheck_runtime.errors import NoDevice

    Device.open()
    try:
        cuda = import_module("tilecheck_runtime.backends.cuda")
    # numba-cuda falls over names that a newer NumPy has no more.
    except (ImportError, AttributeError) as error:
        raise NoDevice(f"numba-cuda does not import: {error}") from None
    backend: Backend = cuda.device()
    return backend
