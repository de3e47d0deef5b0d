"""Correct host programs of many shapes get no finding, and each with one mistake in it does, no rule twice.

A file of `host_shapes` begins with what its programs share; `== name` starts a program. A line `code  #~ other` says what
the line is in the program with the mistake: `other`, or nothing where that is `drop`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

MARK = re.compile(r"(?P<indent> *)(?P<code>.*?)  #~ (?P<other>.*)")


def programs() -> Iterator[tuple[str, str, str]]:
    """Name, the correct program, the one with the mistake."""
    for file in sorted((Path(__file__).parent / "host_shapes").glob("*.txt")):
        head, *parts = re.split(r"^== ", file.read_text("utf-8"), flags=re.MULTILINE)
        for part in parts:
            name, _, body = part.partition("\n")
            right: list[str] = []
            wrong: list[str] = []
            for line in body.rstrip().splitlines():
                mark = MARK.fullmatch(line)
                right.append(line if mark is None else mark["indent"] + mark["code"])
                if mark is None or mark["other"] != "drop":
                    wrong.append(line if mark is None else mark["indent"] + mark["other"])
            yield f"{file.stem}: {name}", "\n".join([head, *right, ""]), "\n".join([head, *wrong, ""])


ALL = list(programs())


def rules(text: str) -> list[str]:
    return [found.rule for found in check_text("program.py", text, Modules(), Options()).diagnostics]


@pytest.mark.parametrize(("right", "wrong"), [one[1:] for one in ALL], ids=[one[0] for one in ALL])
def test_the_correct_program_is_silent_and_the_mistake_is_found(right: str, wrong: str) -> None:
    assert rules(right) == []
    found = rules(wrong)
    assert right == wrong or (found and len(set(found)) == len(found))
