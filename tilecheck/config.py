"""`[tool.tilecheck]` of pyproject.toml: few keys, and none that is not read.

`read_config` looks for the nearest pyproject.toml at or above a folder. A key that it does not know is refused by name,
with the known ones listed, so that a misspelt key never silently does nothing. Keys are spelled with dashes.

    [tool.tilecheck]
    paths = ["src"]
    exclude = ["src/generated/*"]
    ignore = ["implicit-float64"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


class ConfigError(Exception):
    """The configuration cannot be used; the message names file, key and value."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a project asked for. `root` is the folder of its pyproject.toml, None without one.

    `paths` are checked by default, `exclude` are glob patterns of paths relative to `root`, `select` and `ignore` are
    rule names, `baseline` is the file of accepted findings, `budget` the seconds the prover may spend on one kernel,
    `mypy_simt` whether the mypy plugin reports SIMT findings.
    """

    root: Path | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: str | None = None
    budget: float = 20.0
    mypy_simt: bool = True

    @property
    def file(self) -> Path | None:
        """The pyproject.toml."""
        return None if self.root is None else self.root / "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the table: what its value has to be, and what it is for, in words."""

    kind: str
    meaning: str


KEYS: Mapping[str, Key] = {
    "paths": Key("a list of strings", "what `tilecheck check` checks when no path is given"),
    "exclude": Key("a list of strings", "glob patterns of paths that are left out, named ones too"),
    "select": Key("a list of strings", "report only these rules"),
    "ignore": Key("a list of strings", "do not report these rules"),
    "baseline": Key("a string", "the file of accepted findings"),
    "budget": Key("a positive number of seconds", "the prover's time for one kernel, 20 by default"),
    "mypy-simt": Key("true or false", "whether the mypy plugin reports findings in SIMT kernels, true by default"),
}


def find_pyproject(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above the folder `start`."""
    for folder in (start, *start.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            return candidate
    return None


def read_config(start: Path) -> Config:
    """The configuration that governs the folder `start`. Raises `ConfigError`."""
    file = find_pyproject(start.resolve())
    if file is None:
        return Config()
    try:
        table = tomllib.loads(file.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    tool = table.get("tool", {})
    section = tool.get("tilecheck", {}) if isinstance(tool, dict) else {}
    if not isinstance(section, dict):
        raise ConfigError(f"{file}: `tool.tilecheck` is not a table")
    return _parse(section, file)


@dataclass(slots=True)
class _Section:
    """One table being read; every getter checks the type of its key."""

    values: Mapping[str, object]
    file: Path
    seen: set[str] = field(default_factory=set)

    def refuse(self, key: str) -> ConfigError:
        return ConfigError(f"{self.file}: `{key}` is {self.values[key]!r}, not {KEYS[key].kind}")

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(key)
        return tuple(value)

    def string(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refuse(key)
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self.refuse(key)
        return float(value)

    def switch(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key)
        return value


def _parse(values: Mapping[str, object], file: Path) -> Config:
    for key in values:
        if key not in KEYS:
            raise ConfigError(f"{file}: [tool.tilecheck] has no key `{key}`, only {', '.join(KEYS)}")
    section = _Section(values, file)
    return Config(
        root=file.parent,
        paths=section.strings("paths"),
        exclude=section.strings("exclude"),
        select=section.strings("select"),
        ignore=section.strings("ignore"),
        baseline=section.string("baseline"),
        budget=section.seconds("budget", Config().budget),
        mypy_simt=section.switch("mypy-simt", Config().mypy_simt),
    )
