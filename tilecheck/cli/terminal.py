"""Where lines of a report go: to a colour terminal through rich, to anything else as plain text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence

from tilecheck.cli.ending import writing
from tilecheck.report.text import Line


def source_lines() -> Callable[[str], Sequence[str]]:
    """A reader of source lines by path; each file is read at most once, and an unreadable one is empty."""
    from tilecheck.frontend.gate import Undecodable, read_text

    known: dict[str, Sequence[str]] = {}

    def lines(path: str) -> Sequence[str]:
        if path not in known:
            try:
                # A pipe or a device would be waited for.
                with open(path if os.path.isfile(path) else os.devnull, "rb") as file:
                    known[path] = read_text(file.read()).split("\n")
            except (OSError, Undecodable):
                known[path] = ()
        return known[path]

    return lines


def show(lines: Iterable[Line]) -> None:
    """Print lines of styled pieces to standard output."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False, soft_wrap=True)
        for line in lines:
            console.print(Text.assemble(*line))
    else:
        for line in lines:
            write("".join(text for text, _ in line).rstrip())


def write(text: str) -> None:
    """Print a line; what the terminal's encoding lacks is escaped instead of failing. Raises `CannotRun`."""
    encoding = sys.stdout.encoding or "utf-8"
    with writing():
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
