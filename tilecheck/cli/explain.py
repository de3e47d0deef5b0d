"""`tilecheck explain RULE` and `tilecheck explain FILE::KERNEL`, with `--resources` what the kernel takes of a GPU."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tilecheck.cli import resources as gpu
from tilecheck.cli import terminal
from tilecheck.cli.check import configured, counted, files_of
from tilecheck.cli.ending import CannotRun
from tilecheck.cli.resources import DEFAULT, Asked

if TYPE_CHECKING:
    from tilecheck.checked import Checked
    from tilecheck.frontend.launches import Launch
    from tilecheck.frontend.source import Source
    from tilecheck.ir.kernel import Kernel
    from tilecheck.report.result import KernelSummary
    from tilecheck.verify.simt import SimtReport
    from tilecheck_runtime.resources import Taken


# Processor seconds for asking whether one barrier is needed.
_BARRIER_SECONDS = 5.0


@click.command("explain")
@click.argument("what", metavar="RULE | FILE::KERNEL")
@click.option("--ir", "with_ir", is_flag=True, help="Show the kernel as the checks read it.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="The form of the report.")
@click.option("--resources", is_flag=True, help="Compile a tile kernel: registers, shared memory, blocks that fit.")
@click.option("--arch", multiple=True, metavar="sm_90", help="An architecture to compile for; repeat for more.")
@click.option("--dim", multiple=True, metavar="BM=128", help="The size of a Dim; repeat for each.")
@click.option("--dtype", multiple=True, metavar="T=f16", help="The dtype of a type variable or parameter that is open.")
def command(
    what: str,
    with_ir: bool,
    form: str,
    resources: bool,
    arch: tuple[str, ...],
    dim: tuple[str, ...],
    dtype: tuple[str, ...],
) -> None:
    """Explain a rule, or what was proved about a kernel: from what, and where each bounds check went."""
    if not resources and (arch or dim or dtype):
        raise click.UsageError("--arch, --dim and --dtype go with --resources")
    if os.path.isfile(what) and "::" not in what:
        what = f"{what}::{_only_kernel(what)}"
    if "::" in what:
        path, _, name = what.rpartition("::")
        asked = Asked(arch or DEFAULT, _sizes(dim), _pairs("--dtype", dtype)) if resources else None
        _explain_kernel(path, name, with_ir, form, asked)
        return
    if with_ir or resources or form != "text":
        raise click.UsageError("--ir, --format and --resources go with FILE::KERNEL")
    from tilecheck.report.explain import rule_page
    from tilecheck.report.pages import pages

    found = {page.name: page for page in pages()}
    if what not in found:
        from tilecheck.rules import no_rule

        path, colon, kernel = what.rpartition(":")
        way_out = f"a kernel is FILE::KERNEL, `{path}::{kernel}`" if colon else no_rule(what)[1]
        raise click.UsageError(f"there is no rule `{what}`; {way_out}")
    terminal.write(rule_page(found[what]))


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` arguments."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise click.UsageError(f"{option} takes NAME=VALUE, not {text!r}")
        found[name] = value
    return found


def _sizes(given: tuple[str, ...]) -> dict[str, int]:
    found = _pairs("--dim", given)
    for name, value in found.items():
        if not value.isdecimal() or int(value) < 1:
            raise click.UsageError(f"--dim {name}={value} is no positive int")
    return {name: int(value) for name, value in found.items()}


def _launches_of(path: str) -> list[Launch]:
    """The launches of the file's kernels that the rest of the project makes, as `tilecheck check` sees them."""
    from tilecheck.batch import read_inputs
    from tilecheck.check import launches_in
    from tilecheck.modules import Modules
    from tilecheck.reach import reachers

    here = os.path.normpath(path)
    data = {item.path: item.data for item in read_inputs(files_of((), configured(), ())) if item.data is not None}
    if here not in data:
        return []
    others = reachers(list(data.items()))[here]
    found = [launch for other in sorted(others) for launch in launches_in(other, data[other], Modules((os.curdir,)))]
    return [launch for launch in found if os.path.abspath(launch.kernel.path) == os.path.abspath(path)]


def _read(path: str) -> Source:
    """The parsed file. Raises `CannotRun`."""
    from tilecheck.frontend.gate import Undecodable, read_text
    from tilecheck.frontend.source import Source, Unreadable

    try:
        with open(path, "rb") as file:
            source = Source(path, read_text(file.read()))
        _ = source.module
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from None
    except (Undecodable, Unreadable) as error:
        raise CannotRun(f"cannot read {path}: {error.message}") from None
    return source


def _only_kernel(path: str) -> str:
    """The name of the one kernel of a file. Raises `CannotRun` with the names of several; nothing is proved for it."""
    from functools import partial

    from tilecheck.frontend import cutile, numba, tile
    from tilecheck.judge import contained
    from tilecheck.modules import Modules

    source, modules = _read(path), Modules((os.curdir,))
    kernels = list(contained(partial(tile.read_kernels, source, modules.resolve), lambda _: ((), ()))[0])
    for track in (numba, cutile):
        kernels += contained(partial(track.read_kernels, source, modules.importer(path)), lambda _: ())
    if not kernels:
        raise CannotRun(f"{path} has no kernel to explain")
    if len(kernels) > 1:
        kernels.sort(key=lambda kernel: kernel.span.line)
        names = ", ".join(f"{path}::{kernel.name}" for kernel in kernels)
        raise CannotRun(f"{path} has {counted(len(kernels), 'kernel')}, name one: {names}")
    return kernels[0].name


def _explain_findings(checked: Checked, kernel: Kernel) -> None:
    """What `tilecheck check` says of the kernel, whatever found it."""
    from tilecheck.judge import run_rules
    from tilecheck.report.text import plain
    from tilecheck.rules import RULES, rule_name

    first, last = kernel.lines
    faults = tuple(fault for fault in checked.faults if first <= fault.span.line <= last)
    tile = tuple(report for report in checked.tile if report.kernel is kernel)
    simt = tuple(report for report in checked.simt if report.kernel is kernel)
    own = replace(checked, tile=tile, simt=simt, host=None, faults=faults)
    own_lines, on_disk = checked.text.split("\n"), terminal.source_lines()
    for found in run_rules(own, [rule_name(rule) for rule in RULES]):
        terminal.write("\n" + plain(found, lambda path: own_lines if path == checked.path else on_disk(path)))


def _explain_proof(report: SimtReport, path: str, text: str) -> None:
    """Why what is safe in a thread-level kernel is, and which barriers are needed."""
    from tilecheck.frontend.launches import read_launches
    from tilecheck.frontend.source import Source
    from tilecheck.modules import Modules
    from tilecheck.report.explain import proof_page
    from tilecheck.verify.necessity import barrier_notes
    from tilecheck.verify.simt import launches_of

    shown = read_launches(Source(path, text), Modules((os.curdir,)).importer(path))
    launches = launches_of(report.kernel, (*shown, *_launches_of(path)))
    terminal.write(proof_page(report.notes, tuple(barrier_notes(report, launches, _BARRIER_SECONDS))))


def _explain_kernel(path: str, name: str, with_ir: bool, form: str, asked: Asked | None) -> None:
    from tilecheck.check import THREADS, analyse
    from tilecheck.judge import Options
    from tilecheck.modules import Modules
    from tilecheck.report.explain import kernel_page
    from tilecheck.report.summary import summaries

    source = _read(path)
    # Only thread-level kernels are proved for the launches that other files make.
    elsewhere = _launches_of(path) if THREADS.search(source.text) else []
    checked = analyse(source, Modules((os.curdir,)), Options(), elsewhere)
    listed = summaries(checked)
    summary = next((summary for summary in listed if summary.name == name), None)
    if summary is None:
        known = ", ".join(summary.name for summary in listed) or "none"
        raise CannotRun(f"{path} has no kernel `{name}`; its kernels: {known}")
    kernels = [report.kernel for report in checked.tile] + [report.kernel for report in checked.simt]
    kernel = next(kernel for kernel in kernels if kernel.name == name)
    # Before anything is printed: what is asked for may not be there.
    measured = None if asked is None else gpu.measured(kernel, asked)
    if form == "json":
        terminal.write(_json(summary, asked, measured))
        return
    terminal.write(kernel_page(summary))
    _explain_findings(checked, kernel)
    for report in checked.simt:
        if report.kernel.name == name:
            _explain_proof(report, path, source.text)
    if asked is not None and measured is not None:
        terminal.write(gpu.text(*measured, asked))
    if with_ir:
        from tilecheck.ir.printer import show_kernel

        terminal.write("\n" + show_kernel(kernel))


def _json(summary: KernelSummary, asked: Asked | None, measured: tuple[list[Taken], str | None] | None) -> str:
    """The kernel as `check --format json` has it, with its resources."""
    import json

    from tilecheck.report.json import kernel_json

    values = kernel_json(summary)
    if asked is not None and measured is not None:
        values["resources"] = gpu.values(*measured, asked)
    return json.dumps(values, indent=2, ensure_ascii=False)
