"""Integers of 64 bits: what may wrap is never proved as if it did not, and ordinary kernels hear nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_prover import PROVED, report
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.simt import run
from tilecheck.symbolic.requires import parse, vocabulary
from tilecheck.verify.verdict import Property, Verdict

RACE, BOUNDS = Property.RACE_FREE, Property.IN_BOUNDS


def kernel(body: str, signature: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"@cuda.jit{signature}\ndef f(a, n):\n    i = cuda.grid(1)\n{lines}"


PRODUCT = """
j = i * n
if n >= 1 and j < a.size:
    a[j] = i
"""


def test_a_product_that_may_wrap_is_proved_for_scalars_of_32_bits() -> None:
    found = report(kernel(PRODUCT))
    for name in (RACE, BOUNDS):
        answer = found.verdicts[name]
        assert (answer.verdict, set(answer.conditions)) == (
            Verdict.PROVEN_GIVEN,
            {"n <= 2147483647", "gridDim.x <= 2097152"},
        )


def test_the_product_does_wrap() -> None:
    (read,) = read_kernels(Source("f.py", "from numba import cuda\n" + kernel(PRODUCT)), lambda name: None)
    outcome = run(read, {"a": np.zeros(8, np.int64), "n": 2**62}, (1, 1, 1), (8, 1, 1))
    assert {fault.kind for fault in outcome.faults} == {"race", "out-of-bounds"}


def test_scalars_that_are_only_added_up_are_assumed_to_be_of_ordinary_size() -> None:
    found = report(kernel("if 0 <= n and i + n < a.size:\n    a[i + n] = i"))
    (text,) = [text for text in found.assumptions if " n " in text]
    words = vocabulary(found.kernel)
    holds = {n: all(c.holds(lambda atom, n=n: n) for c in parse(text, words)) for n in (-5, 0, 2**40, 2**62)}
    assert holds == {-5: True, 0: True, 2**40: True, 2**62: False}


def test_a_signature_bounds_its_scalars() -> None:
    answer = report(kernel(PRODUCT, '("void(int32[:], int32)")')).verdicts[RACE]
    assert answer.conditions == ("gridDim.x <= 2097152",)


@pytest.mark.parametrize("grid", [4, 4096])
def test_a_launch_that_shows_the_scalar_needs_no_condition(grid: int) -> None:
    launch = f"\ndef main():\n    f[{grid}, 64](cuda.to_device(np.zeros(1000)), 3)\n"
    assert report(kernel(PRODUCT) + launch).verdicts[RACE].verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    "body",
    [
        "if i < n:\n    a[i] = 1",
        "for k in range(i, n, cuda.gridsize(1)):\n    a[k] = 1",
        "while i < n:\n    a[i] = 1\n    i += cuda.gridsize(1)",
        "if 0 <= n and i + n < a.size:\n    a[i + n] = i",
        "if i < a.size:\n    a[i] = i * n * n",
        "if 0 <= n < 64 and i < a.size:\n    a[i] = a[i] >> n",
        "for k in range(n):\n    a[i + k] = i + k",
        "if i // 2 < a.size and i % 2 == 0:\n    a[i // 2] = n",
    ],
)
def test_ordinary_kernels_have_no_condition_on_the_size_of_scalars(body: str) -> None:
    found = report(kernel(body))
    assert found.verdicts[RACE].verdict in PROVED
    assert set(found.conditions()) <= {"a.size >= n", "n >= 0", "n >= 1"}


@pytest.mark.parametrize(
    "body",
    [
        "k = i << n\nif 0 <= k < a.size:\n    a[k] = i",
        "k = i << 64\nif k < a.size:\n    a[k] = i",
        "k = i * n * n * n\nif n > 0 and k < a.size:\n    a[k] = i",
    ],
)
def test_what_no_condition_keeps_in_range_is_unknown(body: str) -> None:
    found = report(kernel(body))
    assert found.verdicts[RACE].verdict is Verdict.UNKNOWN
    assert "bits" in (found.verdicts[RACE].reason or "")


def test_a_shift_by_a_scalar_is_proved_for_scalars_that_can_shift() -> None:
    found = report(kernel("k = i + (i >> n)\nif 0 <= k < a.size:\n    a[k] = i"))
    assert set(found.verdicts[RACE].conditions) == {"n >= 0", "n <= 63"}


UNSIGNED = "d = np.uint32(i) - np.uint32({by})\nif d < 4:\n    a[{index}] = i"


def test_unsigned_differences_are_huge_and_not_negative() -> None:
    found = report(kernel(UNSIGNED.format(by="5", index="i")))
    assert found.verdicts[RACE].verdict in PROVED
    (read,) = read_kernels(
        Source("f.py", "import numpy as np\nfrom numba import cuda\n" + kernel(UNSIGNED.format(by="5", index="i"))),
        lambda name: None,
    )
    array = np.zeros(16, np.int64)
    run(read, {"a": array, "n": 0}, (1, 1, 1), (16, 1, 1))
    assert array.nonzero()[0].tolist() == [5, 6, 7, 8]


def test_a_literal_makes_it_signed_again() -> None:
    text = kernel("d = np.uint32(i) - 5\nif d < 4:\n    a[i] = i")
    (read,) = read_kernels(Source("f.py", "import numpy as np\nfrom numba import cuda\n" + text), lambda name: None)
    array = np.full(16, -1, np.int64)
    run(read, {"a": array, "n": 0}, (1, 1, 1), (16, 1, 1))
    assert (array >= 0).nonzero()[0].tolist() == list(range(9))


def test_a_loop_that_adds_a_scalar_bounds_it() -> None:
    text = """
@cuda.jit
def f(a, flag, n):
    t = cuda.threadIdx.x
    j = 0
    while flag[t] > j % 7:
        a[t + 1024 * (j % 7)] = t
        j += n
"""
    found = report(text)
    assert set(found.verdicts[RACE].conditions) == {"n <= 2147483647", "n >= -2147483648"}


@pytest.mark.parametrize(("taken", "needed"), [("% 8", False), ("& 7", False), ("% 7", True), ("// 8", True)])
def test_low_bits_of_a_value_that_wraps_are_its_low_bits(taken: str, needed: bool) -> None:
    text = f"""
@cuda.jit
def f(a, n):
    j = cuda.threadIdx.x * n * n {taken}
    if 0 <= j < a.size:
        cuda.atomic.add(a, j, 1)
"""
    answer = report(text).verdicts[BOUNDS]
    assert (answer.verdict is not Verdict.PROVEN) is needed
