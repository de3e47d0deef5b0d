"""Warp barriers of some lanes: they order those lanes, and no others."""

from __future__ import annotations

import pytest

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict

KERNEL = """
@cuda.jit
def f(a, n):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    votes = cuda.ballot_sync(0xFFFFFFFF, t < n)
    s[t] = a[t]
    {body}

def main():
    f[1, 32](cuda.to_device(np.zeros(32, np.int32)), 20)
"""
GROUPS = "mask = 0xFFFF if t < 16 else 0xFFFF0000\n    cuda.syncwarp(mask)\n    a[t] = "
CASES = {
    "a half meets itself": ("if t < 16:\n        cuda.syncwarp(0xFFFF)\n        a[t] = s[15 - t]", None),
    "a half reads the other": ("if t < 16:\n        cuda.syncwarp(0xFFFF)\n        a[t] = s[31 - t]", "data-race"),
    "all come, half are named": ("cuda.syncwarp(0xFFFF)\n    a[t] = s[t]", "warp-sync"),
    "half come, all are named": ("if t < 16:\n        cuda.syncwarp()\n        a[t] = s[t]", "warp-sync"),
    "two groups": (GROUPS + "s[t ^ 15]", None),
    "two groups that mix": (GROUPS + "s[31 - t]", "data-race"),
    "the voters": ("if t < n:\n        cuda.syncwarp(votes)\n        a[t] = s[n - 1 - t]", None),
    "more than the voters": ("if t <= n:\n        cuda.syncwarp(votes)\n        a[t] = s[t]", "warp-sync"),
    "the active lanes, not relied on": (
        "if t < n:\n        cuda.syncwarp(cuda.activemask())\n        a[t] = s[t]",
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mask_orders_the_lanes_that_it_names(name: str) -> None:
    body, rule = CASES[name]
    found = report(KERNEL.format(body=body))
    if rule is None:
        assert {answer.verdict for answer in found.verdicts.values()} == {Verdict.PROVEN}
    else:
        assert rule in {finding.rule for finding in found.findings}


def test_a_mask_that_cannot_be_read_proves_nothing() -> None:
    found = report(KERNEL.format(body="cuda.syncwarp(a[n])\n    a[t] = s[31 - t]"))
    assert found.verdicts[Property.BARRIERS_UNIFORM].verdict is Verdict.UNKNOWN
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN


ACTIVE = {
    "all are active": "cuda.syncwarp(cuda.activemask())\n    a[t] = s[31 - t]",
    "some are active": "if t < n:\n        cuda.syncwarp(cuda.activemask())\n        a[t] = s[n - 1 - t]",
    "taken before": "m = cuda.activemask()\n    cuda.syncwarp(m if n > 3 else 0xFFFFFFFF)\n    a[t] = s[31 - t]",
    "votes of the active": "m = cuda.activemask()\n    cuda.syncwarp(cuda.ballot_sync(m, True))\n    a[t] = s[31 - t]",
}


@pytest.mark.parametrize("body", ACTIVE.values(), ids=ACTIVE)
def test_lanes_that_are_active_need_not_be_all(body: str) -> None:
    answer = report(KERNEL.format(body=body)).verdicts[Property.RACE_FREE]
    assert answer.verdict is Verdict.UNKNOWN


def test_ranks_among_the_votes_of_a_half_are_not_unique_in_the_warp() -> None:
    body = (
        "cuda.syncthreads()\n    half = 0xFFFF if t < 16 else 0xFFFF0000\n    mine = cuda.ballot_sync(half, t % 16 < n)\n"
        "    if t % 16 < n:\n        a[cuda.popc(mine & ((1 << t) - 1))] = t"
    )
    found = report(KERNEL.format(body=body))
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)
