"""`tilecheck explain RULE` and `tilecheck explain FILE::KERNEL`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tilecheck.cli import terminal
from tilecheck.cli.check import CannotRun, configured, files_of

if TYPE_CHECKING:
    from tilecheck.frontend.launches import Launch
    from tilecheck.verify.simt import SimtReport


# Processor seconds for asking whether one barrier is needed.
_BARRIER_SECONDS = 5.0


@click.command("explain")
@click.argument("what", metavar="RULE | FILE::KERNEL")
@click.option("--ir", "with_ir", is_flag=True, help="Show the kernel as the checks read it.")
def command(what: str, with_ir: bool) -> None:
    """Explain a rule, or what was proved about a kernel: from what, and where each bounds check went."""
    if "::" in what:
        path, _, name = what.rpartition("::")
        _explain_kernel(path, name, with_ir)
        return
    if with_ir:
        raise click.UsageError("--ir goes with FILE::KERNEL")
    from tilecheck.report.explain import rule_page
    from tilecheck.report.pages import pages

    found = {page.name: page for page in pages()}
    if what not in found:
        raise click.UsageError(f"there is no rule `{what}`; `tilecheck rules` lists them, a kernel is FILE::KERNEL")
    terminal.write(rule_page(found[what]))


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


def _explain_proof(report: SimtReport, path: str, text: str) -> None:
    """What was seen to go wrong in a thread-level kernel, why the rest is safe, and which barriers are needed."""
    from tilecheck.frontend.launches import read_launches
    from tilecheck.frontend.source import Source
    from tilecheck.modules import Modules
    from tilecheck.report.explain import proof_page
    from tilecheck.report.text import plain
    from tilecheck.verify.necessity import barrier_notes
    from tilecheck.verify.simt import launches_of
    from tilecheck.verify.wording import diagnose

    shown = read_launches(Source(path, text), Modules((os.curdir,)).importer(path))
    launches = launches_of(report.kernel, (*shown, *_launches_of(path)))
    lines = text.splitlines()
    for finding in report.findings:
        terminal.write("\n" + plain(diagnose(finding, "error"), lambda _: lines))
    terminal.write(proof_page(report.notes, tuple(barrier_notes(report, launches, _BARRIER_SECONDS))))


def _explain_kernel(path: str, name: str, with_ir: bool) -> None:
    from tilecheck.check import analyse
    from tilecheck.frontend.gate import Undecodable, read_text
    from tilecheck.frontend.source import Source, Unreadable
    from tilecheck.judge import Options
    from tilecheck.modules import Modules
    from tilecheck.report.explain import kernel_page
    from tilecheck.report.summary import summaries

    try:
        with open(path, "rb") as file:
            text = read_text(file.read())
        checked = analyse(Source(path, text), Modules((os.curdir,)), Options(), _launches_of(path))
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from None
    except (Undecodable, Unreadable) as error:
        raise CannotRun(f"cannot read {path}: {error.message}") from None
    listed = summaries(checked)
    for summary in listed:
        if summary.name == name:
            terminal.write(kernel_page(summary))
            for report in checked.simt:
                if report.kernel.name == name:
                    _explain_proof(report, path, text)
            break
    else:
        known = ", ".join(summary.name for summary in listed) or "none"
        raise CannotRun(f"{path} has no kernel `{name}`; its kernels: {known}")
    if with_ir:
        from tilecheck.ir.printer import show_kernel

        kernels = [report.kernel for report in checked.tile] + [report.kernel for report in checked.simt]
        kernel = next(kernel for kernel in kernels if kernel.name == name)
        terminal.write("\n" + show_kernel(kernel))
