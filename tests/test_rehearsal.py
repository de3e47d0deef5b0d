"""Launches that are run whole: what one run may settle, and what it may not."""

from __future__ import annotations

import time

import pytest

from tests.test_prover import PROVED
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.verify.rehearsal import rehearsed
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

HEAD = "import numpy as np\nfrom numba import cuda\n\n"
TRIANGLE = """
@cuda.jit
def k(packed, full, n):
    i, j = cuda.grid(2)
    if i < n and j <= i:
        packed[i * (i + 1) // 2 + j] = full[i, j]

full = cuda.to_device(np.zeros((40, 40), np.float32))
packed = cuda.device_array(820, np.float32)
k[(3, 3), (16, 16)](packed, full, 40)
"""
HALO = """
@cuda.jit
def k(dst, src):
    s = cuda.shared.array((10, 10), np.float32)
    t = cuda.threadIdx.y * 8 + cuda.threadIdx.x
    for q in range(t, 100, 64):
        s[q // 10, q % 10] = src[q]
    cuda.syncthreads()
    dst[t] = s[cuda.threadIdx.y + 2, cuda.threadIdx.x + 2]

k[1, (8, 8)](cuda.device_array(64, np.float32), cuda.to_device(np.zeros(100, np.float32)))
"""


def report(text: str) -> SimtReport:
    source = Source("whole.py", HEAD + text)
    (kernel,) = read_kernels(source, lambda name: None)
    return check_kernel(kernel, launches_of(kernel, read_launches(source, lambda name: None)))


def threads(text: str) -> int:
    """The threads of the run that settles the one launch of a file, 0 if none does."""
    source = Source("whole.py", HEAD + text)
    (kernel,) = read_kernels(source, lambda name: None)
    (launch,) = launches_of(kernel, read_launches(source, lambda name: None))
    return rehearsed(kernel, launch, time.process_time() + 60)


@pytest.mark.parametrize("text", [TRIANGLE, HALO])
def test_a_launch_that_runs_clean_is_proved(text: str) -> None:
    found = report(text)
    assert {answer.verdict for answer in found.verdicts.values()} == {Verdict.PROVEN}
    assert threads(text) > 0


def test_the_reason_is_told() -> None:
    assert any(
        note.startswith("all 2304 threads of a launch that the file shows were run") for note in report(TRIANGLE).notes
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(i + 1) // 2 + j", "(i + 1) // 2 + j // 2"),
        ("(i + 1) // 2 + j", "i // 2 + j"),
        ("j <= i", "j <= i + 1"),
        ("array(820", "array(819"),
    ],
)
def test_a_wrong_twin_is_not_proved(right: str, wrong: str) -> None:
    assert right in TRIANGLE
    found = report(TRIANGLE.replace(right, wrong))
    assert {Verdict.REFUTED, Verdict.UNKNOWN} & {answer.verdict for answer in found.verdicts.values()}
    assert threads(TRIANGLE.replace(right, wrong)) == 0


def test_a_lost_barrier_and_a_short_fill_are_not_proved() -> None:
    for wrong in (HALO.replace("    cuda.syncthreads()\n", ""), HALO.replace("range(t, 100, 64)", "range(t, 64, 64)")):
        found = report(wrong)
        assert found.verdicts[Property.SHARED_INITIALISED].verdict not in PROVED
        assert threads(wrong) == 0


LOOSE = """
@cuda.jit
def k(out, x, m):
    i = cuda.grid(1)
{body}

k[2, 32](cuda.device_array(64, np.int64), cuda.to_device(np.arange(64)), {m})
"""


@pytest.mark.parametrize(
    "body",
    [
        "    out[x[i]] = i",
        "    if x[i] > -1:\n        out[i] = 1",
        "    j = 0\n    if x[i] > 100:\n        j = 1\n    out[i - j] = 1",
        "    j = cuda.atomic.add(x, 0, 1)\n    out[j % 64] = 1",
        "    j = cuda.shfl_sync(0xFFFFFFFF, i, 0)\n    out[i + j * 0] = 1",
        "    for q in range(x[i]):\n        out[i] = 1",
        "    k = 0\n    while k < 3:\n        k += 1 if x[i] else 2\n    out[i] = 1",
        "    j = int(i * 1.0)\n    out[j] = 1",
        "    out[i] = x[i] if x[0] == 0 else x[i - 1]",
        "    if x[0] == 0 or x[i + 64] > 0:\n        x[63] = x[63]",
        "    v = out if x[0] == 0 else x\n    v[i] = 1",
        "    out[i] = 1\n    cuda.threadfence()",
    ],
)
def test_what_hangs_on_contents_is_not_settled_by_a_run(body: str) -> None:
    assert threads(LOOSE.format(body=body, m=1)) == 0


def test_values_may_hang_on_contents() -> None:
    body = "    j = x[i]\n    if j < 0:\n        j = -j\n    v = j if x[i] > 2 else m\n    out[i] = v"
    assert threads(LOOSE.format(body=body, m=1)) == 64
    assert threads(LOOSE.format(body="    out[i * m] = x[i]", m=1)) == 64


@pytest.mark.parametrize("m", ["1.5", "unread()", "2"])
def test_a_scalar_that_places_accesses_must_be_a_known_integer(m: str) -> None:
    assert threads(LOOSE.format(body="    out[i * m] = x[i]", m=m)) == 0


def test_a_launch_that_is_not_known_whole_is_not_run() -> None:
    assert threads(TRIANGLE.replace("(3, 3)", "(blocks(), 3)")) == 0
    assert threads(TRIANGLE.replace("np.zeros((40, 40), np.float32)", "load()")) == 0
    assert threads(TRIANGLE.replace("(3, 3)", "(300, 300)")) == 0
