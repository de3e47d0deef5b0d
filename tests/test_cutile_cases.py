"""The cuTile cases: kernels that are marked are proved free of races, and what is not read is unknown with its line."""

from __future__ import annotations

import re

import pytest

from tests.literate import Case, read_cases
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.result import KernelSummary

_MARKED = re.compile(r"^def (\w+)\((?:(?!^def )[\s\S])*?\):  # race-free$", re.MULTILINE)
CASES = [case for case in read_cases() if "cutile: " in case.name]


def kernels(case: Case) -> dict[str, KernelSummary]:
    return {k.name: k for k in check_text("case.py", case.text, Modules(), Options()).kernels}


@pytest.mark.parametrize("case", [c for c in CASES if _MARKED.search(c.text)], ids=lambda case: case.name)
def test_marked_kernels_are_free_of_races(case: Case) -> None:
    found = kernels(case)
    marked = [match[1] for match in _MARKED.finditer(case.text)]
    verdicts = {name: found[name].verdicts["race-free"] for name in marked}
    wrong = {name: shown for name, shown in verdicts.items() if shown.verdict not in ("proven", "proven-given")}
    assert not wrong


def test_what_is_not_read_is_unknown_with_its_line() -> None:
    (case,) = [c for c in CASES if "not read" in c.name]
    found = kernels(case)
    for name, words in (("strange", "calls `somewhere.helper`"), ("raw", "calls `.get_raw_memory`")):
        shown = found[name].verdicts["race-free"]
        assert shown.verdict == "unknown"
        assert shown.reason is not None and shown.reason.startswith("line ") and words in shown.reason
