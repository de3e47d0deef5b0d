"""Verdicts: what is known of one property of one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# A standing assumption, which launches of ours enforce by the extents of their arguments.
NOT_EMPTY = "array arguments are not empty"
# The reason of an unknown verdict that more time might settle.
OUT_OF_TIME = "the time for this kernel was used up"


class Verdict(StrEnum):
    PROVEN = "proven"
    PROVEN_GIVEN = "proven-given"
    CHECKED = "checked"  # tile kernels: an assert remains in the kernel
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Property(StrEnum):
    RACE_FREE = "race-free"
    IN_BOUNDS = "in-bounds"
    BARRIERS_UNIFORM = "barriers-uniform"
    SHARED_INITIALISED = "shared-initialised"


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict of one property. `conditions` are launch conditions in the `requires` grammar (`a.size >= c.size`);
    `reason` says why it is so, or why it is unknown, in one line.
    """

    verdict: Verdict
    conditions: tuple[str, ...] = ()
    reason: str | None = None
