"""Casts to fewer bits in indices: what wraps is not shown apart, what fits costs nothing."""

from __future__ import annotations

import pytest

from tests.test_prover import PROVED, report
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Property, Verdict

KERNEL = """
from numba import uint8, uint32

@cuda.jit
def f(a, n, h, w):
    i = cuda.grid(1)
    k = {index}
    if 0 <= k < a.size:
        a[k] = i
"""
LAUNCH = """
def main():
    f[{grid}, 128](cuda.to_device(np.zeros(1000)), 10, 4, 4)
"""


def of(index: str, grid: int | None = None) -> SimtReport:
    return report(KERNEL.format(index=index) + (LAUNCH.format(grid=grid) if grid is not None else ""))


@pytest.mark.parametrize(
    ("index", "condition"),
    [
        ("np.int32(i)", "blockDim.x * gridDim.x <= 2147483648"),
        ("np.int32(np.int32(i) * np.int32(65536))", "blockDim.x * gridDim.x <= 32768"),
        ("np.uint32(i << 20)", "blockDim.x * gridDim.x <= 4096"),
        ("np.uint16(i + 5)", "blockDim.x * gridDim.x <= 65531"),
        ("np.int16(i)", "blockDim.x * gridDim.x <= 32768"),
    ],
)
def test_a_cast_is_one_to_one_for_launches_in_which_it_fits(index: str, condition: str) -> None:
    answer = of(index).verdicts[Property.RACE_FREE]
    assert (answer.verdict, answer.conditions) == (Verdict.PROVEN_GIVEN, (condition,))


@pytest.mark.parametrize("index", ["np.int32(i * 65536)", "np.int32(i << 16)", "np.uint8(i)", "np.int32(np.int16(i))"])
def test_a_cast_that_wraps_at_the_launch_shows_its_race(index: str) -> None:
    found = of(index, grid=1024)
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
    first, second = found.findings[0].witness.threads
    assert first != second


@pytest.mark.parametrize(
    "index",
    [
        "np.int32(i)",
        "np.int32(np.int32(i) * np.int32(4096))",
        "np.uint32(i)",
        "np.int32(cuda.blockIdx.x) * 128 + cuda.threadIdx.x",
    ],
)
def test_a_cast_that_fits_at_the_launch_needs_no_condition(index: str) -> None:
    assert of(index, grid=1024).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_threads_blocks_and_scalars_fit_32_bits() -> None:
    found = of("np.int32(cuda.blockIdx.x) * np.int32(cuda.blockDim.x) + np.int32(cuda.threadIdx.x)")
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_a_negative_value_is_large_without_a_sign() -> None:
    answer = of("np.uint64(i - 5) * 2").verdicts[Property.RACE_FREE]
    assert answer.verdict in PROVED
    text = """
@cuda.jit
def g(a):
    i = cuda.grid(1)
    if np.uint64(i - 5) < 3:
        a[i - 5] = i
"""
    assert report(text).verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN_GIVEN


def test_the_guard_may_bound_what_is_cast() -> None:
    text = """
@cuda.jit
def g(a, h, w):
    x, y = cuda.grid(2)
    if x < w and y < h:
        a[int32(y * w + x)] = 1
"""
    for answer in report(text).verdicts.values():
        assert answer.verdict in PROVED and set(answer.conditions) <= {"a.size >= h * w", "h * w <= 2147483647"}
