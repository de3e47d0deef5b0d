"""Proofs of SIMT kernels, kept between runs and shared by the linter, the mypy plugin and the runtime.

The file cache (`cache.py`) forgets a file when a letter of it changes. Here the unit is one kernel: its IR with the
helpers that were inlined, the launches that are shown of it, and the budget. So another kernel of the file may change, and
a kernel that the linter has proved is not proved again when it is launched, nor when it has moved in its file.

    key      SHA-256 of the IR, launches, budget and this build of the checker; paths and buffer numbers made neutral,
             lines counted from the kernel's first
    entry    {"check": SHA-256 of the report's text, "report": text}, written to a side and moved into place

A report is kept with the kernel's first line and moved with it: spans, the lines of witnesses, and lines in words, which are
all of the kernel's file. A kernel with helpers from other files, where that is not so, is kept for its place.

Invariant: the store can only save time. What is missing, damaged or of another form is a miss; what cannot be written is
dropped; two writers of one entry write the same. Reports that ran out of time are not kept. Entries are JSON and
cannot run code. `TILECHECK_VERDICTS=off` turns the store off, any other value of it is the folder to use.

Worked example: `prove(kernel, launches, budget)` proves a kernel the first time and reads the report from then on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from tilecheck.cache import build, key_of
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span, Witness
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Kernel, walk
from tilecheck.verify.simt import BUDGET, Finding, Place, SimtReport, Together, check_kernel
from tilecheck.verify.verdict import OUT_OF_TIME, Answer, Property, Verdict

SWITCH = "TILECHECK_VERDICTS"
# Folders of other builds that nobody used for this long are deleted.
_OLD_SECONDS = 30 * 24 * 3600
_HERE = "."


def prove(kernel: Kernel, launches: Sequence[Launch] = (), *, budget: float = BUDGET) -> SimtReport:
    """`verify.simt.check_kernel`, from the store if it holds the answer."""
    folder = store_folder()
    key = None if folder is None else fingerprint(kernel, launches, budget)
    if folder is None or key is None:
        return check_kernel(kernel, launches, budget=budget)
    found = _read(folder / f"{key}.json", kernel)
    if found is not None:
        return found
    report = check_kernel(kernel, launches, budget=budget)
    if not any(answer.reason == OUT_OF_TIME for answer in report.verdicts.values()):
        _write(folder / f"{key}.json", report)
    return report


def store_folder() -> Path | None:
    """Where this build keeps its verdicts; None if the store is off."""
    chosen = os.environ.get(SWITCH, "")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen) / build()
    from platformdirs import user_cache_path

    return user_cache_path("tilecheck", appauthor=False) / "verdicts" / build()


# ---- keys


class _Unkeyed(Exception):
    """A value of which no two runs can be told to have the same."""


def fingerprint(kernel: Kernel, launches: Sequence[Launch], budget: float) -> str | None:
    """What a proof depends on, as a digest; None if part of it has no lasting form."""
    keyed = _Keyed(kernel.path, origin(kernel))
    first, last = kernel.lines
    placed = replace(kernel, lines=(first - keyed.origin, last - keyed.origin))
    known = (bool(keyed.origin), placed, tuple(launches), budget)
    digest = hashlib.sha256()
    try:
        for part in keyed.parts(known):
            digest.update(part.encode("utf-8", "surrogateescape"))
    except _Unkeyed:
        return None
    return digest.hexdigest()


def origin(kernel: Kernel) -> int:
    """The line from which the lines of a kernel and its reports are counted: 0 if they are of several files."""
    alone = all(node.span.path == kernel.path for node in walk(*kernel.body))
    return kernel.lines[0] if alone else 0


class _Keyed:
    """Writes out what a proof depends on, for a kernel of the file at `path`."""

    def __init__(self, path: str, origin: int) -> None:
        self.origin = origin
        self._path = path
        self._buffers: dict[int, int] = {}

    def parts(self, value: object) -> Iterator[str]:
        match value:
            case Span(path=path, line=line, end_line=end_line):
                where, first = (_HERE, self.origin) if path == self._path else (path, 0)
                yield f"@{where}:{line - first}:{value.column}:{end_line - first}:{value.end_column};"
            case HostArray():
                # Numbers of buffers count up in a process; only which are the same matters.
                number = self._buffers.setdefault(value.buffer, len(self._buffers))
                shown = (value.shape, value.dtype, value.contents, value.host, number, value.offset, value.strides)
                yield "HostArray"
                yield from self.parts(shown)
            case Enum() | None | bool() | int() | float() | complex() | str() | bytes():
                yield f"{type(value).__name__}:{_HERE if value == self._path else repr(value)};"
            case Mapping():
                yield f"{{{len(value)}"
                for name in sorted(value, key=repr):
                    yield from self.parts(name)
                    yield from self.parts(value[name])
            case tuple() | list():
                yield f"({len(value)}"
                for item in value:
                    yield from self.parts(item)
            case frozenset() | set():
                yield from self.parts(sorted(value, key=repr))
            case _ if is_dataclass(value) and not isinstance(value, type):
                yield type(value).__name__
                for field in fields(value):
                    yield from self.parts(getattr(value, field.name))
            case _:
                raise _Unkeyed


# ---- entries


def _read(path: Path, kernel: Kernel) -> SimtReport | None:
    try:
        entry = json.loads(path.read_bytes())
        if key_of(entry["report"]) != entry["check"]:
            return None
        return _unpacked(json.loads(entry["report"]), kernel)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, report: SimtReport) -> None:
    try:
        text = json.dumps(_packed(report))
    except (TypeError, ValueError):
        return
    with contextlib.suppress(OSError):
        if not path.parent.is_dir():
            _start(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"check": key_of(text), "report": text}, file)
        os.replace(temporary, path)


def _start(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.iterdir():
        if other.is_dir() and time.time() - other.stat().st_mtime > _OLD_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def _packed(report: SimtReport) -> dict[str, Any]:
    here = report.kernel.path
    values = {f.name: _plain(getattr(report, f.name), here) for f in fields(report) if f.name != "kernel"}
    return {**values, "origin": origin(report.kernel)}


def _plain(value: Any, here: str) -> Any:
    """`value` in lists, dicts and numbers; the kernel's own path is left open."""
    if isinstance(value, Span):
        path = _HERE if value.path == here else value.path
        return [path, value.line, value.column, value.end_line, value.end_column]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), here) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item, here) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item, here) for item in value]
    return value


# Lines in words, as the prover writes them: `line 12`, `lines 12, 14`.
_LINES = re.compile(r"\blines? \d+(?:, \d+)*")


def _moved(text: str, by: int) -> str:
    """`text` of a report about a kernel that has moved down `by` lines; source in backticks stays as it is."""
    if not by:
        return text
    pieces = text.split("`")
    pieces[::2] = [
        _LINES.sub(lambda found: re.sub(r"\d+", lambda number: str(int(number[0]) + by), found[0]), piece)
        for piece in pieces[::2]
    ]
    return "`".join(pieces)


def _unpacked(values: Mapping[str, Any], kernel: Kernel) -> SimtReport:
    by = origin(kernel) - values["origin"]

    def span(parts: list[Any]) -> Span:
        path, line, column, end_line, end_column = parts
        if path != _HERE:
            return Span(path, line, column, end_line, end_column)
        return Span(kernel.path, line + by, column, end_line + by, end_column)

    def text(item: str | None) -> str | None:
        return None if item is None else _moved(item, by)

    def place(item: Mapping[str, Any]) -> Place:
        return Place(span(item["span"]), item["does"], item["text"])

    def witness(item: Mapping[str, Any]) -> Witness:
        launch = {name: tuple(v) if isinstance(v, list) else v for name, v in item["launch"].items()}
        lines = tuple(line + by for line in item["lines"])
        return Witness(launch, tuple(item["threads"]), item["array"], tuple(item["index"]), lines)

    def finding(item: Mapping[str, Any]) -> Finding:
        shown = {**item, "places": tuple(place(p) for p in item["places"]), "witness": witness(item["witness"])}
        shown["extent"] = tuple(item["extent"])
        shown["launch"] = None if item["launch"] is None else span(item["launch"])
        shown["advice"] = text(item["advice"])
        return Finding(**shown)

    def fault(item: Mapping[str, Any]) -> Fault:
        labels = tuple(Label(span(label["span"]), _moved(label["text"], by)) for label in item["labels"])
        words = {"message": _moved(item["message"], by), "help": text(item["help"])}
        return Fault(**{**item, **words, "span": span(item["span"]), "labels": labels})

    verdicts = {
        Property(name): Answer(Verdict(a["verdict"]), tuple(a["conditions"]), text(a["reason"]))
        for name, a in values["verdicts"].items()
    }
    return SimtReport(
        kernel,
        tuple(values["assumptions"]),
        verdicts,
        tuple(finding(item) for item in values["findings"]),
        tuple(_moved(note, by) for note in values["notes"]),
        values["unsafe"],
        tuple(fault(item) for item in values["faults"]),
        tuple(place(item) for item in values["same_value"]),
        tuple(Together(span(item["launch"]), item["first"], item["second"]) for item in values["together"]),
    )
