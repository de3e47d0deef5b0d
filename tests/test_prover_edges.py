"""Kernels at the edges of integers and slices: what is wrong is not shown, and its right twin is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_prover import PROVED, report
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

SOURCE = Source("edges.py", (Path(__file__).parent / "kernels" / "edges.py").read_text())
LABEL = re.compile(r"# (WRONG|RIGHT): (.+)")


def labelled() -> list[tuple[Kernel, bool, frozenset[Property]]]:
    """Every kernel, whether its label says that properties hold, and which."""
    made = []
    for kernel in read_kernels(SOURCE, lambda name: None):
        label = LABEL.match(SOURCE.lines[kernel.lines[0] - 2])
        assert label is not None, kernel.name
        made.append((kernel, label[1] == "RIGHT", frozenset(Property(name) for name in label[2].split())))
    return made


CASES = labelled()


@pytest.mark.parametrize(("kernel", "right", "named"), CASES, ids=[kernel.name for kernel, _, _ in CASES])
def test_right_twins_are_shown_and_wrong_ones_are_not(kernel: Kernel, right: bool, named: frozenset[Property]) -> None:
    found = check_kernel(kernel, budget=3.0)
    assert {name for name in named if (found.verdicts[name].verdict in PROVED) is not right} == set()


def test_a_boolean_divisor_is_judged() -> None:
    found = report('@cuda.jit("void(int32[:], boolean)")\ndef k(a, n):\n    a[cuda.grid(1) // n] = 1\n')
    assert found.verdicts[Property.RACE_FREE].verdict not in PROVED


def test_counters_are_assumed_to_start_and_stay_where_that_is_not_shown() -> None:
    slots = "@cuda.jit\ndef k(a, c):\n    t = cuda.atomic.add(c, 0, 1)\n    if t < a.size:\n        a[t] = 1\n"
    found = report(slots)
    assert found.verdicts[Property.IN_BOUNDS].verdict in PROVED
    assert "the counters in `c` start at zero or above" in found.assumptions
    assert "the counters in `c` do not wrap" in found.assumptions


SUMMED = """
@cuda.jit
def k(z, p, o):
    i = cuda.grid(1)
    if i < p.size and p[i] >= 0 and i < o.size:
        if p[i] + p[i] + p[i] + p[i] < z.size:
            o[i] = z[p[i] + p[i] + p[i] + p[i]]
"""


def test_elements_of_no_known_width_are_assumed_to_be_modest() -> None:
    found = report(SUMMED)
    assert found.verdicts[Property.IN_BOUNDS].verdict in PROVED
    assert f"the elements of `p` are from {-(2**60)} to {2**60}" in found.assumptions


def test_elements_that_a_launch_shows_to_be_wide_are_not() -> None:
    launch = "p = cuda.to_device(np.array([2**61] * 40))\no = cuda.device_array(40, np.int32)\nk[1, 64](o, p, o)\n"
    assert report(SUMMED + launch).verdicts[Property.IN_BOUNDS].verdict not in PROVED


@pytest.mark.parametrize("index", ["t // (n + 1) % 16", "(t // (n + 1)) % 8 + 1", "t // (n + 1)", "(t + 1) // n % 16"])
def test_quotients_by_a_scalar_in_shared_indices_are_followed_or_left_open(index: str) -> None:
    found = report(
        "@cuda.jit\ndef f(a, n):\n    s = cuda.shared.array(32, int32)\n    t = cuda.threadIdx.x\n"
        f"    s[{index}] = 1\n    cuda.syncthreads()\n    a[t] = s[t % 16]\n"
    )
    assert found.verdicts[Property.SHARED_INITIALISED].verdict is not Verdict.PROVEN


@pytest.mark.parametrize("step", ["r *= 4", "r = r * 2", "r <<= 1"])
def test_what_a_multiplied_counter_runs_up_to_is_listed(step: str) -> None:
    body = (
        "    r = 1\n    while r < n:\n        j = 9 * r\n        if j < a.size:\n            a[j] = 1\n        " + step
    )
    found = report(f"@cuda.jit\ndef k(a, n):\n{body}\n")
    assert "n <= 2147483647" in found.assumptions
    few = report(f"@cuda.jit\ndef k(a, n):\n{body.replace('r < n', 'r < 64')}\n")
    assert not any(text.startswith(("n ", "r ")) for text in few.assumptions)
