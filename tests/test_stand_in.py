"""Plain numba-cuda programs on the CPU, through the stand-in: device arrays alias, host arrays are copied and copied back."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tilecheck.verify.stand_in import cuda_on_cpu

PROGRAM = """
    import numpy as np
    from numba import cuda, float32

    @cuda.jit
    def shift(src, dst):
        i = cuda.grid(1)
        if i < dst.size:
            dst[i] = src[i]

    def main():
        host = np.arange(9.0)
        out = np.zeros(8)
        shift[1, 8](host[1:], out)
        device = cuda.to_device(host)
        with cuda.pinned(host):
            stream = cuda.stream()
            shift[1, 8, stream](device[1:], device[:-1])
            stream.synchronize()
        shift.forall(8)(host[:8], out)
        return out, device.copy_to_host(), float32(0.1)
    """


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def test_a_program_runs_unchanged_and_every_launch_is_recorded(program: Path) -> None:
    with cuda_on_cpu() as session:
        out, device, tenth = session.load(program).main()
    assert out.tolist() == list(range(8))
    assert device.shape == (9,) and tenth.dtype == np.float32
    assert [ran.kernel for ran in session.runs] == ["shift"] * 3
    assert [len(ran.result.faults) > 0 for ran in session.runs] == [False, True, False]
    assert session.runs[1].result.faults[0].kind == "race" and session.runs[2].block == (128, 1, 1)


def test_numba_is_itself_again_afterwards(program: Path) -> None:
    before = sys.modules.get("numba")
    with cuda_on_cpu():
        assert sys.modules["numba"] is not before
    assert sys.modules.get("numba") is before
