"""Cases written as text: the blocks of `tests/cases/*.md` and `tests/behaviours/*.md`, with what must be found on their
lines.

The formats are described in the README of each folder; what is found, and how it is marked, is common to both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CASES = "cases"
BEHAVIOURS = "behaviours"
_MARK = re.compile(r"# (error|warning): \[([a-z0-9-]+)\]([^#]*)")
_FILE = re.compile(r"^# file: (\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Expected:
    """A finding that a mark asks for; `words` must be part of its message."""

    line: int
    severity: str
    rule: str
    words: str


@dataclass(frozen=True)
class Case:
    """One block: its files, the last of which is checked, and what must be found there."""

    name: str
    folder: str
    files: tuple[tuple[str, str], ...]
    linter_only: bool

    @property
    def text(self) -> str:
        return self.files[-1][1]

    @property
    def expected(self) -> list[Expected]:
        return [
            Expected(line, mark[1], mark[2], mark[3].strip())
            for line, text in enumerate(self.text.split("\n"), 1)
            for mark in _MARK.finditer(text)
        ]


def read_cases() -> list[Case]:
    """Every block of every file of cases and behaviours."""
    paths = [path for folder in (BEHAVIOURS, CASES) for path in sorted((Path(__file__).parent / folder).glob("*.md"))]
    return [case for path in paths if path.stem != "README" for case in _read(path)]


def _read(path: Path) -> list[Case]:
    prelude = ""
    found: list[Case] = []
    for section in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = section.split("\n", 1)[0].strip()
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", section, re.DOTALL)):
            if heading == "Prelude":
                prelude = block + "\n\n"
                continue
            parts = _FILE.split(block)
            files = tuple(zip(parts[1::2], parts[2::2], strict=True)) or (("case.py", prelude + block),)
            suffix = f" {number + 1}" if number else ""
            name = f"{path.parent.name}/{path.stem}: {heading}{suffix}"
            found.append(Case(name, path.parent.name, files, heading.endswith("(linter)")))
    return found
