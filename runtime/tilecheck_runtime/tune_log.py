"""The record of a tuning run: one JSON object per line, so that an interrupted run goes on where it stopped.

The first line says what was tuned: the record's version, the kernel's name, a digest of its meaning (helpers and
constants included, line numbers not), the device, the shapes and dtypes of the arguments, and a digest of the
configurations. Each further line is one trial. A record of anything else is refused, field by field, because times of
another kernel or problem would pick a wrong winner; a last line that was cut off is dropped.

Nothing but JSON is read, and nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilecheck_runtime.errors import UsageError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration: its median time in seconds, or why it is no candidate."""

    name: str
    config: Mapping[str, Any]
    seconds: float | None = None
    error: str | None = None


def config_name(config: Mapping[str, Any]) -> str:
    """`BK=32,BM=64`: the identity of a configuration, whatever order it was written in."""
    return ",".join(f"{name}={config[name]!r}" for name in sorted(config))


def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class TuningLog:
    """The record at `path`; without a path nothing is kept."""

    def __init__(self, path: Path | None, header: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]) -> None:
        self._path = path
        self._header = {"version": VERSION, **header}
        self._configs = {config_name(config): config for config in configs}
        self.trials: dict[str, Trial] = {}
        if path is not None:
            try:
                self._open(path)
            except OSError as error:
                raise self._refuse(f"it cannot be opened: {error.strerror}") from None

    def add(self, trial: Trial) -> None:
        """Keep one trial, on disk at once."""
        self.trials[trial.name] = trial
        if self._path is not None:
            line = {"name": trial.name, "seconds": trial.seconds, "error": trial.error}
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise self._refuse(f"it cannot be written: {error.strerror}") from None

    def _open(self, path: Path) -> None:
        if not path.exists() or not path.read_bytes():
            path.write_text(json.dumps(self._header) + "\n", "utf-8")
            return
        text = path.read_text("utf-8", errors="replace")
        complete, _, cut = text.rpartition("\n")
        lines = complete.split("\n") if complete else []
        if not lines:
            raise self._refuse("it has no complete first line")
        self._compare(self._parse(lines[0], 1))
        for number, line in enumerate(lines[1:], 2):
            self._keep(self._parse(line, number), number)
        if cut:
            path.write_text(complete + "\n", "utf-8")

    def _compare(self, found: Mapping[str, Any]) -> None:
        for field, wanted in self._header.items():
            if found.get(field) != wanted:
                raise self._refuse(f"its `{field}` is {found.get(field)!r}, this run's is {wanted!r}")

    def _keep(self, line: Mapping[str, Any], number: int) -> None:
        name, seconds, error = line.get("name"), line.get("seconds"), line.get("error")
        if not isinstance(name, str) or name not in self._configs:
            raise self._refuse(f"line {number} is about {name!r}, which is no configuration of this run")
        if name in self.trials:
            raise self._refuse(f"line {number} repeats {name!r}")
        timed = isinstance(seconds, float) and seconds > 0 and error is None
        failed = seconds is None and isinstance(error, str)
        if not timed and not failed:
            raise self._refuse(f"line {number} has neither a time nor an error")
        self.trials[name] = Trial(name, self._configs[name], seconds, error)

    def _parse(self, line: str, number: int) -> Mapping[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            raise self._refuse(f"line {number} is no JSON") from None
        if not isinstance(found, dict):
            raise self._refuse(f"line {number} is no JSON object")
        return found

    def _refuse(self, why: str) -> UsageError:
        return UsageError(
            f"the tuning record `{self._path}` cannot be continued: {why}", "delete it, or give another `log`"
        )
