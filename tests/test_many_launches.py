"""A kernel that host code launches often: every launch counts, whether it is looked at alone or with others."""

from __future__ import annotations

import pytest

from tests.test_prover import PROVED
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

PLAIN = """
from numba import cuda

@cuda.jit
def f(a, k):
    i = cuda.grid(1)
    {body}

"""
SHIFTED = "a[i + k] = i"
GUARDED = "if 0 <= i + k < a.size: a[i + k] = i"
COPIED = "k[i + 1] = a[i]"
LAST_IS_SHORT = "for n in (64, 65, 66, 67, 68, 69, 10):\n    f[1, 64](cuda.device_array(n), 0)\n"
LAST_IS_FAR = "def host():\n    x = cuda.device_array(70)\n    for k in range(10):\n        f[1, 64](x, k)\n"
ALL_FIT = "def host():\n    x = cuda.device_array(73)\n    for k in range(10):\n        f[1, 64](x, k)\n"
LONG = "def host():\n    x = cuda.device_array(90)\n    for k in range(40):\n        f[1, 64](x, k)\n"
DEEP = "def host(k):\n    x = cuda.device_array(70)\n    f[1, 64](x, k)\n    if k < 10:\n        host(k + 1)\nhost(0)\n"
WIDE = (
    "def host():\n    x = cuda.device_array(4000)\n    at = 0\n    for p in range(60):\n        for q in range(60):\n"
    "            at += 1\n            at += 1\n            at += 1\n            f[1, 64](x, at)\n"
)
LAST_IS_SHARED = (
    "def host():\n    x = cuda.device_array(90)\n    y = cuda.device_array(90)\n"
    + "".join(f"    f[1, {n}](x, y)\n" for n in (32, 33, 34, 35, 36))
    + "    f[1, 64](x, x)\n"
)
NONE_IS_SHARED = LAST_IS_SHARED.replace("(x, x)", "(x, y)")


def checked(body: str, host: str) -> SimtReport:
    source = Source("many.py", PLAIN.format(body=body) + host)
    (kernel,) = read_kernels(source, lambda name: None)
    return check_kernel(kernel, launches_of(kernel, read_launches(source, lambda name: None)))


@pytest.mark.parametrize("host", [LAST_IS_SHORT, LAST_IS_FAR])
def test_a_late_launch_that_breaks_the_kernel_refutes_it(host: str) -> None:
    assert checked(SHIFTED, host).verdicts[Property.IN_BOUNDS].verdict is Verdict.REFUTED


@pytest.mark.parametrize("host", [LONG, DEEP, WIDE])
def test_launches_that_were_not_all_looked_at_prove_nothing(host: str) -> None:
    report = checked(SHIFTED, host)
    assert report.verdicts[Property.IN_BOUNDS].verdict not in PROVED
    assert report.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


@pytest.mark.parametrize("host", [LAST_IS_SHORT, LAST_IS_FAR, LONG, DEEP, WIDE])
def test_what_holds_of_any_launch_holds_of_many(host: str) -> None:
    assert all(answer.verdict is Verdict.PROVEN for answer in checked(GUARDED, host).verdicts.values())


def test_launches_that_fit_one_by_one() -> None:
    assert checked(SHIFTED, ALL_FIT).verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN


def test_sharing_in_one_of_many_launches() -> None:
    assert checked(COPIED, LAST_IS_SHARED).verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
    assert checked(COPIED, NONE_IS_SHARED).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
