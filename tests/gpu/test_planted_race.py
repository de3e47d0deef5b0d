"""A race that no proof excludes: the interpreter stops it, and `tilecheck sanitize` sees it on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "planted_race.py"


def ran(*arguments: str, device: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TILECHECK_DEVICE": device}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_interpreter_stops_a_planted_race() -> None:
    result = ran(str(SCRIPT), device="cpu")
    assert result.returncode == 1
    assert "`taken` stopped: " in result.stderr and " of one element of `s` at " in result.stderr


@pytest.mark.gpu
def test_racecheck_sees_the_planted_race() -> None:
    result = ran("-m", "tilecheck", "sanitize", "--tool", "racecheck", str(SCRIPT), device="cuda")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "planted_race.py" in result.stdout + result.stderr
