"""Which barriers of a safe kernel are needed: each is taken out in turn, and the kernel is checked again.

One that is not needed stays out for those that come after it: of two in a row one is needed.

Worked example: of `s[t] = a[t]; sync; b[t] = s[31 - t]; sync` the first is needed, because without it line 1 and line 2
race, and the second is not, because nothing comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import For, If, Inline, Kernel, Stmt, While, walk
from tilecheck.ir.simt import Barrier
from tilecheck.verify.simt import SimtReport, check_kernel
from tilecheck.verify.verdict import Property, Verdict

_PROVED = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


def barrier_notes(report: SimtReport, launches: Sequence[Launch], budget: float) -> Iterator[str]:
    """A sentence per block or warp barrier of a kernel whose freedom from races was proved; `budget` is per barrier."""
    before = report.verdicts.get(Property.RACE_FREE)
    if before is None or before.verdict not in _PROVED:
        return
    kernel, gone = report.kernel, ""
    for node in walk(*kernel.body):
        if not isinstance(node, Barrier):
            continue
        rest = _without(kernel, node)
        after = check_kernel(rest, launches, budget=budget)
        answer = after.verdicts[Property.RACE_FREE]
        race = next((finding for finding in after.findings if finding.rule == "data-race"), None)
        where = f"the barrier on line {node.span.line}"
        if race is not None:
            lines = list(dict.fromkeys(f"line {place.span.line}" for place in race.places))
            meet = f"{lines[0]} races with itself" if len(lines) == 1 else f"{' and '.join(lines)} race"
            yield f"{where} is needed: without it{gone} {meet} on `{race.array}`"
        elif answer.verdict in _PROVED and answer.conditions == before.conditions:
            yield f"{where} is not needed to be free of races"
            kernel, gone = rest, f"{gone} and that on line {node.span.line}"
        elif answer.verdict in _PROVED:
            yield f"{where} is needed: without it{gone} a launch must keep {', '.join(f'`{c}`' for c in answer.conditions)}"
        else:
            yield f"{where} may be needed: without it{gone} {answer.reason}"


def _without(kernel: Kernel, doomed: Barrier) -> Kernel:
    return replace(kernel, body=_rest(kernel.body, doomed))


def _rest(body: tuple[Stmt, ...], doomed: Barrier) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for node in body:
        if node is doomed:
            continue
        if isinstance(node, If):
            made.append(replace(node, then=_rest(node.then, doomed), other=_rest(node.other, doomed)))
        elif isinstance(node, For | While | Inline):
            made.append(replace(node, body=_rest(node.body, doomed)))
        else:
            made.append(node)
    return tuple(made)
