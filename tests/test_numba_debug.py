"""Kernels compiled with `debug=True`: a division by zero ends the thread."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict

KERNEL = """
@cuda.jit({options})
def f(a, b, out):
    t = cuda.threadIdx.x
    {line}
    cuda.syncthreads()
    out[t] = 2

def main():
    a, b = np.ones(32, np.int64), np.arange(32)
    f[1, 32](cuda.to_device(a), cuda.to_device(b), cuda.to_device(a))
"""


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("out[t] = a[t] // b[t]", Verdict.REFUTED),
        ("out[t] = a[t] % b[t]", Verdict.REFUTED),
        ("out[t] = a[t] // 4", Verdict.PROVEN),
        ("out[t] = a[t] // (t + 1)", Verdict.PROVEN),
        ("out[t] = a[t] // t if t > 0 else 0", Verdict.PROVEN),
        ("if t > 0 and a[t] // t > 0: out[t] = 1", Verdict.PROVEN),
        ("if t == 0 or a[t] // t > 0: out[t] = 1", Verdict.PROVEN),
        ("if t > 0 or a[t] // t > 0: out[t] = 1", Verdict.REFUTED),
    ],
)
def test_a_division_may_end_a_thread_before_the_barrier(line: str, verdict: Verdict) -> None:
    found = report(KERNEL.format(options="debug=True, opt=False", line=line))
    assert found.verdicts[Property.BARRIERS_UNIFORM].verdict is verdict


def test_without_debug_a_division_ends_nothing() -> None:
    found = report(KERNEL.format(options="", line="out[t] = a[t] // b[t]"))
    assert found.verdicts[Property.BARRIERS_UNIFORM].verdict is Verdict.PROVEN
