"""The root of what tilecheck raises, and the one error that the surface itself raises.

The runtime's tree of launch errors hangs below `TilecheckError`; here is only what a decorator or a `Dim` can refuse
before anything is launched.
"""

from __future__ import annotations


class TilecheckError(Exception):
    """A refusal in the user's words: `message` stands alone, `help` is one way out, `rule` names the broken rule."""

    rule: str = "usage"

    def __init__(self, message: str, help: str | None = None, *, rule: str | None = None) -> None:
        super().__init__(message if help is None else f"{message}\nhelp: {help}")
        self.message = message
        self.help = help
        if rule is not None:
            self.rule = rule


class UsageError(TilecheckError):
    """Kernel language on the host, host language in a kernel, or a kernel called with names it does not have."""

    rule = "usage"
