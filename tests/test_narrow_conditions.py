"""Launch conditions ask for what a kernel needs and no more; axes that a kernel does not ask for have extent 1."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict


def conditions(parameters: str, body: str, name: Property = Property.IN_BOUNDS) -> tuple[str, ...]:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    answer = report(f"@cuda.jit\ndef f({parameters}):\n{lines}").verdicts[name]
    assert answer.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN), answer
    return answer.conditions


FILTER = """
i = cuda.grid(1)
r = w.size // 2
if i < x.size and i < y.size:
    for k in range(-r, r + 1):
        if 0 <= i + k < x.size:
            y[i] += x[i + k] * w[r + k]
"""
SQUARE_FILTER = """
i, j = cuda.grid(2)
r = w.shape[0] // 2
if i < y.shape[0] and j < y.shape[1]:
    for a in range(-r, r + 1):
        for b in range(-r, r + 1):
            y[i, j] += w[r + a, r + b]
"""


@pytest.mark.parametrize(
    ("parameters", "body", "wanted"),
    [
        ("x, w, y", FILTER, {"w.size % 2 == 1"}),
        ("w, y", SQUARE_FILTER, {"w.shape[0] % 2 == 1", "w.shape[1] >= 2 * (w.shape[0] // 2) + 1"}),
        ("x, y", "i = cuda.grid(1)\nif i < x.size // 2:\n    y[i] = x[2 * i + 1]", {"y.size >= x.size // 2"}),
        ("x, y", "i = cuda.grid(1)\nif i < y.size:\n    y[i] = x[i // 2]", {"2 * x.size >= y.size"}),
        ("x, y", "i = cuda.grid(1)\nif i < y.size:\n    y[i] = x[i // 3]", {"3 * x.size >= y.size"}),
        ("x, y", "i = cuda.grid(1)\nif i < y.size - 3:\n    y[i] = x[i + 1]", {"x.size + 2 >= y.size"}),
        ("x, y, n", "i = cuda.grid(1)\nif i <= n:\n    y[i] = x[i]", {"x.size >= n + 1", "y.size >= n + 1"}),
        (
            "x, w, y, r",
            "i = cuda.grid(1)\nif r <= i < x.size - r:\n    for k in range(-r, r + 1):\n        y[i] += x[i + k] * w[k + r]",
            {"w.size >= 2 * r + 1", "y.size + r >= x.size"},
        ),
        (
            "a, out, w, h",
            "x, y = cuda.grid(2)\nif x < w and y < h:\n    out[y * w + x] = a[y * w + x]",
            {"a.size >= w * h", "out.size >= w * h"},
        ),
        (
            "x, y",
            "i = cuda.grid(1)\nn = x.size\nif i < n // 2:\n    y[i] = x[i]\nif i == 0 and n % 2 == 1:\n    y[n // 2] = x[n - 1]",
            {"2 * y.size >= x.size"},
        ),
    ],
)
def test_conditions_are_what_is_needed(parameters: str, body: str, wanted: set[str]) -> None:
    assert set(conditions(parameters, body)) == wanted


SQUARES = {
    "one extent for both axes": (
        "a",
        "if i < a.shape[0] and j < a.shape[0]:\n    a[i, j] = 1",
        "a.shape[1] >= a.shape[0]",
    ),
    "the other extent for both": (
        "a",
        "if i < a.shape[1] and j < a.shape[1]:\n    a[i, j] = 1",
        "a.shape[0] >= a.shape[1]",
    ),
    "one through a name": (
        "a",
        "n = a.shape[0]\nif i < j and j < n:\n    a[i, j], a[j, i] = a[j, i], a[i, j]",
        "a.shape[1] >= a.shape[0]",
    ),
}


@pytest.mark.parametrize("name", SQUARES)
def test_a_guard_of_one_extent_for_both_axes_means_a_square(name: str) -> None:
    parameters, body, wanted = SQUARES[name]
    assert conditions(parameters, "i, j = cuda.grid(2)\n" + body) == (wanted,)


@pytest.mark.parametrize(
    "body",
    [
        "if i < a.shape[1] and j < a.shape[0]:\n    a[i, j] = 1",
        "if i < a.shape[1] and j == 0:\n    a[i, 0] = 1",
        "if j < a.shape[0] and i == 2:\n    a[0, j] = 1",
    ],
)
def test_a_guard_that_mixes_up_two_axes_does_not(body: str) -> None:
    answer = report(
        "@cuda.jit\ndef f(a):\n    i, j = cuda.grid(2)\n" + "".join(f"    {line}\n" for line in body.splitlines())
    ).verdicts[Property.IN_BOUNDS]
    assert answer.verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


@pytest.mark.parametrize(
    ("body", "assumed"),
    [
        ("z, i = cuda.blockIdx.z, cuda.grid(1)\nif z < a.shape[0] and i < a.shape[1]:\n    a[z, i] += 1", "blockDim.z"),
        (
            "r, t = cuda.blockIdx.y, cuda.threadIdx.x\nif r < a.shape[0] and t < a.shape[1]:\n    a[r, t] += 1",
            "gridDim.x",
        ),
        (
            "r = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y\nif r < a.shape[0] and cuda.threadIdx.x == 0:\n    a[r, 0] += 1",
            "gridDim.y",
        ),
    ],
)
def test_an_axis_that_is_not_asked_for_has_extent_one(body: str, assumed: str) -> None:
    found = report("@cuda.jit\ndef f(a):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
    assert f"{assumed} == 1" in found.assumptions


@pytest.mark.parametrize(("parts", "ahead"), [(2, 0), (4, 0), (2, 1)])
def test_quotients_in_blocks_of_a_known_extent_are_as_narrow(parts: int, ahead: int) -> None:
    text = f"""
import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32

@tc.simt(block=64)
def f(y: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i // {parts} + {ahead}]
"""
    answer = report(text).verdicts[Property.IN_BOUNDS]
    wanted = f"{parts} * x.size >= y.size" + (f" + {parts * ahead}" if ahead else "")
    assert (answer.verdict, answer.conditions) == (Verdict.PROVEN_GIVEN, (wanted,))


BY_BLOCK = "@cuda.jit\ndef f(a):\n    b = cuda.blockIdx.x\n    if b < a.size:\n        a[b] += 1\n"


def test_a_kernel_of_blocks_alone_is_made_for_blocks_of_one_thread() -> None:
    answer = report(BY_BLOCK).verdicts[Property.RACE_FREE]
    assert (answer.verdict, answer.conditions) == (Verdict.PROVEN_GIVEN, ("blockDim.x == 1",))


@pytest.mark.parametrize(
    "text",
    [
        BY_BLOCK + "f[4, 32](np.zeros(4))\n",
        BY_BLOCK.replace("cuda.blockIdx.x", "cuda.blockIdx.x // 2"),
        BY_BLOCK.replace("    a[b]", "    t = cuda.threadIdx.x\n        a[b + t - t]"),
    ],
)
def test_other_blocks_and_shared_elements_race(text: str) -> None:
    assert report(text).verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
