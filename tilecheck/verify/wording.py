"""Findings of the prover in words: the two accesses, the two threads, the launch, one way out.

`s[t + 1]` is read while another thread writes it
  12 |     s[t] = a[t]
     |     ----------- thread (1, 0, 0) of block (0, 0, 0) writes `s[1]` here
  13 |     b[t] = s[t + 1]
     |            ^^^^^^^^ thread (0, 0, 0) of block (0, 0, 0) reads it, nothing in between orders them
help: put a `cuda.syncthreads()` between line 12 and line 13
"""

from __future__ import annotations

from dataclasses import replace

from tilecheck.diagnostic import Diagnostic, Label, Severity
from tilecheck.verify.simt import Finding

_PAST = {"reads": "read", "writes": "written", "updates": "updated", "meets": "met"}


def diagnose(finding: Finding, severity: Severity) -> Diagnostic:
    """The diagnostic of one finding."""
    message, labels = _WORDS[finding.rule](finding)
    notes = ("it takes array contents such as those of the counterexample",) if finding.contents else ()
    span, advice = finding.places[-1].span, finding.advice
    if finding.launch is not None and finding.imported:
        message = in_kernel(finding.kernel, message)
        advice = None if advice is None else f"in {span.path}: {advice}"
        span = finding.launch
    elif finding.launch is not None:
        labels = (*labels, Label(finding.launch, "this launch shows it"))
    return Diagnostic(
        finding.rule,
        severity,
        message,
        span,
        finding.kernel,
        labels,
        advice,
        replace(finding.witness, threads=tuple(_threads(finding))),
        notes,
    )


def in_kernel(name: str, message: str) -> str:
    """`message` for a place outside of the kernel that it is about."""
    return f"in `{name}` as launched here, {message}"


def _cell(finding: Finding) -> str:
    return f"`{finding.array}[{', '.join(map(str, finding.witness.index))}]`"


def _thread(finding: Finding, place: int) -> str:
    threads = _threads(finding)
    return threads[place] if place < len(threads) else "a block" if finding.blocks else "a thread"


def _threads(finding: Finding) -> list[str]:
    """The witness's threads; its blocks, where a block is one thread."""
    return [name.rpartition(" of ")[2] if finding.blocks else name for name in finding.witness.threads]


def _race(finding: Finding) -> tuple[str, tuple[Label, ...]]:
    first, last = finding.places[0], finding.places[-1]
    order = "no barrier between them" if finding.scope == "one block" else "blocks are not ordered"
    if first.span == last.span:
        who = "two blocks" if finding.blocks else f"two threads of {finding.scope}"
        message = f"`{last.text}` is {_PAST[last.does]} by {who} at once"
        labels = [Label(last.span, f"{' and '.join(_threads(finding))} both get to {_cell(finding)}; {order}")]
        return message, tuple(labels)
    other = "another thread of the block" if finding.scope == "one block" else "a thread of another block"
    other, one = ("another block", "one block") if finding.blocks else (other, "one thread")
    message = f"`{last.text}` is {_PAST[last.does]} while {other} {first.does} it"
    return message, (
        Label(first.span, f"{one} {first.does} {_cell(finding)} here"),
        Label(last.span, f"another {last.does} it here; {' and '.join(_threads(finding))}, {order}"),
    )


def _stray(finding: Finding) -> tuple[str, tuple[Label, ...]]:
    place = finding.places[0]
    index = ", ".join(map(str, finding.witness.index))
    extent = ", ".join(map(str, finding.extent))
    size = f", whose extent is {extent}" if finding.extent else ""
    message = f"`{place.text}` {place.does} outside `{finding.array}`: index {index}{size}"
    return message, (Label(place.span, f"{_thread(finding, 0)} {place.does} index {index}"),)


def _barrier(finding: Finding) -> tuple[str, tuple[Label, ...]]:
    place = finding.places[0]
    message = f"not all threads reach this `{place.text}`"
    match finding.witness.threads:
        case (waits,):
            label = f"{waits} waits for threads that have left"
        case (waits, other, *_):
            label = f"{waits} and {other} wait at different barriers, or in different rounds"
        case _:
            label = "some threads miss it"
    return message, (Label(place.span, label),)


def _warp(finding: Finding) -> tuple[str, tuple[Label, ...]]:
    place = finding.places[0]
    message = f"the lanes that reach `{place.text}` are not those that its mask names"
    who = " and ".join(finding.witness.threads)
    return message, (Label(place.span, f"seen for {who}" if who else "some lanes miss it"),)


def _unset(finding: Finding) -> tuple[str, tuple[Label, ...]]:
    place = finding.places[0]
    message = f"`{place.text}` is read before anything was written to {_cell(finding)}"
    return message, (Label(place.span, f"{_thread(finding, 0)} reads what the last launch left there"),)


_WORDS = {
    "data-race": _race,
    "out-of-bounds": _stray,
    "divergent-barrier": _barrier,
    "warp-sync": _warp,
    "uninitialised-shared": _unset,
}
