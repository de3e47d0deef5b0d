"""Long expressions take time in proportion to their length, counted in steps, and never more than the budget."""

from __future__ import annotations

import time

import pytest

from tests.test_prover import report
from tilecheck import stack
from tilecheck.borrow.lower_expr import Expressions
from tilecheck.check import analyse
from tilecheck.frontend import fold as fold_module
from tilecheck.frontend import numba_build
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

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


CHAINS = {
    "a builder": ("a", ".m(1)"),
    "a table": ("df", ".assign(x=lambda d: d.a).query('a > 1')"),
    "columns": ("pl.scan('x')", ".filter(pl.col('a') > 1).select(b=pl.col('c').sum())"),
    "arguments that are chains": ("a", ".m(b.n(1).o(2).p(3))"),
    "arrays": ("np.zeros(3)", ".reshape(3)"),
    "generators": ("", "sum(y for y in "),
}
PLACES = {
    "a module": "x = {}\n",
    "a function": "def f(a, df, pl, b):\n    return {}\n",
    "a kernel": "@cuda.jit\ndef f(a, df, pl, b):\n    a[0] = {}\n",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("root, link", CHAINS.values(), ids=CHAINS.keys())
def test_each_link_of_a_chain_is_evaluated_a_few_times(
    root: str, link: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that is evaluated twice doubles the work of all the links before it: at 40 links nothing ends."""
    calls = 0
    call_of = fold_module.fold_call

    def counted(*args: object) -> object:
        nonlocal calls
        calls += 1
        assert calls < 200 * TERMS, "the work grows faster than with the square of the links"
        return call_of(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(fold_module, "fold_call", counted)
    chain = root + link * (TERMS // 2) if root else link * (TERMS // 2) + "a" + ")" * (TERMS // 2)
    text = f"from numba import cuda\nimport numpy as np\n\n{place.format(chain)}"
    checked = analyse(Source("chain.py", text), Modules(), Options(budget=2.0))
    assert not checked.faults


BODIES = {
    "bits": ["j = 0", *(f"j += (i ^ {k}) * n" for k in range(1, 500)), "a[j] = 1"],
    "quotients": ["j = 0", *(f"j += (i * {k}) // (n + {k})" for k in range(1, 1500)), "a[j] = n"],
    "choices": [
        "j = i",
        *(f"j = j if j % {k} > 3 else j + {k}" for k in range(2, 300)),
        "if 0 <= j < a.size:",
        "    a[j] = 1",
    ],
    "stores": ["if i < n:", *(f"    a[i + {k}] = a[i]" for k in range(400))],
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_budget_bounds_work_outside_the_solver_too(body: list[str]) -> None:
    lines = "".join(f"    {line}\n" for line in body)
    text = f"from numba import cuda\n@cuda.jit\ndef f(a, n):\n    i = cuda.grid(1)\n{lines}"
    (kernel,) = read_kernels(Source("k.py", text), lambda name: None)
    begun = time.process_time()
    found = check_kernel(kernel, budget=0.5)
    assert time.process_time() - begun < 5
    assert any(answer.verdict is Verdict.UNKNOWN for answer in found.verdicts.values())


def test_what_nests_too_deeply_is_unknown_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "LIMIT", 0)
    lines = "".join(f"    j = j if j % {k} > 3 else j + {k}\n" for k in range(2, 600))
    text = f"from numba import cuda\n@cuda.jit\ndef f(a):\n    j = cuda.grid(1)\n{lines}    a[j] = 1\n"
    (kernel,) = read_kernels(Source("k.py", text), lambda name: None)
    found = check_kernel(kernel, budget=2.0)
    assert found.verdicts[Property.IN_BOUNDS].reason == "the kernel is nested too deeply to be followed"
