"""What the runtime raises: a small tree, sorted by what the catcher can do about it.

    TilecheckError            .rule .message .points .help
    ├── UsageError            a host call that makes no sense: a bad shape, dtype, slice or argument
    │   └── NoSuchAttribute   a name or method that is not there; an AttributeError too
    ├── BorrowError           ownership: borrow-conflict, use-after-move, use-in-flight, write-to-shared
    ├── LaunchRefused         a launch whose arguments do not fit together; nothing was queued
    │   └── KernelRejected    the kernel itself is wrong; `.diagnostics` holds the findings
    ├── OpError               the life of ops, streams and graphs: run twice, reentrant-sync, capture
    ├── KernelStopped         a check inside the kernel stopped it; raised by `wait`
    └── driver.DriverError    the driver refused a call, or found that a kernel had failed; raised where it is noticed

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
    "DroppedOpWarning",
    "KernelRejected",
    "KernelStopped",
    "LaunchRefused",
    "NoSuchAttribute",
    "OpError",
    "TilecheckError",
    "UsageError",
]


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
