"""What the analyses found, in the words of the output: one `KernelSummary` per kernel of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilecheck.checked import Checked
from tilecheck.ir.compilers import preference
from tilecheck.ir.kernel import Kernel
from tilecheck.report.result import KernelSummary, Shown, ShownAccess
from tilecheck.verify.tile_dtypes import shown_dtypes
from tilecheck.verify.verdict import Answer, Property


def summaries(checked: Checked) -> tuple[KernelSummary, ...]:
    """The kernels of a file in the order of its lines."""
    return tuple(sorted(_each(checked), key=lambda kernel: (kernel.line, kernel.name)))


def _each(checked: Checked) -> Iterator[KernelSummary]:
    for tile in checked.tile:
        accesses = tuple(ShownAccess(a.line, a.array, a.axis, a.rung, a.reason) for a in tile.accesses)
        ragged = tuple(dict.fromkeys(c.text for c in tile.conditions if c.rule == "void-lanes"))
        compiler = str(preference(tile.kernel, tile.types))
        summary = _summary(tile.kernel, (), tile.verdicts, accesses)
        yield replace(summary, ragged=ragged, dtypes=shown_dtypes(tile.kernel), compiler=compiler)
    for simt in checked.simt:
        at = tuple(sorted({(span.path, span.line) for span in simt.launched}))
        yield replace(_summary(simt.kernel, simt.assumptions, simt.verdicts), launches=at)


def _summary(
    kernel: Kernel,
    assumptions: tuple[str, ...],
    verdicts: Mapping[Property, Answer],
    accesses: tuple[ShownAccess, ...] = (),
) -> KernelSummary:
    shown = {
        str(name): Shown(str(answer.verdict), answer.conditions, answer.reason) for name, answer in verdicts.items()
    }
    return KernelSummary(kernel.path, kernel.span.line, kernel.name, kernel.track, assumptions, shown, accesses)
