"""The examples: they agree with NumPy, the linter has nothing to say on them, and says on each rejected program what its
marks announce.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.rules import RULES, rule_name

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("__"))
REJECTED = sorted((ROOT / "examples" / "rejected").glob("*.py"))
_MARK = re.compile(r"# error: ([a-z0-9-]+)\s*$")


def findings(path: Path) -> list[tuple[int, str]]:
    result = check_text(str(path), path.read_text("utf-8"), Modules(), Options())
    return sorted((item.span.line, item.rule) for item in result.diagnostics if item.severity != "note")


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_the_linter_is_silent_on_an_example(path: Path) -> None:
    assert findings(path) == []


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_an_example_agrees_with_numpy(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"examples.{path.stem}").main()
    assert capsys.readouterr().out.startswith(f"{path.stem}: ")


@pytest.mark.parametrize("name", ["adopted", "block_sum"])
def test_an_example_without_numba_says_what_it_needs(name: str) -> None:
    line = f"import sys; sys.modules['numba'] = None; import examples.{name}"
    done = subprocess.run([sys.executable, "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"{name}: needs numba-cuda"), done.stderr


@pytest.mark.parametrize("path", REJECTED, ids=lambda path: path.stem)
def test_a_rejected_program_fails_as_marked(path: Path) -> None:
    lines = path.read_text("utf-8").split("\n")
    marked = [(number, mark[1]) for number, line in enumerate(lines, 1) if (mark := _MARK.search(line))]
    assert marked
    assert sorted(set(findings(path))) == marked


def test_every_rule_has_a_rejected_program() -> None:
    assert {rule_name(rule).replace("-", "_") for rule in RULES} <= {path.stem for path in REJECTED}
