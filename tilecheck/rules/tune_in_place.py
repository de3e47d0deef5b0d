"""A kernel is tuned on data that it updates in place.

Why: a tuner runs the kernel once per configuration. If the kernel reads what it writes, every trial starts from what the
last one left: the data is ruined, and the trials are not comparable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import cuda.tile as ct
import cuda.tile.tune as tune
import torch


@ct.kernel
def halve(x, tile: ct.Constant[int]):
    b = ct.bid(0)
    ct.store(x, index=(b,), tile=ct.load(x, index=(b,), shape=(tile,)) * 0.5)


def main():
    x = torch.ones(4096, device="cuda")
    stream = torch.cuda.current_stream()
    found = tune.exhaustive_search([64, 128], stream, lambda tile: (4096 // tile,), halve, lambda tile: (x, tile))  # error
    print(found, x)
""",
)

GOOD = (
    """
import cuda.tile as ct
import cuda.tile.tune as tune
import torch


@ct.kernel
def halve(x, tile: ct.Constant[int]):
    b = ct.bid(0)
    ct.store(x, index=(b,), tile=ct.load(x, index=(b,), shape=(tile,)) * 0.5)


def main():
    x = torch.ones(4096, device="cuda")
    stream = torch.cuda.current_stream()
    trial = x.clone()
    found = tune.exhaustive_search([64, 128], stream, lambda tile: (4096 // tile,), halve, lambda tile: (trial, tile))
    print(found, x)
""",
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """What the launches show."""
    yield from checked.faults_of("tune-in-place", SEVERITY)
