"""`tilecheck audit`: where the user took over responsibility, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tilecheck.cli import terminal
from tilecheck.cli.check import configured, counted, files_of, named_files
from tilecheck.cli.ending import CannotRun

if TYPE_CHECKING:
    from tilecheck.config import Config
    from tilecheck.diagnostic import Diagnostic


@click.command("audit")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...]) -> None:
    """List every allow comment and every `tc.unsafe(...)`, with its reason, and what the configuration switches off.

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
    project = list(_switched_off(config))
    for line in project:
        terminal.write(line)
    for each in unread:
        terminal.show([((f"{each.span.path}:{each.span.line}", "bold"), (f": {each.rule}: {each.message}", ""))])
    missing = f", {counted(len(unread), 'file')} could not be read" if unread else ""
    terminal.write(
        f"{counted(len(found), 'place')} in {counted(len(listed), 'file')}{missing}"
        if found
        else f"{'no comment switches anything off' if project else 'nothing is switched off'}{missing}"
    )
    ctx.exit(1 if unread else 0)


def _switched_off(config: Config) -> Iterator[str]:
    """What [tool.tilecheck] takes from all files: rules, and the findings of the baseline. Raises `CannotRun`."""
    from tilecheck.report.baseline import BaselineError, read_baseline

    if config.select:
        yield f"pyproject.toml: select: only {', '.join(config.select)} reported"
    for rule in config.ignore:
        yield f"pyproject.toml: ignore {rule}: not reported in any file"
    if config.baseline is not None and config.root is not None:
        try:
            accepted = read_baseline(config.root / config.baseline).total()
        except BaselineError as error:
            raise CannotRun(str(error)) from None
        if accepted:
            yield f"{config.baseline}: baseline: {counted(accepted, 'finding')} accepted"


def _unreadable(path: str, data: bytes) -> Sequence[Diagnostic]:
    """What `tilecheck check` says of a file that does not parse."""
    from tilecheck.check import check_bytes
    from tilecheck.judge import Options
    from tilecheck.modules import Modules

    return check_bytes(path, data, Modules(), Options(rules=frozenset({"unreadable"}))).diagnostics
