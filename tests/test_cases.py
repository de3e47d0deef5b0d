"""The literate cases: what is marked is found, on its line, and nothing else; linter and mypy plugin agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.literate import Case, read_cases
from tilecheck.check import check_text
from tilecheck.diagnostic import Diagnostic
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.rules import RULES, rule_name

ALL = read_cases()
ALIKE = [case for case in ALL if not case.linter_only]
KNOWN = {rule_name(rule) for rule in RULES}
CONFIGURATION = "[mypy]\nplugins = tilecheck\nignore_missing_imports = True\n"


def write(case: Case, folder: Path) -> None:
    """Put the files of `case` into `folder`."""
    for name, text in case.files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def linted(case: Case, folder: Path) -> list[Diagnostic]:
    """What the linter says of the last file of `case`, notes left out."""
    write(case, folder)
    path = str(folder / case.files[-1][0])
    found = check_text(path, case.text, Modules(), Options()).diagnostics
    return [item for item in found if item.severity != "note"]


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, str]]]:
    """What mypy with the plugin says of every case in our words, by case: all cases of one file are files of one run."""
    folder = tmp_path_factory.mktemp("cases")
    single = [case for case in ALIKE if len(case.files) == 1]
    names = {f"case_{number}.py": case.name for number, case in enumerate(single)}
    for name, case in zip(names, single, strict=True):
        (folder / name).write_text(case.text, encoding="utf-8")
    found: dict[str, set[tuple[int, str]]] = {case.name: set() for case in ALIKE}
    for file, line, rule in typed(folder, *names):
        found[names[file]].add((line, rule))
    for number, case in enumerate(case for case in ALIKE if len(case.files) > 1):
        write(case, own := tmp_path_factory.mktemp(f"files_{number}"))
        found[case.name] = {(line, rule) for _, line, rule in typed(own, case.files[-1][0])}
    return found


def typed(folder: Path, *names: str) -> list[tuple[str, int, str]]:
    """What mypy with the plugin says in our words of files in `folder`: file, line and rule."""
    (folder / "mypy.ini").write_text(CONFIGURATION, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-incremental", "-O", "json", *names]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    items = [json.loads(line) for line in run.stdout.splitlines()]
    return [(item["file"], item["line"], item["code"]) for item in items if item["code"] in KNOWN]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_linter_finds_what_is_marked(case: Case, tmp_path: Path) -> None:
    found = linted(case, tmp_path)
    got = sorted((item.span.line, item.severity, item.rule) for item in found)
    assert got == sorted((want.line, want.severity, want.rule) for want in case.expected)
    for want in case.expected:
        messages = [item.message for item in found if (item.span.line, item.rule) == (want.line, want.rule)]
        assert any(want.words in message for message in messages), messages


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_the_plugin_finds_the_same(case: Case, plugged: dict[str, set[tuple[int, str]]]) -> None:
    assert plugged[case.name] == {(want.line, want.rule) for want in case.expected}


def test_cases_name_rules_that_exist() -> None:
    assert {want.rule for case in ALL for want in case.expected} <= KNOWN


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in ALL}) == len(ALL)
