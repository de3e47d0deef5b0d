"""`tilecheck audit`: where the user took over responsibility, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tilecheck.cli import terminal
from tilecheck.cli.check import configured, counted, files_of, named_files

if TYPE_CHECKING:
    from tilecheck.diagnostic import Diagnostic


@click.command("audit")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...]) -> None:
    """List every allow comment and every `tc.unsafe(...)`, with its reason.

    Exit status: 0, 1 if a file cannot be read as Python, 2 could not run.
    """
    from tilecheck.batch import read_inputs
    from tilecheck.check import unreadable
    from tilecheck.judge import Options
    from tilecheck.report.waivers import waivers

    config = configured()
    listed = files_of(paths, config, ())
    found = []
    unread: list[Diagnostic] = []
    for item in read_inputs(listed, named=named_files(paths)):
        if item.data is None:
            unread += unreadable(item.path, Options(), item.problem).diagnostics
            continue
        listed_here = waivers(item.path, item.data)
        if listed_here is None:
            unread += _unreadable(item.path, item.data)
        else:
            found += listed_here
    for waiver in found:
        place = f"{waiver.path}:{waiver.line}"
        reason = waiver.reason or "no reason given"
        terminal.show(
            [
                (
                    (place, "bold"),
                    (f": {waiver.kind} {waiver.what}: {reason}" if waiver.what else f": {waiver.kind}: {reason}", ""),
                )
            ]
        )
    for each in unread:
        terminal.show([((f"{each.span.path}:{each.span.line}", "bold"), (f": {each.rule}: {each.message}", ""))])
    missing = f", {counted(len(unread), 'file')} could not be read" if unread else ""
    terminal.write(
        f"{counted(len(found), 'place')} in {counted(len(listed), 'file')}{missing}"
        if found
        else f"nothing is switched off{missing}"
    )
    ctx.exit(1 if unread else 0)


def _unreadable(path: str, data: bytes) -> Sequence[Diagnostic]:
    """What `tilecheck check` says of a file that does not parse."""
    from tilecheck.check import check_bytes
    from tilecheck.judge import Options
    from tilecheck.modules import Modules

    return check_bytes(path, data, Modules(), Options(rules=frozenset({"unreadable"}))).diagnostics
