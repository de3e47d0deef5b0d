"""What can go wrong in a run of a SIMT kernel, as it is reported.

Worked example: two threads storing to `x[0]` are a `SimtFault` of kind `race`, with two parties, array `x`, index (0,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilecheck.interp.simt_memory import Watch
from tilecheck.ir.kernel import Node

Extents = tuple[int, int, int]
Kind = Literal["race", "out-of-bounds", "divergent-barrier", "uninitialised-shared", "warp-sync", "too-long"]


@dataclass(frozen=True, slots=True)
class Party:
    """One thread at one place: the node that it was executing."""

    block: Extents
    thread: Extents
    node: Node

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


@dataclass(frozen=True, slots=True)
class SimtFault:
    """One thing that went wrong. `array` and `index` say where for memory faults; `same_value` marks a race of equal
    writes; `wrapped` marks a negative index that came back inside the array.
    """

    kind: Kind
    parties: tuple[Party, ...]
    detail: str
    array: str | None = None
    index: tuple[int, ...] = ()
    space: str = ""
    same_value: bool = False
    wrapped: bool = False

    @property
    def lines(self) -> tuple[int, ...]:
        """The source lines of the parties."""
        return tuple(party.node.span.line for party in self.parties)


@dataclass(frozen=True, slots=True)
class SimtRun:
    """The outcome of one run. `inexact` lists why the run may differ from the kernel: what could not be read."""

    faults: tuple[SimtFault, ...]
    inexact: tuple[str, ...] = ()
    threads: int = 0

    def of(self, kind: Kind) -> tuple[SimtFault, ...]:
        """The faults of one kind."""
        return tuple(fault for fault in self.faults if fault.kind == kind)


def noticed(watch: Watch, party: Callable[[int, int, int], Party]) -> list[SimtFault]:
    """The faults that memory noticed; `party` makes a party of block, lane and site."""
    faults: list[SimtFault] = []
    for race in watch.races.values():
        one, two = race.first, race.second
        parties = (party(one.block, one.lane, one.site), party(two.block, two.lane, two.site))
        detail = f"{one.kind} and {two.kind} of one element"
        name, space = race.array.name, race.array.space
        faults.append(SimtFault("race", parties, detail, name, race.index, space, race.same_value))
    for stray in watch.strays.values():
        where = (party(stray.block, stray.lane, stray.site),)
        detail = f"index {_plain(stray.index)} of an array of shape {_plain(stray.array.shape)}"
        name, space = stray.array.name, stray.array.space
        faults.append(SimtFault("out-of-bounds", where, detail, name, stray.index, space, wrapped=stray.wrapped))
    for unset in watch.unsets.values():
        where = (party(unset.block, unset.lane, unset.site),)
        name, space = unset.array.name, unset.array.space
        faults.append(SimtFault("uninitialised-shared", where, "read before any write", name, unset.index, space))
    return faults


def _plain(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(values) == 1 else str(values)
