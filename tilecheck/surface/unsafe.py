"""`tc.unsafe("reason")`: the local way out, listed by `tilecheck audit`.

Above a kernel it tells the checker not to require a proof there; as a `with` block it marks the statements inside. It
does nothing at run time. The reason is mandatory: an opt-out without one is an error when it is written.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from tilecheck.surface.errors import UsageError

F = TypeVar("F")


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
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None
