"""Warp-aggregated tickets: one lane draws for all voters of its warp, and each voter has a place of its own."""

from __future__ import annotations

import pytest

from tests.test_prover import PROVED, report
from tilecheck.verify.verdict import Property

RIGHT = """
@cuda.jit
def k(flags, out, counter):
    i = cuda.grid(1)
    lane = cuda.laneid
    keep = i < flags.shape[0] and flags[i] != 0
    mask = cuda.ballot_sync(0xFFFFFFFF, keep)
    base = 0
    if lane == 0:
        base = cuda.atomic.add(counter, 0, cuda.popc(mask))
    base = cuda.shfl_sync(0xFFFFFFFF, base, 0)
    if keep:
        pos = base + cuda.popc(mask & ((1 << lane) - 1))
        if pos < out.shape[0]:
            out[pos] = i

k[4, 256](cuda.to_device(np.zeros(1000, np.int32)), cuda.device_array(500, np.int64), cuda.to_device(np.zeros(1, np.int32)))
"""
ALIKE = [
    ("lane = cuda.laneid", "lane = cuda.threadIdx.x % 32"),
    ("lane = cuda.laneid", "lane = cuda.threadIdx.x & 31"),
    ("flags[i] != 0", "flags[i] > 3"),
    ("if lane == 0:", "if lane == 5:", "base, 0)", "base, 5)"),
    ("    base = 0\n", "    base = -1\n"),
]
WRONG = [
    ("cuda.popc(mask))", "1)"),
    ("cuda.popc(mask))", "cuda.popc(mask) - 1)"),
    ("base, 0)", "base, 1)"),
    ("cuda.shfl_sync(0xFFFFFFFF, base, 0)", "cuda.shfl_sync(0xFFFF, base, 0)"),
    ("cuda.shfl_sync(0xFFFFFFFF, base, 0)", "cuda.shfl_up_sync(0xFFFFFFFF, base, 0)"),
    ("    if lane == 0:\n    ", ""),
    ("if lane == 0:", "if lane == 0 and flags[0] > 0:"),
    ("if lane == 0:", "if lane == 0 and cuda.threadIdx.x < 32:"),
    ("if lane == 0:", "if cuda.threadIdx.x == 0:"),
    ("((1 << lane) - 1)", "((2 << lane) - 1)"),
    ("if keep:", "if i < 1000:"),
    ("    base = 0\n", "    if i >= flags.size - 3:\n        return\n    base = 0\n"),
    ("atomic.add", "atomic.max"),
]


def changed(change: tuple[str, ...]) -> str:
    text = RIGHT
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("change", [(), *ALIKE])
def test_places_of_a_warp_are_its_own(change: tuple[str, ...]) -> None:
    found = report(changed(change))
    assert {found.verdicts[name].verdict for name in Property} <= set(PROVED)


@pytest.mark.parametrize("change", WRONG)
def test_less_than_that_is_not_proved(change: tuple[str, ...]) -> None:
    verdicts = report(changed(change)).verdicts
    shown = {name for name in Property if verdicts[name].verdict in PROVED}
    assert not shown >= {Property.RACE_FREE, Property.BARRIERS_UNIFORM}
