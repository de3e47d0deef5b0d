"""Conditions on slices: what a launch is asked has no choices in it, and nothing less is asked."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.verify.verdict import Property

KERNEL = "@cuda.jit\ndef k(a, n):\n    i = cuda.grid(1)\n    b = {view}\n    {guard}b[{index}] = 1\n"


@pytest.mark.parametrize(
    ("view", "guard", "index", "asked"),
    [
        ("a[n:]", "", "i", ("n >= 0", "a.size >= n + blockDim.x * gridDim.x")),
        ("a[:n]", "if 0 <= i < n: ", "i", ("a.size >= n",)),
        ("a[4:]", "", "i", ("a.size >= blockDim.x * gridDim.x + 4",)),
        ("a[:-1]", "", "i", ("a.size >= blockDim.x * gridDim.x + 1",)),
    ],
)
def test_conditions_on_slices_are_readable(view: str, guard: str, index: str, asked: tuple[str, ...]) -> None:
    found = report(KERNEL.format(view=view, guard=guard, index=index))
    assert found.verdicts[Property.IN_BOUNDS].conditions == asked


def test_dynamic_memory_behind_an_offset_is_asked_for_in_one_comparison() -> None:
    text = "@cuda.jit\ndef k(a):\n    s = cuda.shared.array(0, float32)[32:]\n    s[cuda.threadIdx.x] = 1\n"
    text = text.replace("s = cuda.shared.array(0, float32)[32:]", "w = cuda.shared.array(0, float32)\n    s = w[32:]")
    assert report(text).verdicts[Property.IN_BOUNDS].conditions == ("dynamic_shared // 4 >= blockDim.x + 32",)
