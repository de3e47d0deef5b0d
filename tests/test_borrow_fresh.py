"""Helpers whose result is all that counts of them at a call, and those that are read whole."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

HEAD = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Owned, Shared, Tensor, f32

class BM(Dim): ...

@tc.kernel
def copy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))
"""

FILLED = """
def fill(n: int) -> Tensor[Owned, f32, Dyn]:
    x, z = tc.ones(n), tc.empty(n)
    for _ in range(3):
        copy(z.partition(128), x).sync()
    return z
"""

FLYING = """
def fill(n: int) -> Tensor[Owned, f32, Dyn]:
    x, z = tc.ones(n), tc.empty(n)
    running.append(copy(z.partition(128), x).run())
    return z

running = []
"""


def rules(helper: str, body: str) -> list[str]:
    text = HEAD + helper + "\ndef use(n: int) -> None:\n" + dedent(body).replace("\n", "\n    ")
    return [found.rule for found in check_text("program.py", text, Modules(), Options()).diagnostics]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z, x = fill(n), fill(n)\ncopy(z.partition(128), x).sync()\nprint(z.numpy())", []),
        ("z = fill(n)\ncopy(z.partition(128), z).sync()", ["borrow-conflict"]),
        ("z, x = fill(n), fill(n)\nr = copy(z.partition(128), x).run()\nprint(z.numpy())\nr.wait()", ["use-in-flight"]),
        ("z, x = fill(n), fill(n)\nz.into_partition(128)\ncopy(z.partition(128), x).sync()", ["use-after-move"]),
        ("z, x = fill(n), fill(n)\ncopy(z.partition(128), x)", ["dropped-op"]),
        ("z, x = fill(n), fill(n)\ncopy(z, x).sync()", ["unpartitioned-output"]),
    ],
)
def test_what_a_helper_makes_is_the_callers(body: str, expected: list[str]) -> None:
    assert rules(FILLED, "\n" + body) == expected


def test_a_helper_that_makes_another_dtype_is_seen_through() -> None:
    other = FILLED.replace("f32, Dyn]:", "f16, Dyn]:").replace("tc.empty(n)", "tc.empty(n, dtype=tc.f16)")
    other = other.replace("copy(z.partition(128), x).sync()", "pass")
    assert rules(other, "\nz, x = fill(n), tc.ones(n)\ncopy(z.partition(128), x).sync()") == ["dtype-mismatch"]


@pytest.mark.parametrize(
    "change",
    [
        ("    return z\n", "    kept.append(z.partition(128))\n    return z\n\nkept = []\n"),
        ("    return z\n", "    global LAST\n    LAST = z\n    return z\n\nLAST = None\n"),
        ("    return z\n", "    if n > 3:\n        z = tc.zeros(n)\n    return z\n"),
        ("(n: int)", "(n: int, m)"),
    ],
)
def test_other_helpers_are_read_as_before(change: tuple[str, str]) -> None:
    assert rules(FILLED.replace(*change), "\nz = tc.ones(n)\nprint(z.numpy())") == []


def test_work_that_a_helper_leaves_under_way_is_not_forgotten() -> None:
    kept = FLYING.replace("running.append(copy(z.partition(128), x).run())", "copy(z.partition(128), x).run()")
    assert rules(kept, "\nz = fill(n)\nprint(z.numpy())") == ["use-in-flight"]
