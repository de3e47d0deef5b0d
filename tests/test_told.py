"""What one thread tells its block through shared memory: used where it is so, and nowhere else."""

from __future__ import annotations

import pytest

from tests.test_prover import report, worst
from tilecheck.verify.verdict import Property, Verdict

QUEUE = """
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
        if j * cuda.blockDim.x >= work.size:
            break
        i = j * cuda.blockDim.x + t
        if i < work.size and i < out.size:
            out[i] = work[i] + cuda.blockIdx.x

k[3, 32](np.arange(100), np.zeros(100), np.zeros(1, np.int32))
"""


def test_a_ticket_drawn_for_the_block_opens_a_range_of_its_own() -> None:
    found = report(QUEUE)
    assert worst(found) is Verdict.PROVEN and not found.findings


@pytest.mark.parametrize(
    ("old", "new", "hurt"),
    [
        # Every thread draws, and the block goes by whichever came last.
        (
            "        if t == 0:\n            tile[0] = cuda",
            "        if t >= 0:\n            tile[0] = cuda",
            Property.RACE_FREE,
        ),
        # Another thread overwrites what was told before it is read.
        (
            "        j = tile[0]",
            "        if t == 1:\n            tile[0] = t - 5\n        cuda.syncthreads()\n        j = tile[0]",
            Property.IN_BOUNDS,
        ),
        # The counter moves by less than the range.
        ("i = j * cuda.blockDim.x + t", "i = j * (cuda.blockDim.x - 1) + t", Property.RACE_FREE),
        # The thread that tells may not exist in the block, so the element may be older.
        ("if t == 0:", "if t == 40:", Property.SHARED_INITIALISED),
        # Read without a barrier after the telling.
        ("        cuda.syncthreads()\n        j = tile[0]", "        j = tile[0]", Property.RACE_FREE),
        # Somebody else resets the counter.
        ("        i = j *", "        if t == 1:\n            head[0] = 0\n        i = j *", Property.RACE_FREE),
    ],
)
def test_what_is_not_told_by_one_thread_is_not_relied_on(old: str, new: str, hurt: Property) -> None:
    text = QUEUE.replace(old, new)
    assert text != QUEUE
    assert report(text).verdicts[hurt].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


AGREED = """
@cuda.jit
def k(x, n):
    first = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        first[0] = n // 2
    cuda.syncthreads()
    if 0 <= first[0] and first[0] + t < x.size:
        x[first[0] + t] = cuda.blockIdx.x {}
"""


def test_a_value_that_the_block_agrees_on_is_what_is_read() -> None:
    """All blocks get the same element, which only the value shows: a race of blocks, whatever the arrays hold."""
    (race,) = report(AGREED.format("")).findings
    assert race.rule == "data-race" and not race.contents
