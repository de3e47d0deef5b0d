"""Repairs of kernels: what they write, that it is proved, and when they hold back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tilecheck.check import check_text
from tilecheck.cli import group
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.repairs import apply_repairs, repairers
from tilecheck.report.result import FileResult
from tilecheck.rules import RULES, rule_name

HEAD = "import numpy as np\nfrom numba import cuda, float32\n\n\n@cuda.jit\ndef k(x, y):\n"
LAUNCH = "\n\nk[2, 32](cuda.to_device(np.ones(60, np.float32)), cuda.to_device(np.ones(60, np.float32)))\n"
SHARED = ("s = cuda.shared.array(32, float32)", "t, i = cuda.threadIdx.x, cuda.grid(1)")


def program(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + LAUNCH


def checked(text: str) -> FileResult:
    return check_text("k.py", text, Modules(), Options())


def repaired(text: str) -> tuple[str, int]:
    return apply_repairs(text, checked(text), checked)


CHANGES = {
    "a barrier before the read": (
        (*SHARED, "s[t] = t", "v = s[31 - t]", "if i < y.size:", "    y[i] = v"),
        (*SHARED, "s[t] = t", "cuda.syncthreads()", "v = s[31 - t]", "if i < y.size:", "    y[i] = v"),
    ),
    "a barrier outside of the branch": (
        (*SHARED, "s[t] = t", "if i < y.size:", "    y[i] = s[31 - t]"),
        (*SHARED, "s[t] = t", "cuda.syncthreads()", "if i < y.size:", "    y[i] = s[31 - t]"),
    ),
    "a guard around a store": (
        ("i = cuda.grid(1)", "y[i] = 1"),
        ("i = cuda.grid(1)", "if i < y.size:", "    y[i] = 1"),
    ),
    "float literals": (
        ("i = cuda.grid(1)", "if i < y.size:", "    y[i] = 0.5 * x[i] + 2.0 * y[i]"),
        ("i = cuda.grid(1)", "if i < y.size:", "    y[i] = float32(0.5) * x[i] + float32(2.0) * y[i]"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_repair_is_made_and_leaves_nothing_to_report(name: str) -> None:
    before, after = (program(*lines) for lines in CHANGES[name])
    assert repaired(before)[0] == after
    assert [d for d in checked(after).diagnostics if d.severity != "note"] == []


KEPT = {
    "a load has a value that is needed": ("i = cuda.grid(1)", "v = x[i]", "if i < y.size:", "    y[i] = v"),
    "no barrier orders blocks": ("x[cuda.threadIdx.x] = cuda.blockIdx.x",),
    "threads of one store": ("x[0] = cuda.threadIdx.x",),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_proved_is_left_alone(name: str) -> None:
    text = program(*KEPT[name])
    assert checked(text).diagnostics
    assert repaired(text) == (text, 0)


def test_a_repair_without_its_proof_is_not_taken() -> None:
    text = program(*CHANGES["a guard around a store"][0])
    assert apply_repairs(text, checked(text), lambda edited: checked(text)) == (text, 0)


def test_line_ends_are_kept() -> None:
    text = program(*CHANGES["a barrier before the read"][0]).replace("\n", "\r\n")
    assert repaired(text)[0].count("\n") == repaired(text)[0].count("\r\n")


def test_the_command_repairs(tmp_path: Path) -> None:
    before, after = (program(*lines) for lines in CHANGES["a guard around a store"])
    path = tmp_path / "k.py"
    path.write_text(before)
    outcome = CliRunner().invoke(group, ["check", "--fix", "--no-cache", str(path)])
    assert path.read_text() == after
    assert outcome.exit_code == 0


def test_rules_with_repairs_are_marked() -> None:
    assert set(repairers()) == {rule_name(rule) for rule in RULES if hasattr(rule, "repairs")}
