"""Kernels that are wrong in some launch: none is shown right, and what is refuted was seen to happen."""

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

SOURCE = Source("hostile.py", (Path(__file__).parent / "kernels" / "hostile.py").read_text())
LABEL = re.compile(r"# WRONG: (.+)")


def labelled() -> list[tuple[Kernel, frozenset[Property]]]:
    """Every kernel with the properties that do not hold."""
    made = []
    for kernel in read_kernels(SOURCE, lambda name: None):
        label = LABEL.match(SOURCE.lines[kernel.lines[0] - 2])
        if label is not None:
            made.append((kernel, frozenset(Property(name) for name in label[1].split())))
    return made


CASES = labelled()


def test_every_kernel_is_labelled() -> None:
    assert len(CASES) == SOURCE.text.count("# WRONG: ") > 100


@pytest.mark.parametrize(("kernel", "wrong"), CASES, ids=[kernel.name for kernel, _ in CASES])
def test_what_is_wrong_is_not_shown(kernel: Kernel, wrong: frozenset[Property]) -> None:
    found = check_kernel(kernel, budget=3.0)
    assert not {name for name in wrong if found.verdicts[name].verdict in PROVED}
    if any(found.verdicts[name].verdict is Verdict.REFUTED for name in wrong):
        assert all(finding.witness.launch for finding in found.findings)


COUNTED = """
@cuda.jit
def f(out, a):
    s = cuda.shared.array(1, int32)
    kept = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    k = cuda.atomic.add(s, 0, 1)
    if k < 64:
        {store}
"""
OWN_SLOTS = {
    "a shared target": "kept[k] = t",
    "one block": "if b == 0 and k < out.size:\n            out[k] = t",
    "a stretch per block": "if b * 64 + k < out.size:\n            out[b * 64 + k] = t",
}


@pytest.mark.parametrize("store", OWN_SLOTS.values(), ids=OWN_SLOTS)
def test_a_slot_of_a_shared_counter_is_one_threads_in_its_block(store: str) -> None:
    assert report(COUNTED.format(store=store)).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_a_slot_of_a_shared_counter_is_another_threads_in_another_block() -> None:
    found = report(COUNTED.format(store="if k < out.size:\n            out[k] = t"))
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED


@pytest.mark.parametrize(("value", "noted"), [("1", True), ("cuda.blockIdx.x // 2", False)])
def test_one_value_within_a_block_is_not_called_one_value_everywhere(value: str, noted: bool) -> None:
    found = report(f"@cuda.jit\ndef f(a, flag):\n    if a[cuda.grid(1)] > 0:\n        flag[0] = {value}\n")
    assert bool(found.same_value) is noted


@pytest.mark.parametrize(("dtype", "fits"), [("uint8", True), ("uint16", False), ("int8", True), ("int64", False)])
def test_a_scalar_arrives_as_its_signature_says(dtype: str, fits: bool) -> None:
    found = report(
        f"@cuda.jit('void(float32[:], {dtype})')\ndef f(a, n):\n    i = cuda.grid(1)\n"
        "    if i < n:\n        a[i] = 1\n\ndef main():\n    f[4, 128](np.zeros(256, np.float32), 511)\n"
    )
    assert (found.verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN) is fits


HELPERS_THAT_RETURN_EARLY = {
    "writes and returns": "    if n > 2:\n        x[at] = 5\n        return 0\n    return 1\n",
    "returns after a barrier": "    if n > 2:\n        cuda.syncthreads()\n        x[at] = 5\n        cuda.syncthreads()\n"
    "        return 0\n    return 1\n",
    "writes on the way and returns": "    for k in range(3):\n        if k == n:\n            x[at] = 5\n            return k\n"
    "    return 3\n",
    "returns nothing": "    if n > 2:\n        x[at] = 5\n        return\n    x[at] = 0\n",
    "writes where it does not return": "    if n < 2:\n        return 0\n    x[at] = 5\n    return 1\n",
    "both ways": "    if n > 2:\n        x[at] = 5\n        return 0\n    else:\n        x[at] = 6\n        return 1\n",
    "calls another": "    if n > 2:\n        return set_it(x, at)\n    return 1\n",
}


@pytest.mark.parametrize("body", HELPERS_THAT_RETURN_EARLY.values(), ids=HELPERS_THAT_RETURN_EARLY.keys())
def test_what_a_helper_wrote_before_it_returned_is_no_longer_what_was_read(body: str) -> None:
    text = (
        "from numba import cuda, int32\n@cuda.jit(device=True)\ndef set_it(x, at):\n    x[at] = 5\n    return 0\n"
        f"@cuda.jit(device=True)\ndef put(x, at, n):\n{body}"
        "@cuda.jit\ndef f(a, n):\n    s = cuda.shared.array(32, int32)\n    t = cuda.threadIdx.x\n    s[t] = 0\n"
        "    cuda.syncthreads()\n    v = s[t]\n    put(s, t, n)\n    w = s[t]\n    if v != w:\n        a[0] = t\n"
    )
    (kernel,) = read_kernels(Source("early.py", text), lambda name: None)
    assert check_kernel(kernel).verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


def test_a_lock_that_a_helper_may_not_have_taken_keeps_nothing() -> None:
    text = (
        "from numba import cuda\n@cuda.jit(device=True)\ndef take(m, skip):\n    if skip:\n        return\n"
        "    while cuda.atomic.cas(m, 0, 0, 1) != 0:\n        pass\n    cuda.threadfence()\n"
        "@cuda.jit\ndef f(a, m):\n    i = cuda.grid(1)\n    take(m, i > 5)\n    a[0] += i\n    cuda.threadfence()\n"
        "    cuda.atomic.exch(m, 0, 0)\n"
    )
    for source, safe in ((text, False), (text.replace("i > 5", "False"), True)):
        (kernel,) = read_kernels(Source("lock.py", source), lambda name: None)
        assert (check_kernel(kernel).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN) is safe
