"""The prover on values that come out of memory: what a race takes away, and what contents show."""

from __future__ import annotations

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict

BLOCK_QUEUE = """
@cuda.jit
def k(work, out, head):
    tile = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            tile[0] = cuda.atomic.add(head, 0, 1)
        cuda.syncthreads()
        j = tile[0]
        cuda.syncthreads()
        if j < 0 or j * cuda.blockDim.x >= work.size:
            break
        i = j * cuda.blockDim.x + t
        if i < work.size and i < out.size:
            out[i] = work[i] + 1

k[2, 32](np.arange(100), np.zeros(100), np.zeros(1, np.int32))
"""


def test_who_leaves_a_loop_by_a_racy_value_is_not_agreed() -> None:
    """The break depends on a shared element; where that is raced on, the block may meet the barrier in part."""
    assert report(BLOCK_QUEUE).verdicts[Property.BARRIERS_UNIFORM].verdict is Verdict.PROVEN
    unordered = BLOCK_QUEUE.replace("        j = tile[0]\n        cuda.syncthreads()\n", "        j = tile[0]\n")
    verdicts = report(unordered).verdicts
    assert verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
    assert verdicts[Property.BARRIERS_UNIFORM].verdict is not Verdict.PROVEN


NEGATIVE_SHIFT = """
@cuda.jit
def k(out):
    t = cuda.threadIdx.x
    j = 0
    for b in range(3):
        j |= ((t >> b) & 1) << (2 * b {} 1)
    out[j] = t

k[1, 8](np.zeros(64))
"""


def test_a_shift_by_a_negative_number_may_give_anything() -> None:
    assert report(NEGATIVE_SHIFT.format("+")).verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN
    assert report(NEGATIVE_SHIFT.format("-")).verdicts[Property.IN_BOUNDS].verdict is not Verdict.PROVEN


RELAX = """
@cuda.jit
def k(src, dst, weight, dist):
    e = cuda.grid(1)
    if e < src.size and e < dst.size and e < weight.size:
        v = dst[e] % dist.size
        d = dist[src[e] % dist.size] + weight[e]
        if d < dist[v]:
            dist[v] = d

edges = np.random.default_rng(1).integers(0, 9, (2, 60))
k[2, 32](edges[0].copy(), edges[1].copy(), np.ones(60), np.random.default_rng(2).integers(0, 50, 9))
"""


def test_a_write_that_depends_on_what_stood_there_is_a_lost_update() -> None:
    found = report(RELAX)
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
    assert {(one.rule, one.array, one.contents) for one in found.findings} == {("data-race", "dist", True)}
    atomic = RELAX.replace("        if d < dist[v]:\n            dist[v] = d", "        cuda.atomic.min(dist, v, d)")
    assert (
        report(atomic.replace("dist[src[e] % dist.size] + ", "")).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
    )
