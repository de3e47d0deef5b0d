"""Contents that host code shows without writing them down: drawn, sorted or summed arrays, until something writes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.test_prover import report
from tilecheck.frontend.host_arrays import array_call
from tilecheck.ir.host_array import Contents, Drawn, HostArray
from tilecheck.verify.verdict import Property, Verdict

SCATTER = """
@cuda.jit
def k(z, p):
    i = cuda.grid(1)
    if i < p.size:
        z[p[i]] = i

def main():
    n = 60
    z = cuda.device_array(n)
    {made}
    k[2, 32](z, {passed})
"""
ROWS = """
@cuda.jit
def k(z, p):
    r = cuda.grid(1)
    if r < p.size - 1:
        for j in range(p[r], p[r + 1]):
            z[j] = r

def main():
    n = 60
    z = cuda.device_array(3 * n)
    {made}
    k[2, 32](z, {passed})
"""
WORDS = "the elements that this launch passes are safe"
SAFE = [
    (SCATTER, "p = np.random.permutation(n)", "p"),
    (SCATTER, "p = np.random.permutation(n).astype(np.int32)", "cuda.to_device(p)"),
    (SCATTER, "rng = np.random.default_rng(3)\n    p = rng.permutation(n)", "cuda.to_device(p)"),
    (SCATTER, "p = np.argsort(np.random.rand(n))", "p"),
    (SCATTER, "p = np.random.rand(n).argsort()", "p"),
    (SCATTER, "p = np.arange(n)[::-1]", "p.copy()"),
    (SCATTER, "p = cuda.to_device(np.array([5, 3, 59, 0], np.int32))", "p"),
    (SCATTER, "p = np.arange(0, n, 2)", "p"),
    (SCATTER, "p = np.random.permutation(n)[10:40]", "p"),
    (ROWS, "p = np.cumsum(np.random.randint(0, 3, n))", "p"),
    (ROWS, "counts = np.random.randint(0, 3, size=n)\n    p = cuda.to_device(counts.cumsum())", "p"),
    (ROWS, "p = np.sort(np.random.randint(0, 3 * n + 1, n))", "p"),
    (ROWS, "p = np.arange(0, 3 * n, 3)", "p"),
]
OPEN = [
    (SCATTER, "p = np.random.randint(0, n, n)", "p"),
    (SCATTER, "p = np.random.permutation(n + 1)", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    p[0] = p[1]", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    p += 1", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    q = p[3:]\n    q.fill(7)", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    unknown(p)", "p"),
    (SCATTER, "p = cuda.to_device(np.random.permutation(n))\n    k[2, 32](p, p)", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    for s in range(unknown()):\n        p[s] = 0", "p"),
    (SCATTER, "p = np.random.permutation(300).astype(np.uint8)", "p[:60]"),
    (SCATTER, "p = np.random.permutation(n)\n    if unknown():\n        p = np.zeros(n, np.int64)", "p"),
    (SCATTER, "p = np.random.permutation(n)\n    np.random.shuffle(p)\n    np.floor_divide(p, 2, out=p)", "p"),
    (SCATTER, "p = np.argsort(np.random.rand(6, 10))", "p.ravel()"),
    (SCATTER, "p = np.arange(0, 6, 0.1).astype(np.int64)", "p"),
    (ROWS, "p = np.cumsum(np.random.randint(-1, 3, n))", "p"),
    (ROWS, "p = np.cumsum(np.random.randint(0, 9, n))", "p"),
    (ROWS, "p = np.sort(np.random.randint(0, 3 * n, n))[::-1]", "p.copy()"),
    (ROWS, "p = np.random.permutation(n)", "p"),
    (ROWS, "p = np.cumsum(np.random.randint(0, 3, n))\n    p[4] = 0", "p"),
]


def safe(kernel: str, made: str, passed: str) -> bool:
    """Whether every property is proven or said to be safe with these elements; they never make one proven."""
    verdicts = report(kernel.format(made=made, passed=passed)).verdicts
    asked = [verdicts[name] for name in (Property.RACE_FREE, Property.IN_BOUNDS)]
    assert not all(answer.verdict is Verdict.PROVEN for answer in asked), "another call may pass others"
    return all(a.verdict is Verdict.PROVEN or (a.reason or "").endswith(WORDS) for a in asked)


@pytest.mark.parametrize(("kernel", "made", "passed"), SAFE)
def test_contents_that_are_shown_are_said_to_be_safe(kernel: str, made: str, passed: str) -> None:
    assert safe(kernel, made, passed)


@pytest.mark.parametrize(("kernel", "made", "passed"), OPEN)
def test_contents_that_may_be_others_are_not(kernel: str, made: str, passed: str) -> None:
    assert not safe(kernel, made, passed)


def test_drawn_contents_are_no_ground_for_a_refutation() -> None:
    """Two equal elements are likely, and nothing shows that there are any."""
    found = report(SCATTER.format(made="p = np.random.randint(0, n, n)", passed="p"))
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN


# ---- what NumPy really returns

FEW = np.array([3, 1, 2, 2], np.int32)
CALLS: list[tuple[str, list[object], dict[str, object], Callable[[], np.ndarray]]] = [
    ("numpy.random.permutation", [9], {}, lambda: np.random.permutation(9)),
    ("numpy.random.randint", [2, 5, 40], {}, lambda: np.random.randint(2, 5, 40)),
    ("numpy.random.randint", [4], {"size": 40}, lambda: np.random.randint(4, size=40)),
    ("numpy.random.randint", [], {"low": 4, "size": 40}, lambda: np.random.randint(low=4, size=40)),
    ("numpy.argsort", [HostArray((4,), "int32")], {}, lambda: np.argsort(FEW)),
    ("numpy.sort", [HostArray((4,), "int32", Contents(values=(3, 1, 2, 2)))], {}, lambda: np.sort(FEW)),
    ("numpy.cumsum", [HostArray((4,), "int32", Contents(values=(3, 1, 2, 2)))], {}, lambda: np.cumsum(FEW)),
    ("numpy.cumsum", [HostArray((4,), "uint8", Contents(0, 1))], {}, lambda: np.cumsum(np.arange(4, dtype=np.uint8))),
]


@pytest.mark.parametrize(("path", "args", "kwargs", "call"), CALLS, ids=[c[0] for c in CALLS])
def test_what_is_said_of_drawn_arrays_is_so(
    path: str, args: list[object], kwargs: dict[str, object], call: Callable[[], np.ndarray]
) -> None:
    said = array_call(path, args, kwargs)
    assert said is not None and isinstance(said.contents, Drawn)
    for _ in range(5):
        real = call()
        assert said.shape == real.shape and said.dtype == str(real.dtype)
        assert said.contents.low is not None and said.contents.low <= real.min()
        assert said.contents.high is not None and real.max() <= said.contents.high
        assert not said.contents.distinct or len(set(real.tolist())) == real.size
        assert not said.contents.nondecreasing or sorted(real.tolist()) == real.tolist()


def test_what_a_conversion_may_change_is_not_said() -> None:
    assert HostArray((300,), "uint8", Drawn(0, 299, distinct=True)).drawn() is None
    assert HostArray((9,), "float64", Contents(0, 1)).drawn() is None
    assert HostArray((9,), "int64", Contents(0, 0.5)).drawn() is None
    assert HostArray((2,), "int64", Contents(values=(True, 3))).drawn() is None
    assert HostArray((9,), None, Contents(0, 1)).drawn() is None
    closed = array_call("numpy.random.default_rng().integers", [0, 5], {"size": 3, "endpoint": True})
    assert closed is not None and closed.contents is None
