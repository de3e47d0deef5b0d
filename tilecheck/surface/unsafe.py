"""`tc.unsafe("reason")`: the local way out, listed by `tilecheck audit`.

Above a kernel it tells the checker not to require a proof there; as a `with` block it marks the statements inside. At run
time it has one effect: a launch built inside the block takes what its kernel requires of array elements
(`requires="distinct(perm)"`) for true, without reading the arrays. The reason is mandatory: an opt-out without one is an
error when it is written.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TypeVar

from tilecheck.surface.errors import UsageError

F = TypeVar("F")
# How many `with tc.unsafe(...)` blocks this thread or task is in.
_depth: ContextVar[int] = ContextVar("unsafe", default=0)


def vouched() -> bool:
    """Whether the running code is inside a `with tc.unsafe("reason"):` block."""
    return _depth.get() > 0


class unsafe:
    """Take the responsibility for what cannot be proved here. Raises `UsageError` without a reason in words."""

    def __init__(self, reason: str) -> None:
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(
                "`unsafe` has no reason",
                'say why it is safe: `tc.unsafe("rows are distinct by construction")`',
                rule="allow-without-reason",
            )
        self.reason = reason

    def __call__(self, kernel: F) -> F:
        return kernel

    def __enter__(self) -> None:
        _depth.set(_depth.get() + 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _depth.set(_depth.get() - 1)
