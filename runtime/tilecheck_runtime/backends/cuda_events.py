"""What the GPU says about submitted work: its end, the time of a point, and what a check in a kernel noted.

A kernel whose checks stay in place notes a failure in a page-locked record, which the wait reads: no extra synchronisation,
and the context survives.
"""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilecheck.ir.kernel import Assert, Const, Kernel, Node, OpCall, walk
from tilecheck_runtime.backends import Event, Grid, faults
from tilecheck_runtime.errors import DriverError, KernelStopped
from tilecheck_runtime.sites import place

if TYPE_CHECKING:
    from tilecheck_runtime.backends.cuda import CUDADevice


class CUDAEvent:
    """The end of one submission: what it needs (`keep`), what it waited for (`before`), its fault records (`reports`), and
    what it is in words (`work`).

    The device holds every event until it has been seen done, so that what a submission needs outlives the submission even
    when nobody waits for it.
    """

    __slots__ = (
        *("_before", "_calls", "_device", "_failure", "_keep", "_over", "_reports", "_work"),
        *("handle", "risky", "stream"),
    )

    def __init__(
        self,
        device: CUDADevice,
        handle: int,
        stream: int,
        keep: object,
        reports: tuple[Report, ...],
        before: tuple[Event, ...],
        work: str = "the stream",
    ) -> None:
        self.handle = handle
        self._work = work
        self.stream = stream
        self._device = device
        self._keep = keep
        self._reports = reports
        self._before = before
        # Whether it may fail, or has failed, with the error of a kernel's check.
        self.risky: bool = bool(reports) or any(isinstance(event, CUDAEvent) and event.risky for event in before)
        self._over = False
        self._failure: Exception | None = None
        self._calls: list[Callable[[], None]] = []

    def wait(self) -> None:
        """Block until the work is over. Raises what it failed with."""
        if not self._over:
            try:
                self._device.device.wait_event_host(self.handle)
            except DriverError as error:
                self._failure = error.noticed(self._work)
            self._finish()
        if self._failure is not None:
            raise self._failure

    def done(self) -> bool:
        """Whether the work is over, without waiting."""
        if not self._over:
            try:
                if not self._device.device.event_done(self.handle):
                    return False
            except DriverError as error:
                self._failure = error.noticed(self._work)
            self._finish()
        return True

    def then(self, call: Callable[[], None]) -> None:
        """Call once the work is over, on a thread of the device that sleeps until then."""
        self._device.watch(self, call)

    def let_go(self, call: Callable[[], None]) -> None:
        """Call once the work is over and somebody looks."""
        with self._device.settling:
            if not self._over:
                self._calls.append(call)
                return
        call()

    def _finish(self) -> None:
        # What it came after is over as well. Earliest first and without recursion: a loop that does not wait makes a chain
        # of thousands.
        with self._device.settling:
            open_events = [self]
            while open_events:
                event = open_events[-1]
                earlier = [e for e in event._before if isinstance(e, CUDAEvent) and not e._over]
                if earlier:
                    open_events += earlier
                else:
                    open_events.pop()._settle()

    def _settle(self) -> None:
        if self._over:
            return
        before, self._before = self._before, ()
        reports, self._reports = self._reports, ()
        # Work behind failed work fails with the same error, as on the CPU.
        for event in before:
            if isinstance(event, CUDAEvent):
                self._failure = self._failure or event._failure
        for report in reports:
            self._failure = self._failure or report.read()
        self.risky = self._failure is not None
        self._over = True
        self._keep = None
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def __del__(self) -> None:
        self._device.retire(self.handle)


class Report:
    """A fault record of one launch of `kernel`: 8 page-locked bytes, see `faults.py`; blocks are counted along the first axis
    of `grid` first.
    """

    def __init__(self, device: CUDADevice, kernel: Kernel, grid: Grid) -> None:
        self._device = device
        self._kernel = kernel
        self._grid = grid
        self.address = device.record()
        ctypes.c_uint64.from_address(self.address).value = 0

    def read(self) -> KernelStopped | None:
        """The error of the check that failed since the last reading."""
        word = ctypes.c_uint64.from_address(self.address)
        failure, word.value = faults.decoded(word.value), 0
        if failure is None:
            return None
        line, block = failure
        x, y, _ = self._grid
        failed = next((node for node in walk(*self._kernel.body) if _asserts(node, line)), None)
        path = self._kernel.path if failed is None else failed.span.path
        where = f"{place(path, line)}: in `{self._kernel.name}`, block {(block % x, block // x % y, block // (x * y))}"
        if failed is not None:
            return KernelStopped(_said(failed), rule="device-assert", points=(where,))
        source = linecache.getline(path, line).strip()
        what = f": `{source}`" if source else ""
        return KernelStopped(
            f"an index is outside its extent at line {line} of `{self._kernel.name}`{what}", points=(where,)
        )

    def __del__(self) -> None:
        # The constructor may have failed before there was a record.
        address = getattr(self, "address", None)
        if address is not None:
            self._device.give_record(address)


def _asserts(node: Node, line: int) -> bool:
    return node.span.line == line and (
        isinstance(node, Assert) or (isinstance(node, OpCall) and node.op == "device_assert")
    )


def _said(node: Node) -> str:
    """The words of the interpreter for an assertion that fails."""
    message = node.message if isinstance(node, Assert) else None
    if isinstance(node, OpCall):
        message = next((a.value for a in node.args[1:] if isinstance(a, Const) and isinstance(a.value, str)), None)
    return f"assertion failed: {message}" if message else "assertion failed"


class CUDAStamp:
    """A timing event."""

    def __init__(self, device: CUDADevice, stream: int) -> None:
        self._device = device.device
        self._handle = self._device.new_event(timing=True)
        self._device.record(self._handle, stream)

    def since(self, earlier: CUDAStamp) -> float:
        self._device.wait_event_host(self._handle)
        return self._device.elapsed_ms(earlier._handle, self._handle) / 1e3

    def __del__(self) -> None:
        # The constructor may have failed before there was an event.
        handle = getattr(self, "_handle", None)
        if handle is not None:
            self._device.free_event(handle)
