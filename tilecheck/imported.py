"""SIMT and cuTile kernels of files that are not checked themselves, told at the launches of a file that is.

A launch decides about its kernel wherever that stands. Where the kernel's own file is checked too, what a launch breaks is
told there; where it is not, at the launch, with the kernel's lines as further places. Kernels that this file does not launch
are the business of a check of their own file.

Worked example: `tilecheck check host.py` with `from kern import shift` proves `shift` for the launches in host.py, and an
index that strays for one of them is told on the line of that launch. An allow comment in kern.py silences it as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.frontend.launches import Launch
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel
from tilecheck.modules import Modules
from tilecheck.report.suppressions import read_allows
from tilecheck.verify.simt import SimtReport, launches_of
from tilecheck.verify.wording import in_kernel

# Proves the kernels of a file that `wanted` picks for launches: reports, and faults about them.
Prove = Callable[[Source, Sequence[Launch], Callable[[Kernel], bool]], tuple[Sequence[SimtReport], Sequence[Fault]]]


@dataclass(frozen=True, slots=True)
class Imported:
    """What was proved of imported kernels: `told` goes into the output, `proved` is all of it."""

    told: tuple[SimtReport, ...] = ()
    proved: tuple[SimtReport, ...] = ()


def imported_kernels(
    source: Source, modules: Modules, shown: Sequence[Launch], listed: Collection[str], prove: Prove
) -> Imported:
    """The kernels of other files that `source` launches as `shown`; files in `listed` are checked themselves."""
    told: list[SimtReport] = []
    proved: list[SimtReport] = []
    for path in sorted({launch.kernel.path for launch in shown} - {source.path}):
        other = modules.found(path)
        if other is None:
            continue
        here = path in listed
        made = [launch for launch in shown if launch.kernel.path == path]

        def wanted(kernel: Kernel, made: Sequence[Launch] = made, here: bool = here) -> bool:
            launches = launches_of(kernel, made)
            return any(launch.sharing() for launch in launches) if here else bool(launches)

        reports, faults = prove(other, made, wanted)
        proved += reports
        if not here:
            told += _told(other, made, reports, faults)
    return Imported(tuple(told), tuple(proved))


def _told(
    other: Source, made: Sequence[Launch], reports: Sequence[SimtReport], faults: Sequence[Fault]
) -> Iterator[SimtReport]:
    """The `reports` about kernels of `other`, with what launches show and the comments there do not allow."""
    allows = read_allows(other.path, other.text)

    def allowed(rule: str, span: Span) -> bool:
        return span.path == other.path and any(
            allow.rule == rule and allow.first <= span.line <= allow.last for allow in allows
        )

    for report in reports:
        kernel = report.kernel
        launches = launches_of(kernel, made)
        findings = tuple(
            replace(finding, imported=True)
            for finding in report.findings
            if finding.launch is not None and not allowed(finding.rule, finding.places[-1].span)
        )
        about = (*report.faults, *(fault for fault in faults if fault.kernel == kernel.name))
        kept = tuple(
            _at(launches[0].span, fault, kernel)
            for fault in about
            if fault.span.path != other.path or (kernel.track != "simt" and not allowed(fault.rule, fault.span))
        )
        yield replace(report, findings=findings, faults=kept)


def _at(launch: Span, fault: Fault, kernel: Kernel) -> Fault:
    """`fault` at a launch: one that stands in the kernel's own file moves to `launch`."""
    if fault.span.path != kernel.path:
        return fault
    place = Label(fault.span, "here")
    return replace(fault, message=in_kernel(kernel.name, fault.message), span=launch, labels=(place, *fault.labels))
