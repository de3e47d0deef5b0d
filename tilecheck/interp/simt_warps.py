"""Votes, shuffles and matches: what each lane of a group gets from the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilecheck.interp.simt_machine import Thread


@dataclass(slots=True, eq=False)
class Lanes:
    """One warp: its threads by lane, and those that wait for their warp."""

    threads: list[Thread] = field(default_factory=list)
    waiting: list[Thread] = field(default_factory=list)


def warp_results(group: list[Thread], lanes: Lanes) -> Iterator[tuple[Thread, Any, bool]]:
    """For each thread of a group that met at one warp operation: its value, and whether that value is defined (a
    shuffle from a lane that does not take part is not).
    """
    if group[0].event[0] == 5:
        mask = sum(1 << thread.lane_id for thread in group)
        for thread in group:
            yield thread, mask, True
        return
    op = group[0].event[2][0]
    operands = {thread.lane_id: thread.event[2][2] for thread in group}
    for thread in group:
        value, valid = _value(op, thread.lane_id, operands)
        yield thread, value, valid


def _value(op: str, lane: int, operands: dict[int, tuple[Any, ...]]) -> tuple[Any, bool]:
    own = operands[lane]
    first = {other: values[0] for other, values in operands.items() if values}
    match op:
        case "all":
            return all(bool(v) for v in first.values()), True
        case "any":
            return any(bool(v) for v in first.values()), True
        case "eq":
            truths = {bool(v) for v in first.values()}
            return len(truths) == 1, True
        case "ballot":
            return sum(1 << other for other, v in first.items() if v), True
        case "match_any":
            return sum(1 << other for other, v in first.items() if v == own[0]), True
        case "match_all":
            same = all(v == own[0] for v in first.values())
            return (sum(1 << other for other in first) if same else 0, same), True
        case "shfl" | "shfl_up" | "shfl_down" | "shfl_xor":
            return _shuffle(op, lane, own, first)
    return 0, False


def _shuffle(op: str, lane: int, own: tuple[Any, ...], values: dict[int, Any]) -> tuple[Any, bool]:
    distance = int(own[1]) if len(own) > 1 else 0
    if op == "shfl":
        source = distance % 32
    elif op == "shfl_xor":
        source = lane ^ distance
    else:
        source = lane - distance if op == "shfl_up" else lane + distance
    if not 0 <= source < 32:
        return own[0], True  # past the edge of the warp a lane keeps its own value
    if source not in values:
        return own[0], False
    return values[source], True
