"""Long expressions take time in proportion to their length, counted in steps, and never more than the budget."""

from __future__ import annotations

import time

import pytest

from tests.test_prover import report
from tilecheck.borrow.lower_expr import Expressions
from tilecheck.check import analyse
from tilecheck.frontend import numba_build
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Verdict

TERMS = 60


def test_a_long_sum_in_a_kernel_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    fold = numba_build.fold

    def counted(*args: object) -> object:
        nonlocal calls
        calls += 1
        return fold(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(numba_build, "fold", counted)
    found = report("@cuda.jit\ndef f(a):\n    a[cuda.grid(1)] = " + " + ".join(f"n{k}" for k in range(TERMS)))
    assert found.kernel.name == "f"
    assert TERMS <= calls < 6 * TERMS


def test_a_long_sum_of_host_code_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    number = Expressions.number

    def counted(self: Expressions, node: object) -> int | float | None:
        nonlocal calls
        calls += 1
        return number(self, node)  # type: ignore[arg-type]

    monkeypatch.setattr(Expressions, "number", counted)
    sum_ = " + ".join(["m", *map(str, range(TERMS))])
    kernel = "@cuda.jit\ndef k(a):\n    a[0] = 1\n"
    text = f"from numba import cuda\nimport numpy as np\n\n{kernel}\n\ndef main(m):\n    n = {sum_}\n    k[1, 1](np.ones(n))\n"
    analyse(Source("host.py", text), Modules(), Options())
    assert TERMS <= calls < 3 * TERMS


def test_the_budget_bounds_work_outside_the_solver_too() -> None:
    lines = "".join(f"    j += (i ^ {k}) * n\n" for k in range(1, 500))
    text = f"from numba import cuda\n@cuda.jit\ndef f(a, n):\n    i = cuda.grid(1)\n    j = 0\n{lines}    a[j] = 1\n"
    (kernel,) = read_kernels(Source("k.py", text), lambda name: None)
    begun = time.process_time()
    found = check_kernel(kernel, budget=0.5)
    assert time.process_time() - begun < 1.5
    assert any(answer.verdict is Verdict.UNKNOWN for answer in found.verdicts.values())
