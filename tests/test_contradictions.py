"""A contract that no launch can keep is told: under it everything would be proved."""

from __future__ import annotations

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

KERNEL = """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32


@tc.simt(block={block}, requires="{requires}")
def k(a: Tensor[Mut, f32, Dyn], b: Tensor[Shared, f32, Dyn], n: int, m: int) -> None:
    i = cuda.grid(1)
    if i < a.size and i < b.size:
        a[i] = b[i]
"""


def refusals(requires: str, block: int = 64) -> list[str]:
    text = KERNEL.format(block=block, requires=requires)
    found = check_text("k.py", text, Modules(), Options()).diagnostics
    assert all(finding.rule == "launch-contract" for finding in found)
    return [finding.message for finding in found]


@pytest.mark.parametrize(
    "requires",
    [
        "a.size >= 64 and a.size < 64",
        "a.size < 1",
        "n > m and m > n",
        "n % 2 == 1 and n % 4 == 2",
        "a.size == 2 * n and b.size == 2 * n + 1 and a.size == b.size",
        "blockDim.x % 48 == 0",
        "n >= 1 and gridDim.x <= -n",
    ],
)
def test_a_contract_that_no_launch_can_keep(requires: str) -> None:
    assert refusals(requires) == [f"no launch can keep what `k` requires: `{requires}`"]


@pytest.mark.parametrize(
    "requires",
    [
        "a.size >= 64 and a.size <= 64",
        "a.size <= 1",
        "n > m and m > n - 2",
        "n % 2 == 0 and n % 4 == 2",
        "a.size == 2 * n and b.size == 2 * n + 1",
        "blockDim.x % 32 == 0",
        "n <= -1 and gridDim.x <= -n",
    ],
)
def test_one_that_some_launch_keeps_is_silent(requires: str) -> None:
    assert refusals(requires) == []
