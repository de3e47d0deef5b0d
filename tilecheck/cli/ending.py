"""How a command ends that could not run: exit status 2 and one line on standard error, whatever it was doing.

Invariant: a report that was not written in full is no success, so standard output is flushed before the exit status is
decided. A pipe that its reader closed is left to click, which ends quietly.

    with ending():
        raise KeyboardInterrupt    # CannotRun("interrupted")
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


class CannotRun(click.ClickException):
    """The run ends with exit status 2 and one line on standard error."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"tilecheck: {self.message}", err=True)


@contextmanager
def ending() -> Iterator[None]:
    """Work of a command. Raises `CannotRun` if it is interrupted, or if its report cannot be written."""
    if sys.stdout is None:
        raise CannotRun("could not write the report: standard output is closed")
    try:
        yield
    except KeyboardInterrupt:
        raise CannotRun("interrupted") from None
    except RuntimeError as error:
        # What Python 3.11 makes of an interrupt in `__set_name__`, while a class is being made.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        raise CannotRun("interrupted") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        # One that names no file is of a write to standard output, such as that of a help page.
        if error.filename is not None:
            raise
        raise _lost(error) from None
    finally:
        _deliver()


def _deliver() -> None:
    if sys.stdout.closed:
        return
    with writing():
        sys.stdout.flush()


@contextmanager
def writing() -> Iterator[None]:
    """A write to standard output. Raises `CannotRun` if it fails, and BrokenPipeError if nobody reads."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _lost(error) from None


def _lost(error: OSError) -> CannotRun:
    # The interpreter flushes once more when it ends.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return CannotRun(f"could not write the report: {error.strerror}")
