"""Planted races: the interpreter stops one, the checker refutes the other, racecheck sees both on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parent / "planted_race.py")


def ran(*arguments: str, device: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TILECHECK_DEVICE": device}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_interpreter_stops_one() -> None:
    result = ran(SCRIPT, "placed", device="cpu")
    assert result.returncode == 1
    assert "`placed` stopped: write and write of one element of `s` at 0" in result.stderr


def test_the_checker_refutes_the_other() -> None:
    result = ran("-m", "tilecheck", "check", SCRIPT, device="cpu")
    assert result.returncode == 1
    assert "error[data-race]: `s[127 - cuda.threadIdx.x]` is read while another thread" in result.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["placed", "shifted"])
def test_racecheck_sees_them(kernel: str) -> None:
    result = ran("-m", "tilecheck", "sanitize", "--tool", "racecheck", SCRIPT, kernel, device="cuda")
    assert result.returncode == 1, result.stdout + result.stderr
    assert kernel in result.stdout + result.stderr
