"""The device names the first block that fails, whichever block failed first in time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.gpu.first_block import FIRST, ROUNDS


@pytest.mark.gpu
def test_the_first_failing_block_is_named() -> None:
    environment = {**os.environ, "TILECHECK_DEVICE": "cuda"}
    script = [sys.executable, "-m", "tests.gpu.first_block"]
    result = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == ROUNDS
    assert all(line.startswith("assertion failed: not zero") for line in lines)
    assert all(line.endswith(f"in `peek`, block ({FIRST}, 0, 0)") for line in lines), lines[0]
