"""Other libraries, CUDA C++ and grid barriers on the device, a process each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAMES = (
    *("torch_stream", "torch_lent", "numba_lent", "cupy_lent"),
    *("cpp", "grid_barrier", "host_values_in_a_graph"),
)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_the_device(name: str) -> None:
    environment = {**os.environ, "TILECHECK_DEVICE": "cuda"}
    script = [sys.executable, "-m", "tests.gpu.other_libraries", name]
    result = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    said = result.stdout.strip()
    if said.startswith("skip: "):
        pytest.skip(said)
    assert said == "fine"
