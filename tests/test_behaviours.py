"""The behaviours of `tests/behaviours/*.md`, run with nothing having checked them; `tests/test_cases.py` checks them.

A statement that is marked `# raises: [rule] words` must be refused by the run time, and no other; the program goes on
behind it. The format is described in `tests/behaviours/README.md`.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib.util
import inspect
import io
import re
import sys
import unittest.mock
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

import tilecheck as tc
from tests.literate import BEHAVIOURS, Case, read_cases
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

_RAISES = re.compile(r"# raises: \[([a-z-]+)\]([^#]*)")
_RUNG = re.compile(r"# rung: (\w+) ([a-z -]+)$")
PROGRAMS = [case for case in read_cases() if case.folder == BEHAVIOURS]


@dataclass(frozen=True)
class Refusal:
    line: int
    rule: str
    message: str


def wanted(text: str) -> list[Refusal]:
    return [
        Refusal(line, mark[1], mark[2].strip())
        for line, written in enumerate(text.split("\n"), 1)
        for mark in _RAISES.finditer(written)
    ]


class _Catching(ast.NodeTransformer):
    """Wraps every statement that stands on one of `lines`, so that what it raises is handed to `_refused`."""

    def __init__(self, lines: set[int]) -> None:
        self.lines = lines

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node, ast.stmt) or node.lineno not in self.lines or hasattr(node, "body"):
            return node
        (caught,) = ast.parse(f"try: pass\nexcept _Refusals as error: _refused({node.lineno}, error)").body
        assert isinstance(caught, ast.Try)
        caught.body = [node]
        return ast.fix_missing_locations(ast.copy_location(caught, node))


def run(case: Case, folder: Path) -> list[Refusal]:
    """What the run time refuses while the program runs to its end."""
    path = folder / "program.py"
    path.write_text(case.text, "utf-8")
    found: list[Refusal] = []
    tree = _Catching({mark.line for mark in wanted(case.text)}).visit(ast.parse(case.text))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["_Refusals"] = tc.TilecheckError
    module.__dict__["_refused"] = lambda line, error: found.append(Refusal(line, error.rule, str(error)))
    # A dataclass looks its module up.
    with contextlib.redirect_stdout(io.StringIO()), unittest.mock.patch.dict(sys.modules, {"program": module}):
        exec(compile(tree, str(path), "exec"), module.__dict__)
        done = module.main()
        if inspect.iscoroutine(done):
            asyncio.run(done)
    return found


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_the_run_time_refuses_what_is_marked(case: Case, tmp_path: Path) -> None:
    found, want = run(case, tmp_path), wanted(case.text)
    assert [(item.line, item.rule) for item in found] == [(item.line, item.rule) for item in want], found
    for item, mark in zip(found, want, strict=True):
        assert mark.message in item.message


@pytest.mark.parametrize("case", [c for c in PROGRAMS if "# rung:" in c.text], ids=lambda case: case.name)
def test_accesses_are_shown_by_the_rung_that_is_marked(case: Case, tmp_path: Path) -> None:
    marks = {
        (line, mark[1]): mark[2].split()
        for line, written in enumerate(case.text.split("\n"), 1)
        if (mark := _RUNG.search(written)) is not None
    }
    result = check_text(str(tmp_path / "program.py"), case.text, Modules(), Options())
    rungs: dict[tuple[int, str], list[str]] = defaultdict(list)
    for kernel in result.kernels:
        for access in kernel.accesses:
            rungs[access.line, access.array].append(access.rung)
    assert {place: rungs[place] for place in marks} == marks


def test_most_behaviours_are_shown_wrong_and_right() -> None:
    """A file of programs that are all refused, or all accepted, would show little."""
    marked = [case for case in PROGRAMS if "# raises:" in case.text or "# error:" in case.text]
    assert min(len(marked), len(PROGRAMS) - len(marked)) > 30
