"""A file gets the same findings in the same words in every process: which of several causes is named is decided by where
it stands, never by the order of a set.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def held(flag: bool) -> None:
    z, y, x = tc.zeros(64), tc.zeros(64), tc.ones(64)
    first, second, third = z[0:32], z[0:16], z[8:64]
    a, b = copy(y.partition(8), x), copy(y.partition(8), z)
    c, d = copy(z.partition(8), x), copy(z.partition(8), y)
    if flag:
        e = z.into_partition(8)
    else:
        e = z.into_partition(16)
    print(z.numpy(), y.numpy(), first.numpy(), second.numpy(), third.numpy(), e)
    for op in (a, b, c, d):
        op.sync()
    a.sync()


def running() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    runs = [copy(z[0:32].partition(8), x).run(), copy(z[32:64].partition(8), x).run()]
    third = copy(x.partition(8), z).run()
    print(z.numpy(), x.numpy())
    runs[0].wait()
    runs[1].wait()
    third.wait()
"""


def test_the_order_of_sets_is_not_seen(tmp_path: Path) -> None:
    file = tmp_path / "many.py"
    file.write_text(SOURCE)
    said: list[str] = []
    for seed in ("0", "1", "2", "3", "4"):
        command = [sys.executable, "-m", "tilecheck", "check", str(file)]
        done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
        assert done.returncode == 1 and done.stdout.count("error[") > 6, done
        said.append(done.stdout)
    assert said.count(said[0]) == len(said)
