"""`tilecheck rules`: the list of rules."""

from __future__ import annotations

import click

from tilecheck.cli import terminal


@click.command("rules")
def command() -> None:
    """List the rules, with their severity and what they reject."""
    from tilecheck.report.pages import pages

    listed = pages()
    width = max(len(page.name) for page in listed)
    for page in listed:
        fix = " [fix]" if page.fixable else ""
        terminal.show([((f"{page.name:<{width}}  ", "bold"), (f"{page.severity:<7}  {page.summary}{fix}", ""))])
