"""`tilecheck ops`: the operations of the kernel language, from the op table."""

from __future__ import annotations

from itertools import groupby

import click

from tilecheck.cli import terminal


@click.command("ops")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the operations of the kernel language by family, or show the one called NAME."""
    from tilecheck.ops import OPS
    from tilecheck.report.optable import entries, entry_page

    if name is not None:
        wanted = name.removeprefix("tc.")
        if wanted not in OPS:
            raise click.UsageError(f"there is no operation `{name}`; `tilecheck ops` lists them")
        terminal.write(entry_page(OPS[wanted]))
        return
    listed = entries(OPS.values())
    width = max(len(entry.call) for entry in listed)
    for family, group in groupby(listed, key=lambda entry: entry.family):
        terminal.show([((family, "bold"),)])
        for entry in group:
            terminal.write(f"  {entry.call:<{width}}  {entry.summary}")
