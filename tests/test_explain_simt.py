"""`tilecheck explain FILE::KERNEL` of thread-level kernels: why it is safe, or what was seen to go wrong."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tilecheck.cli import group

TEXT = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def turn(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    {barrier}
    y[cuda.grid(1)] = s[31 - t]

turn[2, 32](cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.ones(64, np.float32)))
"""


def explained(tmp_path: Path, barrier: str) -> str:
    path = tmp_path / "turn.py"
    path.write_text(TEXT.format(barrier=barrier))
    return CliRunner().invoke(group, ["explain", f"{path}::turn"]).output


def test_a_safe_kernel_says_why(tmp_path: Path) -> None:
    found = " ".join(explained(tmp_path, "cuda.syncthreads()").split())
    assert "one-to-one because `threadIdx.x` tells the threads of a block apart, and blocks are further apart" in found
    assert "the barrier on line 10 is needed: without it line 9 and line 11 race on `s`" in found


def test_a_racy_kernel_shows_both_accesses_threads_and_a_way_out(tmp_path: Path) -> None:
    found = explained(tmp_path, "pass")
    assert "one thread writes `s[" in found and "thread (" in found and "this launch shows it" in found
    assert "help: put a `cuda.syncthreads()` between line 9 and line 11" in found
