"""The long answers: a rule's page, and all that was found out about one kernel."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tilecheck.report.pages import Page
from tilecheck.report.result import KernelSummary, Shown
from tilecheck.report.suppressions import META

_WORDS = {
    "race-free": "no two blocks or threads race",
    "in-bounds": "every access is inside its array",
    "barriers-uniform": "every barrier is met by all threads",
    "shared-initialised": "shared memory is written before it is read",
}

_MOST_PLACES = 4

# The rungs of `docs/bounds.md`, by name; a test compares the two.
RUNGS = {
    "provenance": "the index comes from the partition itself",
    "static": "extents and conditions around it show it",
    "block-id": "the block's own position",
    "declared": "`requires` says so",
    "launch": "compared at each launch",
    "hoisted": "one assert before the loop",
    "in-place": "an assert at the access",
}


def rule_page(page: Page) -> str:
    """A rule: what it rejects, why, a bad and a good example."""
    parts = [f"{page.name} ({page.severity})", page.summary]
    parts += [textwrap.fill(paragraph, 100) for paragraph in page.why.split("\n\n") if paragraph]
    if page.bad:
        parts += ["rejected:", textwrap.indent(page.bad[0], "    ")]
    if page.good:
        parts += ["accepted:", textwrap.indent(page.good[0], "    ")]
    if page.fixable:
        parts.append("`tilecheck check --fix` can repair this.")
    if page.name not in META:
        parts.append(f"allow it in one place: # tilecheck: allow[{page.name}] the reason")
    return "\n\n".join(parts)


def kernel_page(kernel: KernelSummary) -> str:
    """A kernel: each verdict with what it rests on, and where each access went on the bounds ladder."""
    return "\n".join(_kernel_lines(kernel))


def _kernel_lines(kernel: KernelSummary) -> Iterator[str]:
    yield f"{kernel.path}:{kernel.line}: {kernel.track} kernel `{kernel.name}`"
    for line in kernel.dtypes:
        yield f"  {line}"
    for name, shown in kernel.verdicts.items():
        yield ""
        yield f"{_WORDS.get(name, name)}: {shown.verdict}{_scope(kernel, shown)}"
        yield from _because(shown)
    if kernel.accesses:
        yield ""
        yield "accesses, and what keeps each in bounds:"
        width = max(len(f"{access.array}, axis {access.axis}") for access in kernel.accesses)
        for access in kernel.accesses:
            place = f"{access.array}, axis {access.axis}"
            why = f": {access.reason}" if access.reason else ""
            yield f"  line {access.line:>4}  {place:<{width}}  {access.rung}: {RUNGS[access.rung]}{why}"
    if kernel.ragged:
        yield ""
        yield "lanes beyond an array's edge reach no result, at launches where:"
        for condition in kernel.ragged:
            yield f"  {condition}"
    if kernel.assumptions:
        yield ""
        yield "assumed of every launch:"
        for assumption in kernel.assumptions:
            yield f"  {assumption}"
    if kernel.compiler:
        yield ""
        yield f"compiled on a GPU by {kernel.compiler}"


def _scope(kernel: KernelSummary, shown: Shown) -> str:
    """What launches a proof holds for, if not for all."""
    if not kernel.launches or not shown.verdict.startswith("proven"):
        return ""
    places = [f"{path}:{line}" for path, line in kernel.launches]
    more = len(places) - _MOST_PLACES
    listed = [*places[:_MOST_PLACES], *([f"{more} more"] if more > 0 else [])]
    return f" for the launch{'es' if len(places) > 1 else ''} at {', '.join(listed)}"


def proof_page(notes: Sequence[str], barriers: Sequence[str]) -> str:
    """Why a thread-level kernel is safe, in sentences, and what its barriers are for."""
    lines: list[str] = []
    for title, sentences in (("why:", notes), ("barriers:", barriers)):
        if sentences:
            lines += ["", title]
            for sentence in sentences:
                lines += textwrap.wrap(sentence, 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def _because(shown: Shown) -> Iterator[str]:
    if shown.reason:
        yield from textwrap.wrap(shown.reason, 100, initial_indent="  because ", subsequent_indent="    ")
    if shown.conditions:
        yield "  at launches where"
        for condition in shown.conditions:
            yield f"    {condition}"
