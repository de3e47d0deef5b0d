"""`tilecheck audit`: where the user took over responsibility, and why."""

from __future__ import annotations

import click

from tilecheck.cli import terminal
from tilecheck.cli.check import CannotRun, configured, counted, files_of


@click.command("audit")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(paths: tuple[str, ...]) -> None:
    """List every allow comment and every `tc.unsafe(...)`, with its reason."""
    from tilecheck.batch import read_inputs
    from tilecheck.report.waivers import waivers

    config = configured()
    listed = files_of(paths, config, ())
    found = []
    for item in read_inputs(listed):
        if item.data is None:
            raise CannotRun(f"{item.path} {item.problem}")
        found += waivers(item.path, item.data)
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
    terminal.write(
        f"{counted(len(found), 'place')} in {counted(len(listed), 'file')}" if found else "nothing is switched off"
    )
