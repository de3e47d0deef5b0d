"""What the analyses found out about one file: the input of the rules.

Each analysis leaves data, not words: the tile checks a report per kernel, the prover verdicts, the host solver broken
loans. Type rules of ops word their refusals themselves (`Fault`), because only the op knows what it expected; the rule
modules pick those up with `faults_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilecheck.diagnostic import Diagnostic, Label, Severity, Span

if TYPE_CHECKING:
    from tilecheck.borrow.host import HostReport
    from tilecheck.verify.simt import Finding, SimtReport
    from tilecheck.verify.tile_report import TileReport


@dataclass(frozen=True, slots=True)
class Fault:
    """A refusal of `rule` worded where it arose."""

    rule: str
    message: str
    span: Span
    kernel: str | None = None
    labels: tuple[Label, ...] = ()
    help: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """One file after analysis."""

    path: str
    text: str
    tile: tuple[TileReport, ...] = ()
    simt: tuple[SimtReport, ...] = ()
    host: HostReport | None = None
    faults: tuple[Fault, ...] = field(default=())
    # Kernels of files that are not checked, as far as launches of this file decide about them.
    imported: tuple[SimtReport, ...] = ()

    def refuted(self, rule: str) -> Iterator[Finding]:
        """The findings of `rule` that the prover's executor replayed."""
        for report in (*self.simt, *self.imported):
            yield from (finding for finding in report.findings if finding.rule == rule)

    def faults_of(self, rule: str, severity: Severity) -> Iterator[Diagnostic]:
        """The faults of `rule` as diagnostics, those inside the reports of kernels and host code included."""
        inner = [fault for report in self.tile for fault in report.faults]
        inner += [fault for report in (*self.simt, *self.imported) for fault in report.faults]
        host = self.host.faults if self.host is not None else ()
        for fault in (*self.faults, *inner, *host):
            if fault.rule == rule:
                yield Diagnostic(rule, severity, fault.message, fault.span, fault.kernel, fault.labels, fault.help)
