"""`tilecheck sanitize SCRIPT`: the script under NVIDIA's Compute Sanitizer, with lines of generated source.

The sanitizer watches one run on one GPU, so what it does not see may still be there: a tool that saw nothing is reported as
that, never as a clean kernel. It adds to the proof where there is none, in `tc.unsafe` kernels and in code of others.
Exit status: 0 no tool saw anything, 1 some did, 2 could not run (no sanitizer, or the script itself failed).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tilecheck.cli.ending import CannotRun

# Tool -> what it watches.
TOOLS = {
    "memcheck": "accesses outside of memory, in all address spaces",
    "racecheck": "races in shared memory, not in global memory",
    "initcheck": "reads of global memory that nothing wrote",
    "synccheck": "barriers that not all threads meet",
}
# What a tool needs to tell all that it sees: by default racecheck keeps back writes that meet writes.
_OPTIONS = {"racecheck": ("--racecheck-report", "all")}
# What the sanitizer exits with when it saw something; no exit status of ours or Python's own.
SEEN = 86


def find() -> str | None:
    """The path of `compute-sanitizer`: on PATH, or in the toolkit of CUDA_HOME or CUDA_PATH, or the usual place."""
    found = shutil.which("compute-sanitizer")
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    for home in (Path(home) for home in homes if home):
        for place in (home / "bin", home / "compute-sanitizer"):
            found = found or shutil.which("compute-sanitizer", path=str(place))
    return found


def _tools(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in wanted:
        if name not in TOOLS:
            raise click.BadParameter(f"no tool `{name}`, only {', '.join(TOOLS)}")
    if not wanted:
        raise click.BadParameter(f"name one or more of {', '.join(TOOLS)}")
    return wanted


@click.command("sanitize", context_settings={"ignore_unknown_options": True})
@click.option(
    "--tool",
    "tools",
    default=",".join(TOOLS),
    show_default=True,
    metavar="NAMES",
    callback=_tools,
    help="Tools to run, one run of the script each.",
)
@click.option("--sources", metavar="DIR", help="Keep the generated source and PTX in this folder.")
@click.argument("script", metavar="SCRIPT", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, tools: tuple[str, ...], sources: str | None, script: str, arguments: tuple[str, ...]
) -> None:
    """Run SCRIPT on the GPU under Compute Sanitizer, once per tool.

    Kernels are compiled with line tables, so that a finding names a line of the generated source.
    """
    sanitizer = find()
    if sanitizer is None:
        raise CannotRun("compute-sanitizer is not there; it is part of the CUDA toolkit (set CUDA_HOME, or PATH)")
    with TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "TILECHECK_DEVICE": "cuda",
            "TILECHECK_SOURCES": str(_folder(sources or scratch)),
        }
        results = {tool: _run(sanitizer, tool, [script, *arguments], environment) for tool in tools}
    for tool, seen in results.items():
        said = "findings above" if seen else "saw nothing in this run"
        click.echo(f"{tool}: {said} ({TOOLS[tool]})")
    ctx.exit(1 if any(results.values()) else 0)


def _folder(name: str) -> Path:
    path = Path(name).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"{name} is no folder: {error.strerror}") from None
    return path


def _run(sanitizer: str, tool: str, script: list[str], environment: dict[str, str]) -> bool:
    """Whether `tool` saw something. Raises CannotRun if the script failed for another reason."""
    click.echo(f"---- {tool}")
    sys.stdout.flush()
    own = [sanitizer, "--tool", tool, "--error-exitcode", str(SEEN), "--require-cuda-init", "no"]
    own += _OPTIONS.get(tool, ())
    try:
        status = subprocess.run([*own, sys.executable, *script], env=environment, check=False).returncode
    except OSError as error:
        raise CannotRun(f"{sanitizer} does not start: {error.strerror}") from None
    if status not in (0, SEEN):
        raise CannotRun(f"{script[0]} ended with status {status} under {tool}")
    return status == SEEN
