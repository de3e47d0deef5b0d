"""The command line: `tilecheck check`, and what explains it.

One module per command; each is imported when it is run, so that `tilecheck check` on a code base without kernels loads
neither libcst nor z3 nor rich. Exit status: 0 nothing found, 1 findings, 2 could not run.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import click

from tilecheck.cli.ending import ending, writing

# Command -> its one line in `tilecheck --help`. The module `tilecheck.cli.NAME` defines the click command `command`.
COMMANDS = {
    "check": "Check files and folders for races, bounds, barriers and borrows.",
    "explain": "Explain a rule, or what was proved about a kernel (FILE::KERNEL).",
    "rules": "List the rules.",
    "ops": "List the operations of the kernel language, or show one.",
    "audit": "List what was switched off, and why.",
    "compile": "Compile the kernels that a script launches for another GPU.",
    "sanitize": "Run a script under NVIDIA's Compute Sanitizer.",
    "doctor": "Say what this machine can run, and what is missing.",
    "new": "Start a project that passes mypy, the linter and its tests.",
}


class _Lazy(click.Group):
    """Imports a command's module when it is needed; the list with its summaries needs none."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with ending():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with ending():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"tilecheck.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            meant = f"; `tilecheck check {args[0]}` checks it" if os.path.exists(args[0]) else ""
            raise click.UsageError(f"no command `{args[0]}`, only {', '.join(COMMANDS)}{meant}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        with writing():
            click.echo(f"tilecheck {version()}")
        ctx.exit()


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of("tilecheck")
    except PackageNotFoundError:
        return "0+uninstalled"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def group() -> None:
    """A borrow checker for GPU kernels in Python."""


def main(args: Sequence[str] | None = None) -> None:
    """The command line; `args` instead of those of the process."""
    group(args, prog_name="tilecheck")
