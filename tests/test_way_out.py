"""What the help of a finding says is tried out: whoever follows it gets no second error."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tilecheck.cli import group

TEXT = """
import numpy as np
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, {dtype}

class B(Dim): ...

@tc.kernel
def copy(z: Tensor[Mut, {dtype}, B], x: Tensor[Shared, {dtype}, Dyn]) -> None:
    z.store(tc.load_like(x, z))

def main() -> None:
    data = np.ones(64)
    z = tc.zeros(64, dtype=tc.{dtype})
    copy(z.partition(8), {given}).sync()
"""


def output(tmp_path: Path, **parts: str) -> str:
    path = tmp_path / "main.py"
    path.write_text(TEXT.format(**parts))
    return CliRunner().invoke(group, ["check", "--no-cache", str(path)]).output


@pytest.mark.parametrize("dtype", ["f16", "f32", "i32"])
def test_a_numpy_array_is_copied_in_the_dtype_of_the_parameter(dtype: str, tmp_path: Path) -> None:
    found = output(tmp_path, dtype=dtype, given="data")
    assert found.count("error[") == 1
    _, _, way_out = found.partition("help: copy it to the device: `")
    call = way_out.partition("`")[0]
    assert call == f"tc.asarray(data, tc.{dtype})"
    assert output(tmp_path, dtype=dtype, given=call).startswith("nothing to report")
