"""`tilecheck compile SCRIPT --arch sm_90 --out DIR`: kernels for a machine that this one is not.

The script runs here, on the `cpu` backend; what it launches, and what it prepares with `op.compile()`, is compiled for the
named architecture. Exit status: 0 all kernels are in the folder, 1 the script launched none, 2 could not run. What
tilecheck refuses the script is one message, with its line; what else the script raises is shown from its own first frame
on, as if Python had run it.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from functools import partial
from types import TracebackType

import click

from tilecheck.cli import terminal
from tilecheck.cli.ending import CannotRun


@click.command("compile", context_settings={"ignore_unknown_options": True})
@click.argument("script", metavar="SCRIPT", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--arch", "architecture", required=True, metavar="sm_90", help="The architecture to compile for.")
@click.option("--out", "folder", required=True, metavar="DIR", help="The folder to fill; made if it is not there.")
@click.option(
    "--only",
    type=click.Choice(["tile-ir", "numba-cuda"]),
    help="Leave out the kernels that the other compiler gets.",
)
@click.pass_context
def command(
    ctx: click.Context, script: str, arguments: tuple[str, ...], architecture: str, folder: str, only: str | None
) -> None:
    """Compile the kernels that SCRIPT launches for another GPU, without one here.

    On the machine with the GPU, `tilecheck_runtime.disk_cache.enable(DIR)` makes the same calls find them.
    """
    os.environ["TILECHECK_DEVICE"] = "cpu"
    from importlib import import_module

    try:
        export = import_module("tilecheck_runtime.export")
    except ModuleNotFoundError as error:
        raise CannotRun(
            f'`{error.name}` is not installed: `pip install "tilecheck[cuda]"` brings the compiler'
        ) from None
    errors = import_module("tilecheck_runtime.errors")
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    sys.excepthook = partial(_show, script)
    try:
        with export.exporting(architecture, folder, only) as found:
            runpy.run_path(script, run_name="__main__")
    except errors.TilecheckError as error:
        raise CannotRun(f"{_place(script, error.__traceback__)}{error}") from None
    for item in found:
        words = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in (*item.dims, *item.hints))
        why = f" ({item.why})" if item.why else ""
        terminal.write(f"{item.kernel}: {item.compiler}, {item.nbytes:,} bytes, {words}{why}")
    if not found:
        which = f" that {only} gets; without `--only` the others are compiled too" if only is not None else ""
        click.echo(f"tilecheck: {script} launched no tile kernel{which}", err=True)
    ctx.exit(0 if found else 1)


def _place(script: str, trace: TracebackType | None) -> str:
    """`script.py:8: ` for the innermost line of the script, empty if the error was none of its doing."""
    own = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == script]
    return f"{script}:{own[-1]}: " if own else ""


def _show(script: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error without the frames that ran the script."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename != script:
        inner = inner.tb_next
    if inner is not None or isinstance(error, SyntaxError):
        error = error.with_traceback(inner)
    sys.__excepthook__(kind, error, error.__traceback__)
