"""Spin locks: what is done under one lock, between fences, is done by one thread at a time."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict

SPIN = """
@cuda.jit
def f(lock, total, a):
    i = cuda.grid(1)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += a[i]
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)
"""
RETRY = """
@cuda.jit
def f(lock, total, a):
    i = cuda.grid(1)
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            total[0] += a[i]
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True
"""
ROWS = (
    SPIN.replace("lock, 0, 0, 1", "lock, i % 4, 0, 1")
    .replace("lock, 0, 0)", "lock, i % 4, 0)")
    .replace("total[0]", "total[i % 8]")
)
SHARED = """
@cuda.jit
def f(total):
    lock = cuda.shared.array(1, int32)
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        lock[0] = 0
        s[0] = 0
    cuda.syncthreads()
    while cuda.atomic.exch(lock, 0, 1) != 0:
        pass
    cuda.threadfence_block()
    s[0] += t
    cuda.threadfence_block()
    cuda.atomic.exch(lock, 0, 0)
"""


@pytest.mark.parametrize("text", [SPIN, RETRY, ROWS, SHARED])
def test_a_lock_keeps_threads_apart(text: str) -> None:
    assert report(text).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


BROKEN = {
    "no fence after taking": (SPIN, "    cuda.threadfence()\n    total", "    total"),
    "no fence before giving back": (SPIN, "    cuda.threadfence()\n    cuda.atomic", "    cuda.atomic"),
    "a fence of the block": (SPIN, "threadfence()\n    total", "threadfence_block()\n    total"),
    "more is done after giving back": (SPIN, "exch(lock, 0, 0)", "exch(lock, 0, 0)\n    total[0] += 1"),
    "somebody gives back what is not theirs": (
        SPIN,
        "    while",
        "    if i == 3:\n        cuda.atomic.exch(lock, 0, 0)\n    while",
    ),
    "somebody stores the lock": (SPIN, "    while", "    if i == 3:\n        lock[0] = 0\n    while"),
    "fewer locks than elements": (ROWS, "total[i % 8]", "total[i % 3]"),
    "a lock each": (SPIN.replace("lock, 0, 0, 1", "lock, i, 0, 1"), "exch(lock, 0, 0)", "exch(lock, i, 0)"),
    "taken by writing what is free": (SPIN, "lock, 0, 0, 1", "lock, 0, 0, 0"),
    "taken where it was not free": (RETRY, "== 0", "== 1"),
    "a fence that not all pass": (
        SPIN,
        "    cuda.threadfence()\n    cuda.atomic",
        "    if i > 3:\n        cuda.threadfence()\n    cuda.atomic",
    ),
    "any other value lets everybody in": (SPIN, "!= 0", "== 1"),
    "takers write what the others do not know": (SPIN, "lock, 0, 0, 1) != 0", "lock, 0, 0, 1 + i % 2) == 1"),
    "a value that 32 bits do not hold": (SPIN, "lock, 0, 0, 1)", "lock, 0, 0, 1 << 32)"),
    "a lock of the block for all blocks": (
        SHARED.replace("f(total)", "f(total, a)")
        .replace("s[0] += t", "a[0] += t + cuda.blockIdx.x")
        .replace("_block", ""),
        "cuda.threadfence()",
        "cuda.threadfence()",
    ),
    "an old value after giving back": (
        RETRY,
        "            done = True",
        "            total[0] += 1\n            done = True",
    ),
    "cleared while it is used": (SHARED, "    cuda.syncthreads()\n", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_anything_less_is_not_shown(name: str) -> None:
    text, old, new = BROKEN[name]
    assert old in text
    found = report(text.replace(old, new, 1))
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


TWICE = """
@cuda.jit
def f(lock, total, z):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    v = total[0]
    total[0] = v + cuda.threadIdx.x
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    w = total[0]
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)
    {use}
"""
USES = {
    Property.RACE_FREE: "if v != w:\n        z[0] = cuda.threadIdx.x",
    Property.IN_BOUNDS: "if v != w and cuda.threadIdx.x > 0:\n        cuda.atomic.add(z, z.size, 1)",
    Property.BARRIERS_UNIFORM: "if v > 3:\n        cuda.syncthreads()",
}


@pytest.mark.parametrize("name", USES, ids=str)
def test_what_is_read_under_a_lock_may_change(name: Property) -> None:
    assert report(TWICE.format(use=USES[name])).verdicts[name].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)
