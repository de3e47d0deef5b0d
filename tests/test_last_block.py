"""The last block adds up: tickets with fences order blocks, and nothing less does."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.verify.verdict import Property, Verdict

FLAG = """
@cuda.jit
def f(a, part, count, out):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        part[cuda.blockIdx.x] = a[cuda.blockIdx.x]
        cuda.threadfence()
        k = cuda.atomic.add(count, 0, 1)
        last[0] = 1 if k == cuda.gridDim.x - 1 else 0
    cuda.syncthreads()
    if last[0] == 1:
        cuda.threadfence()
        if t == 0:
            v = 0.0
            for b in range(cuda.gridDim.x):
                v += part[b]
            out[0] = v
            count[0] = 0
"""
DIRECT = """
@cuda.jit
def f(part, count, out):
    t = cuda.threadIdx.x
    part[cuda.grid(1)] = t
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        k = cuda.atomic.add(count, 0, 1)
        if k == cuda.gridDim.x - 1:
            cuda.threadfence()
            v = 0.0
            for b in range(part.size):
                v += part[b]
            out[0] = v
"""


@pytest.mark.parametrize(
    "text", [FLAG, DIRECT, FLAG.replace("1 if k == cuda.gridDim.x - 1 else 0", "k == cuda.gridDim.x - 1")]
)
def test_the_last_block_reads_what_all_have_left(text: str) -> None:
    found = report(text)
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
    assert "the counter in `count` starts at zero" in found.assumptions


BROKEN = {
    "no fence before the ticket": (FLAG, "        cuda.threadfence()\n        k", "        k"),
    "no fence after the ticket": (FLAG, "    if last[0] == 1:\n        cuda.threadfence()", "    if last[0] == 1:"),
    "a fence of the block": (FLAG, "cuda.threadfence()\n        k", "cuda.threadfence_block()\n        k"),
    "the last but one": (FLAG, "gridDim.x - 1", "gridDim.x - 2"),
    "two tickets per block": (FLAG, "if t == 0:\n        part", "if t <= 1:\n        part"),
    "tickets in a loop": (FLAG, "k = cuda", "for _ in range(t + 2):\n            k = cuda"),
    "the flag is read before it is set": (
        FLAG,
        "    if t == 0:\n        part",
        "    early = last[0]\n    if t == 0:\n        part",
    ),
    "the flag is not always set": (FLAG, "        last[0] = 1", "        if a[0] > 0:\n            last[0] = 1"),
    "somebody else counts": (
        FLAG,
        "    cuda.syncthreads()",
        "    cuda.atomic.add(count, 0, 1)\n    cuda.syncthreads()",
    ),
    "no barrier before the ticket": (DIRECT, "    cuda.syncthreads()\n", ""),
    "the fence comes before the part": (
        DIRECT,
        "    part[cuda.grid(1)] = t\n    cuda.threadfence()",
        "    cuda.threadfence()\n    part[cuda.grid(1)] = t",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_anything_less_is_not_shown(name: str) -> None:
    text, old, new = BROKEN[name]
    assert old in text
    found = report(text.replace(old, new, 1))
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


BRANCHES = FLAG.replace(
    "        last[0] = 1 if k == cuda.gridDim.x - 1 else 0\n",
    "        if k == cuda.gridDim.x - 1:\n            last[0] = 1\n        else:\n            last[0] = 0\n",
)


# The flag by if and else, one constant for the last block and one for the rest.
SET_THEN_CLEARED = BRANCHES.replace(
    "        if k == cuda.gridDim.x - 1:\n            last[0] = 1\n        else:\n            last[0] = 0\n",
    "        last[0] = 1\n        if k != cuda.gridDim.x - 1:\n            last[0] = 0\n",
)
CLEARED_THEN_SET = BRANCHES.replace(
    "        if k == cuda.gridDim.x - 1:\n            last[0] = 1\n        else:\n            last[0] = 0\n",
    "        last[0] = 0\n        if k + 1 == cuda.gridDim.x:\n            last[0] = 1\n",
)
OTHER_WAY = (
    BRANCHES.replace("last[0] = 1", "last[0] = 5").replace("last[0] = 0", "last[0] = 2").replace("== 1:", "> 3:")
)


@pytest.mark.parametrize("text", [BRANCHES, SET_THEN_CLEARED, CLEARED_THEN_SET, OTHER_WAY])
def test_the_flag_may_be_one_constant_or_another(text: str) -> None:
    assert report(text).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (BRANCHES, "last[0] == 1", "last[0] == 0"),
        (BRANCHES, "last[0] = 0", "last[0] = 1"),
        (BRANCHES, "gridDim.x - 1:", "gridDim.x - 2:"),
        (BRANCHES, "        else:\n", "        elif a[0] > 0:\n"),
        (SET_THEN_CLEARED, "k != cuda.gridDim.x - 1", "k < cuda.gridDim.x - 2"),
        (SET_THEN_CLEARED, "        last[0] = 1\n", "    if t < 2:\n        last[0] = 1\n    if t == 0:\n"),
        (CLEARED_THEN_SET, "k + 1 ==", "k + 2 >="),
        (CLEARED_THEN_SET, "    if last[0] == 1:", "    if t == 1:\n        last[0] = 1\n    if last[0] == 1:"),
        (OTHER_WAY, "> 3:", "> 1:"),
        (OTHER_WAY, "last[0] = 2", "last[0] += 2"),
    ],
)
def test_a_constant_that_others_may_have_stored_says_nothing(text: str, old: str, new: str) -> None:
    assert old in text
    found = report(text.replace(old, new, 1))
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


AFTER = "    if last[0] == 1:\n        cuda.threadfence()\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "advice"),
    [
        (FLAG, AFTER, "    if last[0] == 1:\n", "put a `cuda.threadfence()` after the ticket of line 11"),
        (
            FLAG,
            "        cuda.threadfence()\n        k",
            "        k",
            "put a `cuda.threadfence()` before the ticket of line 10",
        ),
        (DIRECT, "    cuda.syncthreads()\n", "", "put a `cuda.syncthreads()` before the ticket of line 10"),
        (
            DIRECT,
            "    cuda.threadfence()\n    cuda.syncthreads()\n",
            "",
            "put a `cuda.threadfence()` of every thread and then a `cuda.syncthreads()` before the ticket of line 9",
        ),
    ],
)
def test_help_names_the_fence_that_lacks(text: str, old: str, new: str, advice: str) -> None:
    head = "import numpy as np\nfrom numba import cuda, float32, int32\n"
    calls = "f[8, 32](np.ones(8), np.ones(8), np.zeros(1, np.int32), np.ones(1))"
    if text is DIRECT:
        calls = "f[8, 32](np.ones(256), np.zeros(1, np.int32), np.ones(1))"
    assert old in text
    result = check_text("k.py", head + text.replace(old, new, 1) + calls + "\n", Modules(), Options())
    (race,) = [finding for finding in result.diagnostics if finding.rule == "data-race"]
    assert race.help is not None and race.help.startswith(advice)


def test_who_counts_after_others_may_set_the_counter_back() -> None:
    assert report(BRANCHES).verdicts[Property.RACE_FREE].verdict is not Verdict.REFUTED


@pytest.mark.parametrize(
    "text",
    [
        BRANCHES.replace("    if last[0] == 1:\n", "    if t == 0:\n        count[0] = 0\n    if last[0] == 1:\n"),
        BRANCHES.replace("    if t == 0:\n        part", "    if t == 0:\n        count[0] = 0\n        part"),
        BRANCHES.replace("cuda.atomic.add(count, 0, 1)", "cuda.atomic.cas(count, 0, 9, 1)"),
    ],
)
def test_who_sets_it_back_while_others_count_races(text: str) -> None:
    assert report(text).verdicts[Property.RACE_FREE].verdict in (Verdict.REFUTED, Verdict.UNKNOWN)
