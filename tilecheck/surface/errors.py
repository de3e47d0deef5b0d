"""The root of what tilecheck raises, and the errors that the surface itself raises.

The runtime's tree of launch errors hangs below `TilecheckError`; here is only what a decorator or a `Dim` can refuse
before anything is launched.
"""

from __future__ import annotations


class TilecheckError(Exception):
    """A refusal in the user's words: `message` stands alone, `help` is one way out, `rule` names the broken rule.

    `points` are the other places of the story, a line each, printed between the two.
    """

    rule: str = "usage"

    def __init__(
        self, message: str, help: str | None = None, *, rule: str | None = None, points: tuple[str, ...] = ()
    ) -> None:
        lines = (message, *(f"  {point}" for point in points), *(() if help is None else (f"help: {help}",)))
        super().__init__("\n".join(lines))
        self.message = message
        self.help = help
        self.points = points
        if rule is not None:
            self.rule = rule


class UsageError(TilecheckError):
    """Kernel language on the host, host language in a kernel, or a kernel called with names it does not have."""

    rule = "usage"


class NoSuchAttribute(UsageError, AttributeError):
    """A name of another library, or a method of something else: `tc.to_device`, `op.wait()` before `op.run()`."""
