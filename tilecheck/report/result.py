"""The outcome of checking one file, as plain data that travels: to a report, through a cache, between processes.

A `FileResult` holds the findings and one `KernelSummary` per kernel. `pack` and `unpack` turn it into JSON values and
back without loss (the cache's form); what users read as JSON is made by `report/json.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilecheck.diagnostic import Diagnostic, Label, Span, Witness


@dataclass(frozen=True, slots=True)
class Shown:
    """One verdict in the words of the output: `verdict`, launch `conditions`, and the `reason` for it."""

    verdict: str
    conditions: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ShownAccess:
    """Where one access of a tile kernel went on the bounds ladder, and why a check stays in the kernel, if one does."""

    line: int
    array: str
    axis: int
    rung: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """What was found out about one kernel."""

    path: str
    line: int
    name: str
    track: str
    assumptions: tuple[str, ...]
    verdicts: Mapping[str, Shown]
    accesses: tuple[ShownAccess, ...] = ()
    # What a launch must satisfy so that no lane beyond an array's edge reaches a result.
    ragged: tuple[str, ...] = ()
    # The dtypes that the kernel leaves open, in words.
    dtypes: tuple[str, ...] = ()
    # Which compiler a tile kernel gets on a GPU, and why.
    compiler: str = ""
    # The launches that the verdicts hold for, as `(path, line)`; none if they hold for every launch.
    launches: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Waiver:
    """A place where the user switched something off: a `# tilecheck: allow[...]` or a `tc.unsafe("...")`."""

    path: str
    line: int
    kind: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file, checked. `suppressed` counts the findings that an allow comment silenced; `unfinished` says that the
    checker could not do its work: the process ended, or a folder may not be listed.
    """

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    kernels: tuple[KernelSummary, ...] = ()
    suppressed: int = 0
    unfinished: bool = False

    def with_findings(self, keep: tuple[Diagnostic, ...]) -> FileResult:
        """The same result with `keep` as its findings."""
        return replace(self, diagnostics=keep)


def pack(result: FileResult) -> dict[str, Any]:
    """`result` as JSON values, without loss."""
    return asdict(result)


def unpack(values: Mapping[str, Any]) -> FileResult:
    """The inverse of `pack`. Raises KeyError or TypeError on anything else."""
    return FileResult(
        values["path"],
        tuple(_diagnostic(item) for item in values["diagnostics"]),
        tuple(_kernel(item) for item in values["kernels"]),
        values["suppressed"],
        values["unfinished"],
    )


def _diagnostic(values: Mapping[str, Any]) -> Diagnostic:
    witness = values["witness"]
    return Diagnostic(
        values["rule"],
        values["severity"],
        values["message"],
        Span(**values["span"]),
        values["kernel"],
        tuple(Label(Span(**label["span"]), label["text"]) for label in values["labels"]),
        values["help"],
        None
        if witness is None
        else Witness(
            {name: tuple(value) if isinstance(value, list) else value for name, value in witness["launch"].items()},
            tuple(witness["threads"]),
            witness["array"],
            tuple(witness["index"]),
            tuple(witness["lines"]),
        ),
        tuple(values["notes"]),
    )


def _kernel(values: Mapping[str, Any]) -> KernelSummary:
    return KernelSummary(
        values["path"],
        values["line"],
        values["name"],
        values["track"],
        tuple(values["assumptions"]),
        {
            name: Shown(shown["verdict"], tuple(shown["conditions"]), shown["reason"])
            for name, shown in values["verdicts"].items()
        },
        tuple(ShownAccess(**access) for access in values["accesses"]),
        tuple(values["ragged"]),
        tuple(values["dtypes"]),
        values["compiler"],
        tuple((path, line) for path, line in values["launches"]),
    )
