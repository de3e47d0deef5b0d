"""What one thread tells its block: only where it was told, and only what the element keeps of it."""

from __future__ import annotations

import pytest

from tests.test_prover import PROVED, report
from tilecheck.verify.verdict import Property, Verdict

TELL = """from numba import int8, int64, uint8

@cuda.jit
def f(a, c, n):
    s = cuda.shared.array(1, {dtype})
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = {first}
    cuda.syncthreads()
    if t == 0 and {when}:
        s[0] = {value}
    cuda.syncthreads()
    {use}
"""
OWN = "if t == 0 and 0 <= s[0] < a.size:\n        a[s[0]] = cuda.blockIdx.x"


def tell(when: str, value: str, use: str = OWN, dtype: str = "int32", first: str = "0") -> str:
    return TELL.format(when=when, value=value, use=use, dtype=dtype, first=first)


NESTED = tell("True", "cuda.blockIdx.x").replace(
    "    if t == 0 and True:\n        s", "    if n > 3:\n        if t == 0:\n            s"
)
SOME = "if t < s[0]:\n        cuda.syncthreads()"
WRONG = {
    "some launches": (tell("n > 3", "cuda.blockIdx.x"), Property.RACE_FREE),
    "a nested branch": (NESTED, Property.RACE_FREE),
    "some blocks": (tell("cuda.blockIdx.x % 2 == 0", "cuda.atomic.add(c, 0, 1)"), Property.RACE_FREE),
    "a barrier": (tell("n > 3", "cuda.blockDim.x", SOME, first="4"), Property.BARRIERS_UNIFORM),
    "bounds": (
        tell("n > 3", "0", "if cuda.grid(1) == 0:\n        a[s[0]] = 1", first="-5"),
        Property.IN_BOUNDS,
    ),
    "a narrow element": (tell("True", "cuda.blockIdx.x", dtype="uint8"), Property.RACE_FREE),
    "bits shifted out": (tell("True", "cuda.blockIdx.x << 24"), Property.RACE_FREE),
    "a narrow ticket": (tell("True", "cuda.atomic.add(c, 0, 1)", dtype="uint8"), Property.RACE_FREE),
    "a narrow extent": (tell("True", "a.size - 1", "cuda.atomic.add(a, s[0], 1)", "int8"), Property.IN_BOUNDS),
    "a narrow barrier": (tell("True", "cuda.blockDim.x", SOME, "uint8"), Property.BARRIERS_UNIFORM),
    "a dropped fraction": (
        tell("True", "n / 2", "if s[0] != n / 2:\n        a[0] = cuda.blockIdx.x"),
        Property.RACE_FREE,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_was_not_told_is_not_believed(name: str) -> None:
    text, wrong = WRONG[name]
    assert report(text).verdicts[wrong].verdict not in PROVED


RIGHT = {
    "every block": tell("True", "cuda.blockIdx.x"),
    "a ticket": tell("True", "cuda.atomic.add(c, 0, 1)"),
    "where it was told": tell("n > 3", "cuda.blockIdx.x", OWN.replace("t == 0", "t == 0 and n > 3")),
    "a ticket where it was drawn": tell("n > 3", "cuda.atomic.add(c, 0, 1)", OWN.replace("t == 0", "t == 0 and n > 3")),
    "a wide element": tell("True", "cuda.blockIdx.x", dtype="int64"),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_was_told_is_believed(text: str) -> None:
    assert report(text).verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_tickets_in_32_bits_are_an_assumption() -> None:
    assert "the counter in `c` stays below 2**31" in report(RIGHT["a ticket"]).assumptions
    assert not any("2**31" in a for a in report(RIGHT["every block"]).assumptions)
