"""What the runtime raises: a small tree, sorted by what the catcher can do about it.

    TilecheckError            .rule .message .points .help
    ├── UsageError            a host call that makes no sense: a bad shape, dtype, slice or argument
    │   └── NoSuchAttribute   a name or method that is not there; an AttributeError too
    ├── BorrowError           ownership: borrow-conflict, use-after-move, use-in-flight, write-to-shared
    ├── LaunchRefused         a launch whose arguments do not fit together; nothing was queued
    │   └── KernelRejected    the kernel itself is wrong; `.diagnostics` holds the findings
    ├── OpError               the life of ops, streams and graphs: run twice, reentrant-sync, capture
    ├── KernelStopped         a check inside the kernel stopped it; raised by `wait`
    └── DriverError           the driver refused a call, or found that a kernel had failed; raised where it is noticed

The class says at which stage something went wrong, `.rule` names the broken rule, the same name as in the linter. The
text reads like the linter's: the first line stands alone, then the other points of the story, then one way out.

    >>> try: raise BorrowError("cannot read `z` while `copy` holds it", "`sync()` the op first", rule="borrow-conflict")
    ... except TilecheckError as e: print(e.rule)
    borrow-conflict
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.diagnostic import Diagnostic
from tilecheck.surface.errors import NoSuchAttribute, TilecheckError, UsageError

__all__ = [
    "BorrowError",
    "DriverError",
    "DroppedOpWarning",
    "KernelRejected",
    "KernelStopped",
    "LaunchRefused",
    "NoDevice",
    "NoSuchAttribute",
    "OpError",
    "TilecheckError",
    "UsageError",
]


# Errors of kernels after which every call of the process fails (CUDA driver API, CUresult).
_LOST = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS",
        "LAUNCH_TIMEOUT",
        "ASSERT",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_INSTRUCTION",
        "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
        "ECC_UNCORRECTABLE",
        "DEVICE_UNAVAILABLE",
    )
)
_START_AGAIN = (
    "the device is lost to this process: start it again; `tilecheck sanitize SCRIPT` says which access of an unchecked kernel "
    "it was"
)


class BorrowError(TilecheckError):
    """An access that ownership forbids. The tensor and its borrows are as before."""

    rule = "borrow-conflict"


class LaunchRefused(TilecheckError):
    """A launch that does not fit its arguments. Nothing was queued and every borrow was returned."""

    rule = "launch-contract"


class KernelRejected(LaunchRefused):
    """The kernel is wrong for these extents, or wrong altogether: `diagnostics` as the linter prints them."""

    rule = "unsupported"

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic], text: str) -> None:
        super().__init__(message, rule=diagnostics[0].rule if diagnostics else None)
        self.diagnostics = tuple(diagnostics)
        self.text = text

    def __str__(self) -> str:
        return f"{self.message}\n{self.text}" if self.text else self.message


class OpError(TilecheckError):
    """An operation, stream or graph used out of order."""

    rule = "usage"


class KernelStopped(TilecheckError):
    """A check inside a kernel failed while it ran; the bad access was not performed."""

    rule = "out-of-bounds"


class DroppedOpWarning(UserWarning):
    """An op was built and never run (rule dropped-op); its borrows ended and no buffer changed."""


class DriverError(TilecheckError):
    """The driver refused a call: `call` names it, `code` is the driver's own name of the error."""

    rule = "launch-contract"

    def __init__(self, call: str, code: str, text: str, points: tuple[str, ...] = ()) -> None:
        lost = code in _LOST
        super().__init__(f"{call}: {text} ({code})", _START_AGAIN if lost else None, points=points)
        self.call = call
        self.code = code
        self._text = text
        # Whether the device is of no use to this process any more.
        self.lost = lost

    def noticed(self, work: str) -> DriverError:
        """The error as whoever waits for `work` gets it, which an earlier launch may have caused."""
        return DriverError(self.call, self.code, self._text, (f"noticed while waiting for {work}",))


class NoDevice(Exception):
    """There is no usable GPU: the message says which of package, driver and device is missing."""
